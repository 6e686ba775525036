//! Removing rows.

use std::time::Duration;

use outbox_core::keeps_statements;
use sqlx::{PgConnection, Postgres};

use crate::{
    feed::millis,
    port::{FeedError, Retention},
};

/// $1 age in milliseconds, $2 chunk. It looks at the first rows only: what was written first was sent
/// first, or nearly, so that a chunk without an old row has none behind it, either.
const PRUNE: &str = "DELETE FROM outbox_events o USING (
    SELECT seq, coalesce(sent_at, discarded_at) AS done FROM outbox_events
    WHERE sent_at IS NOT NULL OR discarded_at IS NOT NULL ORDER BY seq LIMIT $2) p
WHERE o.seq = p.seq AND p.done <= now() - $1 * interval '1 millisecond'";

impl Retention for Postgres {
    async fn prune(
        session: &mut PgConnection,
        age: Duration,
        chunk: u32,
    ) -> Result<u64, FeedError> {
        let removed = sqlx::query(PRUNE)
            .persistent(keeps_statements(session))
            .bind(millis(age))
            .bind(i64::from(chunk))
            .execute(session)
            .await?;
        Ok(removed.rows_affected())
    }
}
