//! The project's own tables: migrations in one transaction, which is the lock.

use sqlx::{Sqlite, SqliteConnection};

use super::session::{begin_own, end_own};
use crate::{
    migration::{self, Migration},
    port::Schemas,
};

const MIGRATIONS: &[Migration] = &[
    Migration { version: 1, text: include_str!("../../migrations/sqlite/0001_inbox.sql") },
    Migration { version: 2, text: include_str!("../../migrations/sqlite/0002_release.sql") },
    Migration { version: 3, text: include_str!("../../migrations/sqlite/0003_history.sql") },
    Migration { version: 4, text: include_str!("../../migrations/sqlite/0004_content.sql") },
];

const TABLE_EXISTS: &str = "SELECT EXISTS (SELECT 1 FROM sqlite_schema \
     WHERE type = 'table' AND name = 'inbox_schema_versions')";
const VERSION: &str = "SELECT max(version) FROM inbox_schema_versions";
const APPLIED: &str = "INSERT INTO inbox_schema_versions (version) VALUES (?1)";

impl Schemas for Sqlite {
    async fn migrate(conn: &mut SqliteConnection) -> Result<Vec<i64>, sqlx::Error> {
        begin_own(conn).await?;
        let applied = migrate(conn).await;
        end_own(conn, applied).await
    }

    async fn migrate_outbox_beside(conn: &mut SqliteConnection) -> Result<Vec<i64>, sqlx::Error> {
        begin_own(conn).await?;
        let applied = migrate_outbox(conn).await;
        end_own(conn, applied).await
    }

    async fn version(conn: &mut SqliteConnection) -> Result<Option<i64>, sqlx::Error> {
        let there: bool = sqlx::query_scalar(TABLE_EXISTS).fetch_one(&mut *conn).await?;
        if !there {
            return Ok(None);
        }
        let version: Option<i64> = sqlx::query_scalar(VERSION).fetch_one(conn).await?;
        Ok(Some(version.unwrap_or_default()))
    }

    fn newest() -> i64 {
        migration::newest(MIGRATIONS)
    }

    fn print() -> String {
        migration::print(MIGRATIONS)
    }
}

async fn migrate(conn: &mut SqliteConnection) -> Result<Vec<i64>, sqlx::Error> {
    let version = Sqlite::version(conn).await?.unwrap_or_default();
    let mut applied = Vec::new();
    for migration in MIGRATIONS.iter().filter(|m| m.version > version) {
        sqlx::raw_sql(migration.text).execute(&mut *conn).await?;
        sqlx::query(APPLIED).bind(migration.version).execute(&mut *conn).await?;
        applied.push(migration.version);
    }
    Ok(applied)
}

async fn migrate_outbox(conn: &mut SqliteConnection) -> Result<Vec<i64>, sqlx::Error> {
    outbox_core::migrate(conn).await
}
