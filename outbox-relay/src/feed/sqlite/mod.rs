//! SQLite: one writer at a time, nobody to be told by; times are milliseconds since 1970.

mod client;
mod failed;
mod holding;
mod inspection;
mod retention;
mod rows;
mod sequence;
mod session;
mod turn;
mod wake;

#[cfg(all(test, feature = "ablation"))]
pub(super) use rows::marks;
