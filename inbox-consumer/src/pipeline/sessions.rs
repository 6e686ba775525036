//! The runtime's own connections: a stack of idle ones, opened when needed, closed hard when broken.
//!
//! The runtime is not given a pool that others use too: it sets session defaults, and a connection
//! whose transaction ended badly must never reach anybody else (A5, A6).

use std::sync::{Arc, Mutex, PoisonError};

use super::port::{OpenError, Store};
use crate::telemetry::meters::Meters;

/// Idle connections and how to open more. The number in use is bounded by the callers: by
/// `Limits::transactions_max` for transactions, by a semaphore for everything else.
pub(crate) struct Sessions<DB: Store> {
    settings: DB::Settings,
    idle: Mutex<Vec<DB::Connection>>,
    meters: Option<Arc<Meters>>,
}

impl<DB: Store> std::fmt::Debug for Sessions<DB> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sessions").field("settings", &self.settings).finish_non_exhaustive()
    }
}

impl<DB: Store> Sessions<DB> {
    pub(crate) fn new(settings: DB::Settings) -> Self {
        Self { settings, idle: Mutex::new(Vec::new()), meters: None }
    }

    /// The same, with the connections that are opened counted.
    pub(crate) fn counted(settings: DB::Settings, meters: Arc<Meters>) -> Self {
        Self { meters: Some(meters), ..Self::new(settings) }
    }

    /// How many connections wait for work.
    pub(crate) fn idle_count(&self) -> usize {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// An idle connection if there is one. It may be dead: its first statement tells.
    pub(crate) fn idle(&self) -> Option<DB::Connection> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop()
    }

    /// A new connection.
    pub(crate) async fn open(&self) -> Result<DB::Connection, OpenError> {
        let opened = DB::open(&self.settings).await;
        if let (Ok(_), Some(meters)) = (&opened, &self.meters) {
            meters.connections_opened.add(1);
        }
        opened
    }

    /// An idle connection, or a new one.
    pub(crate) async fn take(&self) -> Result<DB::Connection, OpenError> {
        match self.idle() {
            Some(conn) => Ok(conn),
            None => self.open().await,
        }
    }

    /// Takes a connection back that is outside any transaction; one that is not is closed hard.
    pub(crate) async fn give_back(&self, conn: DB::Connection) {
        if DB::in_transaction(&conn) {
            return DB::close_hard(conn).await;
        }
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(conn);
    }

    /// Closes every idle connection.
    pub(crate) async fn close(&self) {
        while let Some(conn) = self.idle() {
            DB::close_hard(conn).await;
        }
    }
}
