//! The loop that applies what the engine asks for, and the transaction.
//!
//! A record comes in through `intake`, waits in the engine, and leaves in a `transaction`:
//! begin, `claim`, `handling`, park, advance, commit. `driver` owns the engine; `effects`
//! applies what it asks for; `control` asks the database for everything else.

mod aggregate_keys;
mod aggregate_moves;
mod begin;
mod claim;
pub(crate) mod concurrency;
pub(crate) mod content;
pub(crate) mod control;
#[cfg(feature = "testing")]
pub(crate) mod crash;
pub(crate) mod dead_letter;
pub(crate) mod direct;
mod disposition;
mod document;
pub(crate) mod driver;
mod effects;
mod fault_point;
mod generations;
mod grouped;
mod handler_failures;
mod handling;
mod heads;
pub(crate) mod intake;
mod known_versions;
mod lanes_seen;
mod notes;
mod outages;
mod overlap;
mod parked;
pub(crate) mod parking;
mod pending_notes;
mod prepare;
pub(crate) mod prune;
pub(crate) mod publish;
mod recent_copies;
pub(crate) mod release;
pub(crate) mod sessions;
mod suspects;
pub(crate) mod transaction;
pub(crate) mod trial;
mod versions;
mod watch;
pub(crate) mod work_state;

use std::sync::Arc;

use inbox_handler::internal::Delivery;

/// One delivery inside the pipeline.
pub(crate) type Delivered = inbox_engine::internal::Item<Arc<Delivery>>;
