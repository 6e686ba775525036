//! The outbox's tables: those of outbox-core.

use sqlx::{Sqlite, SqliteConnection};

use crate::port::{FeedError, Schema};

impl Schema for Sqlite {
    async fn migrate(session: &mut SqliteConnection) -> Result<Vec<i64>, FeedError> {
        Ok(outbox_core::migrate(session).await?)
    }

    async fn version(session: &mut SqliteConnection) -> Result<Option<i64>, FeedError> {
        Ok(outbox_core::schema_version(session).await?)
    }

    fn newest() -> i64 {
        outbox_core::schema_newest::<Self>()
    }

    fn print() -> String {
        outbox_core::print::<Self>()
    }
}
