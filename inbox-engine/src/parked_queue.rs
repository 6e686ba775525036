//! A parked queue that is due, and its release: what is asked and how it ended.

use crate::{
    Epoch, Generation, Lane, LeaderEpoch, Offset, PartitionId, Rule, Time, TransactionFault,
    lone_faults::LoneFaults,
};

/// A parked queue that is due: a release would do something. Its head is due, or a person wants it
/// released, or wants one of its events discarded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Due {
    /// The lane that the aggregate hashes to under the partition's present lane count. The number
    /// that was written with the parked events may be older than a remap.
    pub lane: Lane,
    /// The key of the aggregate.
    pub aggregate: [u8; 16],
}

/// A release to run: events of one parked queue, in order from its head, in a transaction of their
/// own. Its lane is reserved until the answer comes.
///
/// The queue may be due no more, or be gone: then nothing is run, and that is
/// [`ReleaseOutcome::Done`] with nothing removed. The transaction ends with the advance of its lane from
/// `last` to `last`: it moves nothing, but a newer epoch fences it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Release {
    /// Whose it is.
    pub partition: PartitionId,
    /// The local generation it was begun in.
    pub generation: Generation,
    /// The database epoch it may commit under.
    pub epoch: Epoch,
    /// The lane of the aggregate.
    pub lane: Lane,
    /// Where this process left the lane: the advance's `prev` and `new`.
    pub last: Offset,
    /// The leader epoch of the record at `last`.
    pub leader_epoch: LeaderEpoch,
    /// The key of the aggregate.
    pub aggregate: [u8; 16],
    /// The most events to run.
    pub events_max: usize,
    /// The owner before may have ended with the head: it ended without a word.
    pub unproven: bool,
    /// Set when the head is not to be run: the fault that it met alone, again and again, while others
    /// committed. It counts as the handler's failure: the head gets an attempt more and a new time.
    pub blamed: Option<String>,
}

/// How a release ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ReleaseOutcome {
    /// Committed. If a handler failed, its event has a new time, or waits for a person.
    Done {
        /// The queue has a head that is due now.
        more: bool,
        /// Events that left the queue: run or discarded.
        removed: u64,
    },
    /// Not committed, or not known to be.
    Fault(TransactionFault),
}

/// A parked queue that is known to be due, and what its releases met.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct DueQueue {
    pub(crate) aggregate: [u8; 16],
    /// Not to be released before this time: it met a conflict.
    pub(crate) rest: Option<Time>,
    /// Events of its next release: halved by faults, doubled by commits; none before the first of either.
    pub(crate) cap: Option<usize>,
    /// Conflicts in a row.
    pub(crate) conflicts: u32,
    /// What its head met alone.
    pub(crate) alone: LoneFaults,
    /// The fault that counts against its head.
    pub(crate) blamed: Option<String>,
}

impl DueQueue {
    pub(crate) fn new(aggregate: [u8; 16]) -> Self {
        Self {
            aggregate,
            rest: None,
            cap: None,
            conflicts: 0,
            alone: LoneFaults::default(),
            blamed: None,
        }
    }

    /// After a commit: faults are forgotten. `fit`: events that a drain has time for; `None`: no handler ran, which
    /// says nothing of handlers.
    pub(crate) fn after_commit(self, fit: Option<usize>) -> Self {
        let cap = match fit {
            Some(fit) => Some(self.cap.map_or(usize::MAX, |cap| cap.saturating_mul(2)).min(fit)),
            None => self.cap,
        };
        Self { cap, ..Self::new(self.aggregate) }
    }

    /// Whether its head is at fault itself: see [`crate::Engine`] on live events that meet a fault alone.
    pub(crate) fn is_at_fault(
        &mut self,
        ran: usize,
        (latest, commits): (u64, u64),
        alone_max: u32,
    ) -> bool {
        if ran > 1 || self.blamed.is_some() {
            return false;
        }
        self.alone.count(latest, commits, alone_max) && Rule::RepeatedAloneCounts.on()
    }
}
