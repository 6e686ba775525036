//! A partition as the engine knows it: lanes, what arrived, and where it stands.

use std::collections::{BTreeSet, VecDeque};

use crate::{
    Epoch, Generation, Held, Item, Lane, LaneState, LeaderEpoch, LogPoint, NextOffset, Offset,
    PartitionId, Rule, Standstill, Time, barrier::Barrier, lone_faults::LoneFaults,
    parked_queue::DueQueue,
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

/// What a lane does next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum LaneWork {
    Live,
    Release,
}

/// One lane: where it stands, and what waits in it.
#[derive(Debug)]
pub(crate) struct LaneQueue<T> {
    /// What memory relies on: read at take-over, or moved by an acknowledged COMMIT.
    pub(crate) state: LaneState,
    pub(crate) queue: VecDeque<Item<T>>,
    /// In an open transaction, live or release.
    pub(crate) busy: bool,
    /// Has a place in `Partition::ready`.
    pub(crate) ready: bool,
    /// Offsets that are run with savepoints: a handler failed there.
    pub(crate) careful: Option<(Offset, Offset)>,
    /// Events that failed are not to be run before their time; what is before them is.
    pub(crate) waits: Vec<(Offset, Time)>,
    /// Nothing of the lane is to be run before this time: it met a conflict.
    pub(crate) rest: Option<Time>,
    /// Events of a transaction with this lane: halved by faults, doubled by commits that did not take
    /// long; none before the first of either. Each lane has its own, so that one that always meets a fault
    /// ends up alone while the others go on.
    pub(crate) cap: Option<usize>,
    /// When its last transaction began.
    pub(crate) began: Time,
    /// Conflicts in a row.
    pub(crate) conflicts: u32,
    /// What the head met alone.
    pub(crate) alone: LoneFaults,
    /// Parked queues that are due, in the order in which they became known, each once.
    pub(crate) due: VecDeque<DueQueue>,
    /// The parked queue whose release is open.
    pub(crate) releasing: Option<DueQueue>,
    /// Releases since the last live transaction.
    pub(crate) released: u32,
    /// Its last live transaction met the limit on parked events.
    pub(crate) full: bool,
    /// So many of its next events may have been in a transaction when the owner before ended without a word.
    pub(crate) unproven: usize,
    /// The same of its next releases.
    pub(crate) releases_unproven: usize,
}

impl<T> LaneQueue<T> {
    pub(crate) fn new(state: LaneState, (unproven, releases_unproven): (usize, usize)) -> Self {
        Self {
            state,
            queue: VecDeque::new(),
            busy: false,
            ready: false,
            careful: None,
            waits: Vec::new(),
            rest: None,
            cap: None,
            began: Time(0),
            conflicts: 0,
            alone: LoneFaults::default(),
            due: VecDeque::new(),
            releasing: None,
            released: 0,
            full: false,
            unproven,
            releases_unproven,
        }
    }

    /// Whether a transaction could take it, live or release.
    pub(crate) fn startable(&self) -> bool {
        self.live_startable() || self.release_startable()
    }

    fn live_startable(&self) -> bool {
        let head = self.queue.front();
        !self.busy && self.rest.is_none() && head.is_some_and(|head| !self.waits(head.offset))
    }

    fn release_startable(&self) -> bool {
        let ready = self.due.iter().any(|queue| queue.rest.is_none());
        !self.busy && self.releasing.is_none() && ready
    }

    /// What the lane does next. Releases come first, some to each live transaction, or a queue that
    /// gets followers as fast as it loses them would never empty (finding 19). Where live transactions
    /// wait (`live_waits`), releases go on.
    pub(crate) fn next_work(&self, live_waits: bool, releases_per_live: u32) -> Option<LaneWork> {
        let live = self.live_startable() && !live_waits;
        let first = Rule::ReleaseDrains.on() && self.released < releases_per_live;
        match (live, self.release_startable()) {
            (true, true) if first => Some(LaneWork::Release),
            (false, true) => Some(LaneWork::Release),
            (true, _) => Some(LaneWork::Live),
            (false, false) => None,
        }
    }

    /// Whether a parked queue is remembered already, or being released.
    pub(crate) fn knows(&self, aggregate: &[u8; 16]) -> bool {
        self.due.iter().chain(&self.releasing).any(|queue| queue.aggregate == *aggregate)
    }

    /// Whether the event at this offset is not to be run yet.
    pub(crate) fn waits(&self, offset: Offset) -> bool {
        self.waits.iter().any(|(waiting, _)| *waiting == offset)
    }

    /// Ends the waits that are over.
    pub(crate) fn end_waits(&mut self, now: Time) {
        self.waits.retain(|(_, at)| *at > now);
        self.rest = self.rest.filter(|at| *at > now);
        for queue in &mut self.due {
            queue.rest = queue.rest.filter(|at| *at > now);
        }
    }

    pub(crate) fn next_timeout(&self) -> Option<Time> {
        let due = self.due.iter().filter_map(|queue| queue.rest);
        self.waits.iter().map(|(_, at)| *at).chain(self.rest).chain(due).min()
    }
}

/// A delivery that arrived and is not yet below the watermark.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrived {
    pub(crate) offset: Offset,
    pub(crate) leader_epoch: LeaderEpoch,
    pub(crate) lane: Lane,
}

/// What is known of a partition whose live transactions met the limit.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Full {
    /// What the last of them said.
    pub(crate) error: String,
    /// No live transaction starts before.
    pub(crate) until: Option<Time>,
    /// Waits in a row.
    pub(crate) tries: u32,
}

#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
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
    /// As the database holds it, and the leader epoch of the record before.
    pub(crate) watermark: NextOffset,
    pub(crate) watermark_leader_epoch: LeaderEpoch,
    /// Everything below is settled, and the leader epoch of the record before.
    pub(crate) settled: NextOffset,
    pub(crate) settled_leader_epoch: LeaderEpoch,
    /// Behind the last record below `settled`.
    pub(crate) record: LogPoint,
    pub(crate) watermark_due: Time,
    pub(crate) check_due: Time,
    pub(crate) writing: bool,
    pub(crate) remapped_below: NextOffset,
    /// A change of the lanes waits for what is before it.
    pub(crate) barrier: Option<Barrier>,
    /// What Kafka acknowledged.
    pub(crate) kafka: NextOffset,
    /// The most that was ever sent to Kafka: a commit whose answer was lost may have arrived.
    pub(crate) sent: NextOffset,
    /// Events in lanes or in open transactions, and their bytes.
    pub(crate) undone: usize,
    pub(crate) bytes: u64,
    pub(crate) paused: bool,
    /// Open transactions of this generation, releases included.
    pub(crate) open: usize,
    pub(crate) outages: u32,
    pub(crate) outage_until: Option<Time>,
    /// The limit on parked events was met.
    pub(crate) full: Option<Full>,
    /// Parked queues that wait in lanes for their release.
    pub(crate) due: usize,
    /// A look for due queues is under way, and when the next one is.
    pub(crate) looking: bool,
    pub(crate) look_at: Time,
    /// The last look brought as many as it may, so that there may be more; and releases since it
    /// removed events, so that the next one brings others.
    pub(crate) more_due: bool,
    pub(crate) removed: bool,
    /// When the first wait of a lane ends: lanes are not looked through at every step.
    pub(crate) wake: Option<Time>,
    /// Take-overs in a row without a watermark write that held.
    pub(crate) resyncs: u32,
    /// The client has said again and again that the log does not have the offset to read, and nothing has
    /// arrived since.
    pub(crate) doubted: bool,
    pub(crate) standstill: Option<Standstill>,
    /// The highest watermark that was asked for: a write whose answer was not awaited may have arrived.
    pub(crate) asked: NextOffset,
    /// It waits for a person.
    pub(crate) held: Option<Box<Held>>,
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
            watermark_leader_epoch: LeaderEpoch::UNKNOWN,
            settled: NextOffset(0),
            settled_leader_epoch: LeaderEpoch::UNKNOWN,
            record: LogPoint::UNKNOWN,
            watermark_due: Time(0),
            check_due: Time(0),
            writing: false,
            remapped_below: NextOffset(0),
            barrier: None,
            kafka: NextOffset(i64::MIN),
            sent: NextOffset(i64::MIN),
            undone: 0,
            bytes: 0,
            // The broker's room hands a partition over paused.
            paused: true,
            open: 0,
            outages: 0,
            outage_until: None,
            full: None,
            due: 0,
            looking: false,
            look_at: Time(0),
            more_due: false,
            removed: false,
            wake: None,
            resyncs: 0,
            doubted: false,
            standstill: None,
            asked: NextOffset(0),
            held: None,
        }
    }

    /// Forgets everything of the generation that ends; what Kafka acknowledged stays known.
    pub(crate) fn forget(&mut self, generation: Generation) {
        let (standstill, held) = (self.standstill.take(), self.held.take());
        *self = Self {
            paused: self.paused,
            resyncs: self.resyncs,
            doubted: self.doubted,
            drain: self.drain,
            kafka: self.kafka,
            sent: self.sent,
            standstill,
            held,
            ..Self::new(self.id, generation)
        };
    }

    /// Whether a database fault holds the partition back at this time.
    pub(crate) fn out(&self, now: Time) -> bool {
        self.outage_until.is_some_and(|until| until > now)
    }

    /// A lane has a wait that ends then.
    pub(crate) fn wake_at(&mut self, at: Time) {
        self.wake = Some(self.wake.map_or(at, |wake| wake.min(at)));
    }

    pub(crate) fn lane(&mut self, lane: Lane) -> &mut LaneQueue<T> {
        &mut self.lanes[usize::from(lane.0)]
    }

    /// Whether new transactions may start.
    pub(crate) fn may_start(&self, now: Time) -> bool {
        self.phase == Phase::Live && self.drain == Drain::No && !self.out(now)
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
