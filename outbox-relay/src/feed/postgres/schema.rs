//! The outbox's tables: those of outbox-core.

use sqlx::{PgConnection, Postgres};

use crate::port::{FeedError, Schema};

impl Schema for Postgres {
    async fn migrate(session: &mut PgConnection) -> Result<Vec<i64>, FeedError> {
        Ok(outbox_core::migrate(session).await?)
    }

    async fn version(session: &mut PgConnection) -> Result<Option<i64>, FeedError> {
        Ok(outbox_core::schema_version(session).await?)
    }

    fn newest() -> i64 {
        outbox_core::schema_newest::<Self>()
    }

    fn print() -> String {
        outbox_core::print::<Self>()
    }
}
