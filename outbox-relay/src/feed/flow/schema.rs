//! The outbox's tables: those of outbox-core.

use outbox_core::OutboxDatabase;

use super::SqlClient;
use crate::port::{FeedError, Schema};

impl<DB: SqlClient + OutboxDatabase> Schema for DB {
    async fn migrate(session: &mut DB::Session) -> Result<Vec<i64>, FeedError> {
        Ok(DB::migrate_outbox(session).await?)
    }

    async fn version(session: &mut DB::Session) -> Result<Option<i64>, FeedError> {
        Ok(DB::outbox_version(session).await?)
    }

    fn newest() -> i64 {
        DB::outbox_newest()
    }
}
