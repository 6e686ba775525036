//! Rows that wait for another attempt.

use std::time::Duration;

use sqlx::{Sqlite, SqliteConnection};

use super::rows::{millis_until, retries, select};
use crate::{
    feed::{
        duration,
        flow::{self, Read as _, SqlClient as _},
        rows, text_to_send,
    },
    port::{DUE_MAX, FeedError, Retries, Row},
};

/// ?1 rows, ?2 bytes; the first goes whatever its size.
pub(super) const DUE: &str = concat!(
    select!(),
    "
FROM (SELECT e.*, sum(CASE WHEN blocked THEN 0 ELSE length(e.headers) + coalesce(length(e.payload), 0) END)
        OVER (ORDER BY e.retry_at, e.seq ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS bytes
    FROM (SELECT o.*, EXISTS (SELECT 1 FROM outbox_events f WHERE f.failed_at IS NOT NULL AND f.discarded_at IS NULL
            AND f.aggregate_type = o.aggregate_type AND f.aggregate_id = o.aggregate_id AND f.seq < o.seq) AS blocked
        FROM (SELECT * FROM outbox_events WHERE ",
    retries!(),
    " AND retry_at <= CAST(unixepoch('subsec') * 1000 AS INTEGER) ORDER BY retry_at, seq LIMIT ?1) o) e) e
WHERE coalesce(bytes, 0) < ?2 ORDER BY retry_at, seq"
);
/// One probe of the index.
const NEXT_DUE: &str = concat!(
    "SELECT ",
    millis_until!("retry_at"),
    " FROM outbox_events WHERE ",
    retries!(),
    " ORDER BY retry_at, seq LIMIT 1"
);

impl Retries for Sqlite {
    async fn due(
        session: &mut SqliteConnection,
        most: usize,
        bytes_max: usize,
    ) -> Result<Vec<Row>, FeedError> {
        let found = sqlx::query(text_to_send(DUE))
            .bind(rows(most.min(DUE_MAX)))
            .bind(rows(bytes_max))
            .fetch_all(session)
            .await?;
        Ok(found.iter().map(|row| flow::rows::row(row, true)).collect::<Result<_, _>>()?)
    }

    async fn next_due(session: &mut SqliteConnection) -> Result<Option<Duration>, FeedError> {
        let found = Self::fetch_optional(session, NEXT_DUE, &[]).await?;
        Ok(found.map(|row| row.at(0)).transpose()?.map(duration))
    }
}
