//! The rows that wait.

use sqlx::{Connection, Row as _, Sqlite, SqliteConnection, sqlite::SqliteRow};

use crate::{
    feed::{rows, stored::Columns},
    port::{Failure, FeedError, Row, Rows},
};

/// ?1 rows, ?2 bytes. The first row goes whatever its size. Rows behind a failed one of their aggregate
/// wait.
const UNSENT: &str = "SELECT seq, event_id, event_type, aggregate_type, aggregate_id, aggregate_version,
    occurred_at_ms, schema_version, topic, headers, payload
FROM (SELECT e.*, sum(length(e.headers) + coalesce(length(e.payload), 0))
        OVER (ORDER BY e.seq ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before_bytes
    FROM (SELECT * FROM outbox_events o WHERE o.sent_at IS NULL AND o.failed_at IS NULL
        AND NOT EXISTS (SELECT 1 FROM outbox_events f WHERE f.failed_at IS NOT NULL AND f.discarded_at IS NULL
            AND f.aggregate_type = o.aggregate_type AND f.aggregate_id = o.aggregate_id AND f.seq < o.seq)
        ORDER BY o.seq LIMIT ?1) e) e
WHERE before_bytes IS NULL OR before_bytes < ?2 ORDER BY seq";

/// ?1 fence.
const MINE: &str = "SELECT 1 FROM outbox_relays WHERE epoch = ?1";
/// ?1 numbers as JSON.
const SENT: &str = "UPDATE outbox_events SET sent_at = CAST(unixepoch('subsec') * 1000 AS INTEGER)
WHERE seq IN (SELECT value FROM json_each(?1)) AND sent_at IS NULL";
/// ?1 number, ?2 error.
const FAILED: &str =
    "UPDATE outbox_events SET failed_at = CAST(unixepoch('subsec') * 1000 AS INTEGER), error = ?2
WHERE seq = ?1 AND sent_at IS NULL AND failed_at IS NULL";

impl Rows for Sqlite {
    async fn unsent(
        session: &mut SqliteConnection,
        events_max: usize,
        bytes_max: usize,
    ) -> Result<Vec<Row>, FeedError> {
        let found = sqlx::query(UNSENT)
            .bind(rows(events_max))
            .bind(rows(bytes_max))
            .fetch_all(session)
            .await?;
        Ok(found.iter().map(columns).collect::<Result<Vec<_>, _>>()?)
    }

    async fn mark(
        session: &mut SqliteConnection,
        fence: i64,
        sent: &[i64],
        failed: &[Failure],
    ) -> Result<bool, FeedError> {
        let mut tx = session.begin_with("BEGIN IMMEDIATE").await?;
        let mine: Option<i64> =
            sqlx::query_scalar(MINE).bind(fence).fetch_optional(&mut *tx).await?;
        if mine.is_none() {
            tx.rollback().await?;
            return Ok(false);
        }
        let numbers = serde_json::to_string(sent).unwrap_or_default();
        sqlx::query(SENT).bind(numbers).execute(&mut *tx).await?;
        for Failure { seq, error, .. } in failed {
            sqlx::query(FAILED).bind(seq).bind(error).execute(&mut *tx).await?;
        }
        tx.commit().await?;
        Ok(true)
    }
}

fn columns(row: &SqliteRow) -> Result<Row, sqlx::Error> {
    let columns = Columns {
        seq: row.try_get("seq")?,
        event_id: row.try_get("event_id")?,
        event_type: row.try_get("event_type")?,
        aggregate_type: row.try_get("aggregate_type")?,
        aggregate_id: row.try_get("aggregate_id")?,
        aggregate_version: row.try_get("aggregate_version")?,
        occurred_at_ms: row.try_get("occurred_at_ms")?,
        schema_version: row.try_get("schema_version")?,
        topic: row.try_get("topic")?,
        headers: row.try_get("headers")?,
        payload: row.try_get("payload")?,
    };
    Ok(columns.row())
}
