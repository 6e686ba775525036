//! The outbox table: events appended in the caller's own transaction. One folder for each database, the
//! same files and functions in both.

#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "sqlite")]
mod sqlite;

mod appended;
pub mod migration;
pub mod objects;
pub mod rights;
mod said;
mod values;

#[cfg(feature = "sqlite")]
pub mod private;

pub use appended::Appended;
#[cfg(feature = "postgres")]
pub use postgres::keeps_statements;
pub use said::{for_role, quotable, said, unquoted};
pub use values::show_values;

use std::{future::Future, slice};

use sqlx::{Connection, Database};

use crate::{Aggregate, EVENT_BYTES_MAX, OutboxEvent, Text};

/// The table of the versions that are applied.
const VERSIONS_TABLE: &str = "outbox_schema_versions";

/// The channel of PostgreSQL on which relays are told that there is something to ship. The payload is the
/// table's oid, so that relays of other outboxes in the same database sleep on.
#[cfg(feature = "postgres")]
pub const NOTIFY_CHANNEL: &str = "outbox_events";

/// Appends one event on a connection, in the transaction that is open on it: for a transaction of sqlx
/// write `&mut *tx`. Without an open transaction the event is committed at once. The answer matters to events
/// with a dedup key ([`OutboxEvent::with_dedup_key`]): it says whether the event is new.
///
/// The same as `Outbox::default().append(…)`.
///
/// # Errors
///
/// See [`AppendError`].
pub async fn append<C: OutboxConnection>(
    conn: &mut C,
    event: &OutboxEvent,
) -> Result<Appended, AppendError> {
    Outbox::default().append(conn, event).await
}

/// Appends events in their order, in one statement, however many they are. None at all is no statement. The
/// answer says which were left out, since their dedup key was there already.
///
/// Two transactions that append one key at the same time wait for each other: the second one knows only then
/// whether its event is new. On PostgreSQL it meets an error of serialization (40001) where its isolation is
/// above READ COMMITTED, as two updates of one row do.
///
/// The same as `Outbox::default().append_all(…)`.
///
/// # Errors
///
/// See [`AppendError`]: then none of them is appended.
pub async fn append_all<C: OutboxConnection>(
    conn: &mut C,
    events: &[OutboxEvent],
) -> Result<Appended, AppendError> {
    Outbox::default().append_all(conn, events).await
}

/// How events are appended.
///
/// ```
/// # #[cfg(feature = "sqlite")]
/// # async fn example(
/// #     conn: &mut sqlx::SqliteConnection,
/// #     event: outbox_core::OutboxEvent,
/// # ) -> Result<(), outbox_core::AppendError> {
/// use outbox_core::Outbox;
///
/// let outbox = Outbox::default().bytes_max(64 << 10);
/// outbox.append(conn, &event).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Outbox {
    bytes_max: usize,
    notify: bool,
    prepared: bool,
}

impl Default for Outbox {
    /// [`EVENT_BYTES_MAX`], relays are woken, and the statement is prepared.
    fn default() -> Self {
        Self { bytes_max: EVENT_BYTES_MAX, notify: true, prepared: true }
    }
}

impl Outbox {
    /// The largest event that is appended, compared with [`OutboxEvent::size`]. Raise it only together
    /// with the broker's `message.max.bytes` and with what the consumers take.
    #[must_use]
    pub fn bytes_max(mut self, bytes: usize) -> Self {
        self.bytes_max = bytes;
        self
    }

    /// Whether a relay is woken at COMMIT (PostgreSQL: `NOTIFY`, at most one for each transaction).
    /// Otherwise it finds the events when it looks the next time.
    ///
    /// PostgreSQL lets only one transaction with a notification commit at a time, so that with thousands
    /// of commits a second it is better switched off. Where the trigger of
    /// [`set_notify_trigger`] is there, it wakes relays whatever this says; together they still are one notification.
    #[must_use]
    pub fn notify(mut self, notify: bool) -> Self {
        self.notify = notify;
        self
    }

    /// Whether the session keeps the statement under a name (PostgreSQL). Switch it off behind a pooler
    /// that hands out connections by transactions (PgBouncer): names of many clients meet there.
    #[must_use]
    pub fn prepared(mut self, prepared: bool) -> Self {
        self.prepared = prepared;
        self
    }

    /// See [`append`](append()).
    ///
    /// # Errors
    ///
    /// See [`AppendError`].
    pub async fn append<C: OutboxConnection>(
        &self,
        conn: &mut C,
        event: &OutboxEvent,
    ) -> Result<Appended, AppendError> {
        self.append_all(conn, slice::from_ref(event)).await
    }

    /// See [`append_all`](append_all()).
    ///
    /// # Errors
    ///
    /// See [`AppendError`].
    pub async fn append_all<C: OutboxConnection>(
        &self,
        conn: &mut C,
        events: &[OutboxEvent],
    ) -> Result<Appended, AppendError> {
        self.check(events)?;
        if events.is_empty() {
            return Ok(Appended::default());
        }
        Ok(C::Database::append_rows(conn, self, events).await?)
    }

    /// Refuses events that are too large, before anything is sent.
    ///
    /// # Errors
    ///
    /// [`AppendError::TooLarge`] with the first of them.
    #[doc(hidden)]
    pub fn check(&self, events: &[OutboxEvent]) -> Result<(), AppendError> {
        let sizes = events.iter().map(|event| (event, event.size()));
        let Some((event, bytes)) = sizes.into_iter().find(|(_, bytes)| *bytes > self.bytes_max)
        else {
            return Ok(());
        };
        Err(AppendError::TooLarge {
            event_type: event.envelope().event_type.clone(),
            aggregate: event.envelope().aggregate.clone(),
            bytes,
            max: self.bytes_max,
        })
    }

    /// The limit as the table has it.
    fn bytes_max_column(&self) -> i32 {
        i32::try_from(self.bytes_max).unwrap_or(i32::MAX)
    }
}

/// Why an event was not appended.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AppendError {
    /// The event is too large.
    #[error(
        "the event {event_type} of {aggregate} is {bytes} bytes as a record, more than the \
         allowed {max}; store large content elsewhere and refer to it, or raise the limit of the \
         outbox together with the broker's"
    )]
    TooLarge {
        /// Its type.
        event_type: Text,
        /// Its aggregate.
        aggregate: Aggregate,
        /// What it takes: [`OutboxEvent::size`].
        bytes: usize,
        /// The limit.
        max: usize,
    },
    /// The tables are not there.
    #[error(
        "the search path of this connection contains no outbox table; create it with \
         `outbox_core::migrate` or with the output of `outbox_core::print` ({0})"
    )]
    NoTable(#[source] sqlx::Error),
    /// The database says no.
    #[error("the outbox refused the events: {}", said(.0))]
    Database(#[source] sqlx::Error),
}

impl From<sqlx::Error> for AppendError {
    fn from(error: sqlx::Error) -> Self {
        // PostgreSQL has a code for it, whatever language its messages are in, and SQLite a text alone.
        let missing = |said: &dyn sqlx::error::DatabaseError| {
            let missing = match said.code().as_deref() {
                Some("42P01") => true,
                _ => said.message().contains("no such table"),
            };
            missing && said.message().contains("outbox_events")
        };
        match error.as_database_error() {
            Some(said) if missing(said) => Self::NoTable(error),
            _ => Self::Database(error),
        }
    }
}

/// Brings the outbox tables up to date, in one transaction, under a lock; answers the versions that were
/// applied. They are made where a `CREATE TABLE` without a schema makes tables.
///
/// # Errors
///
/// The database's; then nothing of it is left.
pub async fn migrate<C: OutboxConnection>(conn: &mut C) -> Result<Vec<i64>, sqlx::Error> {
    C::Database::migrate_outbox(conn).await
}

/// The version of the outbox tables, `None` without them.
///
/// # Errors
///
/// The database's.
pub async fn schema_version<C: OutboxConnection>(conn: &mut C) -> Result<Option<i64>, sqlx::Error> {
    C::Database::outbox_version(conn).await
}

/// The newest version of the outbox tables that this build knows.
pub fn schema_newest<DB: OutboxDatabase>() -> i64 {
    DB::outbox_newest()
}

/// The statements of all migrations, for teams with a tool of their own.
///
/// ```
/// # #[cfg(feature = "postgres")]
/// assert!(outbox_core::print::<sqlx::Postgres>().contains("CREATE TABLE outbox_events"));
/// ```
pub fn print<DB: OutboxDatabase>() -> String {
    DB::print_outbox()
}

/// PostgreSQL: makes the trigger that wakes relays at each INSERT, or removes it; SQLite has nobody to notify. Of use
/// where others than [`append`](append()) insert: what they commit does not wait for a relay's next look then,
/// though they know nothing of relays. Both are done at most once: a transaction sends one notification,
/// however many statements insert, and together with that of [`append`](append()).
///
/// The first time it waits for open transactions that insert, and others wait behind it. It costs each
/// statement that inserts some microseconds, and what [`Outbox::notify`] says of commits.
///
/// # Errors
///
/// The database's; the role has to be the table's owner.
pub async fn set_notify_trigger<C: OutboxConnection>(
    conn: &mut C,
    is_there: bool,
) -> Result<(), sqlx::Error> {
    C::Database::set_trigger(conn, is_there).await
}

/// The statements of [`set_notify_trigger`], for teams with a tool of their own; `None` where there is nobody to
/// notify.
pub fn print_notify_trigger<DB: OutboxDatabase>(is_there: bool) -> Option<&'static str> {
    DB::print_trigger(is_there)
}

/// A connection to a database that has an outbox: `PgConnection`, `SqliteConnection`.
#[diagnostic::on_unimplemented(
    message = "events cannot be appended on a `{Self}`",
    label = "not a connection to a database with an outbox",
    note = "for a transaction of sqlx write `&mut *tx`, for a pooled connection `&mut *conn`; and enable \
            the feature `postgres` or `sqlite` of outbox-core"
)]
pub trait OutboxConnection: Connection<Database: OutboxDatabase<Connection = Self>> {}

impl<C> OutboxConnection for C
where
    C: Connection,
    C::Database: OutboxDatabase<Connection = C>,
{
}

/// A database that can have an outbox. Implemented for `sqlx::Postgres` and `sqlx::Sqlite`.
pub trait OutboxDatabase: Database {
    /// Writes the rows in one statement, whatever their size. Not for an empty slice.
    #[doc(hidden)]
    fn append_rows(
        conn: &mut Self::Connection,
        outbox: &Outbox,
        events: &[OutboxEvent],
    ) -> impl Future<Output = Result<Appended, sqlx::Error>> + Send;
    /// See [`migrate`].
    #[doc(hidden)]
    fn migrate_outbox(
        conn: &mut Self::Connection,
    ) -> impl Future<Output = Result<Vec<i64>, sqlx::Error>> + Send;
    /// See [`schema_version`].
    #[doc(hidden)]
    fn outbox_version(
        conn: &mut Self::Connection,
    ) -> impl Future<Output = Result<Option<i64>, sqlx::Error>> + Send;
    /// See [`schema_newest`].
    #[doc(hidden)]
    fn outbox_newest() -> i64;
    /// See [`crate::print`].
    #[doc(hidden)]
    fn print_outbox() -> String;
    /// See [`set_notify_trigger`].
    #[doc(hidden)]
    fn set_trigger(
        conn: &mut Self::Connection,
        is_there: bool,
    ) -> impl Future<Output = Result<(), sqlx::Error>> + Send;
    /// See [`print_notify_trigger`].
    #[doc(hidden)]
    fn print_trigger(is_there: bool) -> Option<&'static str>;
}
