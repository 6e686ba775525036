//! The rows that wait.

use outbox_core::keeps_statements;
use sqlx::{PgConnection, Postgres, Row as _, postgres::PgRow};

use crate::{
    feed::{rows, stored::Columns},
    port::{Failure, FeedError, Row, Rows},
};

/// $1 rows, $2 bytes. The first row goes whatever its size; what a row adds is known without reading its
/// payload. Rows behind a failed one of their aggregate wait.
const UNSENT: &str = "SELECT seq, event_id, event_type, aggregate_type, aggregate_id, aggregate_version,
    occurred_at_ms, schema_version, topic, headers, payload
FROM (SELECT e.*, sum(octet_length(e.headers)::bigint + coalesce(octet_length(e.payload), 0))
        OVER (ORDER BY e.seq ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before
    FROM (SELECT * FROM outbox_events o WHERE o.sent_at IS NULL AND o.failed_at IS NULL
        AND NOT EXISTS (SELECT FROM outbox_events f WHERE f.failed_at IS NOT NULL AND f.discarded_at IS NULL
            AND f.aggregate_type = o.aggregate_type AND f.aggregate_id = o.aggregate_id AND f.seq < o.seq)
        ORDER BY o.seq LIMIT $1) e) e
WHERE before IS NULL OR before < $2 ORDER BY seq";

/// $1 fence, $2 sent, $3 failed, $4 errors. The lock holds whoever wants the turn until this is
/// committed.
const MARK: &str = "WITH mine AS MATERIALIZED (
    SELECT 1 FROM outbox_relays WHERE epoch = $1 FOR NO KEY UPDATE),
sent AS (UPDATE outbox_events SET sent_at = now()
    WHERE seq = ANY($2) AND sent_at IS NULL AND EXISTS (SELECT FROM mine)),
failed AS (UPDATE outbox_events o SET failed_at = now(), error = f.error
    FROM unnest($3::bigint[], $4::text[]) f(seq, error)
    WHERE o.seq = f.seq AND o.sent_at IS NULL AND o.failed_at IS NULL AND EXISTS (SELECT FROM mine))
SELECT EXISTS (SELECT FROM mine)";

impl Rows for Postgres {
    async fn unsent(
        session: &mut PgConnection,
        events_max: usize,
        bytes_max: usize,
    ) -> Result<Vec<Row>, FeedError> {
        let found = sqlx::query(UNSENT)
            .persistent(keeps_statements(session))
            .bind(rows(events_max))
            .bind(rows(bytes_max))
            .fetch_all(session)
            .await?;
        Ok(found.iter().map(columns).collect::<Result<Vec<_>, _>>()?)
    }

    async fn mark(
        session: &mut PgConnection,
        fence: i64,
        sent: &[i64],
        failed: &[Failure],
    ) -> Result<bool, FeedError> {
        let (seqs, errors): (Vec<i64>, Vec<&str>) =
            failed.iter().map(|failure| (failure.seq, failure.error.as_str())).unzip();
        let mine = sqlx::query_scalar(MARK)
            .persistent(keeps_statements(session))
            .bind(fence)
            .bind(sent)
            .bind(seqs)
            .bind(errors)
            .fetch_one(session)
            .await?;
        Ok(mine)
    }
}

fn columns(row: &PgRow) -> Result<Row, sqlx::Error> {
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
