//! Rows that wait for another attempt.

use std::time::Duration;

use outbox_core::internal::keeps_statements;
use sqlx::{PgConnection, Postgres};

use super::rows::{millis_between, retries, row_bytes, select};
use crate::{
    feed::{
        duration,
        flow::{self, Read as _, SqlClient as _},
        rows, text_to_send,
    },
    port::{DUE_MAX, FeedError, Retries, Row},
};

/// $1 rows, $2 bytes; the first goes whatever its size. PostgreSQL is told the most that can come of it, or it expects a
/// tenth of all that is due, and sorts what it would find in order.
pub(super) const DUE: &str = concat!(
    select!("CASE WHEN blocked THEN NULL ELSE payload END AS payload, blocked"),
    "
FROM (SELECT e.*, sum(CASE WHEN blocked THEN 0 ELSE ",
    row_bytes!(),
    " END) OVER (ORDER BY e.retry_at, e.seq ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS bytes
    FROM (SELECT o.*, EXISTS (SELECT FROM outbox_events f WHERE f.failed_at IS NOT NULL AND f.discarded_at IS NULL
            AND f.aggregate_type = o.aggregate_type AND f.aggregate_id = o.aggregate_id AND f.seq < o.seq) AS blocked
        FROM (SELECT * FROM (SELECT * FROM outbox_events WHERE ",
    retries!(),
    " AND retry_at <= now() ORDER BY retry_at, seq LIMIT 1000) o
            ORDER BY retry_at, seq LIMIT $1) o ORDER BY retry_at, seq OFFSET 0) e) e
WHERE coalesce(bytes, 0) < $2 ORDER BY retry_at, seq"
);
/// One probe of the index.
const NEXT_DUE: &str = concat!(
    "SELECT ",
    millis_between!("now()", "retry_at"),
    " FROM outbox_events WHERE ",
    retries!(),
    " ORDER BY retry_at, seq LIMIT 1"
);

impl Retries for Postgres {
    async fn due(
        session: &mut PgConnection,
        most: usize,
        bytes_max: usize,
    ) -> Result<Vec<Row>, FeedError> {
        let found = sqlx::query(text_to_send(DUE))
            .persistent(keeps_statements(session))
            .bind(rows(most.min(DUE_MAX)))
            .bind(rows(bytes_max))
            .fetch_all(session)
            .await?;
        Ok(found.iter().map(|row| flow::rows::row(row, true)).collect::<Result<_, _>>()?)
    }

    async fn next_due(session: &mut PgConnection) -> Result<Option<Duration>, FeedError> {
        let found = Self::fetch_optional(session, NEXT_DUE, &[]).await?;
        Ok(found.map(|row| row.at(0)).transpose()?.map(duration))
    }
}

#[cfg(feature = "cli")]
#[cfg(test)]
mod services {
    use serde_json::Value;
    use sqlx::{AssertSqlSafe, Row as _};

    use super::*;
    use crate::{
        feed::{postgres::rows::UNSENT_BESIDE, tests::session},
        port::Schema as _,
    };

    /// What a plan has read of the outbox, in rows, and the scans that did.
    fn read(plan: &Value, scans: &mut Vec<String>) -> f64 {
        let number = |name: &str| plan[name].as_f64().unwrap_or_default();
        let mut rows = 0.0;
        if plan["Relation Name"] == "outbox_events" {
            let each = number("Actual Rows") + number("Rows Removed by Filter");
            rows += each * number("Actual Loops");
            scans.push(format!("{} {}: {rows}", plan["Node Type"], plan["Index Name"]));
        }
        let inner = plan["Plans"].as_array().into_iter().flatten();
        rows + inner.map(|plan| read(plan, scans)).sum::<f64>()
    }

    async fn run(conn: &mut PgConnection, sql: &str) {
        sqlx::raw_sql(AssertSqlSafe(sql.to_owned())).execute(conn).await.unwrap();
    }

    /// However much waits, a look reads what it takes: with the plan that fits what is asked, and with one for all.
    #[tokio::test]
    async fn looks_read_no_more_than_they_take_while_a_hundred_thousand_aggregates_wait() {
        let mut conn = session().await;
        Postgres::migrate(&mut conn).await.unwrap();
        // Behind what was sent, so that a look from the start would read all of that.
        let fill = "INSERT INTO outbox_events
            (event_id, event_type, aggregate_type, aggregate_id, payload, sent_at, failed_at, retry_at, attempts)
            SELECT gen_random_uuid(), 'T', 'A', n::text, 'x', CASE WHEN n <= 100000 THEN now() END,
                CASE WHEN n BETWEEN 100001 AND 200000 THEN now() END,
                CASE WHEN n BETWEEN 100001 AND 200000 THEN now() + (n * 7919 % 100000 - 50000) * interval '1 second' END, 1
            FROM generate_series(1, 200300) n;
            INSERT INTO outbox_events (event_id, event_type, aggregate_type, aggregate_id)
            SELECT gen_random_uuid(), 'T', 'A', (100000 + n)::text FROM generate_series(1, 200) n;
            ANALYZE outbox_events";
        run(&mut conn, fill).await;
        let looks = [
            (DUE, "(200, 1048576)", 1_000.0),
            (NEXT_DUE, "", 1.0),
            (UNSENT_BESIDE[0], "(500, 1048576, 500, true)", 3_000.0),
            (UNSENT_BESIDE[0], "(500, 1048576, 500, false)", 3_000.0),
        ];
        for mode in ["force_custom_plan", "force_generic_plan"] {
            for (text, values, most) in looks {
                run(&mut conn, &format!("SET plan_cache_mode = {mode}; PREPARE look AS {text}"))
                    .await;
                let explain = format!("EXPLAIN (ANALYZE, FORMAT JSON) EXECUTE look{values}");
                let found =
                    sqlx::raw_sql(AssertSqlSafe(explain)).fetch_one(&mut conn).await.unwrap();
                let plan: Value =
                    serde_json::from_str(found.try_get_unchecked::<&str, _>(0).unwrap()).unwrap();
                let mut scans = Vec::new();
                let rows = read(&plan[0]["Plan"], &mut scans);
                assert!(rows <= most, "{mode}: {rows} rows are read: {scans:?}\n{text}");
                run(&mut conn, "DEALLOCATE look").await;
            }
        }
        let due = Postgres::due(&mut conn, 200, 1 << 20).await.unwrap();
        assert_eq!(due.len(), 200);
        assert!(due.iter().all(|row| !row.blocked));
        assert_eq!(Postgres::next_due(&mut conn).await.unwrap(), Some(Duration::ZERO));
        run(
            &mut conn,
            "DO $$ BEGIN EXECUTE 'DROP SCHEMA ' || current_schema() || ' CASCADE'; END $$",
        )
        .await;
    }
}
