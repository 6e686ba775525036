//! Removing rows.

use std::time::Duration;

use sqlx::{Sqlite, SqliteConnection};

use crate::{
    feed::millis,
    port::{FeedError, Retention},
};

/// ?1 age in milliseconds, ?2 chunk. It looks at the first rows only: what was written first was sent
/// first, or nearly, so that a chunk without an old row has none behind it, either.
const PRUNE: &str = "DELETE FROM outbox_events WHERE seq IN (
    SELECT seq FROM (SELECT seq, coalesce(sent_at, discarded_at) AS done FROM outbox_events
        WHERE sent_at IS NOT NULL OR discarded_at IS NOT NULL ORDER BY seq LIMIT ?2)
    WHERE done <= CAST(unixepoch('subsec') * 1000 AS INTEGER) - ?1)";

impl Retention for Sqlite {
    async fn prune(
        session: &mut SqliteConnection,
        age: Duration,
        chunk: u32,
    ) -> Result<u64, FeedError> {
        let removed =
            sqlx::query(PRUNE).bind(millis(age)).bind(i64::from(chunk)).execute(session).await?;
        Ok(removed.rows_affected())
    }
}
