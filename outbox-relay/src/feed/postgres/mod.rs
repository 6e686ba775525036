//! PostgreSQL 13 and later.

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

#[cfg(feature = "cli")]
#[cfg(test)]
pub(super) use {
    parking::{CLAIM, DUE_DESTINATIONS},
    rows::UNSENT_BESIDE,
};
