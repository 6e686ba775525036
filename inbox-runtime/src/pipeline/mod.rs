//! The loop that obeys the engine, and the transaction.
//!
//! A record comes in through `intake`, waits in the engine, and leaves in a `transaction`:
//! begin, `claim`, `handling`, park, advance, commit. `driver` owns the engine; `obey` does
//! what it says; `control` asks the database for everything else.

pub(crate) mod beat;
mod begin;
mod beside;
mod claim;
pub(crate) mod content;
pub(crate) mod control;
#[cfg(feature = "testing")]
pub(crate) mod crash;
pub(crate) mod dead_letter;
mod document;
pub(crate) mod driver;
mod fault_point;
mod handling;
mod heads;
pub(crate) mod intake;
mod obey;
mod outages;
pub(crate) mod pace;
mod parked;
pub(crate) mod parking;
pub(crate) mod prune;
pub(crate) mod release;
pub(crate) mod sessions;
mod strays;
mod suspects;
mod telling;
mod together;
pub(crate) mod transaction;
pub(crate) mod trial;
mod verdict;
mod watch;
mod words;

use std::sync::Arc;

use inbox_handler::internal::Delivery;

/// One delivery inside the pipeline.
pub(crate) type Delivered = inbox_engine::internal::Item<Arc<Delivery>>;
