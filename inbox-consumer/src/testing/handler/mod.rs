//! Handlers under test, without Kafka: events go through the whole pipeline (reading, engine, claim,
//! handler, parking, advance, COMMIT) on a real database; only the log they come from is in memory.
//!
//! ```
//! # #[cfg(feature = "sqlite")]
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use inbox_consumer::{
//!     Event, Handler, HandlerResult, Routes, Tx,
//!     testing::{Aggregate, HandlerTest, Outcome, OutboxEvent},
//! };
//! use sqlx::Sqlite;
//!
//! /// Credits the account that an order was paid to.
//! struct CreditAccount;
//!
//! impl Handler<Sqlite> for CreditAccount {
//!     type Event = i64;
//!
//!     async fn handle(&self, event: &Event<i64>, tx: &mut Tx<'_, Sqlite>) -> HandlerResult {
//!         sqlx::query("UPDATE accounts SET balance = balance + ?1")
//!             .bind(event.payload)
//!             .execute(&mut *tx)
//!             .await?;
//!         Ok(())
//!     }
//! }
//!
//! let mut bench = HandlerTest::sqlite().await?;
//! bench.execute("CREATE TABLE accounts (balance INTEGER); INSERT INTO accounts VALUES (0)").await?;
//! bench.handle(Routes::default().on("OrderPaid", CreditAccount)).await?;
//!
//! let order = Aggregate::new("Order", "1001")?;
//! let paid = OutboxEvent::new("OrderPaid", &order, &250)?;
//! assert_eq!(bench.delivered_twice(&paid).await?, [Outcome::Applied, Outcome::Duplicate]);
//! assert_eq!(bench.number("SELECT balance FROM accounts").await?, 250);
//!
//! let paid = OutboxEvent::new("OrderPaid", &order, &50)?;
//! assert_eq!(bench.crashed_before_commit(&paid).await?, Outcome::Applied);
//! assert_eq!(bench.number("SELECT balance FROM accounts").await?, 300);
//! # Ok(())
//! # }
//! # #[cfg(not(feature = "sqlite"))]
//! # fn main() {}
//! ```
//!
//! What a handler does outside its transaction is not undone by a crash, and the kit shows it: count the calls of
//! a fake mail server in `crashed_before_commit`, and there are two.

mod log;
mod outcome;
mod place;
#[cfg(all(test, feature = "postgres"))]
mod queue_services;
mod running;

use std::{fmt, time::Duration};

use inbox_conformance::Probe;
use inbox_runtime::internal::Moment;
pub use outbox_core::{Aggregate, EventId, Header, OutboxEvent, Record};
pub use outcome::{Outcome, TestError};

use crate::{Routes, config::Config};
use place::Place;
use running::Running;

/// The drain deadline of a test's partition.
const DRAIN: Duration = Duration::from_secs(30);

/// The type of the event that stands behind others, so that a test knows when they were looked at.
const FENCE: &str = "inbox-test-fence";

/// A handler under test: its database, and a log of events for it.
pub struct HandlerTest<DB: Probe> {
    config: Config,
    place: Place<DB>,
    /// For the test's own statements; keeps a database in memory alive.
    session: DB::Connection,
    running: Option<Running<DB>>,
}

impl<DB: Probe> fmt::Debug for HandlerTest<DB> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HandlerTest")
            .field("settings", &self.place.settings)
            .finish_non_exhaustive()
    }
}

#[cfg(feature = "postgres")]
impl HandlerTest<sqlx::Postgres> {
    /// On a PostgreSQL, in a schema of its own that goes with the test: with [`close`](Self::close), or
    /// when this is dropped. The role has to be allowed to create schemas.
    ///
    /// # Errors
    /// When the server cannot be reached, or refuses.
    pub async fn postgres(url: &str) -> Result<Self, TestError> {
        let schema = format!("handler_test_{}", uuid::Uuid::now_v7().simple());
        let mut config = config(url);
        config.database.schema = Some(schema.clone());
        let mut place = Place::of(&config)?;
        place.remove =
            Some(format!("SET lock_timeout = '15s'; DROP SCHEMA IF EXISTS {schema} CASCADE"));
        Self::at(config, place).await
    }
}

#[cfg(feature = "sqlite")]
impl HandlerTest<sqlx::Sqlite> {
    /// On an SQLite in memory.
    ///
    /// # Errors
    /// When the database cannot be made.
    pub async fn sqlite() -> Result<Self, TestError> {
        let settings =
            inbox_store::internal::SqliteSettings::in_memory().map_err(TestError::new)?;
        Self::at(config("sqlite:memory"), Place { settings, remove: None }).await
    }

    /// On an SQLite file, which stays.
    ///
    /// # Errors
    /// When the file cannot be used.
    pub async fn sqlite_file(path: impl AsRef<std::path::Path>) -> Result<Self, TestError> {
        let config = config(&format!("sqlite:{}", path.as_ref().display()));
        let place = Place::of(&config)?;
        Self::at(config, place).await
    }
}

impl<DB: Probe> HandlerTest<DB> {
    async fn at(config: Config, mut place: Place<DB>) -> Result<Self, TestError> {
        // First, since a database in memory ends with its last session.
        let session = DB::administer(&place.settings).await;
        let session =
            session.map_err(|error| TestError::of("the database cannot be reached", error))?;
        match place.migrate().await {
            Ok(()) => Ok(Self { config, place, session, running: None }),
            Err(error) => place.removed().and(Err(error)),
        }
    }

    /// Changes the configuration of the consumer under test: attempts, rules of events, declared handlers.
    /// Before [`handle`](Self::handle).
    pub fn configure(&mut self, change: impl FnOnce(&mut Config)) {
        change(&mut self.config);
    }

    /// Runs statements of the test, such as those that make the handler's tables. They commit by
    /// themselves.
    ///
    /// # Errors
    /// The database's.
    pub async fn execute(&mut self, sql: &str) -> Result<u64, TestError> {
        let done = DB::run(&mut self.session, sql).await;
        done.map_err(|error| TestError::of("the test's statement failed", error))
    }

    /// The one number that a query of the test yields.
    ///
    /// # Errors
    /// The database's, or there is no row, or no number in it.
    pub async fn number(&mut self, sql: &str) -> Result<i64, TestError> {
        let number = DB::number(&mut self.session, sql).await;
        number.map_err(|error| TestError::of("the test's query failed", error))
    }

    /// The test's own connection, for migrations and any query.
    pub fn connection(&mut self) -> &mut DB::Connection {
        &mut self.session
    }

    /// Starts the consumer with these handlers and those that the configuration declares. Their tables
    /// are there by then.
    ///
    /// # Errors
    /// What keeps a consumer from starting: two handlers for a type, a declared statement that the database
    /// does not take, an unsafe configuration.
    pub async fn handle(&mut self, routes: Routes<DB>) -> Result<(), TestError> {
        if self.running.is_some() {
            return Err(TestError::new(
                "the consumer under test runs already; make another HandlerTest",
            ));
        }
        let (config, settings) = (self.config.clone(), self.place.settings.clone());
        let empty = vec![Vec::new()];
        self.running = Some(Running::start(config, settings, routes.ignore(FENCE), empty).await?);
        Ok(())
    }

    /// Starts the consumer on a backlog of each partition and ends it when all of that is settled: what an event costs is
    /// counted by it.
    #[doc(hidden)]
    pub async fn settle(
        &mut self,
        routes: Routes<DB>,
        backlog: Vec<Vec<Record>>,
    ) -> Result<(), TestError> {
        let (config, settings) = (self.config.clone(), self.place.settings.clone());
        Running::start(config, settings, routes, backlog).await?.read_up().await
    }

    /// Delivers an event.
    ///
    /// # Errors
    /// When the event is not settled in time: the database is out, say.
    pub async fn deliver(&mut self, event: &OutboxEvent) -> Result<Outcome, TestError> {
        self.deliver_record(&event.record()).await
    }

    /// Delivers an event with a payload as it was once written: of an older schema version, or none that is said.
    ///
    /// # Errors
    /// As [`deliver`](Self::deliver), and when it is no event.
    pub async fn deliver_version(
        &mut self,
        event_type: &str,
        aggregate: &Aggregate,
        schema_version: Option<i32>,
        payload: impl Into<bytes::Bytes>,
    ) -> Result<Outcome, TestError> {
        let event = OutboxEvent::encoded(event_type, aggregate, payload.into());
        let event = event.map_err(TestError::new)?;
        let event = match schema_version {
            Some(version) => event.with_schema_version(version),
            None => event,
        };
        self.deliver(&event).await
    }

    /// Delivers a record as a producer of any kind may have written it.
    ///
    /// # Errors
    /// As [`deliver`](Self::deliver).
    pub async fn deliver_record(&mut self, record: &Record) -> Result<Outcome, TestError> {
        let outcomes = self.delivered(vec![record.clone()]).await?;
        one(outcomes)
    }

    /// Delivers events that arrive together, so that they go into one transaction, and those of one type
    /// into one run: for a [`BatchHandler`](crate::BatchHandler).
    ///
    /// # Errors
    /// As [`deliver`](Self::deliver).
    pub async fn run(&mut self, events: &[OutboxEvent]) -> Result<Vec<Outcome>, TestError> {
        self.delivered(events.iter().map(OutboxEvent::record).collect()).await
    }

    /// Delivers an event, and a second copy of it that its producer sent: the second is a duplicate.
    ///
    /// # Errors
    /// As [`deliver`](Self::deliver).
    pub async fn delivered_twice(
        &mut self,
        event: &OutboxEvent,
    ) -> Result<[Outcome; 2], TestError> {
        Ok([self.deliver(event).await?, self.deliver(event).await?])
    }

    /// Delivers an event while the connection is cut right before COMMIT: what the handler wrote is rolled
    /// back, the partition is taken over anew, and Kafka delivers the event again, until it is settled.
    ///
    /// # Errors
    /// As [`deliver`](Self::deliver), and when no transaction came to the moment of the crash.
    pub async fn crashed_before_commit(
        &mut self,
        event: &OutboxEvent,
    ) -> Result<Outcome, TestError> {
        self.crashed(event, Moment::BeforeCommit).await
    }

    /// Delivers an event while the connection is cut right after COMMIT, before the consumer hears of it: the
    /// partition is taken over anew, Kafka delivers the event again, and its effect is there already.
    ///
    /// # Errors
    /// As [`crashed_before_commit`](Self::crashed_before_commit).
    pub async fn crashed_after_commit(
        &mut self,
        event: &OutboxEvent,
    ) -> Result<Outcome, TestError> {
        self.crashed(event, Moment::AfterCommit).await
    }

    async fn crashed(&mut self, event: &OutboxEvent, moment: Moment) -> Result<Outcome, TestError> {
        self.running()?.crash(moment);
        let outcome = self.deliver(event).await?;
        if self.running()?.crash_is_missing().await {
            return Err(TestError::new(format!(
                "no transaction came to the moment of the crash: the event was {outcome:?} without a COMMIT"
            )));
        }
        Ok(outcome)
    }

    /// Delivers an event, removes its inbox row as the retention does when it is over, and lets Kafka
    /// deliver the same record once more, as after a reset of the group's offsets. Kafka's redeliveries are
    /// recognised for ever: the second is a duplicate.
    ///
    /// # Errors
    /// As [`deliver`](Self::deliver).
    pub async fn redelivered_after_retention(
        &mut self,
        event: &OutboxEvent,
    ) -> Result<[Outcome; 2], TestError> {
        let first = self.deliver(event).await?;
        let offset = self.running()?.end() - 1;
        self.forget(Some(offset)).await?;
        self.fence().await?;
        let running = self.running.as_ref().ok_or_else(not_running)?;
        // A row of its own would be there again.
        Ok([first, running.seen(&mut self.session, offset).await?])
    }

    /// Delivers an event, removes its inbox row as the retention does, and delivers a second copy that its
    /// producer sent later than that. It is taken for a new event: the handler runs again, and only what
    /// it does itself (a unique key on the event's id, an upsert) keeps the effect single.
    ///
    /// # Errors
    /// As [`deliver`](Self::deliver).
    pub async fn sent_again_after_retention(
        &mut self,
        event: &OutboxEvent,
    ) -> Result<[Outcome; 2], TestError> {
        let first = self.deliver(event).await?;
        self.forget(None).await?;
        Ok([first, self.deliver(event).await?])
    }

    /// Lets the retention pass: what is settled is pruned. The partition goes and comes back; `from` is
    /// where the group's offset is then.
    async fn forget(&mut self, from: Option<i64>) -> Result<(), TestError> {
        let running = self.running.as_ref().ok_or_else(not_running)?;
        running.revoke().await?;
        running.prune(&mut self.session, &self.place.settings).await?;
        running.assign(from);
        Ok(())
    }

    /// Waits until everything before has been looked at.
    async fn fence(&mut self) -> Result<(), TestError> {
        let aggregate = Aggregate::new("Fence", "fence").map_err(TestError::new)?;
        let fence = OutboxEvent::new(FENCE, &aggregate, &()).map_err(TestError::new)?;
        self.deliver(&fence).await.map(drop)
    }

    async fn delivered(&mut self, records: Vec<Record>) -> Result<Vec<Outcome>, TestError> {
        let running = self.running.as_mut().ok_or_else(not_running)?;
        running.deliver(&mut self.session, records).await
    }

    fn running(&mut self) -> Result<&mut Running<DB>, TestError> {
        self.running.as_mut().ok_or_else(not_running)
    }

    /// Ends the consumer and removes what the test made: the schema on PostgreSQL. Dropping does the same,
    /// without telling when it fails.
    ///
    /// # Errors
    /// When the consumer has panicked, or the schema cannot be dropped.
    pub async fn close(mut self) -> Result<(), TestError> {
        if let Some(running) = self.running.take() {
            running.stop().await?;
        }
        self.place.removed()
    }
}

impl<DB: Probe> Drop for HandlerTest<DB> {
    fn drop(&mut self) {
        if let Some(running) = self.running.take() {
            running.abort();
        }
        // A schema that stays (a dead server, a lock that somebody holds) harms no other test.
        let _ = self.place.removed();
    }
}

fn not_running() -> TestError {
    TestError::new("the consumer under test has no handlers yet: call `handle(routes)` first")
}

fn one(outcomes: Vec<Outcome>) -> Result<Outcome, TestError> {
    outcomes.into_iter().next().ok_or_else(|| TestError::new("nothing was delivered"))
}

/// One lane, so that events are settled in their order, and quick retries without pauses. A transaction has as many events
/// as half a drain has time for, by how long earlier ones took: with a long one, what a test delivers together stays
/// together on a machine that is slow just then.
fn config(url: &str) -> Config {
    let mut config = Config::new("handler-test", "localhost", [log::TOPIC], url);
    config.lanes.count = 1;
    config.retry.delay_min = Duration::from_millis(1);
    config.retry.delay_max = Duration::from_millis(1);
    config.limits.drain_deadline = DRAIN;
    config.limits.close_deadline = DRAIN;
    config.kafka.session_timeout = DRAIN * 3;
    config
}
