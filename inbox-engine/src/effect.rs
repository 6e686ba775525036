//! Everything the engine can ask for. A short loop applies it.

use crate::{
    Batch, Epoch, Generation, Held, LeaderEpoch, LogPoint, NextOffset, Offset, PartitionId,
    Release, Standstill,
};

/// One thing to do. The answer, where there is one, comes back through the `handle_*` named here.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Effect<T> {
    /// End what is still open of the partition under this generation, transactions and releases, by
    /// closing the connections hard. It can commit no more, or is not waited for; it holds ids and rows that
    /// whoever has the partition next waits for. What comes back of it changes nothing.
    Abort(PartitionId, Generation),
    /// The engine has let everything go and was told to end.
    Close,
    /// Commit next offsets to Kafka: [`crate::Engine::handle_committed`]. One is in flight at a time.
    Commit(Vec<Commit>),
    /// Ask the group, after one more poll, whether the partition is still ours:
    /// [`crate::Engine::handle_confirmed`].
    Confirm(PartitionId, Generation),
    /// Ask the database which parked queues of the partition are due, [`crate::Limits::due_max`] of them
    /// at most, those whose head was parked first: [`crate::Engine::handle_due`]. One look at a time per
    /// partition, and none while [`crate::Limits::due_interval`] is zero.
    FindDue(PartitionId, Generation),
    /// Answer a revocation of exactly these partitions.
    LetGo(Vec<PartitionId>),
    /// Stop fetching.
    Pause(PartitionId),
    /// Release parked events, in a transaction of their own: [`crate::Engine::handle_released`].
    Release(Release),
    /// A partition began to stand still, or moves again (`None`).
    Report(PartitionId, Option<Standstill>),
    /// Go on fetching.
    Resume(PartitionId),
    /// Read on from an offset: [`crate::Engine::handle_sought`].
    Seek(Seek),
    /// Run a transaction: [`crate::Engine::handle_outcome`].
    Start(Batch<T>),
    /// Take the partition over in the database: [`crate::Engine::handle_taken`]. What is held is left alone
    /// until its watermark has been moved: the answer is its reason, to be waited for.
    TakeOver(PartitionId, Generation, Option<Box<Held>>),
    /// Write the watermark, or check it (`old == new`): [`crate::Engine::handle_watermark`].
    WriteWatermark(WatermarkWrite),
}

/// A seek.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Seek {
    /// Which partition.
    pub partition: PartitionId,
    /// The generation that deliveries after it carry.
    pub generation: Generation,
    /// The next offset to read.
    pub to: NextOffset,
    /// The leader epoch of the record before it, for the client's validation.
    pub leader_epoch: LeaderEpoch,
}

/// A write of the watermark, checked in the database against every lane.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WatermarkWrite {
    /// Which partition.
    pub partition: PartitionId,
    /// Its generation.
    pub generation: Generation,
    /// The epoch it is written under.
    pub epoch: Epoch,
    /// What the database holds, as this process knows it.
    pub old: NextOffset,
    /// What it shall hold.
    pub new: NextOffset,
    /// The leader epoch of the record before `new`.
    pub leader_epoch: LeaderEpoch,
    /// Behind the last record below `new`.
    pub record: LogPoint,
    /// Per lane, ascending: the offset that memory relies on.
    pub expected: Vec<Offset>,
}

/// One partition's part of a Kafka commit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Commit {
    /// Which partition.
    pub partition: PartitionId,
    /// Its generation.
    pub generation: Generation,
    /// The next offset.
    pub next: NextOffset,
    /// The leader epoch of the record before it.
    pub leader_epoch: LeaderEpoch,
}

/// How a take-over ended, when not well.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum TakeOverFault {
    /// Try again, with back-off: the error, for people.
    Again(String),
    /// The partition stands still until a person acts.
    Stop(Standstill),
    /// Try again, with back-off; until then this is why the partition stands still.
    Wait(Standstill),
}

/// How a watermark write ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Written {
    /// One row changed.
    Yes,
    /// No row changed: the lanes, the epoch or the watermark are not what memory says.
    Fenced,
    /// The database could not be asked.
    Outage(String),
}
