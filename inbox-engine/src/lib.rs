//! The rules of the inbox protocol, without input or output.
//!
//! [`Engine`] is told what happened and answers with [`Effect`]s; it reads no clock, has no source of
//! chance and depends on nothing. Its `Cargo.toml` is the proof.
#![forbid(unsafe_code)]

mod assignment;
mod backoff;
mod batch;
mod claim;
mod cut;
mod drain;
mod due;
mod effect;
mod engine;
mod full;
mod intake;
mod limits;
mod offset;
mod outcome;
mod partition;
mod release;
mod resume;
mod rule;
mod runs;
mod standstill;
mod watermark;

#[cfg(test)]
mod tests;

pub use batch::{
    Batch, Doom, Failure, HandlerFault, Item, Kind, LaneMove, Mode, Outcome, ParkReason, Tally,
};
pub use claim::{Distinct, distinct};
pub use effect::{Commit, Effect, Seek, TakeOverFault, WatermarkWrite, Written};
pub use engine::{Engine, Snapshot};
pub use limits::Limits;
pub use offset::{
    Epoch, Generation, Lane, LaneState, LeaderEpoch, NextOffset, Offset, Ownership, PartitionId,
    Time,
};
pub use release::{Due, Release, Released};
pub use resume::{Start, first_watermark, resume};
pub use rule::Rule;
pub use runs::{Run, RunEntry, runs};
pub use standstill::Standstill;
