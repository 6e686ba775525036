//! Tables of other outboxes: Debezium reads none of SQLite, and whoever has one writes the trigger himself.

use sqlx::{Sqlite, SqliteConnection};

use crate::port::{Adoption, Adoptions, FeedError, TableMapping};

impl Adoptions for Sqlite {
    async fn adoption(
        _: &mut SqliteConnection,
        _: &TableMapping,
    ) -> Result<Result<Adoption, Vec<String>>, FeedError> {
        Ok(Err(vec![
            "tables of other outboxes are adopted on PostgreSQL alone; on SQLite write a trigger of your own that inserts into \
             outbox_events (docs/outbox-table.md)"
                .into(),
        ]))
    }

    async fn carry_out(_: &mut SqliteConnection, _: String) -> Result<Option<String>, FeedError> {
        Ok(None)
    }
}
