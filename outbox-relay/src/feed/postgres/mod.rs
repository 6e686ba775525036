//! PostgreSQL 13 and later.

#[cfg(feature = "ablation")]
pub(super) mod ablation;
mod adoption;
mod client;
mod column;
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
