//! Up to where a partition is settled before its lanes change.

use crate::{LaneState, NextOffset, Offset};

/// Where deliveries end until the lanes have changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Barrier {
    /// No lane has settled anything from here on.
    pub(crate) reach: NextOffset,
    /// The first delivery that was left out: it is read again behind the next take-over.
    pub(crate) left_out: Option<Offset>,
}

impl Barrier {
    /// Behind the lane that is ahead of all others.
    pub(crate) fn above(lanes: &[LaneState]) -> Self {
        let last = lanes.iter().map(|lane| lane.last).max();
        Self { reach: last.map_or(NextOffset(0), Offset::next), left_out: None }
    }
}
