//! The migrations, and what they are made in.

use outbox_core::internal::migration::Migration;
use sqlx::{AssertSqlSafe, PgConnection, Postgres};

use super::{sent::on, settings::is_plain_name};
use crate::flow::schema::{SchemaSql, SchemaTexts};

static TEXTS: SchemaTexts = SchemaTexts {
    migrations: &[
        Migration { version: 1, text: include_str!("../../migrations/postgres/0001_inbox.sql") },
        Migration { version: 2, text: include_str!("../../migrations/postgres/0002_release.sql") },
        Migration { version: 3, text: include_str!("../../migrations/postgres/0003_history.sql") },
        Migration { version: 4, text: include_str!("../../migrations/postgres/0004_content.sql") },
        Migration { version: 5, text: include_str!("../../migrations/postgres/0005_versions.sql") },
        Migration { version: 6, text: include_str!("../../migrations/postgres/0006_start.sql") },
        Migration { version: 7, text: include_str!("../../migrations/postgres/0007_slots.sql") },
        Migration { version: 8, text: include_str!("../../migrations/postgres/0008_recent.sql") },
    ],
    version: "SELECT max(version) FROM inbox_schema_versions",
    applied: "INSERT INTO inbox_schema_versions (version) VALUES ($1)",
};

/// One process migrates a schema at a time.
const LOCK: &str = "SELECT pg_advisory_xact_lock(hashtextextended('inbox migrate', 0))";
/// DDL may rightly take longer than the usual limits of own transactions.
const PATIENCE: &str = "SET LOCAL statement_timeout = '5min'; SET LOCAL lock_timeout = '30s'; \
     SET LOCAL idle_in_transaction_session_timeout = '1min'";
const SEARCH_PATH: &str = "SHOW search_path";
const CURRENT_SCHEMA: &str = "SELECT current_schema()::text";
const SCHEMA_EXISTS: &str = "SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname = $1)";
const TABLE_EXISTS: &str = "SELECT EXISTS (SELECT FROM pg_tables \
     WHERE schemaname = $1 AND tablename = 'inbox_schema_versions')";

impl SchemaSql for Postgres {
    fn schema() -> &'static SchemaTexts {
        &TEXTS
    }

    async fn has_versions(conn: &mut PgConnection) -> Result<bool, sqlx::Error> {
        let schema = schema(conn).await?;
        sqlx::query_scalar(TABLE_EXISTS).bind(schema).fetch_one(on(conn)).await
    }

    async fn allow_time(conn: &mut PgConnection) -> Result<(), sqlx::Error> {
        sqlx::raw_sql(PATIENCE).execute(on(conn)).await.map(drop)
    }

    async fn prepare(conn: &mut PgConnection) -> Result<(), sqlx::Error> {
        sqlx::query(LOCK).execute(on(conn)).await?;
        make_schema(conn).await
    }
}

/// The schema that comes first in the search path, whether or not it exists. Not
/// `current_schema()`: that one passes over a missing schema and finds another inbox in `public`.
async fn schema(conn: &mut PgConnection) -> Result<String, sqlx::Error> {
    let path: String = sqlx::query_scalar(SEARCH_PATH).fetch_one(on(conn)).await?;
    let first = path.split(',').next().unwrap_or_default().trim().trim_matches('"');
    if is_plain_name(first) {
        return Ok(first.to_owned());
    }
    let current: Option<String> = sqlx::query_scalar(CURRENT_SCHEMA).fetch_one(on(conn)).await?;
    Ok(current.unwrap_or_else(|| "public".into()))
}

/// Makes the schema when it is missing; one that is there needs no privilege to be made.
async fn make_schema(conn: &mut PgConnection) -> Result<(), sqlx::Error> {
    let schema = schema(conn).await?;
    let there: bool = sqlx::query_scalar(SCHEMA_EXISTS).bind(&schema).fetch_one(on(conn)).await?;
    if !there {
        let text = format!("CREATE SCHEMA \"{schema}\"");
        sqlx::raw_sql(AssertSqlSafe(text)).execute(on(conn)).await?;
    }
    Ok(())
}
