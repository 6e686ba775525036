//! The migrations, and what they are made in.

use outbox_core::internal::migration::Migration;
use sqlx::{Sqlite, SqliteConnection};

use crate::flow::schema::{SchemaSql, SchemaTexts};

static TEXTS: SchemaTexts = SchemaTexts {
    migrations: &[
        Migration { version: 1, text: include_str!("../../migrations/sqlite/0001_inbox.sql") },
        Migration { version: 2, text: include_str!("../../migrations/sqlite/0002_release.sql") },
        Migration { version: 3, text: include_str!("../../migrations/sqlite/0003_history.sql") },
        Migration { version: 4, text: include_str!("../../migrations/sqlite/0004_content.sql") },
        Migration { version: 5, text: include_str!("../../migrations/sqlite/0005_versions.sql") },
        Migration { version: 6, text: include_str!("../../migrations/sqlite/0006_start.sql") },
        Migration { version: 7, text: include_str!("../../migrations/sqlite/0007_slots.sql") },
        Migration { version: 8, text: include_str!("../../migrations/sqlite/0008_recent.sql") },
    ],
    version: "SELECT max(version) FROM inbox_schema_versions",
    applied: "INSERT INTO inbox_schema_versions (version) VALUES (?1)",
};

const TABLE_EXISTS: &str = "SELECT EXISTS (SELECT 1 FROM sqlite_schema \
     WHERE type = 'table' AND name = 'inbox_schema_versions')";

impl SchemaSql for Sqlite {
    fn schema() -> &'static SchemaTexts {
        &TEXTS
    }

    async fn has_versions(conn: &mut SqliteConnection) -> Result<bool, sqlx::Error> {
        sqlx::query_scalar(TABLE_EXISTS).fetch_one(conn).await
    }

    async fn allow_time(_conn: &mut SqliteConnection) -> Result<(), sqlx::Error> {
        Ok(())
    }

    /// The transaction is the lock.
    async fn prepare(_conn: &mut SqliteConnection) -> Result<(), sqlx::Error> {
        Ok(())
    }
}
