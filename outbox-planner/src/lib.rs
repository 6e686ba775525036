//! Decides which rows of an outbox go where and when: order per aggregate, attempts, outages, retries, what is parked, and
//! how much of it is in memory. It does no IO, reads no clock and depends on nothing.
//!
//! Methods `handle_*` report what happened, `poll_effect` says what to do next, and
//! `next_timeout` when to come back.
//!
//! The rules:
//!
//! - An event goes when all before it of its aggregate are delivered or discarded. A row that cannot go now is parked, and
//!   later rows of its aggregate are parked behind it.
//! - What fails together is a lane. A failure is judged once something is delivered there, or after a second: until
//!   then it is in doubt, and nothing is written. Three aggregates that fail with no delivery between them are an
//!   outage, which spends no attempts. What was under way when two outages began goes alone: then its failure is its own.
//! - Every row in memory counts, in rows and in bytes. A lane that fills the memory while others could go keeps a few
//!   rows; the rest is parked.
#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]

mod aggregates;
mod arrivals;
mod calls;
mod destinations;
mod dues;
mod lane;
mod memory;
mod outcomes;
mod planner;
mod queue;
mod reading;
mod room;
mod store;
#[cfg(test)]
mod tests;
mod types;

/// What the relay is built from.
#[doc(hidden)]
pub mod internal {
    pub use crate::planner::Planner;
    pub use crate::types::{
        CallId, Conclusion, DestinationLimits, Effect, Fate, Incoming, Item, LaneKey, News,
        Outcome, Park, ParkState, PlannerSettings, ReadRequest, RowKey, Time,
    };
}
