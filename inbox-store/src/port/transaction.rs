//! What is asked of the database within a transaction, and of its sessions.

use std::{future::Future, time::Duration};

use inbox_engine::internal::{Epoch, LaneMove, LeaderEpoch, Offset, ParkReason};
use service_kit::DatabaseTls;
use sqlx::Database;

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
pub struct ClaimResult {
    /// The identity of the transaction; [`Claim::advance`] demands the same one.
    pub tx: String,
    /// The ids that were not in the inbox, in any order.
    pub fresh: Vec<[u8; 16]>,
    /// The aggregates among the request's that have parked events.
    pub held: Vec<[u8; 16]>,
    /// How many of the request's lanes are at (epoch, prev).
    pub lanes_mine: u64,
    /// Rows of ids that are not fresh, of the same view as the lanes: those that [`Claim::recheck`] need not
    /// look for. Any number of them, in any order.
    pub known: Vec<InboxRow>,
    /// How many rows of `inbox_events` the session has changed by then, where it counts them: by the advance it
    /// has changed no others but those that were parked.
    pub changed: Option<i64>,
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
    /// The ids are thought to be new. A database may then leave out looking for them, and a claim with one that is there
    /// fails with a fault of [`StoreFault::Conflict`], as behind another transaction.
    pub expects_new: bool,
}

/// What the inbox knows of an id that was not fresh.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct InboxRow {
    /// The id.
    pub id: [u8; 16],
    /// The fingerprint it was claimed with.
    pub fingerprint: [u8; 16],
    /// Whether that is of SHA-256, as all are that a claim writes; those of older builds are of XXH3.
    pub sha256: bool,
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
    pub known: Vec<InboxRow>,
    /// How many of the lanes are still at (epoch, prev).
    pub lanes_mine: u64,
}

/// One event to park.
#[derive(Clone, Debug)]
pub struct Parking {
    /// Its lane.
    pub lane: inbox_engine::internal::Lane,
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
    /// Why. `Follower` is stored with no due time.
    pub reason: ParkReason,
    /// How often a handler failed on it.
    pub attempts: u32,
    /// When it is released by itself, counted from now by the database's clock; `None`: it waits for a
    /// person.
    pub delay: Option<Duration>,
    /// Its type, for people; empty when the record could not be read.
    pub event_type: String,
    /// Its aggregate as `type/id`, for people.
    pub aggregate_text: String,
    /// Its errors, as JSON text.
    pub errors: String,
    /// What is kept of it, as JSON text, in which [`record`](crate::record_text::record) finds the record.
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
    /// Claims the ids and looks at held aggregates and lanes, in one statement. An id that another
    /// transaction has claimed is waited for; once that one has committed, the id is not fresh, or the claim
    /// fails with a fault of [`StoreFault::Conflict`] and the next one will know it.
    fn claim(
        conn: &mut Self::Connection,
        scope: &Scope,
        request: &ClaimRequest,
    ) -> impl Future<Output = Result<ClaimResult, sqlx::Error>> + Send;
    /// The second look: only when some ids were neither fresh nor known.
    fn recheck(
        conn: &mut Self::Connection,
        scope: &Scope,
        ids: &[[u8; 16]],
        lanes: &[LaneMove],
    ) -> impl Future<Output = Result<Recheck, sqlx::Error>> + Send;
    /// Moves the lanes, if no more rows of `inbox_events` than `changed` were changed by now; answers how many
    /// lanes moved. Anything but one row per lane: roll back.
    fn advance(
        conn: &mut Self::Connection,
        scope: &Scope,
        tx: &str,
        lanes: &[LaneMove],
        changed: Option<i64>,
    ) -> impl Future<Output = Result<u64, sqlx::Error>> + Send;
    /// What [`ClaimResult::changed`] is now. For telling a fence from a handler that changed the inbox.
    fn changed(
        conn: &mut Self::Connection,
    ) -> impl Future<Output = Result<Option<i64>, sqlx::Error>> + Send;
    /// Whether `conn` is in a transaction, and it is the one that `tx` names. For telling a fence
    /// from a handler that ended the transaction.
    fn same_transaction(
        conn: &mut Self::Connection,
        tx: &str,
    ) -> impl Future<Output = Result<bool, sqlx::Error>> + Send;
    /// A partition by its name, `topic/number`, for people.
    fn place_of(
        conn: &mut Self::Connection,
        partition_ref: i64,
    ) -> impl Future<Output = Result<Option<String>, sqlx::Error>> + Send;
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
    #[doc(hidden)]
    fn savepoint(
        conn: &mut Self::Connection,
        depth: u32,
    ) -> impl Future<Output = Result<(), sqlx::Error>> + Send;
    /// Makes deferred constraints immediate, so that a violation names its event.
    #[doc(hidden)]
    fn constraints_immediate(
        conn: &mut Self::Connection,
    ) -> impl Future<Output = Result<(), sqlx::Error>> + Send;
    /// RELEASE SAVEPOINT. Fails when the handler ended or rolled back past it.
    #[doc(hidden)]
    fn release(
        conn: &mut Self::Connection,
        depth: u32,
    ) -> impl Future<Output = Result<(), sqlx::Error>> + Send;
    /// ROLLBACK TO SAVEPOINT, and releases it.
    #[doc(hidden)]
    fn rollback_to(
        conn: &mut Self::Connection,
        depth: u32,
    ) -> impl Future<Output = Result<(), sqlx::Error>> + Send;
}

/// Connections and what their errors mean.
pub trait Sessions: super::Queues {
    /// What a connection needs: made once from the configuration, cheap to clone.
    #[doc(hidden)]
    type Settings: Clone + Send + Sync + std::fmt::Debug + 'static;
    /// At most this many transactions may be open at once, whatever the configuration says.
    #[doc(hidden)]
    const WRITERS_MAX: usize;
    /// Whether it is a server, which ends statements at their limits itself and can be out of reach.
    #[doc(hidden)]
    const SERVER: bool;
    /// Reads an address.
    #[doc(hidden)]
    fn settings(address: &Address<'_>) -> Result<Self::Settings, OpenError>;
    /// Opens a session: read-only by default, `application_name` set, refused on a replica.
    #[doc(hidden)]
    fn open(
        settings: &Self::Settings,
    ) -> impl Future<Output = Result<Self::Connection, OpenError>> + Send;
    /// Takes back what a handler may have left on the session: within the transaction at its end, or outside of
    /// any. False, or an error: the session has to be closed instead.
    #[doc(hidden)]
    fn reset(
        conn: &mut Self::Connection,
        settings: &Self::Settings,
        inside: bool,
    ) -> impl Future<Output = Result<bool, sqlx::Error>> + Send;
    /// Shows that the database works: begins a transaction that writes, and commits it.
    #[doc(hidden)]
    fn work(
        conn: &mut Self::Connection,
        limits: &TxLimits,
    ) -> impl Future<Output = Result<(), sqlx::Error>> + Send;
    /// Closes the socket without a word, so that no queued ROLLBACK is waited for.
    #[doc(hidden)]
    fn close_hard(conn: Self::Connection) -> impl Future<Output = ()> + Send;
    /// Has the session's statements planned anew, where a plan is kept that was made for a table's size
    /// of then: one that reads all of a few rows does so however many there are now.
    #[doc(hidden)]
    fn replan(conn: &mut Self::Connection) -> impl Future<Output = Result<(), sqlx::Error>> + Send;
    /// Whether the session is inside a transaction, as the driver knows it (no round trip).
    #[doc(hidden)]
    fn in_transaction(conn: &Self::Connection) -> bool;
    /// Whether the server itself says by this error that a COMMIT has not taken place, on a session that
    /// goes on: then the outcome is known, whatever kind of error it is.
    #[doc(hidden)]
    fn refused(error: &sqlx::Error) -> bool;
    /// What an error means.
    #[doc(hidden)]
    fn fault(error: &sqlx::Error) -> StoreFault;
    /// Whether statements on this session may have names, which it keeps: not behind a pooler.
    #[doc(hidden)]
    fn names_statements(conn: &Self::Connection) -> bool;
    /// An error for people, with what to do where it has a cause that is known.
    #[doc(hidden)]
    fn explain(error: &sqlx::Error) -> String;
    /// Whom the database knows its sessions as.
    #[doc(hidden)]
    fn role(settings: &Self::Settings) -> Option<&str>;
    /// Whether sessions can be prepared for texts that are queued ([`Queues::learn`]).
    ///
    /// [`Queues::learn`]: super::Queues::learn
    #[doc(hidden)]
    fn prepares(settings: &Self::Settings) -> bool;
    /// A verb that handlers may not run on this database beyond the common ones (DDL on MySQL).
    #[doc(hidden)]
    fn refuses(verb: &str) -> bool;
}

/// Where a database is, and how to speak to it.
#[derive(Clone, Copy)]
pub struct Address<'a> {
    /// The URL, with its secrets.
    pub url: &'a str,
    /// How the way to another machine is protected.
    pub tls: Option<DatabaseTls>,
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
    /// The session broke, or is not understood any more: an outage, unless another session works.
    Broken,
    /// Server not there, disk full, read-only server: pause and try again.
    Outage,
    /// Deadlock, serialization failure, statement time-out: again at once, smaller.
    Conflict,
    /// Another session holds what it needs, longer than a lock is waited for: a conflict that the same may meet for
    /// as long as that session likes.
    Locked,
    /// The session has prepared a statement for a table that has other columns by now: again at once, on
    /// another session.
    Stale,
    /// The database takes this from nobody at the moment (PostgreSQL: `NOTIFY`'s queue is full): pause, and
    /// count it for no event.
    Saturated,
    /// The statement itself is at fault: the handler's failure.
    Statement,
    /// The handler's doing: it ended the transaction (25006 on a database that is not in recovery,
    /// no active transaction, no such savepoint).
    TransactionEnded,
}
