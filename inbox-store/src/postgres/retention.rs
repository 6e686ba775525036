//! Pruning: a walk over the table by ranges of pages, which needs no index and no long transaction.

use std::time::Duration;

use inbox_engine::internal::Rule;
use sqlx::{PgConnection, Postgres};

use super::{
    sent::on,
    session::{begin_own, end_own},
};
use crate::port::{PruneCursor, PruneStep, Retentions};

/// Pages of 8 KiB a step: about 6,000 rows.
const PAGES_PER_STEP: i64 = 64;

const LOCK: &str =
    "SELECT pg_try_advisory_xact_lock(hashtextextended('inbox prune ' || current_schema(), 0))";

const PAGES: &str =
    "SELECT pg_relation_size('inbox_events'::regclass) / current_setting('block_size')::bigint";

/// $1 consumer, $2 first page, $3 page after the last one, $4 age in seconds.
pub(super) const PRUNE: &str = r#"DELETE FROM inbox_events i USING inbox_partitions w, inbox_consumers c
WHERE i.ctid >= $2::text::tid AND i.ctid < $3::text::tid
AND c.consumer = $1 AND i.consumer_ref = c.consumer_ref
AND w.partition_ref = i.partition_ref
AND NOT i.parked
AND (i."offset" < w.watermark OR w.retired_at IS NOT NULL)
AND i.processed_at < now() - make_interval(secs => $4)"#;

/// $1 consumer, $2 age in seconds. Acts are numbered as they come: the oldest are looked at, and no others.
const PRUNE_AUDIT: &str = "DELETE FROM inbox_audit WHERE audit_seq IN (SELECT o.audit_seq
    FROM (SELECT a.audit_seq, a.at FROM inbox_audit a JOIN inbox_consumers c USING (consumer_ref)
        WHERE c.consumer = $1 ORDER BY a.audit_seq LIMIT 1000) o
    WHERE o.at < now() - make_interval(secs => $2))";

impl Retentions for Postgres {
    async fn prune_step(
        conn: &mut PgConnection,
        consumer: &str,
        age: Duration,
        cursor: PruneCursor,
    ) -> Result<PruneStep, sqlx::Error> {
        begin_own(conn).await?;
        let step = step(conn, consumer, age, cursor).await;
        end_own(conn, step).await
    }

    async fn prune_audit(
        conn: &mut PgConnection,
        consumer: &str,
        age: Duration,
    ) -> Result<u64, sqlx::Error> {
        begin_own(conn).await?;
        let query = sqlx::query(PRUNE_AUDIT).bind(consumer).bind(age.as_secs_f64());
        let removed = query.execute(on(conn)).await.map(|done| done.rows_affected());
        end_own(conn, removed).await
    }
}

async fn step(
    conn: &mut PgConnection,
    consumer: &str,
    age: Duration,
    cursor: PruneCursor,
) -> Result<PruneStep, sqlx::Error> {
    let alone: bool = sqlx::query_scalar(LOCK).fetch_one(on(conn)).await?;
    if !alone && Rule::PruneAlone.on() {
        return Ok(PruneStep { removed: 0, next: None, steps_left: 0, busy: true });
    }
    let pages: i64 = sqlx::query_scalar(PAGES).fetch_one(on(conn)).await?;
    let from = cursor.0.max(0);
    let to = if Rule::PruneAlone.on() { from.saturating_add(PAGES_PER_STEP) } else { pages };
    let removed = sqlx::query(PRUNE)
        .bind(consumer)
        .bind(tid(from))
        .bind(tid(to))
        .bind(age.as_secs_f64())
        .execute(on(conn))
        .await?
        .rows_affected();
    let next = (to < pages).then_some(PruneCursor(to));
    let left = pages.saturating_sub(to).max(0).saturating_add(PAGES_PER_STEP - 1) / PAGES_PER_STEP;
    let steps_left = u32::try_from(left).unwrap_or(u32::MAX);
    Ok(PruneStep { removed, next, steps_left, busy: false })
}

/// The first place of a page.
fn tid(page: i64) -> String {
    format!("({},0)", page.min(i64::from(u32::MAX)))
}
