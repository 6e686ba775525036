//! What the pipeline asks of Kafka and of the database. The rooms `kafka` and `store` implement it;
//! the pipeline never imports them.

use std::{future::Future, sync::Arc, time::Duration};

use futures::future::BoxFuture;
use inbox_engine::{
    Epoch, Generation, Item, LaneMove, LeaderEpoch, NextOffset, Offset, Ownership, ParkReason,
    Standstill,
};
use outbox_core::Record;
use sqlx::Database;

// ---- Kafka ----------------------------------------------------------------------------------

/// A partition of a topic.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct TopicPartition {
    /// The topic's name; clones share it.
    pub topic: Arc<str>,
    /// The partition, from 0.
    pub partition: i32,
}

/// One record as it arrived: everything owned, nothing of librdkafka's kept.
#[derive(Clone, Debug)]
pub struct Arrival {
    /// Its offset.
    pub offset: Offset,
    /// The leader epoch it was written under, or unknown.
    pub leader_epoch: LeaderEpoch,
    /// Key, headers, payload and timestamp.
    pub record: Record,
}

/// What the thread that owns the consumer tells. One message per poll round, never per record.
#[derive(Debug)]
pub enum BrokerEvent {
    /// Assigned; answered already, and paused until `resume`. Every arrival before a confirmed seek
    /// is dropped by the thread.
    Assigned(Vec<TopicPartition>),
    /// Revoked; the group waits for [`Broker::let_go`] with exactly these partitions.
    Revoked(Vec<TopicPartition>),
    /// Lost; answered already.
    Lost(Vec<TopicPartition>),
    /// Records of one partition in offset order, under the generation of the last confirmed seek.
    Arrived {
        /// Which partition.
        partition: TopicPartition,
        /// The generation that [`Broker::seek`] was given.
        generation: Generation,
        /// The records.
        arrivals: Vec<Arrival>,
    },
    /// The partition was read to its end: nothing below `position` is still to come, be it that
    /// offsets are missing (compaction, transaction markers).
    Position {
        /// Which partition.
        partition: TopicPartition,
        /// The generation that [`Broker::seek`] was given.
        generation: Generation,
        /// The next offset that a record can have.
        position: NextOffset,
    },
    /// The log does not have the offset that was asked for (truncated, or cleaned by retention).
    OffsetGone {
        /// Which partition.
        partition: TopicPartition,
        /// What the client said.
        error: String,
    },
    /// Something is wrong that the client goes on trying to mend (brokers down, authentication).
    Trouble(String),
    /// The client is dead and has to be built anew (fenced instance id, fatal error).
    Fatal(String),
}

/// An error of the broker port: a sentence for people.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{0}")]
pub struct BrokerError(pub String);

/// What Kafka holds of a partition's log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LogRange {
    /// The first offset that can be read.
    pub start: NextOffset,
    /// The offset after the last one that can be read (the last stable offset).
    pub end: NextOffset,
}

/// The thread that owns the consumer, seen from the pipeline. Every call is sent to that thread;
/// none blocks the caller.
pub trait Broker: Send + Sync + 'static {
    /// The group's committed offset.
    fn committed(
        &self,
        partition: &TopicPartition,
    ) -> BoxFuture<'static, Result<Option<NextOffset>, BrokerError>>;
    /// Where the log begins and ends.
    fn log_range(
        &self,
        partition: &TopicPartition,
    ) -> BoxFuture<'static, Result<LogRange, BrokerError>>;
    /// The topic's id (16 bytes), all zero when the broker does not tell it.
    fn topic_id(&self, topic: &str) -> BoxFuture<'static, Result<[u8; 16], BrokerError>>;
    /// Reads on from `to`. Resolves only when the client has confirmed it; from then on arrivals
    /// carry `generation`. An error leaves the partition without deliveries.
    fn seek(
        &self,
        partition: &TopicPartition,
        generation: Generation,
        to: NextOffset,
        leader_epoch: LeaderEpoch,
    ) -> BoxFuture<'static, Result<(), BrokerError>>;
    /// Stops (`true`) or goes on (`false`) fetching.
    fn pause(&self, partition: &TopicPartition, paused: bool);
    /// Commits next offsets; resolves with the broker's answer. One at a time is the caller's duty.
    fn commit(
        &self,
        offsets: Vec<(TopicPartition, NextOffset, LeaderEpoch)>,
    ) -> BoxFuture<'static, Result<(), BrokerError>>;
    /// Answers a revocation.
    fn let_go(&self, partitions: Vec<TopicPartition>);
    /// Answers whether the partition is still assigned, after one more poll of the group.
    fn confirm(&self, partition: &TopicPartition) -> BoxFuture<'static, bool>;
    /// Leaves the group and ends the thread; resolves when it has ended or the deadline has passed.
    fn close(&self, deadline: Duration) -> BoxFuture<'static, Result<(), BrokerError>>;
}

// ---- the database ---------------------------------------------------------------------------

/// What every statement of a partition is bound to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Scope {
    /// `inbox_consumers.consumer_ref`.
    pub consumer_ref: i64,
    /// `inbox_partitions.partition_ref`.
    pub partition_ref: i64,
    /// The epoch that the work may commit under.
    pub epoch: Epoch,
}

/// Limits that the database itself enforces within a transaction.
#[derive(Clone, Copy, Debug)]
pub struct TxLimits {
    /// Longest statement.
    pub statement_timeout: Duration,
    /// Longest wait for a lock.
    pub lock_timeout: Duration,
    /// Longest silence of the client within the transaction.
    pub idle_timeout: Duration,
}

/// What the claim found out.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Claimed {
    /// The identity of the transaction; [`Claim::advance`] demands the same one.
    pub tx: String,
    /// The ids that were not in the inbox, in any order.
    pub fresh: Vec<[u8; 16]>,
    /// The aggregates among the request's that have parked events.
    pub held: Vec<[u8; 16]>,
    /// How many of the request's lanes are at (epoch, prev).
    pub lanes_mine: u64,
}

/// One claim: all distinct ids of a transaction, sorted by bytes.
#[derive(Clone, Debug, Default)]
pub struct ClaimRequest {
    /// Distinct ids, ascending.
    pub ids: Vec<[u8; 16]>,
    /// The fingerprint of each.
    pub fingerprints: Vec<[u8; 16]>,
    /// The offset of each.
    pub offsets: Vec<i64>,
    /// Distinct aggregate keys of the transaction.
    pub aggregates: Vec<[u8; 16]>,
    /// The lanes, ascending.
    pub lanes: Vec<LaneMove>,
}

/// What the inbox knows of an id that was not fresh.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Known {
    /// The id.
    pub id: [u8; 16],
    /// The fingerprint it was claimed with.
    pub fingerprint: [u8; 16],
    /// The partition it was claimed in.
    pub partition_ref: i64,
    /// The offset it was claimed at.
    pub offset: Offset,
    /// Whether it is parked.
    pub parked: bool,
}

/// The second look after a claim with duplicates.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Recheck {
    /// What is known, one entry per id found.
    pub known: Vec<Known>,
    /// How many of the lanes are still at (epoch, prev).
    pub lanes_mine: u64,
}

/// One event to park.
#[derive(Clone, Debug)]
pub struct Parking {
    /// Its lane.
    pub lane: inbox_engine::Lane,
    /// Its aggregate's key.
    pub aggregate: [u8; 16],
    /// Its id.
    pub id: [u8; 16],
    /// Its fingerprint.
    pub fingerprint: [u8; 16],
    /// Its offset.
    pub offset: Offset,
    /// Its leader epoch.
    pub leader_epoch: LeaderEpoch,
    /// Why. `Follower` is stored with no due time, everything else with `infinity`: it waits for a person.
    pub reason: ParkReason,
    /// How often a handler failed on it.
    pub attempts: u32,
    /// The record and the errors, as JSON text (see `pipeline/parked.rs`).
    pub record: String,
}

/// The statements of a live transaction, in their order. `conn` is always inside the transaction
/// that `begin` opened.
pub trait Claim: Database {
    /// BEGIN with its local limits, as one message. On an error the connection must be closed.
    fn begin(
        conn: &mut Self::Connection,
        limits: &TxLimits,
    ) -> impl Future<Output = Result<(), sqlx::Error>> + Send;
    /// Claims the ids and looks at held aggregates and lanes, in one statement.
    fn claim(
        conn: &mut Self::Connection,
        scope: &Scope,
        request: &ClaimRequest,
    ) -> impl Future<Output = Result<Claimed, sqlx::Error>> + Send;
    /// The second look: only when some ids were not fresh.
    fn recheck(
        conn: &mut Self::Connection,
        scope: &Scope,
        ids: &[[u8; 16]],
        lanes: &[LaneMove],
    ) -> impl Future<Output = Result<Recheck, sqlx::Error>> + Send;
    /// Moves the lanes; answers how many rows changed. Anything but one per lane: roll back.
    fn advance(
        conn: &mut Self::Connection,
        scope: &Scope,
        tx: &str,
        lanes: &[LaneMove],
    ) -> impl Future<Output = Result<u64, sqlx::Error>> + Send;
    /// Whether `conn` is in a transaction, and it is the one that `tx` names. For telling a fence
    /// from a handler that ended the transaction.
    fn same_transaction(
        conn: &mut Self::Connection,
        tx: &str,
    ) -> impl Future<Output = Result<bool, sqlx::Error>> + Send;
    /// COMMIT. An error of the server's own (deferred constraint, serialization) is certain;
    /// everything else is an unknown outcome: see [`Sessions::fault`].
    fn commit(conn: &mut Self::Connection) -> impl Future<Output = Result<(), sqlx::Error>> + Send;
    /// ROLLBACK.
    fn rollback(
        conn: &mut Self::Connection,
    ) -> impl Future<Output = Result<(), sqlx::Error>> + Send;
}

/// Savepoints of the careful run.
pub trait Savepoint: Database {
    /// SAVEPOINT with the runtime's own name for depth 0, or a nested one.
    fn savepoint(
        conn: &mut Self::Connection,
        depth: u32,
    ) -> impl Future<Output = Result<(), sqlx::Error>> + Send;
    /// Makes deferred constraints immediate, so that a violation names its event.
    fn constraints_immediate(
        conn: &mut Self::Connection,
    ) -> impl Future<Output = Result<(), sqlx::Error>> + Send;
    /// RELEASE SAVEPOINT. Fails when the handler ended or rolled back past it.
    fn release(
        conn: &mut Self::Connection,
        depth: u32,
    ) -> impl Future<Output = Result<(), sqlx::Error>> + Send;
    /// ROLLBACK TO SAVEPOINT, and releases it.
    fn rollback_to(
        conn: &mut Self::Connection,
        depth: u32,
    ) -> impl Future<Output = Result<(), sqlx::Error>> + Send;
}

/// Connections and what their errors mean.
pub trait Sessions: Database {
    /// What a connection needs: made once from the configuration, cheap to clone.
    type Settings: Clone + Send + Sync + std::fmt::Debug + 'static;
    /// At most this many transactions may be open at once, whatever the configuration says.
    const WRITERS_MAX: usize;
    /// Reads an address.
    fn settings(address: &Address<'_>) -> Result<Self::Settings, OpenError>;
    /// Opens a session: read-only by default, `application_name` set, refused on a replica.
    fn open(
        settings: &Self::Settings,
    ) -> impl Future<Output = Result<Self::Connection, OpenError>> + Send;
    /// Closes the socket without a word, so that no queued ROLLBACK is waited for.
    fn close_hard(conn: Self::Connection) -> impl Future<Output = ()> + Send;
    /// Whether the session is inside a transaction, as the driver knows it (no round trip).
    fn in_transaction(conn: &Self::Connection) -> bool;
    /// What an error means.
    fn fault(error: &sqlx::Error) -> StoreFault;
    /// A verb that handlers may not run on this database beyond the common ones (DDL on MySQL).
    fn refuses(verb: &str) -> bool;
}

/// Where a database is, and how to speak to it.
#[derive(Clone, Copy)]
pub struct Address<'a> {
    /// The URL, with its secrets.
    pub url: &'a str,
    /// The schema of the inbox tables, put before `public` in the search path.
    pub schema: Option<&'a str>,
    /// What the server shows as the session's application.
    pub application: &'a str,
    /// Prepared statements kept per session; 0 behind a transaction-pooling proxy.
    pub statement_cache: usize,
}

impl std::fmt::Debug for Address<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Address").field("schema", &self.schema).finish_non_exhaustive()
    }
}

/// Why a session could not be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// Try again later: the database is not there.
    #[error("{0}")]
    Outage(String),
    /// A person has to change something: wrong password, no such database, a replica.
    #[error("{0}")]
    Refused(String),
}

/// What an error of the database means.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum StoreFault {
    /// Connection lost, server shutting down, disk full, read-only server: pause and try again.
    Outage,
    /// Deadlock, serialization failure, lock or statement time-out: again at once, smaller.
    Conflict,
    /// The statement itself is at fault: the handler's failure.
    Statement,
    /// The handler's doing: it ended the transaction (25006 on a database that is not in recovery,
    /// no active transaction, no such savepoint).
    TransactionEnded,
}

/// What a take-over needs to know.
#[derive(Clone, Debug)]
pub struct TakeOver {
    /// The consumer's name.
    pub consumer: String,
    /// Which partition.
    pub partition: TopicPartition,
    /// The topic's id, all zero when unknown.
    pub topic_id: [u8; 16],
    /// This process, for people and for the check of two live processes with one instance id.
    pub owner: Owner,
    /// What the configuration wants; the database wins when a row exists (then it is a remap).
    pub lane_count: u16,
    /// Hash name and version, and the source of the aggregate.
    pub lane_rule: String,
    /// Where Kafka's group stands.
    pub committed: Option<NextOffset>,
    /// What the log holds.
    pub log: LogRange,
    /// Where a consumer without history starts.
    pub start: inbox_engine::Start,
}

/// Who owns a partition.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Owner {
    /// `host/pid/instance`, for people.
    pub name: String,
    /// The configured static instance id, if any.
    pub instance_id: Option<String>,
    /// Random per process.
    pub incarnation: uuid::Uuid,
}

/// A partition taken over.
#[derive(Clone, Debug)]
pub struct Taken {
    /// What statements are bound to from now on.
    pub scope: Scope,
    /// What the engine is told.
    pub ownership: Ownership,
    /// The lane count that counts: the database's.
    pub lane_count: u16,
}

/// Why a take-over did not succeed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
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
    /// Per lane, ascending: the offset that memory relies on.
    pub expected: Vec<i64>,
}

/// Take-over and watermark.
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
    /// Removes this process as the owner on a clean let-go (epoch and lanes stay).
    fn disown(
        conn: &mut Self::Connection,
        scope: &Scope,
    ) -> impl Future<Output = Result<(), sqlx::Error>> + Send;
}

/// Parked events.
pub trait Parkings: Database {
    /// Inserts the rows in the order given and marks their ids in the inbox, in the open transaction.
    fn park(
        conn: &mut Self::Connection,
        scope: &Scope,
        rows: &[Parking],
    ) -> impl Future<Output = Result<(), sqlx::Error>> + Send;
    /// Which of these deliveries (offset, leader epoch) have a parked row already. Asked only for
    /// offsets below `remapped_below`.
    fn parked_at(
        conn: &mut Self::Connection,
        scope: &Scope,
        deliveries: &[(Offset, LeaderEpoch)],
    ) -> impl Future<Output = Result<Vec<Offset>, sqlx::Error>> + Send;
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
}

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
    /// Another process holds the pruner's lock.
    pub busy: bool,
}

/// One row of `status`, as the database knows it.
#[derive(Clone, Debug, serde::Serialize)]
pub struct PartitionRow {
    /// Topic.
    pub topic: String,
    /// Partition.
    pub partition: i32,
    /// Next offset to settle.
    pub watermark: i64,
    /// The offset after the furthest one that a lane has settled, at least the watermark. What lies
    /// between the two is in flight: settled ahead of it, or still open.
    pub reached: i64,
    /// Epoch.
    pub epoch: i64,
    /// Lanes.
    pub lane_count: i32,
    /// The owner's name, if owned.
    pub owner: Option<String>,
    /// Seconds since the owner was last seen, by the database's clock.
    pub owner_seen_seconds: Option<f64>,
    /// Parked aggregates.
    pub parked_aggregates: i64,
    /// Parked events.
    pub parked_events: i64,
    /// Why the partition stands still, as its owner last said.
    pub standstill: Option<String>,
    /// Whether the partition was retired.
    pub retired: bool,
}

/// Looking, for `status` and `check`.
pub trait Inspections: Database {
    /// Every partition of a consumer.
    fn partitions(
        conn: &mut Self::Connection,
        consumer: &str,
    ) -> impl Future<Output = Result<Vec<PartitionRow>, sqlx::Error>> + Send;
    /// What `check` finds wrong or doubtful: schema, privileges, isolation, durability.
    fn findings(
        conn: &mut Self::Connection,
    ) -> impl Future<Output = Result<Vec<Finding>, sqlx::Error>> + Send;
    /// Writes why a partition stands still (`None`: it moves), for `status`.
    fn write_standstill(
        conn: &mut Self::Connection,
        scope: &Scope,
        reason: Option<&str>,
    ) -> impl Future<Output = Result<(), sqlx::Error>> + Send;
}

/// A finding of `check`.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize)]
pub struct Finding {
    /// Whether the consumer refuses to start with it.
    pub fatal: bool,
    /// What is wrong, where, and what to change: one sentence.
    pub text: String,
}

/// The project's own tables.
pub trait Schemas: Database {
    /// Brings the schema up to date, under a lock; answers the versions applied.
    fn migrate(
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

/// Everything a database has to do. Implemented for `sqlx::Postgres` and `sqlx::Sqlite`.
pub trait Store:
    Claim + Savepoint + Sessions + Ownerships + Parkings + Retentions + Inspections + Schemas
{
}

/// One delivery inside the pipeline.
pub type Delivered = Item<Arc<crate::pipeline::Delivery>>;
