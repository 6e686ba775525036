//! Beginning and ending transactions by the driver's own count, so that a handler's nested `begin()`
//! becomes a savepoint.

use sqlx::{Connection, Database, SqlStr};
use sqlx_core::transaction::TransactionManager;

/// BEGIN with the text given, as one message.
pub(super) async fn begin<DB: Database>(
    conn: &mut DB::Connection,
    text: SqlStr,
) -> Result<(), sqlx::Error> {
    DB::TransactionManager::begin(conn, Some(text)).await
}

/// COMMIT, or RELEASE of a savepoint that a handler left open: the caller looks at
/// `is_in_transaction` afterwards.
pub(super) async fn commit<DB: Database>(conn: &mut DB::Connection) -> Result<(), sqlx::Error> {
    DB::TransactionManager::commit(conn).await
}

/// ROLLBACK of the transaction and of whatever a handler left open in it.
pub(super) async fn rollback<DB: Database>(conn: &mut DB::Connection) -> Result<(), sqlx::Error> {
    while conn.is_in_transaction() {
        DB::TransactionManager::rollback(conn).await?;
    }
    Ok(())
}
