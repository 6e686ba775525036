//! Statements that handlers queue instead of awaiting them.

use std::{fmt, sync::Arc};

use inbox_engine::internal::Rule;
use inbox_store::internal::port::{
    QueuedStatement, RegistrySnapshot, SendContext, SendError, Sessions, StatementRegistry,
    StoreFault,
};
use sqlx::{Database, Error};

use super::{Statement, Tx};

/// Whose failure a failed sending is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct FailedSend {
    /// The event's place in the run; `None`: nobody knows.
    pub(crate) at: Option<usize>,
}

/// Statements that wait.
pub(super) struct Queue<DB: Database> {
    waiting: Vec<QueuedStatement<DB>>,
    bytes: usize,
    /// The event that is handled, if they are handled one by one.
    pub(super) at: Option<usize>,
    registry: Option<Arc<StatementRegistry>>,
    snapshot: Option<Arc<RegistrySnapshot>>,
    /// How many round trips of the transaction could have named the statement that fails.
    named_round_trips: u32,
    /// The sending that is under way, or that failed, is whose.
    failed_send: Option<FailedSend>,
}

impl<DB: Database> Default for Queue<DB> {
    fn default() -> Self {
        Self {
            waiting: Vec::new(),
            bytes: 0,
            at: None,
            registry: None,
            snapshot: None,
            named_round_trips: 0,
            failed_send: None,
        }
    }
}

impl<DB: Database> fmt::Debug for Queue<DB> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Queue").field("waiting", &self.waiting.len()).finish_non_exhaustive()
    }
}

impl<DB: Database> Queue<DB> {
    pub(super) fn set_registry(
        &mut self,
        registry: &Arc<StatementRegistry>,
        snapshot: Option<&Arc<RegistrySnapshot>>,
        named_round_trips: u32,
    ) {
        (self.registry, self.snapshot) = (Some(Arc::clone(registry)), snapshot.cloned());
        self.named_round_trips = named_round_trips;
    }

    pub(super) fn named_round_trips(&self) -> u32 {
        self.named_round_trips
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Everything since a savepoint is undone, what was not sent included.
    pub(super) fn forget(&mut self) {
        self.waiting.clear();
        (self.bytes, self.failed_send) = (0, None);
    }

    fn take(&mut self) -> Vec<QueuedStatement<DB>> {
        self.bytes = 0;
        let waiting = std::mem::take(&mut self.waiting);
        if Rule::QueueKeepsOrder.on() {
            return waiting;
        }
        let mut merged = waiting;
        merged.sort_by(|a, b| a.sql.as_str().cmp(b.sql.as_str()));
        merged
    }
}

impl<DB: Database> Tx<'_, DB> {
    /// The most statements of one event that may wait: beyond, [`flush`](Self::flush) in between.
    pub const QUEUED_MAX: usize = 50_000;
    /// The most bytes of values of one event that may wait.
    pub const QUEUED_BYTES_MAX: usize = 16 << 20;

    /// What waits is sent after the handler that is running, at the latest, from here on.
    const SENT_FROM: usize = 1_000;
    const SENT_FROM_BYTES: usize = 1 << 20;

    /// Queues a statement instead of awaiting it: it is sent with those that other events of the run
    /// queue, in one round trip, exactly in the order in which they were queued. Ten statements
    /// cost as much waiting as one, five hundred not much more.
    ///
    /// ```
    /// # #[cfg(feature = "postgres")] mod example {
    /// use inbox_consumer::{Event, Handler, HandlerResult, Tx, statement};
    /// use sqlx::Postgres;
    ///
    /// struct CreditAccount;
    ///
    /// impl Handler<Postgres> for CreditAccount {
    ///     type Event = i64;
    ///
    ///     async fn handle(&self, event: &Event<i64>, tx: &mut Tx<'_, Postgres>) -> HandlerResult {
    ///         tx.queue(
    ///             statement("UPDATE accounts SET balance = balance + $1 WHERE id = $2")
    ///                 .bind(event.payload)
    ///                 .bind(event.aggregate().aggregate_id()),
    ///         )?;
    ///         Ok(())
    ///     }
    /// }
    /// # }
    /// ```
    ///
    /// - Whatever is awaited on the transaction (a statement, [`append`](Self::append),
    ///   [`savepoint`](Self::savepoint), [`unguarded`](Self::unguarded)) sends what is queued first:
    ///   a read sees it. The rest is sent when the run's handlers have answered. Nothing queued is
    ///   lost but by a rollback.
    /// - A statement that fails is the failure of the event that queued it, although its handler has
    ///   answered `Ok` by then. So what may fail belongs into a savepoint, or is awaited.
    /// - How many rows it changed, and what it returns, nobody learns.
    ///
    /// On PostgreSQL `INSERT`, `UPDATE`, `DELETE` and `MERGE` without `RETURNING` travel together,
    /// with values of the types `bool`, `int2`, `int4`, `int8`, `float4`, `float8`, `numeric`, `text`,
    /// `bytea`, `uuid`, `jsonb`, `date`, `time`, `timestamp`, `timestamptz` and `interval`, from the second
    /// transaction on that a session has for them; at most 64 different texts of a consumer do.
    /// Everything else is sent in its turn by itself, as if awaited: other types, the careful run of
    /// events of which one has failed, behind a pooler (`statement_cache = 0`), without the right to
    /// temporary functions (`TEMPORARY`), and always on SQLite, where no round trip is to be saved.
    ///
    /// # Errors
    ///
    /// As for a statement that is awaited, what is known at once: a value cannot be encoded, a verb is
    /// refused, an earlier statement has failed, or too much waits ([`QUEUED_MAX`](Self::QUEUED_MAX),
    /// [`QUEUED_BYTES_MAX`](Self::QUEUED_BYTES_MAX)). The transaction can then only be rolled back.
    pub fn queue(&mut self, statement: Statement<DB>) -> Result<(), Error>
    where
        DB: Sessions,
    {
        self.guard.admit::<DB>(statement.sql.as_str())?;
        let Statement { sql, values, bytes, error } = statement;
        if let Some(error) = error {
            let text = format!("a value of a queued statement cannot be encoded: {error}");
            return Err(self.guard.refuse(StoreFault::Statement, text));
        }
        let queue = &mut self.queue;
        queue.bytes += bytes + sql.as_str().len();
        if queue.waiting.len() >= Self::QUEUED_MAX || queue.bytes > Self::QUEUED_BYTES_MAX {
            let text = format!(
                "a handler has queued more than {} statements or {} bytes; call tx.flush() in \
                 between",
                Self::QUEUED_MAX,
                Self::QUEUED_BYTES_MAX
            );
            return Err(self.guard.refuse(StoreFault::Statement, text));
        }
        queue.waiting.push(QueuedStatement { sql, values, at: queue.at });
        Ok(())
    }

    /// Sends what is queued now: for a handler that queues very much, or wants to know that it
    /// succeeded.
    ///
    /// # Errors
    ///
    /// The database's. What failed may have been queued by an earlier event of the run, and is then
    /// that event's failure.
    pub async fn flush(&mut self) -> Result<(), Error>
    where
        DB: Sessions,
    {
        if self.queue.is_empty() {
            return Ok(());
        }
        self.guard.usable()?;
        let waiting = self.queue.take();
        let whose: Vec<Option<usize>> = waiting.iter().map(|statement| statement.at).collect();
        // Nobody's while it lasts: the call of a handler may be dropped in the middle.
        self.queue.failed_send = Some(FailedSend { at: None });
        self.guard.begin();
        let Queue { registry, snapshot, named_round_trips, .. } = &mut self.queue;
        let context = SendContext {
            registry: registry.as_deref(),
            snapshot: snapshot.as_deref(),
            named: named_round_trips,
        };
        let sent = DB::send(self.connection, context, waiting).await;
        let Err(SendError { at, error }) = sent else {
            self.guard.end();
            self.queue.failed_send = None;
            return Ok(());
        };
        self.guard.fail::<DB>(&error);
        let known = at.and_then(|at| whose.get(at).copied().flatten());
        self.queue.failed_send = Some(FailedSend { at: known.or_else(|| only(&whose)) });
        Err(error)
    }

    /// Before anything that is awaited.
    pub(super) async fn send_queued_first(&mut self) -> Result<(), Error>
    where
        DB: Sessions,
    {
        if self.queue.is_empty() || !Rule::QueueSentBeforeAwait.on() {
            return Ok(());
        }
        self.flush().await
    }

    /// Whether so much waits that it is sent before the next handler is called.
    pub(crate) fn much_queued(&self) -> bool {
        self.queue.waiting.len() >= Self::SENT_FROM || self.queue.bytes >= Self::SENT_FROM_BYTES
    }

    /// Whose failure it is that queued statements could not be sent, or were not to their end.
    pub(crate) fn queue_failure(&self) -> Option<FailedSend> {
        let failed_send = self.queue.failed_send?;
        if Rule::QueueBlamesItsEvent.on() {
            Some(failed_send)
        } else {
            Some(FailedSend { at: self.queue.at })
        }
    }

    /// Lends the connection itself, for libraries that insist on one (`COPY`, query builders). What is
    /// queued is sent before.
    ///
    /// The guard does not see what happens on it: an error that is swallowed there and a
    /// transaction that is ended there are found only at the end of the transaction, and cost its
    /// other events a repetition. On SQLite a swallowed error there is not found at all. What may be left on
    /// the session is taken back when the transaction is over: one exchange more (on SQLite a new session).
    /// Behind a pooler
    /// (`statement_cache = 0`) give each query `.persistent(false)`, or its name stays there.
    ///
    /// # Errors
    ///
    /// Of what is queued.
    pub async fn unguarded(&mut self) -> Result<&mut DB::Connection, Error>
    where
        DB: Sessions,
    {
        self.guard.unguarded_used = true;
        self.send_queued_first().await?;
        Ok(self.connection)
    }
}

/// The event that queued all of them, if it was one.
fn only(whose: &[Option<usize>]) -> Option<usize> {
    let first = whose.first().copied().flatten()?;
    whose.iter().all(|at| *at == Some(first)).then_some(first)
}
