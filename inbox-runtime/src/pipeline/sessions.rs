//! The runtime's own connections: a stack of idle ones, opened when needed, closed hard when broken.
//!
//! The runtime is not given a pool that others use too: it sets session defaults, and a connection
//! whose transaction ended badly must never reach anybody else (A5, A6).

use std::{
    ops::{Deref, DerefMut},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use inbox_store::internal::port::{
    OpenError, RegistrySnapshot, StatementRegistry, StoreFault, Transactions, TxLimits,
};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::telemetry::{Signal, meters::Meters};

/// A connection, and what it is prepared for.
pub(crate) struct Session<DB: Transactions> {
    conn: DB::Connection,
    /// The texts of queued statements that it knows.
    pub(super) snapshot: Option<Arc<RegistrySnapshot>>,
    /// Events of its transactions since its statements were planned anew, and when that was.
    pub(super) events: usize,
    planned: Option<Instant>,
    opened: Instant,
    /// A handler may have left something on it.
    pub(super) stays: bool,
    /// Of its transaction, until the session is back.
    pub(super) writer_permit: Option<WriterPermit>,
}

/// The right to one of the transactions that a store can write side by side.
pub(super) type WriterPermit = OwnedSemaphorePermit;

/// After so many events, and not more often than that, a session's statements are planned anew. The
/// database does so by itself once it has counted a table's rows, which a backlog does not wait for; it
/// costs a millisecond or two.
const PLANNED_FOR: usize = 10_000;
const PLANNED_FOR_TIME: Duration = Duration::from_secs(5);
/// After this time they are planned again for any number of events: a plan of when the lanes were one page reads all of
/// them, and under an open snapshot each event makes them longer.
const PLANNED_FOR_MAX: Duration = Duration::from_mins(1);

/// A database that takes longer to show that it works does not.
const WORK_MAX: Duration = Duration::from_secs(2);

impl<DB: Transactions> Deref for Session<DB> {
    type Target = DB::Connection;

    fn deref(&self) -> &DB::Connection {
        &self.conn
    }
}

impl<DB: Transactions> DerefMut for Session<DB> {
    fn deref_mut(&mut self) -> &mut DB::Connection {
        &mut self.conn
    }
}

impl<DB: Transactions> Session<DB> {
    /// Prepares it for the newest texts of `registry`. Outside any transaction, so that no handler's
    /// rollback takes it back. A database that does not allow it is not asked again.
    pub(super) async fn prepare_session(
        &mut self,
        registry: &StatementRegistry,
    ) -> Result<(), sqlx::Error> {
        let Some(snapshot) = registry.newer_snapshot(self.snapshot.as_ref()) else { return Ok(()) };
        match DB::prepare_session(&mut self.conn, &snapshot).await {
            Ok(()) => {
                self.snapshot = Some(snapshot);
                Ok(())
            }
            Err(error) if matches!(DB::fault(&error), StoreFault::Outage | StoreFault::Broken) => {
                Err(error)
            }
            Err(error) => {
                registry.disable();
                Signal::QueueUnprepared { error: DB::explain(&error) }.emit();
                Ok(())
            }
        }
    }

    /// Has its statements planned anew when the tables may have grown out of their plans.
    pub(super) async fn replan(&mut self) -> Result<(), sqlx::Error> {
        let planned = self.planned.map(|at| at.elapsed());
        if !has_old_plans(self.events, planned, self.opened.elapsed()) {
            return Ok(());
        }
        (self.events, self.planned) = (0, Some(Instant::now()));
        DB::replan(&mut self.conn).await
    }

    /// Takes back what a handler may have left on it; false when it has to be closed instead.
    async fn clean(&mut self, settings: &DB::Settings) -> bool {
        let clean = !self.stays || matches!(DB::reset(self, settings, false).await, Ok(true));
        self.stays = !clean;
        clean
    }

    /// The same at the end of its transaction, where it goes on to other clients with COMMIT: behind a pooler.
    pub(super) async fn clean_inside(
        &mut self,
        settings: &DB::Settings,
    ) -> Result<(), sqlx::Error> {
        if self.stays && self.is_shared() {
            DB::reset(self, settings, true).await?;
            self.stays = false;
        }
        Ok(())
    }

    /// Whether other clients have it between its transactions.
    pub(super) fn is_shared(&self) -> bool {
        DB::SERVER && !DB::names_statements(self)
    }

    /// Closes the socket without a word.
    pub(super) async fn close_hard(self) {
        DB::close_hard(self.conn).await;
    }
}

/// Whether a session's plans are old: by its events since they were made, how long ago that was if they were made again,
/// and how long ago it was opened.
fn has_old_plans(events: usize, planned: Option<Duration>, opened: Duration) -> bool {
    match planned {
        Some(planned) if planned < PLANNED_FOR_TIME => false,
        _ if events >= PLANNED_FOR => true,
        _ => events > 0 && planned.unwrap_or(opened) >= PLANNED_FOR_MAX,
    }
}

/// Idle connections and how to open more. The number in use is bounded by the callers: by
/// `Limits::transactions_max` for transactions, by a semaphore for everything else.
pub struct Sessions<DB: Transactions> {
    settings: DB::Settings,
    idle: Mutex<Vec<Session<DB>>>,
    writers: Arc<Semaphore>,
    meters: Option<Arc<Meters>>,
}

impl<DB: Transactions> std::fmt::Debug for Sessions<DB> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sessions").field("settings", &self.settings).finish_non_exhaustive()
    }
}

impl<DB: Transactions> Sessions<DB> {
    /// An error of a session for people, with the role where advice needs it.
    pub(crate) fn explain(&self, error: &sqlx::Error) -> String {
        self.with_role(&DB::explain(error))
    }

    /// A text that may hold advice, with the role.
    pub(super) fn with_role(&self, text: &str) -> String {
        outbox_core::internal::for_role(text, DB::role(&self.settings))
    }

    /// Whose openings nobody counts.
    pub fn new(settings: DB::Settings) -> Self {
        let writers = Arc::new(Semaphore::new(DB::WRITERS_MAX));
        Self { settings, idle: Mutex::new(Vec::new()), writers, meters: None }
    }

    /// The same, with the connections that are opened counted.
    pub fn with_meters(settings: DB::Settings, meters: Arc<Meters>) -> Self {
        Self { meters: Some(meters), ..Self::new(settings) }
    }

    /// How many connections wait for work.
    pub(crate) fn idle_count(&self) -> usize {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Waits until a transaction can begin: with one writer, until the session of the one before is back,
    /// whose pages are in memory. In their order.
    pub(super) async fn acquire_writer(&self) -> Option<WriterPermit> {
        Arc::clone(&self.writers).acquire_owned().await.ok() // it is never closed
    }

    /// An idle connection if there is one. It may be dead: its first statement tells.
    pub(crate) fn idle(&self) -> Option<Session<DB>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop()
    }

    /// A new connection.
    pub(crate) async fn open(&self) -> Result<Session<DB>, OpenError> {
        let opened = DB::open(&self.settings).await;
        if let (Ok(_), Some(meters)) = (&opened, &self.meters) {
            meters.connections_opened.add(1);
        }
        opened.map(|conn| Session {
            conn,
            snapshot: None,
            events: 0,
            planned: None,
            opened: Instant::now(),
            stays: false,
            writer_permit: None,
        })
    }

    /// An idle connection, or a new one.
    pub(crate) async fn take(&self) -> Result<Session<DB>, OpenError> {
        match self.idle() {
            Some(conn) => Ok(conn),
            None => self.open().await,
        }
    }

    /// Takes a connection back that is outside any transaction; one that is not is closed hard, as is one on which
    /// something may be left that cannot be taken back.
    pub(crate) async fn give_back(&self, mut conn: Session<DB>) {
        if DB::in_transaction(&conn) || !conn.clean(&self.settings).await {
            return conn.close_hard().await;
        }
        let _ends_when_it_is_back = conn.writer_permit.take();
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(conn);
    }

    /// Whether the database works right now, shown on a new connection up to the end of a transaction.
    pub(super) async fn work(&self, limits: &TxLimits) -> bool {
        let shown = async {
            let mut conn = self.open().await.ok()?;
            match DB::work(&mut conn, limits).await {
                Ok(()) => self.give_back(conn).await,
                Err(_) => return None,
            }
            Some(())
        };
        matches!(tokio::time::timeout(WORK_MAX, shown).await, Ok(Some(())))
    }

    /// The settings of its connections.
    pub(super) fn settings(&self) -> &DB::Settings {
        &self.settings
    }

    /// Closes a connection that failed, and those that wait for work: they may be as dead, and each would
    /// cost a failure of its own to find that out.
    pub(crate) async fn give_up(&self, conn: Session<DB>) {
        conn.close_hard().await;
        self.close().await;
    }

    /// Closes every idle connection.
    pub async fn close(&self) {
        while let Some(conn) = self.idle() {
            conn.close_hard().await;
        }
    }
}

#[cfg(all(test, feature = "sqlite"))]
mod tests {
    use std::pin::pin;

    use std::time::Duration;

    use inbox_store::internal::port::{Address, Sessions as _};
    use sqlx::Sqlite;

    use super::{PLANNED_FOR, Sessions, has_old_plans};

    #[test]
    fn statements_are_planned_again_after_many_events_or_a_minute() {
        let [soon, later, minute] = [4, 5, 60].map(Duration::from_secs);
        // A backlog does not wait for the first time.
        assert!(has_old_plans(PLANNED_FOR, None, Duration::ZERO));
        assert!(!has_old_plans(PLANNED_FOR, Some(soon), minute));
        assert!(has_old_plans(PLANNED_FOR, Some(later), minute));
        assert!(!has_old_plans(1, Some(later), minute));
        assert!(has_old_plans(1, Some(minute), minute));
        assert!(!has_old_plans(1, None, later));
        assert!(has_old_plans(1, None, minute));
        assert!(!has_old_plans(0, Some(minute), minute), "nothing came");
    }

    /// With one writer: else each transaction would have a session of its own, and read again what the other
    /// had in memory.
    #[tokio::test]
    async fn the_next_transaction_waits_for_the_session_of_the_one_before() {
        let folder = tempfile::tempdir().unwrap();
        let url = format!("sqlite://{}/inbox.db", folder.path().display());
        let address =
            Address { url: &url, tls: None, schema: None, application: "", statement_cache: 1 };
        let sessions = Sessions::<Sqlite>::new(Sqlite::settings(&address).unwrap());
        let writer_permit = sessions.acquire_writer().await;
        let mut conn = sessions.take().await.unwrap();
        conn.writer_permit = writer_permit;
        let mut next = pin!(sessions.acquire_writer());
        assert!(futures::poll!(next.as_mut()).is_pending());
        sessions.give_back(conn).await;
        assert!(futures::poll!(next.as_mut()).is_ready());
        assert_eq!(sessions.idle_count(), 1);
        // One that is closed leaves its turn to the next one, too.
        let mut conn = sessions.take().await.unwrap();
        conn.writer_permit = sessions.acquire_writer().await;
        conn.close_hard().await;
        assert!(futures::poll!(pin!(sessions.acquire_writer())).is_ready());
    }
}
