//! Pruning: a walk by age, in steps of bounded size.

use std::time::Duration;

use inbox_engine::Rule;
use sqlx::{Sqlite, SqliteConnection};

use super::session::{begin_own, end_own};
use crate::{
    pipeline::port::{PruneCursor, PruneStep, Retentions},
    store::statement::{Cut, Statement},
};

/// Rows a step looks at, and those of the same millisecond as the last one.
const ROWS_PER_STEP: i64 = 1_000;

/// The youngest time that may go. ?1 age in milliseconds.
static OLD: Statement = Statement::new(
    "SELECT CAST(unixepoch('subsec') * 1000 AS INTEGER) - ?1",
    // A process whose clock runs ahead.
    &[Cut::new(Rule::PruneByDatabaseClock, "- ?1", "- ?1 + 3155760000000")],
);

/// Where the step ends. ?1 consumer, ?2 from, ?3 the youngest time, ?4 rows.
static UP_TO: Statement = Statement::new(
    "SELECT max(processed_at) FROM (SELECT e.processed_at FROM inbox_events e
    JOIN inbox_consumers c ON c.consumer = ?1 AND e.consumer_ref = c.consumer_ref
    WHERE e.processed_at >= ?2 AND e.processed_at < ?3 ORDER BY e.processed_at LIMIT ?4)",
    &[Cut::new(Rule::ConsumerScope, "AND e.consumer_ref = c.consumer_ref", "")],
);

/// ?1 consumer, ?2 from, ?3 up to and including.
static PRUNE: Statement = Statement::new(
    r#"DELETE FROM inbox_events AS i
WHERE i.consumer_ref = (SELECT consumer_ref FROM inbox_consumers WHERE consumer = ?1)
AND i.processed_at >= ?2 AND i.processed_at <= ?3
AND NOT i.parked
AND EXISTS (SELECT 1 FROM inbox_partitions w WHERE w.partition_ref = i.partition_ref
    AND (i."offset" < w.watermark OR w.retired_at IS NOT NULL))"#,
    &[
        Cut::new(
            Rule::ConsumerScope,
            "i.consumer_ref = (SELECT consumer_ref FROM inbox_consumers WHERE consumer = ?1)",
            "true",
        ),
        Cut::new(Rule::PruneSparesParked, "AND NOT i.parked", ""),
        Cut::new(
            Rule::PruneBelowWatermark,
            r#"AND (i."offset" < w.watermark OR w.retired_at IS NOT NULL)"#,
            "",
        ),
    ],
);

impl Retentions for Sqlite {
    async fn prune_step(
        conn: &mut SqliteConnection,
        consumer: &str,
        age: Duration,
        cursor: PruneCursor,
    ) -> Result<PruneStep, sqlx::Error> {
        begin_own(conn).await?;
        let step = step(conn, consumer, age, cursor).await;
        end_own(conn, step).await
    }
}

/// The writer's turn is the pruner's lock.
async fn step(
    conn: &mut SqliteConnection,
    consumer: &str,
    age: Duration,
    cursor: PruneCursor,
) -> Result<PruneStep, sqlx::Error> {
    let age = i64::try_from(age.as_millis()).unwrap_or(i64::MAX / 2);
    let old: i64 = sqlx::query_scalar(OLD.text()).bind(age).fetch_one(&mut *conn).await?;
    let rows = if Rule::PruneAlone.on() { ROWS_PER_STEP } else { -1 };
    let up_to: Option<i64> = sqlx::query_scalar(UP_TO.text())
        .bind(consumer)
        .bind(cursor.0)
        .bind(old)
        .bind(rows)
        .fetch_one(&mut *conn)
        .await?;
    let Some(up_to) = up_to else {
        return Ok(PruneStep { removed: 0, next: None, steps_left: 0, busy: false });
    };
    let removed = sqlx::query(PRUNE.text())
        .bind(consumer)
        .bind(cursor.0)
        .bind(up_to)
        .execute(conn)
        .await?
        .rows_affected();
    let next = Some(PruneCursor(up_to.saturating_add(1)));
    Ok(PruneStep { removed, next, steps_left: 1, busy: false })
}

#[cfg(test)]
mod tests {
    #[test]
    fn each_rule_is_in_its_statement() {
        super::OLD.check();
        super::UP_TO.check();
        super::PRUNE.check();
    }
}
