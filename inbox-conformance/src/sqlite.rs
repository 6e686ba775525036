//! What the suite does by hand in SQLite.

use inbox_store::internal::SqliteSettings;
use sqlx::{AssertSqlSafe, ConnectOptions, Sqlite, SqliteConnection};

use super::Probe;

impl Probe for Sqlite {
    const POISONS: bool = false;
    const CHECKS_CONSTRAINTS: bool = false;
    const DOWN: &'static str = concat!(
        include_str!("../migrations/sqlite/0008_recent.down.sql"),
        include_str!("../migrations/sqlite/0007_slots.down.sql"),
        include_str!("../migrations/sqlite/0006_start.down.sql"),
        include_str!("../migrations/sqlite/0005_versions.down.sql"),
        include_str!("../migrations/sqlite/0004_content.down.sql"),
        include_str!("../migrations/sqlite/0003_history.down.sql"),
        include_str!("../migrations/sqlite/0002_release.down.sql"),
        include_str!("../migrations/sqlite/0001_inbox.down.sql"),
    );
    const LONG_AGO: &'static str = "CAST((unixepoch('subsec') - 2592000) * 1000 AS INTEGER)";
    const UUID_HEX: (&'static str, &'static str) = ("x'", "'");
    const BYTES_HEX: (&'static str, &'static str) = ("x'", "'");
    const HOLD_PRUNER: &'static str = "";

    fn older(time: &str, milliseconds: u32) -> String {
        format!("{time} - {milliseconds}")
    }

    async fn administer(settings: &SqliteSettings) -> Result<SqliteConnection, sqlx::Error> {
        settings.session_options().connect().await
    }

    async fn run(conn: &mut SqliteConnection, sql: &str) -> Result<u64, sqlx::Error> {
        let sql = AssertSqlSafe(sql.to_owned());
        sqlx::raw_sql(sql).execute(conn).await.map(|done| done.rows_affected())
    }

    async fn text(conn: &mut SqliteConnection, sql: &str) -> Result<Option<String>, sqlx::Error> {
        let sql = AssertSqlSafe(sql.to_owned());
        let text: Option<Option<String>> = sqlx::query_scalar(sql).fetch_optional(conn).await?;
        Ok(text.flatten())
    }

    async fn number(conn: &mut SqliteConnection, sql: &str) -> Result<i64, sqlx::Error> {
        sqlx::query_scalar(AssertSqlSafe(sql.to_owned())).fetch_one(conn).await
    }
}
