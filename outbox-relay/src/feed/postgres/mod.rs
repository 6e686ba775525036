//! PostgreSQL 13 and later.

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
