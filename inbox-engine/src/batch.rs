//! What goes to the database in one transaction, and what comes back.

use crate::{
    Doom, Epoch, Failure, Generation, Lane, LeaderEpoch, NextOffset, Offset, PartitionId,
    TransactionFault,
};

/// One delivery on its way through the engine. `T` is the event itself; the engine never looks at it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Item<T> {
    /// Where it arrived.
    pub offset: Offset,
    /// The leader epoch it was written under.
    pub leader_epoch: LeaderEpoch,
    /// The lane its aggregate hashes to.
    pub lane: Lane,
    /// The event id, as the inbox table has it.
    pub id: [u8; 16],
    /// The fingerprint of type, aggregate and payload.
    pub fingerprint: [u8; 16],
    /// The key of its aggregate within the consumer.
    pub aggregate: [u8; 16],
    /// Its event type, as a number that the caller gave out. Equal numbers form runs.
    pub kind: Kind,
    /// What it counts against the byte limit.
    pub bytes: u32,
    /// How often a handler has failed on it so far.
    pub attempts: u32,
    /// Set when it will be parked instead of run.
    pub doomed: Option<Doom>,
    /// What was to be kept of it when it is parked was refused again and again: now it is where it is, and little more.
    pub bare: bool,
    /// A process has ended while it ran this, so that it goes in a transaction of its own.
    pub suspect: bool,
    /// The event.
    pub event: T,
}

impl<T> Item<T> {
    /// Whether it is to be run, and a process has ended while it ran.
    pub fn is_suspect(&self) -> bool {
        self.suspect && self.doomed.is_none()
    }
}

/// A number for an event type and how its handler wants its runs.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Kind {
    /// Equal for events that go to the same handler.
    pub route: u32,
    /// The route takes the whole run in one call.
    pub whole_run: bool,
    /// The route wants each aggregate at most once in a run.
    pub one_per_aggregate: bool,
}

/// One lane's part in a transaction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LaneMove {
    /// The lane.
    pub lane: Lane,
    /// Where this process left it.
    pub prev: Offset,
    /// Where the transaction takes it.
    pub new: Offset,
    /// The leader epoch of the record at `new`.
    pub leader_epoch: LeaderEpoch,
}

/// How to run a batch.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Mode {
    /// Everything or nothing.
    Together,
    /// A savepoint per event, so that the failing ones are named. At most [`Mode::CAREFUL_MAX`] events.
    /// It commits only if none fails; otherwise the others run again without the culprits.
    Careful,
}

impl Mode {
    /// The most events of a careful transaction: PostgreSQL slows the whole server down beyond 64
    /// subtransactions, and handlers may have savepoints of their own (G6).
    pub const CAREFUL_MAX: usize = 32;
}

/// A transaction to run. Its lanes are reserved until its outcome comes back.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Batch<T> {
    /// Whose it is.
    pub partition: PartitionId,
    /// The local generation it was cut in.
    pub generation: Generation,
    /// The database epoch it may commit under.
    pub epoch: Epoch,
    /// Everything below is settled, as the engine last knew: with unknown leader epochs the place
    /// at and above which a fresh id at a passed offset proves reuse.
    pub watermark: NextOffset,
    /// Below this offset the torn check does not apply.
    pub remapped_below: NextOffset,
    /// How to run it.
    pub mode: Mode,
    /// It takes all that waits for a transaction in its partition: there is no backlog.
    pub whole: bool,
    /// The process before may have ended because of one of its events: they are written down before they run.
    pub marked: bool,
    /// Its lanes in ascending order, each once.
    pub lanes: Vec<LaneMove>,
    /// Its deliveries by (lane, offset).
    pub items: Vec<Item<T>>,
}

/// How the transaction of a batch ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum BatchOutcome {
    /// Committed whole.
    Committed(Tally),
    /// Rolled back: handlers failed on these items. Run together, a transaction ends at the first; run
    /// carefully, it goes on in the other lanes, so that each culprit is named in one pass.
    Failed(Vec<Failure>),
    /// Not committed, or not known to be, and no event is answerable.
    Fault(TransactionFault),
    /// Rolled back: it would have parked more than may be parked. The text says which limit.
    Full(String),
    /// Rolled back: the record at `items[index]` has an offset that an earlier record had.
    Reused(usize),
}

impl BatchOutcome {
    /// What it means when no handler had run: a fault that is no event's.
    #[must_use]
    pub fn before_handlers(self) -> Self {
        match self {
            Self::Fault(fault) => Self::Fault(fault.before_handlers()),
            Self::Failed(failures) => {
                let error = failures.into_iter().next().map(|failure| failure.error);
                Self::Fault(TransactionFault::Unreached(error.unwrap_or_default()))
            }
            other => other,
        }
    }
}

/// What a committed transaction did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Tally {
    /// Events whose handler ran.
    pub applied: u64,
    /// Deliveries settled as duplicates.
    pub duplicates: u64,
    /// Events that were at or below the last version of their aggregate.
    pub stale: u64,
    /// Events parked, followers included.
    pub parked: u64,
    /// Parked events that waited for a version that is applied now: they are due.
    pub woken: u64,
    /// Events that the configuration ignores: of an unknown type, or unreadable.
    pub ignored: u64,
    /// Such events that are sent to a topic of their own.
    pub dead_lettered: u64,
}
