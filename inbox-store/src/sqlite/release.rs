//! The texts of releases.

use inbox_engine::internal::NextOffset;
use sqlx::{Sqlite, SqliteConnection};
use uuid::Uuid;

use crate::{
    flow::{
        SqlClient as _,
        release::{ReleaseSql, ReleaseTexts, due},
        values,
    },
    json::{joined, places},
    port::{
        Scope,
        release::{Act, DueQueue, Requeued},
    },
    shared::millis,
};

/// ?1 partition, ?2 remapped below, ?3 limit, ?4 epoch: under a newer one the lanes may be others than
/// this process knows. Two index scans: what is due, and what somebody asked for. Only the head of a queue can be released; a discard is carried out wherever it is.
const FIND_DUE: &str = r#"SELECT q.lane, q.aggregate_key, q."offset", CASE WHEN q."offset" < ?2 THEN q.record END AS record
FROM (SELECT c.parked_seq,
        row_number() OVER (PARTITION BY c.aggregate_key ORDER BY c."offset", c.leader_epoch) AS place FROM (
        SELECT parked_seq, aggregate_key, "offset", leader_epoch, 0 AS anywhere FROM inbox_parked
        WHERE partition_ref = ?1 AND due_at <= CAST(unixepoch('subsec') * 1000 AS INTEGER)
        UNION ALL
        SELECT parked_seq, aggregate_key, "offset", leader_epoch, intent = 'discard' FROM inbox_parked
        WHERE partition_ref = ?1 AND intent IS NOT NULL) c
    WHERE c.anywhere OR NOT EXISTS (SELECT 1 FROM inbox_parked e
        WHERE e.partition_ref = ?1 AND e.aggregate_key = c.aggregate_key
        AND (e."offset", e.leader_epoch) < (c."offset", c.leader_epoch))) d
JOIN inbox_parked q ON q.parked_seq = d.parked_seq
WHERE d.place = 1 AND EXISTS (SELECT 1 FROM inbox_partitions w WHERE w.partition_ref = ?1 AND w.epoch = ?4)
ORDER BY q."offset", q.leader_epoch LIMIT ?3"#;

pub(super) static TEXTS: ReleaseTexts = ReleaseTexts {
    queue: r#"SELECT q.parked_seq, q.event_id, q.fingerprint, q.sha256, q."offset", q.leader_epoch, q.reason, q.attempts, q.releases,
    CASE WHEN q.due_at IS NULL THEN 0 WHEN q.due_at <= CAST(unixepoch('subsec') * 1000 AS INTEGER) THEN 1 ELSE 2 END AS turn,
    q.intent, q.intent_by, q.event_type, q.aggregate, q.errors,
    CASE WHEN q.intent = 'discard' THEN '' ELSE q.record END AS record
FROM inbox_parked q
WHERE q.parked_seq IN (
    SELECT parked_seq FROM (SELECT f.parked_seq FROM inbox_parked f
        WHERE f.partition_ref = ?1 AND f.aggregate_key = ?2 ORDER BY f."offset", f.leader_epoch LIMIT ?3)
    UNION SELECT parked_seq FROM (SELECT d.parked_seq FROM inbox_parked d
        WHERE d.partition_ref = ?1 AND d.aggregate_key = ?2 AND d.intent = 'discard' ORDER BY d."offset", d.leader_epoch LIMIT ?4))
ORDER BY q."offset", q.leader_epoch"#,
    // The sign keeps SQLite from going through all rows of the partition.
    mark: "UPDATE inbox_parked SET due_at = 9223372036854775807, reason = 'releasing'
WHERE +partition_ref = ?1 AND parked_seq IN (SELECT value FROM json_each(?2))",
    unmark: "UPDATE inbox_parked SET due_at = NULL, reason = 'follower'
WHERE +partition_ref = ?1 AND parked_seq IN (SELECT value FROM json_each(?2))",
    remove: "DELETE FROM inbox_parked WHERE +partition_ref = ?1 AND parked_seq IN (SELECT value FROM json_each(?2))",
    copies: r#"SELECT q.parked_seq, q.event_id, q.fingerprint, q.sha256, q."offset", q.leader_epoch, q.reason, q.attempts, q.releases,
    2 AS turn, q.intent, q.intent_by, q.event_type, q.aggregate, q.errors, '' AS record
FROM inbox_parked q WHERE q.partition_ref = ?1 AND q.aggregate_key = ?2 AND q.event_id = ?3
AND q.fingerprint = CASE WHEN q.sha256 = ?5 THEN ?4 ELSE ?6 END
AND q.reason = 'mismatch' ORDER BY q."offset", q.leader_epoch"#,
    promote: r#"UPDATE inbox_parked SET due_at = CAST(unixepoch('subsec') * 1000 AS INTEGER) WHERE due_at IS NULL AND parked_seq =
    (SELECT parked_seq FROM inbox_parked WHERE partition_ref = ?1 AND aggregate_key = ?2
    ORDER BY "offset", leader_epoch LIMIT 1)"#,
};

/// An id that is parked once more (a mismatch shares it) stays spared by the pruner.
/// ?1 consumer, ?2 ids, ?3 their places.
pub(super) const SETTLE: &str = "UPDATE inbox_events AS e SET parked = 0, processed_at = CAST(unixepoch('subsec') * 1000 AS INTEGER)
WHERE e.consumer_ref = ?1 AND e.event_id IN (SELECT substr(?2, value * 16 + 1, 16) FROM json_each(?3))
AND NOT EXISTS (SELECT 1 FROM inbox_parked q WHERE q.consumer_ref = ?1 AND q.event_id = e.event_id)";

/// ?1 partition, ?2 place, ?3 reason, ?4 attempts, ?5 releases, ?6 delay, ?7 errors.
const REQUEUE: &str =
    "UPDATE inbox_parked SET reason = ?3, attempts = ?4, releases = ?5, errors = ?7,
    due_at = coalesce(CAST(unixepoch('subsec') * 1000 AS INTEGER) + ?6, 9223372036854775807),
    intent = NULL, intent_by = NULL, intent_at = NULL
WHERE partition_ref = ?1 AND parked_seq = ?2";

/// ?1 consumer, ?2 partition.
const AUDIT: &str = r#"INSERT INTO inbox_audit (who, what, why, consumer_ref, topic, "partition", "offset", event_id, aggregate, event_type)
SELECT ?3, ?4, ?5, ?1, p.topic, p."partition", ?6, ?7, ?8, ?9
FROM (SELECT 1) LEFT JOIN inbox_partitions p ON p.partition_ref = ?2"#;

impl ReleaseSql for Sqlite {
    fn releases() -> &'static ReleaseTexts {
        &TEXTS
    }

    async fn settle(
        conn: &mut SqliteConnection,
        consumer_ref: i64,
        events: &[(i64, [u8; 16])],
    ) -> Result<(), sqlx::Error> {
        sqlx::query(SETTLE)
            .bind(consumer_ref)
            .bind(joined(events.iter().map(|(_, id)| id)))
            .bind(places(events.len()))
            .execute(conn)
            .await
            .map(drop)
    }

    async fn write_requeued(
        conn: &mut SqliteConnection,
        partition_ref: i64,
        events: &[Requeued],
    ) -> Result<(), sqlx::Error> {
        for event in events {
            let values = values![
                partition_ref,
                event.seq,
                event.reason.as_str(),
                i64::from(event.attempts),
                i64::from(event.releases),
                event.delay.map(millis),
                &event.errors,
            ];
            Self::execute(conn, REQUEUE, values).await?;
        }
        Ok(())
    }

    async fn write_acts(
        conn: &mut SqliteConnection,
        scope: &Scope,
        acts: &[Act],
    ) -> Result<(), sqlx::Error> {
        for act in acts {
            let values = values![
                scope.consumer_ref,
                scope.partition_ref,
                &act.who,
                act.what,
                &act.why,
                act.offset.0,
                Uuid::from_bytes(act.id),
                &act.aggregate,
                &act.event_type,
            ];
            Self::execute(conn, AUDIT, values).await?;
        }
        Ok(())
    }
}

/// See [`Ownerships::find_due`](crate::port::Ownerships::find_due).
pub(super) async fn find_due(
    conn: &mut SqliteConnection,
    looks: &[(Scope, NextOffset)],
    max: i64,
) -> Result<Vec<Vec<DueQueue>>, sqlx::Error> {
    let mut queues = Vec::with_capacity(looks.len());
    for (scope, below) in looks {
        // A read needs no turn to write.
        let values = values![scope.partition_ref, below.0, max, scope.epoch.0];
        let found = Sqlite::fetch_all(conn, FIND_DUE, values).await?;
        queues.push(found.iter().map(due).collect::<Result<_, _>>()?);
    }
    Ok(queues)
}
