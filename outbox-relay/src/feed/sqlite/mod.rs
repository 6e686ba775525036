//! SQLite: one writer at a time, nobody to be told by; times are milliseconds since 1970.

#[cfg(feature = "ablation")]
pub(super) mod ablation;
mod client;
mod holding;
mod inspection;
#[cfg(feature = "cli")]
mod operators;
mod retention;
mod retries;
mod rows;
mod sequence;
mod session;
mod turn;
mod wake;
