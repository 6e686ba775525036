//! The project's own tables: migrations under a lock, in one transaction.

use sqlx::{AssertSqlSafe, PgConnection, Postgres};

use super::{
    sent::on,
    session::{begin_own, end_own},
    settings::is_plain_name,
};
use crate::{
    migration::{self, Migration},
    port::{Schemas, deadline},
};

const MIGRATIONS: &[Migration] = &[
    Migration { version: 1, text: include_str!("../../migrations/postgres/0001_inbox.sql") },
    Migration { version: 2, text: include_str!("../../migrations/postgres/0002_release.sql") },
    Migration { version: 3, text: include_str!("../../migrations/postgres/0003_history.sql") },
    Migration { version: 4, text: include_str!("../../migrations/postgres/0004_content.sql") },
];

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
const VERSION: &str = "SELECT max(version) FROM inbox_schema_versions";
const APPLIED: &str = "INSERT INTO inbox_schema_versions (version) VALUES ($1)";

impl Schemas for Postgres {
    async fn migrate(conn: &mut PgConnection) -> Result<Vec<i64>, sqlx::Error> {
        begin_own(conn).await?;
        let applied = deadline::patiently(migrate(conn)).await;
        end_own(conn, applied).await
    }

    async fn migrate_outbox_beside(conn: &mut PgConnection) -> Result<Vec<i64>, sqlx::Error> {
        begin_own(conn).await?;
        let applied = deadline::patiently(migrate_outbox(conn)).await;
        end_own(conn, applied).await
    }

    async fn version(conn: &mut PgConnection) -> Result<Option<i64>, sqlx::Error> {
        let schema = schema(conn).await?;
        let there: bool = sqlx::query_scalar(TABLE_EXISTS).bind(schema).fetch_one(on(conn)).await?;
        if !there {
            return Ok(None);
        }
        let version: Option<i64> = sqlx::query_scalar(VERSION).fetch_one(on(conn)).await?;
        Ok(Some(version.unwrap_or_default()))
    }

    fn newest() -> i64 {
        migration::newest(MIGRATIONS)
    }

    fn print() -> String {
        migration::print(MIGRATIONS)
    }
}

async fn migrate(conn: &mut PgConnection) -> Result<Vec<i64>, sqlx::Error> {
    sqlx::raw_sql(PATIENCE).execute(on(conn)).await?;
    sqlx::query(LOCK).execute(on(conn)).await?;
    make_schema(conn).await?;
    let version = Postgres::version(conn).await?.unwrap_or_default();
    let mut applied = Vec::new();
    for migration in MIGRATIONS.iter().filter(|m| m.version > version) {
        sqlx::raw_sql(migration.text).execute(on(conn)).await?;
        sqlx::query(APPLIED).bind(migration.version).execute(on(conn)).await?;
        applied.push(migration.version);
    }
    Ok(applied)
}

/// In the inbox's schema, which is there.
async fn migrate_outbox(conn: &mut PgConnection) -> Result<Vec<i64>, sqlx::Error> {
    sqlx::raw_sql(PATIENCE).execute(on(conn)).await?;
    outbox_core::migrate(conn).await
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
