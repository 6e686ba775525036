//! PostgreSQL 13 and later.

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
