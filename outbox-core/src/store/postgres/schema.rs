//! The outbox tables: migrations under a lock, in one transaction.

use sqlx::{Connection, PgConnection, Row};

use super::{
    super::{
        VERSIONS_TABLE,
        migration::{self, Migration},
    },
    keeps_statements,
};

const MIGRATIONS: &[Migration] = &[
    Migration {
        version: 1,
        text: include_str!("../../../migrations/postgres/outbox/0001_outbox.sql"),
    },
    Migration {
        version: 2,
        text: include_str!("../../../migrations/postgres/outbox/0002_relay.sql"),
    },
    Migration {
        version: 3,
        text: include_str!("../../../migrations/postgres/outbox/0003_delivery.sql"),
    },
    Migration {
        version: 4,
        text: include_str!("../../../migrations/postgres/outbox/0004_parked.sql"),
    },
];

/// One process migrates a schema at a time.
pub(super) const LOCK: &str = "SELECT pg_advisory_xact_lock(hashtextextended('outbox migrate ' || coalesce(current_schema(), ''), 0))";
/// Said aloud, since sessions may be read-only by default; READ COMMITTED, to see what the lock waited for.
const BEGIN: &str = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE";
/// In the schema where unqualified names are created, and in no other of the search path.
const TABLE_EXISTS: &str = "SELECT EXISTS (SELECT FROM pg_tables \
     WHERE schemaname = current_schema() AND tablename = 'outbox_schema_versions')";
const VERSION: &str = "SELECT max(version) FROM outbox_schema_versions";
const APPLIED: &str = "INSERT INTO outbox_schema_versions (version) VALUES ($1)";

/// Applies what is missing.
pub(super) async fn migrate(conn: &mut PgConnection) -> Result<Vec<i64>, sqlx::Error> {
    let mut tx =
        if conn.is_in_transaction() { conn.begin().await? } else { conn.begin_with(BEGIN).await? };
    sqlx::raw_sql(LOCK).execute(&mut *tx).await?;
    let version = version(&mut tx).await?.unwrap_or_default();
    let mut applied = Vec::new();
    for migration in MIGRATIONS.iter().filter(|m| m.version > version) {
        sqlx::raw_sql(migration.text).execute(&mut *tx).await?;
        sqlx::query(APPLIED)
            .persistent(keeps_statements(&tx))
            .bind(migration.version)
            .execute(&mut *tx)
            .await?;
        applied.push(migration.version);
    }
    tx.commit().await?;
    Ok(applied)
}

/// The version in the database. Texts without arguments, each in one exchange: they need neither a name nor a
/// transaction behind a pooler.
pub(super) async fn version(conn: &mut PgConnection) -> Result<Option<i64>, sqlx::Error> {
    let there: bool = sqlx::raw_sql(TABLE_EXISTS).fetch_one(&mut *conn).await?.try_get(0)?;
    if !there {
        return Ok(None);
    }
    let version: Option<i64> = sqlx::raw_sql(VERSION).fetch_one(conn).await?.try_get(0)?;
    Ok(Some(version.unwrap_or_default()))
}

/// The newest version.
pub(super) fn newest() -> i64 {
    migration::newest(MIGRATIONS)
}

/// All statements.
pub(super) fn print() -> String {
    migration::print(MIGRATIONS, VERSIONS_TABLE)
}
