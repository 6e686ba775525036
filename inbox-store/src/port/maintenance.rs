//! What is asked of the database beside transactions: take-over, watermark, retention, schema.

use std::{future::Future, time::Duration};

use inbox_engine::internal::{
    LeaderEpoch, LogPoint, LogRange, NextOffset, Offset, Ownership, Standstill,
};
use outbox_core::{IdScope, TopicPartition, internal::CommitMark};
use sqlx::Database;
use uuid::Uuid;

use super::{Lanes, Note, Parking, Scope, Suspect, release::DueQueue};

/// What a take-over needs to know.
#[derive(Clone, Debug)]
pub struct TakeOver {
    /// The consumer's name.
    pub consumer: String,
    /// Which partition.
    pub partition: TopicPartition,
    /// The topic's id, all zero when unknown.
    pub topic_id: [u8; 16],
    /// How many partitions the topic has, if the brokers say.
    pub partitions: Option<i32>,
    /// This process, for people and for the check of two live processes with one instance id.
    pub owner: Owner,
    /// What the configuration wants. Where the database has others, those hold until they are drained.
    pub lanes: Lanes,
    /// Where an event id is one event's.
    pub id_scope: IdScope,
    /// Where Kafka's group stands.
    pub committed: Option<NextOffset>,
    /// Whose that offset is.
    pub mark: Option<CommitMark>,
    /// What the log holds.
    pub log: LogRange,
    /// Where a consumer without history starts.
    pub start: inbox_engine::internal::Start,
    /// What the partition waits for a person for, if it does.
    pub held: Option<Box<inbox_engine::internal::Held>>,
}

/// Who owns a partition.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Owner {
    /// `host/pid/instance`, for people.
    pub name: String,
    /// The configured static instance id, if any.
    pub instance_id: Option<String>,
    /// Random per process.
    pub incarnation: Uuid,
}

/// A partition taken over.
#[derive(Clone, Debug)]
pub struct Taken {
    /// What statements are bound to from now on.
    pub scope: Scope,
    /// What the engine is told.
    pub ownership: Ownership,
    /// The lanes that count: the database's.
    pub lanes: Lanes,
    /// The identity of the consumer's inbox in this database.
    pub inbox_id: Uuid,
    /// The topic's id, all zero when unknown.
    pub topic_id: [u8; 16],
    /// Events that processes have ended with, or that a person wants parked.
    pub suspects: Vec<Suspect>,
}

/// Why a take-over did not succeed.
#[derive(Debug, thiserror::Error)]
pub enum TakeOverError {
    /// Try again.
    #[error(transparent)]
    Database(#[from] sqlx::Error),
    /// The partition stands still for this reason.
    #[error("{0}")]
    Standstill(Standstill),
}

/// One watermark write; with `new == old` it is the idle check.
#[derive(Clone, Debug)]
pub struct WatermarkMove {
    /// What the database holds, as this process knows it.
    pub old: NextOffset,
    /// What it shall hold.
    pub new: NextOffset,
    /// The leader epoch of the record before `new`.
    pub leader_epoch: LeaderEpoch,
    /// Behind the last record before `new`.
    pub record: LogPoint,
    /// Per lane, ascending: the offset that memory relies on.
    pub expected: Vec<i64>,
}

/// Take-over and watermark, what is due, and what is said of partitions.
pub trait Ownerships: Database {
    /// Takes the partition over in one transaction and reads its lanes. Used only after COMMIT.
    /// A resync is the same call.
    fn take_over(
        conn: &mut Self::Connection,
        request: &TakeOver,
    ) -> impl Future<Output = Result<Taken, TakeOverError>> + Send;
    /// Writes the watermark; false when 0 rows changed.
    fn write_watermark(
        conn: &mut Self::Connection,
        scope: &Scope,
        change: &WatermarkMove,
    ) -> impl Future<Output = Result<bool, sqlx::Error>> + Send;
    /// Writes those of several watermarks that nothing keeps from being written, in one transaction; whether
    /// each was. One that another transaction has locked is not waited for; why one was not written
    /// [`Ownerships::write_watermark`] says.
    fn write_watermarks(
        conn: &mut Self::Connection,
        changes: &[(Scope, WatermarkMove)],
    ) -> impl Future<Output = Result<Vec<bool>, sqlx::Error>> + Send;
    /// Removes this process as the owner of partitions on a clean let-go (epoch and lanes stay).
    fn disown(
        conn: &mut Self::Connection,
        scopes: &[Scope],
    ) -> impl Future<Output = Result<(), sqlx::Error>> + Send;
    /// Of each partition the queues with something to do, the oldest first, at most `max`. The records of
    /// events below its offset (`remapped_below`) come with them. Under an older epoch there are none.
    fn find_due(
        conn: &mut Self::Connection,
        looks: &[(Scope, NextOffset)],
        max: usize,
    ) -> impl Future<Output = Result<Vec<Vec<DueQueue>>, sqlx::Error>> + Send;
    /// Writes how partitions are, for `status`; `None`: there is nothing to say.
    fn write_notes(
        conn: &mut Self::Connection,
        note: Note,
        notes: &[(Scope, Option<String>)],
    ) -> impl Future<Output = Result<(), sqlx::Error>> + Send;
}

/// Parked events.
pub trait Parkings: Database {
    /// Inserts the rows in the order given and marks their ids in the inbox, in the open transaction; answers how
    /// many ids were marked.
    fn park(
        conn: &mut Self::Connection,
        scope: &Scope,
        rows: &[Parking],
    ) -> impl Future<Output = Result<u64, sqlx::Error>> + Send;
    /// Makes every other transaction that parks in this partition wait for the end of this one, so that
    /// what is counted after it stays true until COMMIT. Taken before the lanes, as in a take-over. Says, too,
    /// that the keys of what is parked are by the rule that the take-over wrote.
    fn park_alone(
        conn: &mut Self::Connection,
        scope: &Scope,
    ) -> impl Future<Output = Result<(), sqlx::Error>> + Send;
    /// Counts what is parked in the partition, up to one more than each limit.
    fn parked_load(
        conn: &mut Self::Connection,
        scope: &Scope,
        limit: ParkedLoad,
    ) -> impl Future<Output = Result<ParkedLoad, sqlx::Error>> + Send;
    /// Which of these deliveries (offset, leader epoch) have a parked row already. Asked only for
    /// offsets below `remapped_below`.
    fn parked_at(
        conn: &mut Self::Connection,
        scope: &Scope,
        deliveries: &[(Offset, LeaderEpoch)],
    ) -> impl Future<Output = Result<Vec<Offset>, sqlx::Error>> + Send;
}

/// How much is parked in a partition; each number is exact up to the limit it was counted to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ParkedLoad {
    /// Aggregates.
    pub aggregates: u64,
    /// Events.
    pub events: u64,
    /// Bytes of what is kept of them.
    pub bytes: u64,
}

impl ParkedLoad {
    /// Whether it is at most what may be parked.
    pub fn within(self, limit: Self) -> bool {
        self.aggregates <= limit.aggregates
            && self.events <= limit.events
            && self.bytes <= limit.bytes
    }

    /// What is said when it is not.
    pub fn beyond(self, limit: Self) -> String {
        let (what, key, most) = if self.aggregates > limit.aggregates {
            ("aggregates with parked events", "limits.parked_aggregates_max", limit.aggregates)
        } else if self.events > limit.events {
            ("parked events", "limits.parked_events_max", limit.events)
        } else {
            ("bytes of parked events", "limits.parked_bytes_max", limit.bytes)
        };
        format!(
            "the partition would have more than {most} {what}, the limit `{key}`; fix what makes \
             handlers fail, then release or discard parked events, or raise the limit"
        )
    }
}

/// Pruning the inbox.
pub trait Retentions: Database {
    /// Deletes rows older than `age` (by the database's clock), below their partition's watermark and
    /// not parked, in one bounded step. Answers how far it is.
    fn prune_step(
        conn: &mut Self::Connection,
        consumer: &str,
        age: Duration,
        cursor: PruneCursor,
    ) -> impl Future<Output = Result<PruneStep, sqlx::Error>> + Send;
    /// Deletes up to [`ACTS_PER_STEP`] acts of the audit older than `age`; answers how many.
    fn prune_audit(
        conn: &mut Self::Connection,
        consumer: &str,
        age: Duration,
    ) -> impl Future<Output = Result<u64, sqlx::Error>> + Send;
}

/// Acts that one step of retention removes at most.
pub const ACTS_PER_STEP: u64 = 1_000;

/// Where the sweep stands; `default()` begins one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PruneCursor(pub i64);

/// One step of the sweep.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PruneStep {
    /// Rows removed.
    pub removed: u64,
    /// Where to go on; `None` when the sweep is complete or another process prunes.
    pub next: Option<PruneCursor>,
    /// How many steps are left, as far as the store knows; 1 where it does not.
    pub steps_left: u32,
    /// Another process holds the pruner's lock.
    pub busy: bool,
}

/// The project's own tables.
pub trait Schemas: Database {
    /// Brings the schema up to date, under a lock; answers the versions applied.
    fn migrate(
        conn: &mut Self::Connection,
    ) -> impl Future<Output = Result<Vec<i64>, sqlx::Error>> + Send;
    /// Brings the outbox tables beside them up to date, under a lock; answers the versions applied.
    fn migrate_outbox_beside(
        conn: &mut Self::Connection,
    ) -> impl Future<Output = Result<Vec<i64>, sqlx::Error>> + Send;
    /// The version in the database, `None` without the version table.
    fn version(
        conn: &mut Self::Connection,
    ) -> impl Future<Output = Result<Option<i64>, sqlx::Error>> + Send;
    /// The newest version this build knows.
    fn newest() -> i64;
    /// The statements of all migrations, for teams with their own tool.
    fn print() -> String;
}
