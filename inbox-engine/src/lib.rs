//! The rules of the inbox protocol, without input or output.
//!
//! `Engine` is told what happened and answers with `Effect`s; it reads no clock, has no source of
//! chance and depends on nothing. Its `Cargo.toml` is the proof.
//!
//! Every method is one of four kinds: `handle_*` tells what happened, `Engine::poll_effect` says what to
//! do next, `Engine::next_timeout` when to come back, and the others look.
//!
//! ```
//! use inbox_engine::internal::{Effect, Engine, Limits, PartitionId, Time};
//!
//! let mut engine = Engine::<&str>::new(Limits::default(), 7);
//! engine.handle_assigned(&[PartitionId(0)], Time(0));
//! let mut asked = std::iter::from_fn(|| engine.poll_effect());
//! assert!(
//!     asked.any(|effect| matches!(effect, Effect::TakeOver(PartitionId(0), ..))),
//!     "a partition is taken over in the database before anything of it is read"
//! );
//! ```
//!
//! Two kinds of transaction share the lanes of a partition, and a lane is in one of them at most:
//!
//! - A *live* one (`Effect::Start`) carries deliveries of one or more lanes, and moves those lanes.
//! - A *release* (`Effect::Release`) carries parked events of one queue, which is what is parked of one
//!   aggregate. The engine asks the database by time which queues are due (`Effect::FindDue`), remembers
//!   them per lane, and releases them before live events: two releases to each live transaction, so
//!   that a queue empties even while it gets followers as fast as they come.
//!
//! A release moves no lane. What keeps a live transaction that saw "held" from queueing a follower behind
//! a head that is gone is the reserved lane, within a process, and the epoch, between processes.
//!
//! All of it is for `inbox-consumer` and its relay alone, and changes with them.
#![forbid(unsafe_code)]

#[cfg(feature = "ablation")]
mod ablation;

mod assignment;
mod backoff;
mod barrier;
mod batch;
mod claim;
mod cut;
mod drain;
mod due;
mod effect;
mod engine;
mod fault;
mod full;
mod intake;
mod limits;
mod lock_wait;
mod lone_faults;
mod offset;
mod outcome;
mod parked_queue;
mod partition;
mod release;
mod remap;
mod resume;
mod rule;
mod runs;
mod size;
mod standstill;
mod watermark;

#[cfg(test)]
mod tests;

/// The rules, for the crates of `inbox-consumer` and its relay alone: no promise of stability, any version may
/// change it.
#[doc(hidden)]
pub mod internal {
    #[cfg(feature = "ablation")]
    pub mod ablation {
        pub use crate::ablation::*;
    }
    pub use crate::{
        backoff::backoff,
        batch::{Batch, BatchOutcome, Item, Kind, LaneMove, Mode, Tally},
        claim::{Distinct, distinct},
        effect::{Commit, Effect, Seek, TakeOverFault, WatermarkWrite, Written},
        engine::{Engine, Snapshot},
        fault::{Doom, Failure, HandlerFault, ParkReason, TransactionFault},
        limits::Limits,
        offset::{
            Epoch, Generation, Lane, LaneState, LeaderEpoch, LogPoint, LogRange, NextOffset,
            Offset, Ownership, PartitionId, Time,
        },
        parked_queue::{Due, Release, ReleaseOutcome},
        resume::{Settled, Start, first_watermark, resume},
        rule::Rule,
        runs::{Run, RunEntry, runs},
        standstill::{Held, Standstill},
    };
}

// Clippy lets tests import so.
#[cfg_attr(
    not(test),
    expect(clippy::wildcard_imports, reason = "the crate itself names all of it at its root")
)]
use internal::*;
