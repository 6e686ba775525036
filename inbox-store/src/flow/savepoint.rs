//! Savepoints of the careful run. As simple queries: one exchange, nothing to prepare.

use inbox_engine::internal::Rule;
use sqlx::{AssertSqlSafe, SqlSafeStr as _};

use super::SqlClient;
use crate::port::Savepoint;

/// A database with savepoints.
pub(crate) trait SavepointSql: SqlClient {
    /// Checks deferred constraints; `None` where only COMMIT can. The check leaves them deferred: the next event of
    /// the transaction shall still find them so, and COMMIT checks all of them again.
    const CONSTRAINTS_IMMEDIATE: Option<&'static str>;
}

impl<DB: SavepointSql> Savepoint for DB {
    async fn savepoint(conn: &mut DB::Connection, depth: u32) -> Result<(), sqlx::Error> {
        run::<DB>(conn, format!("SAVEPOINT inbox_run_{depth}")).await
    }

    async fn constraints_immediate(conn: &mut DB::Connection) -> Result<(), sqlx::Error> {
        match DB::CONSTRAINTS_IMMEDIATE.filter(|_| Rule::ConstraintsImmediate.on()) {
            Some(text) => DB::run(conn, text.into_sql_str()).await,
            None => Ok(()),
        }
    }

    async fn release(conn: &mut DB::Connection, depth: u32) -> Result<(), sqlx::Error> {
        run::<DB>(conn, format!("RELEASE SAVEPOINT inbox_run_{depth}")).await
    }

    async fn rollback_to(conn: &mut DB::Connection, depth: u32) -> Result<(), sqlx::Error> {
        let name = format!("inbox_run_{depth}");
        run::<DB>(conn, format!("ROLLBACK TO SAVEPOINT {name}; RELEASE SAVEPOINT {name}")).await
    }
}

async fn run<DB: SqlClient>(conn: &mut DB::Connection, text: String) -> Result<(), sqlx::Error> {
    DB::run(conn, AssertSqlSafe(text).into_sql_str()).await
}
