//! Looking, for metrics, and for what is wrong; and what the relay's role may do.

use outbox_core::internal::objects;
use sqlx::{Sqlite, SqliteConnection};

use crate::{
    feed::flow::{Read as _, SqlClient as _, inspection::InspectionSql},
    port::{FeedError, Finding, Rights},
};

const DURABLE: &str = "PRAGMA synchronous";

impl InspectionSql for Sqlite {
    /// How large a table is no file says without reading it. SQLite would take the table itself, which is in the order
    /// of its numbers, too.
    const READING: &'static str = "SELECT
    (SELECT count(*) FROM (SELECT seq FROM outbox_events INDEXED BY outbox_events_unsent
        WHERE sent_at IS NULL AND failed_at IS NULL ORDER BY seq LIMIT 20000)) AS unsent,
    o.seq AS oldest, o.waits AS oldest_waits, d.waits AS retry_waits, d.failing AS failing_waits, t.waits AS named_waits,
    (SELECT seq FROM outbox_events ORDER BY seq DESC LIMIT 1) AS newest,
    s.rows AS set_aside, d.rows - d.delayed AS retrying, d.delayed,
    t.rows - t.destinations AS without_topic, t.destinations AS without_destination,
    (SELECT count(*) FROM (SELECT seq FROM outbox_events INDEXED BY outbox_events_failed
        WHERE failed_at IS NOT NULL AND discarded_at IS NULL
        ORDER BY aggregate_type, aggregate_id, seq LIMIT 2000)) AS together,
    NULL AS table_bytes, NULL AS index_bytes,
    coalesce(r.lease_until / 1000.0 - unixepoch('subsec'), 0.0) AS lease
FROM (SELECT count(*) AS rows FROM (SELECT seq FROM outbox_events INDEXED BY outbox_events_set_aside
    WHERE failed_at IS NOT NULL AND discarded_at IS NULL AND held = 0 AND retry_at IS NULL AND waits_for IS NULL
    ORDER BY seq LIMIT 1000)) s
CROSS JOIN (SELECT count(*) AS rows,
        count(*) FILTER (WHERE deliver_after > CAST(unixepoch('subsec') * 1000 AS INTEGER)) AS delayed,
        max(unixepoch('subsec') - since / 1000.0)
            FILTER (WHERE coalesce(deliver_after <= CAST(unixepoch('subsec') * 1000 AS INTEGER), 1)) AS waits,
        max(unixepoch('subsec') - since / 1000.0) FILTER (WHERE attempts > 0) AS failing
    FROM (SELECT deliver_after, attempts, max(created_at, coalesce(deliver_after, created_at)) AS since
        FROM outbox_events INDEXED BY outbox_events_retries
        WHERE failed_at IS NOT NULL AND discarded_at IS NULL AND held = 0 AND retry_at IS NOT NULL
        ORDER BY retry_at, seq LIMIT 1000)) d
CROSS JOIN (SELECT count(*) AS rows, count(*) FILTER (WHERE waits_for LIKE 'destination %') AS destinations,
        max(unixepoch('subsec') - since / 1000.0) AS waits
    FROM (SELECT waits_for, max(created_at, coalesce(deliver_after, created_at)) AS since
        FROM outbox_events INDEXED BY outbox_events_waits
        WHERE waits_for IS NOT NULL ORDER BY waits_for, seq LIMIT 1000)) t
LEFT JOIN (SELECT seq, unixepoch('subsec') - max(created_at, coalesce(deliver_after, created_at)) / 1000.0 AS waits
    FROM outbox_events INDEXED BY outbox_events_unsent
    WHERE sent_at IS NULL AND failed_at IS NULL ORDER BY seq LIMIT 1) o
LEFT JOIN outbox_relays r";

    async fn doubts(session: &mut SqliteConnection) -> Result<Vec<Finding>, FeedError> {
        let level: i64 = Self::fetch_one(session, DURABLE, &[]).await?.at(0)?;
        let mut found = objects::unsound_in_file(session, objects::OUTBOX).await?;
        if level < 2 {
            found.push(
                "the database is not durable: synchronous is below FULL; set it to FULL".into(),
            );
        }
        Ok(found.into_iter().map(|text| Finding { fatal: false, text }).collect())
    }
}

impl Rights for Sqlite {
    /// A file knows no roles.
    async fn rights(_session: &mut SqliteConnection) -> Result<Option<Finding>, FeedError> {
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use sqlx::Connection as _;

    use super::*;
    use crate::port::{Inspection as _, Measurements as _, Reading, Schema as _};

    async fn outbox() -> SqliteConnection {
        let mut session = SqliteConnection::connect("sqlite::memory:").await.unwrap();
        Sqlite::migrate(&mut session).await.unwrap();
        session
    }

    async fn run(session: &mut SqliteConnection, sql: &'static str) {
        sqlx::raw_sql(sql).execute(session).await.unwrap();
    }

    #[tokio::test]
    async fn a_reading_tells_what_waits_up_to_its_bounds() {
        let mut session = outbox().await;
        assert_eq!(Sqlite::reading(&mut session).await.unwrap(), Reading::default());
        run(
            &mut session,
            "INSERT INTO outbox_events (event_id, event_type, aggregate_type, aggregate_id, created_at, sent_at, failed_at,
                held, waits_for, retry_at, deliver_after)
            SELECT randomblob(16), 'T', 'A', n, unixepoch() * 1000 - CASE n WHEN 14 THEN 90000 WHEN 11 THEN 120000 ELSE 60000 END, CASE WHEN n <= 10 THEN 1 END,
                CASE WHEN n BETWEEN 11 AND 20 THEN 1 END, n BETWEEN 17 AND 20,
                CASE WHEN n BETWEEN 11 AND 12 THEN 'no-such' WHEN n = 13 THEN 'destination shop' END,
                CASE WHEN n IN (14, 15, 17) THEN 9000000000000 END, CASE WHEN n = 15 THEN 9000000000000 END
            FROM (WITH RECURSIVE n(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 25000) SELECT n FROM n);
            UPDATE outbox_events SET attempts = 2 WHERE seq = 14;
            UPDATE outbox_relays SET owner = 'me', lease_until = unixepoch() * 1000 + 30000",
        )
        .await;
        let found = Sqlite::reading(&mut session).await.unwrap();
        let Reading { oldest_waits, oldest_retry, lease_left, .. } = found;
        let between = |time: Duration, low, high| (low..=high).contains(&time.as_secs());
        assert!(between(lease_left, 20, 30), "{found:?}");
        // Row 14 is in retry, row 11 waits for a topic; neither is sent.
        assert!(between(oldest_retry.unwrap(), 89, 100), "{found:?}");
        assert!(between(oldest_waits.unwrap(), 119, 130), "{found:?}");
        let wanted = Reading {
            unsent: 20_000,
            oldest: Some(21),
            oldest_waits,
            oldest_retry,
            newest: Some(25_000),
            set_aside: 1,
            retrying: 1,
            delayed: 1,
            without_topic: 2,
            without_destination: 1,
            held: 4,
            table_bytes: None,
            index_bytes: None,
            lease_left,
        };
        assert_eq!(found, wanted);
    }

    /// What a reading costs is what waits, up to its bounds, and never the table.
    #[tokio::test]
    async fn a_reading_reads_indexes_in_their_order() {
        let mut session = outbox().await;
        let plan: Vec<(i64, i64, i64, String)> =
            sqlx::query_as(sqlx::AssertSqlSafe(format!("EXPLAIN QUERY PLAN {}", Sqlite::READING)))
                .fetch_all(&mut session)
                .await
                .unwrap();
        let steps: Vec<&str> = plan.iter().map(|(.., step)| step.as_str()).collect();
        let sorts = steps.iter().filter(|step| step.contains("TEMP B-TREE")).count();
        let looks = steps.iter().filter(|step| step.contains("outbox_events USING"));
        assert_eq!((sorts, looks.count()), (0, 6), "{steps:#?}");
        // The fifth takes the last row of the table.
        let scans = steps.iter().filter(|step| **step == "SCAN outbox_events").count();
        assert_eq!(scans, 1, "{steps:#?}");
    }

    /// A table that was made anew without its keys takes all statements of a relay.
    #[tokio::test]
    async fn a_table_that_was_rebuilt_by_hand_is_told() {
        let mut session = outbox().await;
        assert_eq!(Sqlite::findings(&mut session).await.unwrap(), []);
        let rebuilt = "ALTER TABLE outbox_events RENAME TO kept; CREATE TABLE outbox_events AS SELECT * FROM kept";
        sqlx::raw_sql(rebuilt).execute(&mut session).await.unwrap();
        let found = Sqlite::findings(&mut session).await.unwrap();
        let told =
            |fatal, text| found.iter().any(|one| one.fatal == fatal && one.text.starts_with(text));
        assert!(told(true, "sequence_behind: outbox_events.seq is not AUTOINCREMENT"), "{found:?}");
        assert!(told(false, "no unique index of outbox_events has exactly"), "{found:?}");
    }
}
