//! The rules of the inbox protocol, without input or output.
#![forbid(unsafe_code)]

mod batch;
mod offset;
mod resume;
mod rule;
mod standstill;

pub use batch::{
    Batch, Doom, Failure, HandlerFault, Item, Kind, LaneMove, Mode, Outcome, ParkReason, Tally,
};
pub use offset::{
    Epoch, Generation, Lane, LaneState, LeaderEpoch, NextOffset, Offset, Ownership, PartitionId, Time,
};
pub use resume::{Start, first_watermark, resume};
pub use rule::Rule;
pub use standstill::Standstill;
