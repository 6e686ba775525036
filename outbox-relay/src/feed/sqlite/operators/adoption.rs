//! Tables of other outboxes: Debezium reads none of SQLite, and whoever has one writes the trigger himself.

use service_kit::docs_url;
use sqlx::{Sqlite, SqliteConnection};

use crate::port::{Adoption, Adoptions, FeedError, TableMapping};

impl Adoptions for Sqlite {
    async fn adoption(
        _: &mut SqliteConnection,
        _: &TableMapping,
    ) -> Result<Result<Adoption, Vec<String>>, FeedError> {
        Ok(Err(vec![format!(
            "adopting tables of other outboxes is supported on PostgreSQL only; on SQLite write a \
             trigger that inserts into outbox_events: {}",
            docs_url("outbox-table")
        )]))
    }

    async fn carry_out(_: &mut SqliteConnection, _: String) -> Result<Option<String>, FeedError> {
        Ok(None)
    }
}
