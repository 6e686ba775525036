//! SQLite: one writer at a time, nobody to be told by; times are milliseconds since 1970.

#[cfg(feature = "ablation")]
pub(super) mod ablation;
mod client;
mod inspection;
#[cfg(feature = "cli")]
mod operators;
mod parking;
mod retention;
mod rows;
mod sequence;
mod session;
mod store;
mod turn;
mod wake;
