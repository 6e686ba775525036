//! Parked events released: found, locked, marked, removed, promoted, or given a new time.

use inbox_engine::{Cut, LeaderEpoch, NextOffset, Offset, Rule, Statement};
use sqlx::{PgConnection, Postgres, Row, postgres::PgRow};
use uuid::Uuid;

use super::{
    sent::on,
    session::{begin_own, end_own},
};
use crate::{
    port::{
        Scope,
        release::{Act, DueQueue, Queued, Releases, Requeued, Turn},
    },
    shared::{DISCARDS_MAX, intent, lane, millis, sixteen},
};

/// $1 partitions, $2 their `remapped_below`, $3 limit of each, $4 their epochs: under a newer one the lanes may be
/// others than this process knows. Two index scans a partition: what is due, and what somebody asked for. Only the
/// head of a queue can be released; a discard is carried out wherever it is.
const FIND_DUE: &str = r#"SELECT x.place, q.lane, q.aggregate_key, q."offset",
    CASE WHEN q."offset" < x.below THEN q.record END AS record
FROM unnest($1::bigint[], $2::bigint[], $4::bigint[]) WITH ORDINALITY x(ref, below, epoch, place)
JOIN inbox_partitions w ON w.partition_ref = x.ref AND w.epoch = x.epoch,
LATERAL (SELECT f.parked_seq FROM (SELECT c.parked_seq, c."offset", c.leader_epoch,
        row_number() OVER (PARTITION BY c.aggregate_key ORDER BY c."offset", c.leader_epoch) AS nth FROM (
        SELECT parked_seq, aggregate_key, "offset", leader_epoch, false AS anywhere FROM inbox_parked
        WHERE partition_ref = x.ref AND due_at <= now()
        UNION ALL
        SELECT parked_seq, aggregate_key, "offset", leader_epoch, intent = 'discard' FROM inbox_parked
        WHERE partition_ref = x.ref AND intent IS NOT NULL) c
    WHERE c.anywhere OR NOT EXISTS (SELECT FROM inbox_parked e
        WHERE e.partition_ref = x.ref AND e.aggregate_key = c.aggregate_key
        AND (e."offset", e.leader_epoch) < (c."offset", c.leader_epoch))) f
    WHERE f.nth = 1 ORDER BY f."offset", f.leader_epoch LIMIT $3) d
JOIN inbox_parked q ON q.parked_seq = d.parked_seq ORDER BY x.place, q."offset", q.leader_epoch"#;

/// $1 partition, $2 aggregate, $3 events, $4 discards beyond them.
static QUEUE: Statement = Statement::new(
    r#"SELECT q.parked_seq, q.event_id, q.fingerprint, q.sha256, q."offset", q.leader_epoch, q.reason, q.attempts, q.releases,
    CASE WHEN q.due_at IS NULL THEN 0 WHEN q.due_at <= now() THEN 1 ELSE 2 END AS turn,
    q.intent, q.intent_by, q.event_type, q.aggregate, q.errors,
    CASE WHEN q.intent = 'discard' THEN '' ELSE q.record END AS record
FROM inbox_parked q
WHERE q.parked_seq = ANY(
    ARRAY(SELECT f.parked_seq FROM inbox_parked f
        WHERE f.partition_ref = $1 AND f.aggregate_key = $2 ORDER BY f."offset", f.leader_epoch LIMIT $3)
    || ARRAY(SELECT d.parked_seq FROM inbox_parked d
        WHERE d.partition_ref = $1 AND d.aggregate_key = $2 AND d.intent = 'discard' ORDER BY d."offset", d.leader_epoch LIMIT $4))
ORDER BY q."offset", q.leader_epoch FOR UPDATE OF q"#,
    &[
        Cut::new(
            Rule::ReleaseInOrder,
            r#"ORDER BY q."offset", q.leader_epoch FOR UPDATE"#,
            r#"ORDER BY q."offset" DESC FOR UPDATE"#,
        ),
        Cut::new(
            Rule::QueueByOffset,
            r#"ORDER BY q."offset", q.leader_epoch FOR UPDATE"#,
            "ORDER BY q.parked_seq FOR UPDATE",
        ),
    ],
);

/// $1 partition, $2 places.
const MARK: &str = "UPDATE inbox_parked SET due_at = 'infinity', reason = 'releasing'
WHERE partition_ref = $1 AND parked_seq = ANY($2)";

const UNMARK: &str = "UPDATE inbox_parked SET due_at = NULL, reason = 'follower'
WHERE partition_ref = $1 AND parked_seq = ANY($2)";

const REMOVE: &str = "DELETE FROM inbox_parked WHERE partition_ref = $1 AND parked_seq = ANY($2)";

/// $1 partition, $2 aggregate, $3 id, $4 fingerprint, $5 whether that is of SHA-256, $6 the one of the other hash.
const COPIES: &str = r#"SELECT q.parked_seq, q.event_id, q.fingerprint, q.sha256, q."offset", q.leader_epoch, q.reason, q.attempts, q.releases,
    2 AS turn, q.intent, q.intent_by, q.event_type, q.aggregate, q.errors, '' AS record
FROM inbox_parked q WHERE q.partition_ref = $1 AND q.aggregate_key = $2 AND q.event_id = $3
AND q.fingerprint = CASE WHEN q.sha256 = $5 THEN $4 ELSE $6 END
AND q.reason = 'mismatch' ORDER BY q."offset", q.leader_epoch FOR UPDATE OF q"#;

/// An id that is parked once more (a mismatch shares it) stays spared by the pruner.
const SETTLE: &str =
    "UPDATE inbox_events e SET parked = false, processed_at = now() WHERE e.consumer_ref = $1 AND e.event_id = ANY($2)
AND NOT EXISTS (SELECT FROM inbox_parked q WHERE q.consumer_ref = $1 AND q.event_id = e.event_id)";

/// $1 partition, $2 aggregate.
static PROMOTE: Statement = Statement::new(
    r#"UPDATE inbox_parked SET due_at = now() WHERE due_at IS NULL AND parked_seq =
    (SELECT parked_seq FROM inbox_parked WHERE partition_ref = $1 AND aggregate_key = $2
    ORDER BY "offset", leader_epoch LIMIT 1)"#,
    &[Cut::new(Rule::ReleasePromotes, "due_at IS NULL AND", "false AND")],
);

/// $1 partition, then one array a column.
const REQUEUE: &str =
    "UPDATE inbox_parked q SET reason = r.reason, attempts = r.attempts, releases = r.releases,
    errors = r.errors, due_at = coalesce(now() + r.delay * interval '1 millisecond', 'infinity'),
    intent = NULL, intent_by = NULL, intent_at = NULL
FROM unnest($2::bigint[], $3::text[], $4::integer[], $5::integer[], $6::bigint[], $7::text[])
    r(seq, reason, attempts, releases, delay, errors)
WHERE q.partition_ref = $1 AND q.parked_seq = r.seq";

/// $1 consumer, $2 partition, then one array a column.
const AUDIT: &str = r#"INSERT INTO inbox_audit (who, what, why, consumer_ref, topic, partition, "offset", event_id, aggregate, event_type)
SELECT a.who, a.what, a.why, $1, p.topic, p.partition, a.off, a.id, a.aggregate, a.event_type
FROM unnest($3::text[], $4::text[], $5::text[], $6::bigint[], $7::uuid[], $8::text[], $9::text[]) WITH ORDINALITY
    a(who, what, why, off, id, aggregate, event_type, ord)
LEFT JOIN inbox_partitions p ON p.partition_ref = $2 ORDER BY a.ord"#;

impl Releases for Postgres {
    async fn queue(
        conn: &mut PgConnection,
        scope: &Scope,
        aggregate: &[u8; 16],
        max: usize,
    ) -> Result<Vec<Queued>, sqlx::Error> {
        let rows = sqlx::query(QUEUE.text())
            .bind(scope.partition_ref)
            .bind(&aggregate[..])
            .bind(limit(max))
            .bind(limit(DISCARDS_MAX))
            .fetch_all(on(conn))
            .await?;
        rows.iter().map(queued).collect()
    }

    async fn mark(
        conn: &mut PgConnection,
        scope: &Scope,
        seqs: &[i64],
    ) -> Result<u64, sqlx::Error> {
        let done = sqlx::query(MARK).bind(scope.partition_ref).bind(seqs).execute(on(conn)).await?;
        Ok(done.rows_affected())
    }

    async fn unmark(
        conn: &mut PgConnection,
        scope: &Scope,
        seqs: &[i64],
    ) -> Result<(), sqlx::Error> {
        sqlx::query(UNMARK).bind(scope.partition_ref).bind(seqs).execute(on(conn)).await.map(drop)
    }

    async fn copies(
        conn: &mut PgConnection,
        scope: &Scope,
        aggregate: &[u8; 16],
        row: &Queued,
        other: &[u8; 16],
    ) -> Result<Vec<Queued>, sqlx::Error> {
        let rows = sqlx::query(COPIES)
            .bind(scope.partition_ref)
            .bind(&aggregate[..])
            .bind(Uuid::from_bytes(row.id))
            .bind(&row.fingerprint[..])
            .bind(row.sha256)
            .bind(&other[..])
            .fetch_all(on(conn))
            .await?;
        rows.iter().map(queued).collect()
    }

    async fn remove(
        conn: &mut PgConnection,
        scope: &Scope,
        events: &[(i64, [u8; 16])],
    ) -> Result<u64, sqlx::Error> {
        let seqs: Vec<i64> = events.iter().map(|(seq, _)| *seq).collect();
        let ids: Vec<Uuid> = events.iter().map(|(_, id)| Uuid::from_bytes(*id)).collect();
        let removed =
            sqlx::query(REMOVE).bind(scope.partition_ref).bind(seqs).execute(on(conn)).await?;
        sqlx::query(SETTLE).bind(scope.consumer_ref).bind(ids).execute(on(conn)).await?;
        Ok(removed.rows_affected())
    }

    async fn promote(
        conn: &mut PgConnection,
        scope: &Scope,
        aggregate: &[u8; 16],
    ) -> Result<(), sqlx::Error> {
        sqlx::query(PROMOTE.text())
            .bind(scope.partition_ref)
            .bind(&aggregate[..])
            .execute(on(conn))
            .await
            .map(drop)
    }

    async fn requeue(
        conn: &mut PgConnection,
        scope: &Scope,
        events: &[Requeued],
    ) -> Result<(), sqlx::Error> {
        let number = |n: u32| i32::try_from(n).unwrap_or(i32::MAX);
        sqlx::query(REQUEUE)
            .bind(scope.partition_ref)
            .bind(events.iter().map(|e| e.seq).collect::<Vec<_>>())
            .bind(events.iter().map(|e| e.reason.as_str()).collect::<Vec<_>>())
            .bind(events.iter().map(|e| number(e.attempts)).collect::<Vec<_>>())
            .bind(events.iter().map(|e| number(e.releases)).collect::<Vec<_>>())
            .bind(events.iter().map(|e| e.delay.map(millis)).collect::<Vec<_>>())
            .bind(events.iter().map(|e| e.errors.as_str()).collect::<Vec<_>>())
            .execute(on(conn))
            .await
            .map(drop)
    }

    async fn audit(
        conn: &mut PgConnection,
        scope: &Scope,
        acts: &[Act],
    ) -> Result<(), sqlx::Error> {
        sqlx::query(AUDIT)
            .bind(scope.consumer_ref)
            .bind(scope.partition_ref)
            .bind(acts.iter().map(|a| a.who.as_str()).collect::<Vec<_>>())
            .bind(acts.iter().map(|a| a.what).collect::<Vec<_>>())
            .bind(acts.iter().map(|a| a.why.as_str()).collect::<Vec<_>>())
            .bind(acts.iter().map(|a| a.offset.0).collect::<Vec<_>>())
            .bind(acts.iter().map(|a| Uuid::from_bytes(a.id)).collect::<Vec<_>>())
            .bind(acts.iter().map(|a| a.aggregate.as_str()).collect::<Vec<_>>())
            .bind(acts.iter().map(|a| a.event_type.as_str()).collect::<Vec<_>>())
            .execute(on(conn))
            .await
            .map(drop)
    }
}

/// See [`Ownerships::find_due`](crate::port::Ownerships::find_due).
pub(super) async fn find_due(
    conn: &mut PgConnection,
    looks: &[(Scope, NextOffset)],
    max: usize,
) -> Result<Vec<Vec<DueQueue>>, sqlx::Error> {
    let (partitions, below): (Vec<i64>, Vec<i64>) =
        looks.iter().map(|(scope, below)| (scope.partition_ref, below.0)).unzip();
    begin_own(conn).await?;
    let found = sqlx::query(FIND_DUE)
        .bind(partitions)
        .bind(below)
        .bind(limit(max))
        .bind(looks.iter().map(|(scope, _)| scope.epoch.0).collect::<Vec<_>>())
        .fetch_all(on(conn))
        .await;
    let mut queues = vec![Vec::new(); looks.len()];
    for row in &end_own(conn, found).await? {
        let place: i64 = row.try_get("place")?;
        let of_one = usize::try_from(place - 1).ok().and_then(|at| queues.get_mut(at));
        of_one.into_iter().try_for_each(|queues| due(row).map(|queue| queues.push(queue)))?;
    }
    Ok(queues)
}

fn limit(max: usize) -> i64 {
    i64::try_from(max).unwrap_or(i64::MAX)
}

fn due(row: &PgRow) -> Result<DueQueue, sqlx::Error> {
    Ok(DueQueue {
        lane: lane(row.try_get("lane")?)?,
        aggregate: sixteen(row.try_get("aggregate_key")?)?,
        offset: Offset(row.try_get("offset")?),
        record: row.try_get("record")?,
    })
}

fn queued(row: &PgRow) -> Result<Queued, sqlx::Error> {
    let number = |n: i32| u32::try_from(n).unwrap_or_default();
    Ok(Queued {
        seq: row.try_get("parked_seq")?,
        id: row.try_get::<Uuid, _>("event_id")?.into_bytes(),
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

fn turn(number: i32) -> Turn {
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
