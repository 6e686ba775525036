//! SQLite: one writer at a time, nobody to be told by; times are milliseconds since 1970.

#[cfg(feature = "ablation")]
pub(super) mod ablation;
mod adoption;
mod client;
mod failed;
mod holding;
mod inspection;
mod retention;
mod retries;
mod rows;
mod sequence;
mod session;
mod turn;
mod wake;
