//! Savepoints of the careful run.

use inbox_engine::Rule;
use sqlx::{AssertSqlSafe, PgConnection, Postgres};

use super::sent::on;
use crate::port::Savepoint;

/// The check runs in a savepoint of its own and is rolled back: the next event of the transaction
/// shall still find its deferrable constraints deferred, and COMMIT checks all of them again.
const CONSTRAINTS_IMMEDIATE: &str = "SAVEPOINT inbox_constraints; SET CONSTRAINTS ALL IMMEDIATE; \
     ROLLBACK TO SAVEPOINT inbox_constraints; RELEASE SAVEPOINT inbox_constraints";

impl Savepoint for Postgres {
    async fn savepoint(conn: &mut PgConnection, depth: u32) -> Result<(), sqlx::Error> {
        run(conn, format!("SAVEPOINT inbox_run_{depth}")).await
    }

    async fn constraints_immediate(conn: &mut PgConnection) -> Result<(), sqlx::Error> {
        if !Rule::ConstraintsImmediate.on() {
            return Ok(());
        }
        sqlx::raw_sql(CONSTRAINTS_IMMEDIATE).execute(on(conn)).await.map(drop)
    }

    async fn release(conn: &mut PgConnection, depth: u32) -> Result<(), sqlx::Error> {
        run(conn, format!("RELEASE SAVEPOINT inbox_run_{depth}")).await
    }

    async fn rollback_to(conn: &mut PgConnection, depth: u32) -> Result<(), sqlx::Error> {
        let name = format!("inbox_run_{depth}");
        run(conn, format!("ROLLBACK TO SAVEPOINT {name}; RELEASE SAVEPOINT {name}")).await
    }
}

/// As a simple query: one exchange, nothing to prepare.
async fn run(conn: &mut PgConnection, text: String) -> Result<(), sqlx::Error> {
    sqlx::raw_sql(AssertSqlSafe(text)).execute(on(conn)).await.map(drop)
}
