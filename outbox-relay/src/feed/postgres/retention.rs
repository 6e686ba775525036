//! Removing rows.

use std::time::Duration;

use sqlx::{PgConnection, Postgres};

use crate::{
    feed::{
        flow::{Read as _, SqlClient as _, values},
        millis,
    },
    port::{FeedError, Pruned, Retention},
};

/// $1 age in milliseconds, $2 chunk, $3 behind which number. What was written first was sent first, or nearly, so that
/// behind rows that were sent lately nothing is old enough. What is parked or not sent yet says nothing: its destination
/// may be out, or its time may not have come.
const PRUNE: &str = "WITH page AS MATERIALIZED (
    SELECT seq, coalesce(sent_at, discarded_at) <= now() - $1 * interval '1 millisecond' AS old,
        parked_at IS NOT NULL AS parked FROM outbox_events WHERE seq > $3 ORDER BY seq LIMIT $2),
gone AS (DELETE FROM outbox_events o USING page p
    WHERE o.seq = p.seq AND p.old RETURNING 1)
SELECT (SELECT count(*) FROM gone), max(seq),
    coalesce(bool_and(old IS NOT FALSE) AND (bool_and(parked OR old IS TRUE) OR count(*) = $2), true),
    coalesce(bool_or(NOT old), false) AND NOT coalesce(bool_or(old), false) FROM page";

impl Retention for Postgres {
    async fn prune(
        session: &mut PgConnection,
        age: Duration,
        chunk: u32,
        after: i64,
    ) -> Result<Pruned, FeedError> {
        let values = values![millis(age), i64::from(chunk), after];
        let row = Self::fetch_one(session, PRUNE, values).await?;
        let removed: i64 = row.at(0)?;
        Ok(Pruned {
            removed: removed.unsigned_abs(),
            last: row.at(1)?,
            idle: row.at(2)?,
            end: row.at(3)?,
        })
    }
}
