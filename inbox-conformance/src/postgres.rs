//! What the suite does by hand in PostgreSQL.

use inbox_store::internal::PgSettings;
use sqlx::{AssertSqlSafe, ConnectOptions, PgConnection, Postgres};

use super::Probe;

const WRITABLE: &str = "SET default_transaction_read_only = off";

impl Probe for Postgres {
    const POISONS: bool = true;
    const CHECKS_CONSTRAINTS: bool = true;
    const DOWN: &'static str = concat!(
        include_str!("../migrations/postgres/0008_recent.down.sql"),
        include_str!("../migrations/postgres/0007_slots.down.sql"),
        include_str!("../migrations/postgres/0006_start.down.sql"),
        include_str!("../migrations/postgres/0005_versions.down.sql"),
        include_str!("../migrations/postgres/0004_content.down.sql"),
        include_str!("../migrations/postgres/0003_history.down.sql"),
        include_str!("../migrations/postgres/0002_release.down.sql"),
        include_str!("../migrations/postgres/0001_inbox.down.sql"),
    );
    const LONG_AGO: &'static str = "now() - interval '30 days'";
    const UUID_HEX: (&'static str, &'static str) = ("'", "'");
    const BYTES_HEX: (&'static str, &'static str) = (r"'\x", "'");
    const HOLD_PRUNER: &'static str = "BEGIN; SELECT pg_advisory_xact_lock(hashtextextended('inbox prune ' || current_schema(), 0))";

    fn older(time: &str, milliseconds: u32) -> String {
        format!("{time} - interval '{milliseconds} milliseconds'")
    }

    async fn administer(settings: &PgSettings) -> Result<PgConnection, sqlx::Error> {
        let mut conn = settings.session_options().connect().await?;
        Self::run(&mut conn, WRITABLE).await?;
        Ok(conn)
    }

    async fn run(conn: &mut PgConnection, sql: &str) -> Result<u64, sqlx::Error> {
        let sql = AssertSqlSafe(sql.to_owned());
        sqlx::raw_sql(sql).execute(conn).await.map(|done| done.rows_affected())
    }

    async fn text(conn: &mut PgConnection, sql: &str) -> Result<Option<String>, sqlx::Error> {
        let sql = AssertSqlSafe(sql.to_owned());
        let text: Option<Option<String>> = sqlx::query_scalar(sql).fetch_optional(conn).await?;
        Ok(text.flatten())
    }

    async fn number(conn: &mut PgConnection, sql: &str) -> Result<i64, sqlx::Error> {
        sqlx::query_scalar(AssertSqlSafe(sql.to_owned())).fetch_one(conn).await
    }
}
