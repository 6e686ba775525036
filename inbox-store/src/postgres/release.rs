//! The texts of releases.

use inbox_engine::internal::NextOffset;
use sqlx::{PgConnection, Postgres};
use uuid::Uuid;

use super::{
    ownership::{recent, slot_now},
    sent::on,
};
use crate::{
    flow::{
        Read as _, SqlClient as _,
        release::{ReleaseSql, ReleaseTexts, due},
        values,
    },
    port::{
        Scope,
        release::{Act, DueQueue, Requeued},
    },
    shared::millis,
};

/// $1 partitions, $2 their `remapped_below`, $3 limit of each, $4 their epochs: under a newer one the lanes may be
/// others than this process knows. Two index scans a partition: what is due, and what somebody asked for. Only the
/// head of a queue can be released; a discard is carried out wherever it is.
const FIND_DUE: &str = concat!(
    r#"SELECT x.place, q.lane, q.aggregate_key, q."offset",
    CASE WHEN q."offset" < x.below THEN q.record END AS record
FROM unnest($1::bigint[], $2::bigint[], $4::bigint[]) WITH ORDINALITY x(ref, below, epoch, place)
CROSS JOIN LATERAL (SELECT FROM inbox_partitions w WHERE w.partition_ref = x.ref AND w.slot >= "#,
    recent!("x.ref"),
    r#" AND w.epoch = x.epoch LIMIT 1) w,
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
JOIN inbox_parked q ON q.parked_seq = d.parked_seq ORDER BY x.place, q."offset", q.leader_epoch"#
);

pub(super) static TEXTS: ReleaseTexts = ReleaseTexts {
    queue: r#"SELECT q.parked_seq, q.event_id, q.fingerprint, q.sha256, q."offset", q.leader_epoch, q.reason, q.attempts, q.releases,
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
    mark: "UPDATE inbox_parked SET due_at = 'infinity', reason = 'releasing'
WHERE partition_ref = $1 AND parked_seq = ANY($2)",
    unmark: "UPDATE inbox_parked SET due_at = NULL, reason = 'follower'
WHERE partition_ref = $1 AND parked_seq = ANY($2)",
    remove: "DELETE FROM inbox_parked WHERE partition_ref = $1 AND parked_seq = ANY($2)",
    copies: r#"SELECT q.parked_seq, q.event_id, q.fingerprint, q.sha256, q."offset", q.leader_epoch, q.reason, q.attempts, q.releases,
    2 AS turn, q.intent, q.intent_by, q.event_type, q.aggregate, q.errors, '' AS record
FROM inbox_parked q WHERE q.partition_ref = $1 AND q.aggregate_key = $2 AND q.event_id = $3
AND q.fingerprint = CASE WHEN q.sha256 = $5 THEN $4 ELSE $6 END
AND q.reason = 'mismatch' ORDER BY q."offset", q.leader_epoch FOR UPDATE OF q"#,
    promote: r#"UPDATE inbox_parked SET due_at = now() WHERE due_at IS NULL AND parked_seq =
    (SELECT parked_seq FROM inbox_parked WHERE partition_ref = $1 AND aggregate_key = $2
    ORDER BY "offset", leader_epoch LIMIT 1)"#,
};

/// An id that is parked once more (a mismatch shares it) stays spared by the pruner.
const SETTLE: &str = "UPDATE inbox_events e SET parked = false, processed_at = now() WHERE e.consumer_ref = $1 AND e.event_id = ANY($2)
AND NOT EXISTS (SELECT FROM inbox_parked q WHERE q.consumer_ref = $1 AND q.event_id = e.event_id)";

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

impl ReleaseSql for Postgres {
    fn releases() -> &'static ReleaseTexts {
        &TEXTS
    }

    async fn settle(
        conn: &mut PgConnection,
        consumer_ref: i64,
        events: &[(i64, [u8; 16])],
    ) -> Result<(), sqlx::Error> {
        let ids: Vec<Uuid> = events.iter().map(|(_, id)| Uuid::from_bytes(*id)).collect();
        sqlx::query(SETTLE).bind(consumer_ref).bind(ids).execute(on(conn)).await.map(drop)
    }

    async fn write_requeued(
        conn: &mut PgConnection,
        partition_ref: i64,
        events: &[Requeued],
    ) -> Result<(), sqlx::Error> {
        let number = |n: u32| i32::try_from(n).unwrap_or(i32::MAX);
        sqlx::query(REQUEUE)
            .bind(partition_ref)
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

    async fn write_acts(
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
    max: i64,
) -> Result<Vec<Vec<DueQueue>>, sqlx::Error> {
    let column = |of: fn(&(Scope, NextOffset)) -> i64| looks.iter().map(of).collect::<Vec<_>>();
    let partitions = column(|(scope, _)| scope.partition_ref);
    let below = column(|(_, below)| below.0);
    let epochs = column(|(scope, _)| scope.epoch.0);
    Postgres::begin_own(conn).await?;
    let values = values![&partitions, &below, max, &epochs];
    let found = Postgres::fetch_all(conn, FIND_DUE, values).await;
    let mut queues = vec![Vec::new(); looks.len()];
    for row in &Postgres::end_own(conn, found).await? {
        let place: i64 = row.read("place")?;
        let of_one = usize::try_from(place - 1).ok().and_then(|at| queues.get_mut(at));
        of_one.into_iter().try_for_each(|queues| due(row).map(|queue| queues.push(queue)))?;
    }
    Ok(queues)
}
