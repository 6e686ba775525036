//! The outbox tables: migrations in one transaction, which is the lock.

use sqlx::{Connection, SqliteConnection};

use super::super::{
    VERSIONS_TABLE,
    migration::{self, Migration},
};

const MIGRATIONS: &[Migration] = &[
    Migration {
        version: 1,
        text: include_str!("../../../migrations/sqlite/outbox/0001_outbox.sql"),
    },
    Migration {
        version: 2,
        text: include_str!("../../../migrations/sqlite/outbox/0002_relay.sql"),
    },
    Migration {
        version: 3,
        text: include_str!("../../../migrations/sqlite/outbox/0003_delivery.sql"),
    },
    Migration {
        version: 4,
        text: include_str!("../../../migrations/sqlite/outbox/0004_parked.sql"),
    },
];

/// A deferred transaction that reads first cannot become a writer behind another's back.
const BEGIN: &str = "BEGIN IMMEDIATE";
const TABLE_EXISTS: &str = "SELECT EXISTS (SELECT 1 FROM sqlite_schema \
     WHERE type = 'table' AND name = 'outbox_schema_versions')";
const VERSION: &str = "SELECT max(version) FROM outbox_schema_versions";
const APPLIED: &str = "INSERT INTO outbox_schema_versions (version) VALUES (?1)";

/// Applies what is missing.
pub(super) async fn migrate(conn: &mut SqliteConnection) -> Result<Vec<i64>, sqlx::Error> {
    let mut tx =
        if conn.is_in_transaction() { conn.begin().await? } else { conn.begin_with(BEGIN).await? };
    let version = version(&mut tx).await?.unwrap_or_default();
    let mut applied = Vec::new();
    for migration in MIGRATIONS.iter().filter(|m| m.version > version) {
        sqlx::raw_sql(migration.text).execute(&mut *tx).await?;
        sqlx::query(APPLIED).bind(migration.version).execute(&mut *tx).await?;
        applied.push(migration.version);
    }
    tx.commit().await?;
    Ok(applied)
}

/// The version in the database.
pub(super) async fn version(conn: &mut SqliteConnection) -> Result<Option<i64>, sqlx::Error> {
    let there: bool = sqlx::query_scalar(TABLE_EXISTS).fetch_one(&mut *conn).await?;
    if !there {
        return Ok(None);
    }
    let version: Option<i64> = sqlx::query_scalar(VERSION).fetch_one(conn).await?;
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
