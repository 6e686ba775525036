//! Offsets, lanes, partitions: the numbers the rules speak of, each a type of its own.

/// A partition that this process knows: an index given out by the pipeline, never reused.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct PartitionId(pub u32);

/// The lane of a partition, `0..lane_count`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Lane(pub u16);

/// The next offset to read: what the watermark and a Kafka commit hold. Exclusive.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct NextOffset(pub i64);

/// The offset of a record, or the last one that a lane has settled. Inclusive.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Offset(pub i64);

impl Offset {
    /// The offset to read after this one.
    #[must_use]
    pub fn next(self) -> NextOffset {
        NextOffset(self.0 + 1)
    }
}

impl NextOffset {
    /// The last offset below this one.
    #[must_use]
    pub fn last(self) -> Offset {
        Offset(self.0 - 1)
    }
}

/// The leader epoch of a record or a lane; `-1` is unknown.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct LeaderEpoch(pub i32);

impl LeaderEpoch {
    /// Not told by the broker, or never stored.
    pub const UNKNOWN: Self = Self(-1);

    /// Whether the broker told it.
    pub fn known(self) -> bool {
        self.0 >= 0
    }
}

/// The generation of a partition's assignment in the database. Work of an older one cannot commit.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Epoch(pub i64);

/// A process-local generation: each assignment, loss and resync begins a new one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Generation(pub u64);

/// Milliseconds since some origin that the caller chose; the engine reads no clock.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Time(pub u64);

impl Time {
    /// This time and `millis` more.
    #[must_use]
    pub fn after(self, millis: u64) -> Self {
        Self(self.0.saturating_add(millis))
    }
}

/// A place in a log that the broker can validate: an offset, and the leader epoch of the last record before it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LogPoint {
    /// The offset.
    pub next: NextOffset,
    /// The leader epoch of the last record before it.
    pub leader_epoch: LeaderEpoch,
}

impl LogPoint {
    /// Not known.
    pub const UNKNOWN: Self = Self { next: NextOffset(-1), leader_epoch: LeaderEpoch::UNKNOWN };

    /// Whether the broker can validate it.
    pub fn known(self) -> bool {
        self.next.0 >= 0 && self.leader_epoch.known()
    }
}

/// What Kafka holds of a partition's log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LogRange {
    /// The first offset that can be read.
    pub start: NextOffset,
    /// The offset after the last one that can be read (the last stable offset).
    pub end: NextOffset,
}

/// Where a lane stands in the database.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LaneState {
    /// The last offset that the lane has settled.
    pub last: Offset,
    /// The leader epoch of that record.
    pub leader_epoch: LeaderEpoch,
}

/// What a take-over read: the lanes of a partition under a new epoch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Ownership {
    /// The epoch this process now owns the partition with.
    pub epoch: Epoch,
    /// Every lane, in order.
    pub lanes: Vec<LaneState>,
    /// Everything below is settled, as the database holds it.
    pub watermark: NextOffset,
    /// The leader epoch of the record before the watermark.
    pub watermark_leader_epoch: LeaderEpoch,
    /// Behind the last record that is settled below the watermark.
    pub record: LogPoint,
    /// Below this offset a row at its own offset does not prove a torn transaction, where an older build
    /// has changed the lanes ahead of the watermark.
    pub remapped_below: NextOffset,
    /// The lanes are to change, and do so in the first take-over at which none is ahead of the watermark.
    pub remap_waits: bool,
    /// The owner before, another process, has not let go of it: it may have died of one of the next events.
    pub unclean: bool,
    /// Where to read from: see `resume`.
    pub resume: NextOffset,
    /// The leader epoch to give with it, so that the client validates the log.
    pub resume_leader_epoch: LeaderEpoch,
}
