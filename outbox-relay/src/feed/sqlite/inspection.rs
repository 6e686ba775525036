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
    const READING: &'static str = "SELECT min(20000, w.rows + y.rows) AS unsent,
    min(coalesce(o.seq, r.seq), coalesce(r.seq, o.seq)) AS oldest,
    nullif(max(coalesce(o.waits, -1e15), coalesce(r.waits, -1e15), coalesce(f.waits, -1e15), coalesce(s.waits, -1e15),
        coalesce(t.waits, -1e15)), -1e15) AS oldest_waits, f.waits AS oldest_retry,
    (SELECT seq FROM outbox_events ORDER BY seq DESC LIMIT 1) AS newest,
    p.rows AS set_aside, f.rows AS retrying, s.rows AS delayed,
    t.topics AS without_topic, t.rows - t.topics AS without_destination, b.rows AS held,
    NULL AS table_bytes, NULL AS index_bytes,
    coalesce(l.lease_until / 1000.0 - unixepoch('subsec'), 0.0) AS lease
FROM (SELECT count(*) AS rows FROM (SELECT seq FROM outbox_events INDEXED BY outbox_events_unsent
    WHERE sent_at IS NULL AND parked_at IS NULL ORDER BY seq LIMIT 20000)) w
CROSS JOIN (SELECT count(*) AS rows FROM (SELECT seq FROM outbox_parked INDEXED BY outbox_parked_states
    WHERE state = 'ready' ORDER BY seq LIMIT 20000)) y
CROSS JOIN (SELECT count(*) AS rows FROM (SELECT seq FROM outbox_parked INDEXED BY outbox_parked_states
    WHERE state = 'parked' ORDER BY seq LIMIT 1000)) p
CROSS JOIN (SELECT count(*) AS rows FROM (SELECT seq FROM outbox_parked INDEXED BY outbox_parked_states
    WHERE state = 'behind' ORDER BY seq LIMIT 2000)) b
CROSS JOIN (SELECT count(*) AS rows, max(unixepoch('subsec') - max(e.created_at, coalesce(e.deliver_after, e.created_at)) / 1000.0) AS waits
    FROM (SELECT seq FROM outbox_parked INDEXED BY outbox_parked_states WHERE state = 'retry' ORDER BY seq LIMIT 1000) f
        LEFT JOIN outbox_events e ON e.seq = f.seq) f
CROSS JOIN (SELECT count(*) AS rows, max(unixepoch('subsec') - max(e.created_at, coalesce(e.deliver_after, e.created_at)) / 1000.0)
        FILTER (WHERE due_at <= CAST(unixepoch('subsec') * 1000 AS INTEGER)) AS waits
    FROM (SELECT seq, due_at FROM outbox_parked INDEXED BY outbox_parked_states WHERE state = 'scheduled' ORDER BY seq LIMIT 1000) s
        LEFT JOIN outbox_events e ON e.seq = s.seq) s
CROSS JOIN (SELECT count(*) AS rows, count(*) FILTER (WHERE destination LIKE 'kafka:%') AS topics, max(unixepoch('subsec') - max(e.created_at, coalesce(e.deliver_after, e.created_at)) / 1000.0) AS waits
    FROM (SELECT seq, destination FROM outbox_parked INDEXED BY outbox_parked_states WHERE state = 'waiting' ORDER BY seq LIMIT 1000) t
        LEFT JOIN outbox_events e ON e.seq = t.seq) t
LEFT JOIN (SELECT seq, unixepoch('subsec') - max(created_at, coalesce(deliver_after, created_at)) / 1000.0 AS waits
    FROM outbox_events INDEXED BY outbox_events_unsent
    WHERE sent_at IS NULL AND parked_at IS NULL ORDER BY seq LIMIT 1) o
LEFT JOIN (SELECT p.seq, unixepoch('subsec') - max(e.created_at, coalesce(e.deliver_after, e.created_at)) / 1000.0 AS waits
    FROM (SELECT seq FROM outbox_parked INDEXED BY outbox_parked_states WHERE state = 'ready' ORDER BY seq LIMIT 1) p
        LEFT JOIN outbox_events e ON e.seq = p.seq) r
LEFT JOIN outbox_relays l";

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
            "INSERT INTO outbox_events (event_id, event_type, aggregate_type, aggregate_id, created_at, sent_at, parked_at)
            SELECT randomblob(16), 'T', 'A', n, unixepoch() * 1000 - CASE n WHEN 14 THEN 90000 WHEN 11 THEN 120000 ELSE 60000 END,
                CASE WHEN n <= 10 THEN 1 END, CASE WHEN n BETWEEN 11 AND 21 THEN 1 END
            FROM (WITH RECURSIVE n(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 25000) SELECT n FROM n);
            INSERT INTO outbox_parked (seq, state, destination, due_at, attempts, aggregate_type, aggregate_id)
            SELECT column1, column2, column3, column4, column5, 'A', column1 FROM (VALUES
                (11, 'waiting', 'kafka:no-such', 1, 0), (12, 'waiting', 'kafka:no-such', 1, 0), (13, 'waiting', 'shop', 1, 0),
                (14, 'retry', 'kafka', 9000000000000, 2), (15, 'scheduled', 'kafka', 9000000000000, 0),
                (16, 'parked', 'kafka', NULL, 0), (17, 'behind', 'kafka', NULL, 0), (18, 'behind', 'kafka', NULL, 0),
                (19, 'behind', 'kafka', NULL, 0), (20, 'behind', 'kafka', NULL, 0), (21, 'ready', 'kafka', 1, 0));
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
        let parked = steps.iter().filter(|step| step.contains("INDEX outbox_parked_states"));
        assert_eq!((sorts, looks.count(), parked.count()), (0, 2, 7), "{steps:#?}");
        // The newest row is the last of the table.
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
