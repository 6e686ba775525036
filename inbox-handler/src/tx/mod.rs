//! The handler's transaction: every sqlx call works on it, and it remembers what went wrong.
//!
//! One story: its files know each other.

mod append;
mod executor;
mod guard;
mod ids;
mod queue;
mod savepoint;
mod statement;

#[cfg(all(test, feature = "sqlite"))]
mod append_tests;
#[cfg(all(test, feature = "sqlite"))]
mod sqlite_tests;

use std::{fmt, sync::Arc};

use inbox_store::internal::port::{RegistrySnapshot, StatementRegistry};
use outbox_core::Outbox;
use sqlx::Database;

use guard::Guard;
pub(crate) use guard::StatementFault;
use ids::Ids;
use queue::Queue;
pub use savepoint::SavepointTx;
pub use statement::{Statement, statement};

use crate::{Delivery, calls::OpenRun, run_event::RunEvent};

/// The transaction that a handler writes its effects through. The consumer began it, claimed the
/// event in it, and commits it when the handler has answered `Ok`.
///
/// `&mut Tx` is an sqlx [`Executor`](sqlx::Executor): give `&mut *tx` to any query.
///
/// # What the guard does
///
/// - A statement that **failed** makes the whole transaction roll back, whatever the handler
///   answers: an error that is swallowed is an effect that is missing. Parts that may fail belong
///   into a [`savepoint`](Self::savepoint).
/// - So does a statement that was **dropped half-way**: by a time-out around it, a `select!`, or a
///   stream that was not read to its end. Its outcome is not known.
/// - After either, further statements are refused with the first error in the message.
/// - Statements that would end, nest or weaken the transaction (`BEGIN`, `COMMIT`, `ROLLBACK`,
///   `SAVEPOINT`, `SET TRANSACTION`, `SET synchronous_commit` and the like) are refused, behind
///   comments and in texts of several statements, too. So are `SET search_path` and `SET ROLE`: the
///   consumer's own last statement runs in the same transaction; qualify names instead. What is
///   hidden in a `DO` block or in a procedure is found at the end of the transaction, which is then
///   rolled back.
/// - Statements whose work stays on the connection (`SET` without `LOCAL`, `LISTEN`, `PREPARE`, a cursor
///   `WITH HOLD` and the like) are refused, as later events have it, too. What stays all the same
///   (`set_config(…, false)`, `pg_advisory_lock`, a temporary table, anything through
///   [`unguarded`](Self::unguarded)) is taken back when the transaction is over.
/// - Statements that change the tables of the inbox are refused; what does so out of sight fails the event.
///
/// # One round trip for many statements
///
/// Each statement that is awaited costs a round trip. What a handler does not need the answer of it
/// can [`queue`](Self::queue): queued statements of a run travel together.
///
/// Errors of the database that no handler can help (the connection is lost, a deadlock, a
/// serialization failure) are remembered as such and outrank what the handler answers: they spend
/// none of the event's attempts.
///
/// ```
/// # #[cfg(feature = "postgres")] mod example {
/// use inbox_consumer::{HandlerResult, Tx};
/// use sqlx::Postgres;
///
/// async fn credit(account: i64, amount: i64, tx: &mut Tx<'_, Postgres>) -> HandlerResult {
///     sqlx::query("UPDATE accounts SET balance = balance + $1 WHERE id = $2")
///         .bind(amount)
///         .bind(account)
///         .execute(&mut *tx)
///         .await?;
///     let balance: i64 = sqlx::query_scalar("SELECT balance FROM accounts WHERE id = $1")
///         .bind(account)
///         .fetch_one(&mut *tx)
///         .await?;
///     assert!(balance >= amount);
///     Ok(())
/// }
/// # }
/// ```
pub struct Tx<'t, DB: Database> {
    connection: &'t mut DB::Connection,
    guard: Guard,
    outbox: Outbox,
    /// What appended events follow from.
    handled: Option<Arc<Delivery>>,
    ids: Ids<'t>,
    run: Option<&'t OpenRun<'t>>,
    queue: Queue<DB>,
}

impl<DB: Database> fmt::Debug for Tx<'_, DB> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tx").field("guard", &self.guard).finish_non_exhaustive()
    }
}

impl<'t, DB: Database> Tx<'t, DB> {
    /// `connection` is inside the transaction, in which earlier calls of handlers have left
    /// `savepoints_taken`.
    #[doc(hidden)]
    pub fn new(connection: &'t mut DB::Connection, savepoints_taken: u32) -> Self {
        let guard = Guard::new(savepoints_taken);
        let queue = Queue::default();
        let (outbox, ids) = (Outbox::default(), Ids::default());
        Self { connection, guard, outbox, handled: None, ids, run: None, queue }
    }

    /// How events are appended.
    #[doc(hidden)]
    #[must_use]
    pub fn with_outbox(mut self, outbox: Outbox) -> Self {
        self.outbox = outbox;
        self
    }

    /// What the ids of appended events follow from: the consumer, and the run that it handles.
    #[doc(hidden)]
    #[must_use]
    pub fn with_origin(mut self, consumer: &'t str, run: &'t [RunEvent<'t>]) -> Self {
        self.ids = Ids::new(consumer, run);
        self
    }

    /// What tells those who watch which call is under way.
    #[doc(hidden)]
    #[must_use]
    pub fn with_run(mut self, run: &'t OpenRun<'t>) -> Self {
        self.run = Some(run);
        self
    }

    /// What is known of texts that are queued, the session's own part of it, and how many round trips of
    /// the transaction could have named a statement.
    #[doc(hidden)]
    #[must_use]
    pub fn with_registry(
        mut self,
        registry: &Arc<StatementRegistry>,
        snapshot: Option<&Arc<RegistrySnapshot>>,
        named_round_trips: u32,
    ) -> Self {
        self.queue.set_registry(registry, snapshot, named_round_trips);
        self
    }

    /// How many round trips of the transaction could have named a statement by now.
    #[doc(hidden)]
    pub fn named_round_trips(&self) -> u32 {
        self.queue.named_round_trips()
    }

    /// The handler is called for a run, which begins with this event.
    pub(crate) fn begin_run(&self, first: &Arc<Delivery>) {
        if let Some(run) = self.run {
            run.call(first);
        }
    }

    /// The handler has come back, or was dropped.
    pub(crate) fn end_call(&self) {
        if let Some(run) = self.run {
            run.end_call();
        }
    }

    /// The event whose handler runs next, and its place in the run.
    pub(crate) fn begin_event(&mut self, at: usize, delivery: &Arc<Delivery>) {
        self.begin_run(delivery);
        self.handled = Some(Arc::clone(delivery));
        self.ids.begin(at);
        self.queue.at = Some(at);
    }

    /// How many savepoints handlers have taken and not rolled back.
    #[doc(hidden)]
    pub fn savepoints_taken(&self) -> u32 {
        self.guard.taken
    }

    /// The first thing that went wrong; a statement that was dropped half-way counts.
    pub(crate) fn first_fault(&self) -> Option<StatementFault> {
        self.guard.first_fault()
    }

    /// A statement was begun and its end was not seen: the session is busy with it still, so it is
    /// closed hard rather than rolled back.
    pub(crate) fn running(&self) -> bool {
        self.guard.running()
    }

    /// A text of the handler without the values that its statements failed with.
    pub(crate) fn unquoted(&self, text: String) -> String {
        self.guard.unquoted(text)
    }

    #[doc(hidden)]
    pub fn unguarded_used(&self) -> bool {
        self.guard.unguarded_used
    }

    /// Something may stay on the session when the transaction is over.
    #[doc(hidden)]
    pub fn stays(&self) -> bool {
        self.guard.stays || self.guard.unguarded_used
    }
}
