//! Parked events released: found, locked, marked, removed, promoted, or given a new time.

use inbox_engine::{Cut, LeaderEpoch, NextOffset, Offset, Rule, Statement};
use sqlx::{Row, Sqlite, SqliteConnection, sqlite::SqliteRow};

use super::{joined, numbers, places};
use crate::{
    port::{
        Scope,
        release::{Act, DueQueue, Queued, Releases, Requeued, Turn},
    },
    shared::{DISCARDS_MAX, intent, lane, millis, sixteen},
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

/// ?1 partition, ?2 aggregate, ?3 events, ?4 discards beyond them. The writer is alone: nothing to lock.
static QUEUE: Statement = Statement::new(
    r#"SELECT q.parked_seq, q.event_id, q.fingerprint, q.sha256, q."offset", q.leader_epoch, q.reason, q.attempts, q.releases,
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
    &[
        Cut::new(
            Rule::ReleaseInOrder,
            "))\nORDER BY q.\"offset\", q.leader_epoch",
            "))\nORDER BY q.\"offset\" DESC",
        ),
        Cut::new(
            Rule::QueueByOffset,
            "))\nORDER BY q.\"offset\", q.leader_epoch",
            "))\nORDER BY q.parked_seq",
        ),
    ],
);

/// ?1 partition, ?2 places. The sign keeps SQLite from going through all rows of the partition.
pub(super) const MARK: &str =
    "UPDATE inbox_parked SET due_at = 9223372036854775807, reason = 'releasing'
WHERE +partition_ref = ?1 AND parked_seq IN (SELECT value FROM json_each(?2))";

pub(super) const UNMARK: &str = "UPDATE inbox_parked SET due_at = NULL, reason = 'follower'
WHERE +partition_ref = ?1 AND parked_seq IN (SELECT value FROM json_each(?2))";

pub(super) const REMOVE: &str = "DELETE FROM inbox_parked WHERE +partition_ref = ?1 AND parked_seq IN (SELECT value FROM json_each(?2))";

/// ?1 partition, ?2 aggregate, ?3 id, ?4 fingerprint, ?5 whether that is of SHA-256, ?6 the one of the other hash.
const COPIES: &str = r#"SELECT q.parked_seq, q.event_id, q.fingerprint, q.sha256, q."offset", q.leader_epoch, q.reason, q.attempts, q.releases,
    2 AS turn, q.intent, q.intent_by, q.event_type, q.aggregate, q.errors, '' AS record
FROM inbox_parked q WHERE q.partition_ref = ?1 AND q.aggregate_key = ?2 AND q.event_id = ?3
AND q.fingerprint = CASE WHEN q.sha256 = ?5 THEN ?4 ELSE ?6 END
AND q.reason = 'mismatch' ORDER BY q."offset", q.leader_epoch"#;

/// An id that is parked once more (a mismatch shares it) stays spared by the pruner.
/// ?1 consumer, ?2 ids, ?3 their places.
pub(super) const SETTLE: &str =
    "UPDATE inbox_events AS e SET parked = 0, processed_at = CAST(unixepoch('subsec') * 1000 AS INTEGER)
WHERE e.consumer_ref = ?1 AND e.event_id IN (SELECT substr(?2, value * 16 + 1, 16) FROM json_each(?3))
AND NOT EXISTS (SELECT 1 FROM inbox_parked q WHERE q.consumer_ref = ?1 AND q.event_id = e.event_id)";

/// ?1 partition, ?2 aggregate.
static PROMOTE: Statement = Statement::new(
    r#"UPDATE inbox_parked SET due_at = CAST(unixepoch('subsec') * 1000 AS INTEGER) WHERE due_at IS NULL AND parked_seq =
    (SELECT parked_seq FROM inbox_parked WHERE partition_ref = ?1 AND aggregate_key = ?2
    ORDER BY "offset", leader_epoch LIMIT 1)"#,
    &[Cut::new(Rule::ReleasePromotes, "due_at IS NULL AND", "false AND")],
);

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

impl Releases for Sqlite {
    async fn queue(
        conn: &mut SqliteConnection,
        scope: &Scope,
        aggregate: &[u8; 16],
        max: usize,
    ) -> Result<Vec<Queued>, sqlx::Error> {
        let rows = sqlx::query(QUEUE.text())
            .bind(scope.partition_ref)
            .bind(&aggregate[..])
            .bind(limit(max))
            .bind(limit(DISCARDS_MAX))
            .fetch_all(conn)
            .await?;
        rows.iter().map(queued).collect()
    }

    async fn mark(
        conn: &mut SqliteConnection,
        scope: &Scope,
        seqs: &[i64],
    ) -> Result<u64, sqlx::Error> {
        let seqs = numbers(seqs.iter().copied());
        let done = sqlx::query(MARK).bind(scope.partition_ref).bind(seqs).execute(conn).await?;
        Ok(done.rows_affected())
    }

    async fn unmark(
        conn: &mut SqliteConnection,
        scope: &Scope,
        seqs: &[i64],
    ) -> Result<(), sqlx::Error> {
        let seqs = numbers(seqs.iter().copied());
        sqlx::query(UNMARK).bind(scope.partition_ref).bind(seqs).execute(conn).await.map(drop)
    }

    async fn copies(
        conn: &mut SqliteConnection,
        scope: &Scope,
        aggregate: &[u8; 16],
        row: &Queued,
        other: &[u8; 16],
    ) -> Result<Vec<Queued>, sqlx::Error> {
        let rows = sqlx::query(COPIES)
            .bind(scope.partition_ref)
            .bind(&aggregate[..])
            .bind(&row.id[..])
            .bind(&row.fingerprint[..])
            .bind(row.sha256)
            .bind(&other[..])
            .fetch_all(conn)
            .await?;
        rows.iter().map(queued).collect()
    }

    async fn remove(
        conn: &mut SqliteConnection,
        scope: &Scope,
        events: &[(i64, [u8; 16])],
    ) -> Result<u64, sqlx::Error> {
        let seqs = numbers(events.iter().map(|(seq, _)| *seq));
        let removed =
            sqlx::query(REMOVE).bind(scope.partition_ref).bind(seqs).execute(&mut *conn).await?;
        sqlx::query(SETTLE)
            .bind(scope.consumer_ref)
            .bind(joined(events.iter().map(|(_, id)| id)))
            .bind(places(events.len()))
            .execute(conn)
            .await?;
        Ok(removed.rows_affected())
    }

    async fn promote(
        conn: &mut SqliteConnection,
        scope: &Scope,
        aggregate: &[u8; 16],
    ) -> Result<(), sqlx::Error> {
        sqlx::query(PROMOTE.text())
            .bind(scope.partition_ref)
            .bind(&aggregate[..])
            .execute(conn)
            .await
            .map(drop)
    }

    async fn requeue(
        conn: &mut SqliteConnection,
        scope: &Scope,
        events: &[Requeued],
    ) -> Result<(), sqlx::Error> {
        for event in events {
            sqlx::query(REQUEUE)
                .bind(scope.partition_ref)
                .bind(event.seq)
                .bind(event.reason.as_str())
                .bind(i64::from(event.attempts))
                .bind(i64::from(event.releases))
                .bind(event.delay.map(millis))
                .bind(&event.errors)
                .execute(&mut *conn)
                .await?;
        }
        Ok(())
    }

    async fn audit(
        conn: &mut SqliteConnection,
        scope: &Scope,
        acts: &[Act],
    ) -> Result<(), sqlx::Error> {
        for act in acts {
            sqlx::query(AUDIT)
                .bind(scope.consumer_ref)
                .bind(scope.partition_ref)
                .bind(&act.who)
                .bind(act.what)
                .bind(&act.why)
                .bind(act.offset.0)
                .bind(&act.id[..])
                .bind(&act.aggregate)
                .bind(&act.event_type)
                .execute(&mut *conn)
                .await?;
        }
        Ok(())
    }
}

/// See [`Ownerships::find_due`](crate::port::Ownerships::find_due).
pub(super) async fn find_due(
    conn: &mut SqliteConnection,
    looks: &[(Scope, NextOffset)],
    max: usize,
) -> Result<Vec<Vec<DueQueue>>, sqlx::Error> {
    let mut queues = Vec::with_capacity(looks.len());
    for (scope, below) in looks {
        // A read needs no turn to write.
        let found = sqlx::query(FIND_DUE)
            .bind(scope.partition_ref)
            .bind(below.0)
            .bind(limit(max))
            .bind(scope.epoch.0)
            .fetch_all(&mut *conn)
            .await?;
        queues.push(found.iter().map(due).collect::<Result<_, _>>()?);
    }
    Ok(queues)
}

fn limit(max: usize) -> i64 {
    i64::try_from(max).unwrap_or(i64::MAX)
}

fn due(row: &SqliteRow) -> Result<DueQueue, sqlx::Error> {
    Ok(DueQueue {
        lane: lane(row.try_get("lane")?)?,
        aggregate: sixteen(row.try_get("aggregate_key")?)?,
        offset: Offset(row.try_get("offset")?),
        record: row.try_get("record")?,
    })
}

fn queued(row: &SqliteRow) -> Result<Queued, sqlx::Error> {
    let number = |n: i64| u32::try_from(n).unwrap_or_default();
    Ok(Queued {
        seq: row.try_get("parked_seq")?,
        id: sixteen(row.try_get("event_id")?)?,
        fingerprint: sixteen(row.try_get("fingerprint")?)?,
        sha256: row.try_get("sha256")?,
        offset: Offset(row.try_get("offset")?),
        leader_epoch: LeaderEpoch(row.try_get("leader_epoch")?),
        reason: row.try_get("reason")?,
        attempts: number(row.try_get("attempts")?),
        releases: number(row.try_get("releases")?),
        turn: turn(row.try_get("turn")?),
        intent: intent(row.try_get("intent")?, row.try_get("intent_by")?),
        event_type: row.try_get("event_type")?,
        aggregate_text: row.try_get("aggregate")?,
        errors: row.try_get("errors")?,
        record: row.try_get("record")?,
    })
}

fn turn(number: i64) -> Turn {
    match number {
        0 => Turn::Follows,
        1 => Turn::Due,
        _ => Turn::Later,
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn each_rule_is_in_its_statement() {
        super::QUEUE.check();
        super::PROMOTE.check();
    }
}
