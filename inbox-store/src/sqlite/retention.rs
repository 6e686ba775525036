//! Pruning: a walk over the table in the order of arrival, in steps of bounded size.

use std::time::Duration;

use inbox_engine::internal::Rule;
use sqlx::{Sqlite, SqliteConnection};

use super::{
    client::on,
    session::{begin_own, end_own},
};
use crate::port::{PruneCursor, PruneStep, Retentions};

/// Rows a step looks at. When all of them go, the writer has 2 ms of work with ids of ascending times, and some
/// 25 ms with random ones, each on a page of its own.
const ROWS_PER_STEP: i64 = 2_000;

/// Where the step ends, whether anything in it is old, and where the table ends. ?1 after this one,
/// ?2 rows, ?3 age in milliseconds.
pub(super) const LOOK: &str = "SELECT max(seq),
coalesce(min(processed_at) < CAST(unixepoch('subsec') * 1000 AS INTEGER) - ?3, false),
(SELECT max(seq) FROM inbox_events)
FROM (SELECT seq, processed_at FROM inbox_events WHERE seq > ?1 ORDER BY seq LIMIT ?2)";

/// ?1 consumer, ?2 after this one, ?3 up to and including, ?4 age in milliseconds. The plus sign keeps the
/// planner from the key, by which it would go through all rows of the consumer.
pub(super) const PRUNE: &str = r#"DELETE FROM inbox_events AS i
WHERE i.seq > ?2 AND i.seq <= ?3
AND +i.consumer_ref = (SELECT consumer_ref FROM inbox_consumers WHERE consumer = ?1)
AND i.processed_at < CAST(unixepoch('subsec') * 1000 AS INTEGER) - ?4
AND NOT i.parked
AND EXISTS (SELECT 1 FROM inbox_partitions w WHERE w.partition_ref = i.partition_ref
    AND (i."offset" < w.watermark OR w.retired_at IS NOT NULL))"#;

/// ?1 consumer, ?2 age in milliseconds. Acts are numbered as they come: the oldest are looked at, and no others.
const PRUNE_AUDIT: &str = "DELETE FROM inbox_audit WHERE audit_seq IN (SELECT o.audit_seq
    FROM (SELECT a.audit_seq, a.at FROM inbox_audit a JOIN inbox_consumers c USING (consumer_ref)
        WHERE c.consumer = ?1 ORDER BY a.audit_seq LIMIT 1000) o
    WHERE o.at < CAST(unixepoch('subsec') * 1000 AS INTEGER) - ?2)";

impl Retentions for Sqlite {
    async fn prune_step(
        conn: &mut SqliteConnection,
        consumer: &str,
        age: Duration,
        cursor: PruneCursor,
    ) -> Result<PruneStep, sqlx::Error> {
        let age = i64::try_from(age.as_millis()).unwrap_or(i64::MAX / 2);
        let rows = if Rule::PruneAlone.on() { ROWS_PER_STEP } else { -1 };
        // Beside the writer: in a large inbox with a long retention nearly every step removes nothing.
        let (up_to, old, newest): (Option<i64>, bool, Option<i64>) =
            sqlx::query_as(LOOK).bind(cursor.0).bind(rows).bind(age).fetch_one(on(conn)).await?;
        let (Some(up_to), Some(newest)) = (up_to, newest) else {
            return Ok(PruneStep { removed: 0, next: None, steps_left: 0, busy: false });
        };
        let removed = if old { remove(conn, consumer, age, (cursor.0, up_to)).await? } else { 0 };
        let next = (up_to < newest).then_some(PruneCursor(up_to));
        let left = newest.saturating_sub(up_to).saturating_add(ROWS_PER_STEP - 1) / ROWS_PER_STEP;
        let steps_left = u32::try_from(left).unwrap_or(u32::MAX);
        Ok(PruneStep { removed, next, steps_left, busy: false })
    }

    async fn prune_audit(
        conn: &mut SqliteConnection,
        consumer: &str,
        age: Duration,
    ) -> Result<u64, sqlx::Error> {
        let age = i64::try_from(age.as_millis()).unwrap_or(i64::MAX / 2);
        begin_own(conn).await?;
        let query = sqlx::query(PRUNE_AUDIT).bind(consumer).bind(age);
        let removed = query.execute(&mut *conn).await.map(|done| done.rows_affected());
        end_own(conn, removed).await
    }
}

/// Removes what is old of the rows after one, up to another. The writer's turn is the
/// pruner's lock.
async fn remove(
    conn: &mut SqliteConnection,
    consumer: &str,
    age: i64,
    (after, up_to): (i64, i64),
) -> Result<u64, sqlx::Error> {
    begin_own(conn).await?;
    let query = sqlx::query(PRUNE).bind(consumer).bind(after).bind(up_to).bind(age);
    let removed = query.execute(on(conn)).await.map(|done| done.rows_affected());
    end_own(conn, removed).await
}
