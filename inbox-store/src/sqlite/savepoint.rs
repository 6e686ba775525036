//! Savepoints of the careful run.

use sqlx::{AssertSqlSafe, Sqlite, SqliteConnection};

use crate::port::Savepoint;

impl Savepoint for Sqlite {
    async fn savepoint(conn: &mut SqliteConnection, depth: u32) -> Result<(), sqlx::Error> {
        run(conn, format!("SAVEPOINT inbox_run_{depth}")).await
    }

    /// Nothing to do: deferred constraints can only be checked by COMMIT here. A violation of several
    /// events is found when they are run one by one.
    async fn constraints_immediate(_conn: &mut SqliteConnection) -> Result<(), sqlx::Error> {
        Ok(())
    }

    async fn release(conn: &mut SqliteConnection, depth: u32) -> Result<(), sqlx::Error> {
        run(conn, format!("RELEASE SAVEPOINT inbox_run_{depth}")).await
    }

    async fn rollback_to(conn: &mut SqliteConnection, depth: u32) -> Result<(), sqlx::Error> {
        let name = format!("inbox_run_{depth}");
        run(conn, format!("ROLLBACK TO SAVEPOINT {name}; RELEASE SAVEPOINT {name}")).await
    }
}

async fn run(conn: &mut SqliteConnection, text: String) -> Result<(), sqlx::Error> {
    sqlx::raw_sql(AssertSqlSafe(text)).execute(conn).await.map(drop)
}
