//! A partition as the engine knows it: lanes, what arrived, and where it stands.

use std::collections::{BTreeSet, VecDeque};

use crate::{
    Epoch, Generation, Item, Lane, LaneState, LeaderEpoch, NextOffset, Offset, PartitionId,
    Standstill, Time,
};

/// Where a partition is between assignment and let-go.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Phase {
    /// Waits until `at`, then asks the group whether it is still assigned.
    Waiting { at: Time },
    /// Asked the group.
    Confirming,
    /// A take-over is under way.
    Taking,
    /// A seek is under way.
    Seeking,
    /// At work.
    Live,
    /// Stopped until a person acts.
    Stopped,
}

/// What a revoked partition still has to do before it is let go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Drain {
    /// Not revoked.
    No,
    /// Open transactions finish until the deadline.
    Finishing { deadline: Time },
    /// The last watermark is being written.
    Writing { deadline: Time },
    /// The last offset is being committed.
    Committing { deadline: Time },
    /// Nothing left to do.
    Done,
}

/// One lane: where it stands, and what waits in it.
#[derive(Debug)]
pub(crate) struct LaneQueue<T> {
    /// What memory relies on: read at take-over, or moved by an acknowledged COMMIT.
    pub(crate) state: LaneState,
    pub(crate) queue: VecDeque<Item<T>>,
    /// In an open transaction.
    pub(crate) busy: bool,
    /// Has a place in `Partition::ready`.
    pub(crate) ready: bool,
    /// Offsets that are run with savepoints: a handler failed there.
    pub(crate) careful: Option<(Offset, Offset)>,
    /// The event at this offset is not to be run before this time.
    pub(crate) retry: Option<(Offset, Time)>,
    /// Faults in a row that the head met alone, and the engine's commits when they began.
    pub(crate) alone: u32,
    pub(crate) alone_since: u64,
}

impl<T> LaneQueue<T> {
    pub(crate) fn new(state: LaneState) -> Self {
        Self {
            state,
            queue: VecDeque::new(),
            busy: false,
            ready: false,
            careful: None,
            retry: None,
            alone: 0,
            alone_since: 0,
        }
    }

    pub(crate) fn startable(&self) -> bool {
        let waits = |head: &Item<T>| self.retry.is_some_and(|(offset, _)| offset <= head.offset);
        !self.busy && self.queue.front().is_some_and(|head| !waits(head))
    }
}

/// A delivery that arrived and is not yet below the watermark.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrived {
    pub(crate) offset: Offset,
    pub(crate) leader_epoch: LeaderEpoch,
    pub(crate) lane: Lane,
}

#[derive(Debug)]
pub(crate) struct Partition<T> {
    pub(crate) id: PartitionId,
    pub(crate) generation: Generation,
    pub(crate) phase: Phase,
    pub(crate) drain: Drain,
    pub(crate) epoch: Epoch,
    pub(crate) lanes: Vec<LaneQueue<T>>,
    /// Lanes that can start, by the time they became so; the number orders them over partitions.
    pub(crate) ready: VecDeque<(u64, Lane)>,
    pub(crate) arrived: VecDeque<Arrived>,
    /// Offsets claimed again although their lane has passed them (leader epoch unknown).
    pub(crate) reclaims: BTreeSet<Offset>,
    /// The next offset that can arrive.
    pub(crate) position: NextOffset,
    /// As the database holds it.
    pub(crate) watermark: NextOffset,
    /// Everything below is settled, and the leader epoch of the record before.
    pub(crate) settled: NextOffset,
    pub(crate) settled_leader_epoch: LeaderEpoch,
    pub(crate) watermark_due: Time,
    pub(crate) check_due: Time,
    pub(crate) writing: bool,
    pub(crate) remapped_below: NextOffset,
    /// What Kafka acknowledged.
    pub(crate) kafka: NextOffset,
    pub(crate) bytes: u64,
    pub(crate) paused: bool,
    /// Open transactions of this generation.
    pub(crate) open: usize,
    /// Events of the next transaction: halved by conflicts, doubled by commits.
    pub(crate) cap: usize,
    pub(crate) conflicts: u32,
    pub(crate) outages: u32,
    pub(crate) outage_until: Option<Time>,
    pub(crate) resyncs: u32,
    pub(crate) standstill: Option<Standstill>,
}

impl<T> Partition<T> {
    pub(crate) fn new(id: PartitionId, generation: Generation) -> Self {
        Self {
            id,
            generation,
            phase: Phase::Taking,
            drain: Drain::No,
            epoch: Epoch(0),
            lanes: Vec::new(),
            ready: VecDeque::new(),
            arrived: VecDeque::new(),
            reclaims: BTreeSet::new(),
            position: NextOffset(0),
            watermark: NextOffset(0),
            settled: NextOffset(0),
            settled_leader_epoch: LeaderEpoch::UNKNOWN,
            watermark_due: Time(0),
            check_due: Time(0),
            writing: false,
            remapped_below: NextOffset(0),
            kafka: NextOffset(i64::MIN),
            bytes: 0,
            // The broker's room hands a partition over paused.
            paused: true,
            open: 0,
            cap: usize::MAX,
            conflicts: 0,
            outages: 0,
            outage_until: None,
            resyncs: 0,
            standstill: None,
        }
    }

    /// Forgets everything of the generation that ends; what Kafka acknowledged stays known.
    pub(crate) fn forget(&mut self, generation: Generation) {
        let (paused, resyncs, drain, kafka) = (self.paused, self.resyncs, self.drain, self.kafka);
        let standstill = self.standstill.take();
        *self = Self::new(self.id, generation);
        (self.paused, self.resyncs, self.drain, self.kafka) = (paused, resyncs, drain, kafka);
        self.standstill = standstill;
    }

    pub(crate) fn lane(&mut self, lane: Lane) -> &mut LaneQueue<T> {
        &mut self.lanes[usize::from(lane.0)]
    }

    /// Whether new transactions may start.
    pub(crate) fn may_start(&self, now: Time) -> bool {
        self.phase == Phase::Live
            && self.drain == Drain::No
            && self.outage_until.is_none_or(|until| until <= now)
    }

    /// Gives a lane its place in the queue for the next transaction, if it has one to get.
    pub(crate) fn queue_lane(&mut self, lane: Lane, sequence: u64) {
        let queue = self.lane(lane);
        if queue.startable() && !queue.ready {
            queue.ready = true;
            self.ready.push_back((sequence, lane));
        }
    }
}
