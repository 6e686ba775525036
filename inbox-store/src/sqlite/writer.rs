//! One writer at a time, and no COMMIT but the runtime's.
//!
//! Transactions of one process queue for the file's turn, in their order, instead of spinning on
//! `SQLITE_BUSY`; other processes are waited for by `busy_timeout`. The hooks of a session refuse
//! every COMMIT that the runtime did not announce, a statement outside any transaction included, and
//! see when the transaction ends. They belong to the connection: when it is closed, its turn ends
//! after its transaction has.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::{
        Arc, LazyLock, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicBool, Ordering},
    },
};

use sqlx::SqliteConnection;
use tokio::sync::OwnedMutexGuard;

/// The turn to write to a file: fair, first come, first served.
pub(super) type Turn = tokio::sync::Mutex<()>;

/// What the runtime knows of a session, shared with the session's hooks.
#[derive(Debug)]
pub(super) struct Session {
    turn: Arc<Turn>,
    /// The runtime's own COMMIT is on its way.
    commits: AtomicBool,
    open: Mutex<Open>,
}

/// The transaction that is open.
#[derive(Debug, Default)]
struct Open {
    tx: Option<String>,
    /// Held until the runtime ends the transaction or the connection is gone.
    held: Option<OwnedMutexGuard<()>>,
}

/// The turns of the files that are in use.
static TURNS: LazyLock<Mutex<HashMap<PathBuf, Weak<Turn>>>> = LazyLock::new(Mutex::default);

/// The sessions by the address of their connection: sqlx has no place for something of ours in it.
/// The only strong references are in the hooks, so an entry ends with its connection.
static SESSIONS: LazyLock<Mutex<HashMap<usize, Weak<Session>>>> = LazyLock::new(Mutex::default);

/// The turn of a file.
pub(super) fn turn(file: &Path) -> Arc<Turn> {
    let mut turns = lock(&TURNS);
    turns.retain(|_, turn| turn.strong_count() > 0);
    if let Some(known) = turns.get(file).and_then(Weak::upgrade) {
        return known;
    }
    let new = Arc::new(Turn::default());
    turns.insert(file.to_owned(), Arc::downgrade(&new));
    new
}

/// Arms a new session. `guarded`: whether strange COMMITs are refused.
pub(super) async fn arm(
    conn: &mut SqliteConnection,
    turn: Arc<Turn>,
    guarded: bool,
) -> Result<(), sqlx::Error> {
    let session = Arc::new(Session {
        turn,
        commits: AtomicBool::new(false),
        open: Mutex::new(Open::default()),
    });
    let mut handle = conn.lock_handle().await?;
    let address = handle.as_raw_handle().as_ptr().addr();
    let mut sessions = lock(&SESSIONS);
    sessions.retain(|_, session| session.strong_count() > 0);
    sessions.insert(address, Arc::downgrade(&session));
    drop(sessions);
    let commit = Arc::clone(&session);
    handle.set_commit_hook(move || !guarded || commit.commits.load(Ordering::Acquire));
    handle.set_rollback_hook(move || lock(&session.open).tx = None);
    Ok(())
}

/// The session of a connection that [`arm`] saw.
pub(super) async fn session(conn: &mut SqliteConnection) -> Result<Arc<Session>, sqlx::Error> {
    let address = conn.lock_handle().await?.as_raw_handle().as_ptr().addr();
    lock(&SESSIONS).get(&address).and_then(Weak::upgrade).ok_or_else(|| {
        sqlx::Error::InvalidArgument(
            "this SQLite connection was not opened by the inbox; use the session that it gives"
                .into(),
        )
    })
}

impl Session {
    /// Waits for the file's turn and keeps it until [`Session::ended`].
    pub(super) async fn take_turn(&self) {
        if lock(&self.open).held.is_some() {
            return; // a BEGIN that was dropped half-way left it here
        }
        let held = Arc::clone(&self.turn).lock_owned().await;
        lock(&self.open).held = Some(held);
    }

    /// The transaction has begun.
    pub(super) fn began(&self, tx: String) {
        lock(&self.open).tx = Some(tx);
    }

    /// The open transaction's name.
    pub(super) fn tx(&self) -> Option<String> {
        lock(&self.open).tx.clone()
    }

    /// Lets the next COMMIT through (`true`), or none (`false`).
    pub(super) fn commits(&self, let_through: bool) {
        self.commits.store(let_through, Ordering::Release);
    }

    /// The transaction is over: the next one's turn.
    pub(super) fn ended(&self) {
        *lock(&self.open) = Open::default();
    }
}

/// Nothing here can panic while it holds a lock; a poisoned one holds good data.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
