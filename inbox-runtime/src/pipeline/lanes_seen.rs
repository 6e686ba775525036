//! Where the lanes of an intake were seen last: a hint that finds their rows among those of an open snapshot.

use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
};

use inbox_engine::internal::{Lane, Offset};
use inbox_store::internal::port::LockedLane;

/// One entry for each lane of each partition.
#[derive(Debug, Default)]
pub(super) struct LanesSeen(Mutex<BTreeMap<(i64, Lane), Offset>>);

impl LanesSeen {
    /// These lanes, each with the offset that it was seen at, or -1.
    pub(super) fn with(&self, partition_ref: i64, lanes: &[Lane]) -> Vec<(Lane, Offset)> {
        let seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let at = |lane| seen.get(&(partition_ref, lane)).copied().unwrap_or(Offset(-1));
        lanes.iter().map(|lane| (*lane, at(*lane))).collect()
    }

    pub(super) fn note(&self, partition_ref: i64, locked: &[LockedLane]) {
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        seen.extend(locked.iter().map(|lane| ((partition_ref, lane.lane), lane.last)));
    }
}
