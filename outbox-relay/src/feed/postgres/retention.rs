//! Removing rows.

use std::time::Duration;

use outbox_core::internal::keeps_statements;
use sqlx::{PgConnection, Postgres};

use crate::{
    feed::millis,
    port::{FeedError, Pruned, Retention},
};

/// $1 age in milliseconds, $2 chunk, $3 behind which number. What was written first was sent first, or nearly, so that
/// behind a row that was sent lately, or is not sent yet, nothing is old enough. What is set aside says nothing.
const PRUNE: &str = "WITH page AS MATERIALIZED (
    SELECT seq, coalesce(sent_at, discarded_at) AS done, failed_at IS NOT NULL AS failed
    FROM outbox_events WHERE seq > $3 ORDER BY seq LIMIT $2),
gone AS (DELETE FROM outbox_events o USING page p
    WHERE o.seq = p.seq AND p.done <= now() - $1 * interval '1 millisecond' RETURNING 1)
SELECT (SELECT count(*) FROM gone), max(seq), coalesce(bool_and(failed AND done IS NULL), true),
    coalesce(bool_or(done > now() - $1 * interval '1 millisecond' OR (done IS NULL AND NOT failed)), true) FROM page";

impl Retention for Postgres {
    async fn prune(
        session: &mut PgConnection,
        age: Duration,
        chunk: u32,
        after: i64,
    ) -> Result<Pruned, FeedError> {
        let (removed, last, idle, end): (i64, Option<i64>, bool, bool) = sqlx::query_as(PRUNE)
            .persistent(keeps_statements(session))
            .bind(millis(age))
            .bind(i64::from(chunk))
            .bind(after)
            .fetch_one(session)
            .await?;
        Ok(Pruned { removed: removed.unsigned_abs(), last, idle, end })
    }
}
