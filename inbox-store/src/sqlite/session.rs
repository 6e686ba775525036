//! Sessions: WAL, durable, guarded by hooks; one writer at a time.

use inbox_engine::internal::Rule;
use sqlx::{AssertSqlSafe, ConnectOptions, Connection, SqlSafeStr, Sqlite, SqliteConnection};
use uuid::Uuid;

use super::{SqliteSettings, writer};
use crate::{
    end,
    port::{Address, OpenError, Sessions, StoreFault, TxLimits},
    shared::OWN_LIMITS,
};

/// A verb that would change the file's guarantees or reach around its writer.
const REFUSED: [&str; 4] = ["ATTACH", "DETACH", "PRAGMA", "VACUUM"];

impl Sessions for Sqlite {
    type Settings = SqliteSettings;
    const WRITERS_MAX: usize = 1;
    const SERVER: bool = false;

    fn settings(address: &Address<'_>) -> Result<SqliteSettings, OpenError> {
        let settings = SqliteSettings::new(address.url);
        let settings = settings.map_err(|error| OpenError::Refused(error.0))?;
        if address.schema.is_some() {
            let text = "SQLite has no schemas; remove database.schema";
            return Err(OpenError::Refused(text.into()));
        }
        Ok(settings.statement_cache(address.statement_cache))
    }

    async fn open(settings: &SqliteSettings) -> Result<SqliteConnection, OpenError> {
        let explain = |error| explain(settings, &error);
        outbox_core::internal::private::make(&settings.file);
        let mut conn = settings.options.connect().await.map_err(explain)?;
        let turn = std::sync::Arc::clone(&settings.turn);
        writer::arm(&mut conn, turn, Rule::ReadOnlySession.on()).await.map_err(explain)?;
        Ok(conn)
    }

    /// A new session costs less here than to find out what to take back.
    async fn reset(
        _conn: &mut SqliteConnection,
        _settings: &SqliteSettings,
        _inside: bool,
    ) -> Result<bool, sqlx::Error> {
        Ok(false)
    }

    async fn work(conn: &mut SqliteConnection, limits: &TxLimits) -> Result<(), sqlx::Error> {
        begin(conn, limits).await?;
        commit(conn).await
    }

    async fn close_hard(conn: SqliteConnection) {
        // The session is given up: what its thread says to that changes nothing.
        let _ = conn.close_hard().await;
    }

    /// Plans do not depend on sizes here: nobody runs ANALYZE.
    async fn replan(_conn: &mut SqliteConnection) -> Result<(), sqlx::Error> {
        Ok(())
    }

    fn in_transaction(conn: &SqliteConnection) -> bool {
        conn.is_in_transaction()
    }

    fn refused(_error: &sqlx::Error) -> bool {
        false // what the file says of a COMMIT that failed is not taken for certain
    }

    /// A new row's number is above all that are there.
    fn explain(error: &sqlx::Error) -> String {
        outbox_core::internal::said(error)
    }

    /// A file knows no roles.
    fn role(_settings: &SqliteSettings) -> Option<&str> {
        None
    }

    fn fault(error: &sqlx::Error) -> StoreFault {
        super::fault::classify(error)
    }

    fn names_statements(_conn: &SqliteConnection) -> bool {
        true
    }

    fn prepares(_settings: &SqliteSettings) -> bool {
        false
    }

    fn refuses(verb: &str) -> bool {
        REFUSED.iter().any(|refused| refused.eq_ignore_ascii_case(verb))
    }
}

/// An error of opening as a sentence, and whether a person has to act.
fn explain(settings: &SqliteSettings, error: &sqlx::Error) -> OpenError {
    let file = settings.file.display();
    match super::fault::primary_code(error) {
        Some(super::fault::CANTOPEN | super::fault::NOTADB | super::fault::READONLY) => {
            OpenError::Refused(format!(
                "cannot use the SQLite file {file} ({error}); check the path, its permissions and \
                 the file"
            ))
        }
        _ => OpenError::Outage(format!("cannot open the SQLite file {file} now: {error}")),
    }
}

/// BEGIN, once it is this session's turn. The savepoint's name is the transaction's identity. The
/// limits have no counterpart here: nothing but the turn and other processes is waited for.
pub(super) async fn begin(
    conn: &mut SqliteConnection,
    _limits: &TxLimits,
) -> Result<(), sqlx::Error> {
    let session = writer::session(conn).await?;
    session.take_turn().await;
    let tx = Uuid::now_v7().simple().to_string();
    let text = AssertSqlSafe(format!("BEGIN IMMEDIATE; SAVEPOINT \"{tx}\"")).into_sql_str();
    let begun = end::begin::<Sqlite>(conn, text).await;
    match begun {
        Ok(()) => session.began(tx),
        Err(_) if conn.is_in_transaction() => {} // in one that was open already: it keeps its turn
        Err(_) => session.ended(),
    }
    begun
}

/// COMMIT, the only one that the hook lets through.
pub(super) async fn commit(conn: &mut SqliteConnection) -> Result<(), sqlx::Error> {
    let session = writer::session(conn).await?;
    session.commits(true);
    let committed = end::commit::<Sqlite>(conn).await;
    session.commits(false);
    if committed.is_ok() && !conn.is_in_transaction() {
        session.ended();
    }
    committed
}

/// ROLLBACK. When it fails, the turn ends with the connection.
pub(super) async fn rollback(conn: &mut SqliteConnection) -> Result<(), sqlx::Error> {
    let session = writer::session(conn).await?;
    end::rollback::<Sqlite>(conn).await?;
    session.ended();
    Ok(())
}

/// BEGIN of a call's own transaction.
pub(super) async fn begin_own(conn: &mut SqliteConnection) -> Result<(), sqlx::Error> {
    begin(conn, &OWN_LIMITS).await
}

/// COMMIT when the work succeeded, else ROLLBACK; the work's own error comes first.
pub(super) async fn end_own<T, E: From<sqlx::Error>>(
    conn: &mut SqliteConnection,
    work: Result<T, E>,
) -> Result<T, E> {
    match work {
        Ok(done) => {
            if let Err(error) = commit(conn).await {
                let _ = rollback(conn).await; // only where the failed COMMIT left it open
                return Err(error.into());
            }
            Ok(done)
        }
        Err(error) => {
            // A connection that cannot roll back is still in its transaction: the caller sees it there.
            let _ = rollback(conn).await;
            Err(error)
        }
    }
}
