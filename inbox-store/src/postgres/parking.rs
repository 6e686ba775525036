//! Parked events, written in the transaction of their batch.

use inbox_engine::internal::{LeaderEpoch, Offset};
use sqlx::{PgConnection, Postgres};
use uuid::Uuid;

use super::{
    ownership::{recent, slot_now},
    sent::on,
};
use crate::{
    flow,
    port::{ParkedLoad, Parking, Parkings, Scope},
    shared::{millis, unexpected},
};

/// $1 consumer, $2 partition, then one array a column; the order of the arrays is the order of the
/// queue. A delivery that has its parked row already (a redelivery) changes nothing.
const PARK: &str = r#"INSERT INTO inbox_parked (partition_ref, lane, aggregate_key, consumer_ref, event_id, fingerprint,
    "offset", leader_epoch, reason, attempts, due_at, event_type, aggregate, errors, record, sha256)
SELECT $2, p.lane, p.aggregate_key, $1, p.id, p.fp, p.off, p.le, p.reason, p.attempts,
    CASE WHEN p.reason <> 'follower' THEN coalesce(now() + p.delay * interval '1 millisecond', 'infinity') END,
    p.event_type, p.aggregate, p.errors, p.record, true
FROM unnest($3::integer[], $4::bytea[], $5::uuid[], $6::bytea[], $7::bigint[], $8::integer[], $9::text[],
    $10::integer[], $11::bigint[], $12::text[], $13::text[], $14::text[], $15::text[]) WITH ORDINALITY
    p(lane, aggregate_key, id, fp, off, le, reason, attempts, delay, event_type, aggregate, errors, record, ord)
ORDER BY p.ord
ON CONFLICT (partition_ref, "offset", leader_epoch) DO NOTHING"#;

/// How many of the deliveries are parked with this very id and content. Of a row of an older build (XXH3) place and
/// id tell: its fingerprint is no proof of anything.
const PARKED_SAME: &str = r#"SELECT count(*) FROM inbox_parked q
JOIN unnest($2::uuid[], $3::bytea[], $4::bigint[], $5::integer[]) p(id, fp, off, le)
    ON q."offset" = p.off AND q.leader_epoch = p.le AND q.event_id = p.id AND (q.fingerprint = p.fp OR NOT q.sha256)
WHERE q.partition_ref = $1"#;

const MARK: &str =
    "UPDATE inbox_events SET parked = true WHERE consumer_ref = $1 AND event_id = ANY($2)";

const PARKED_AT: &str = r#"SELECT q."offset" FROM inbox_parked q
JOIN unnest($2::bigint[], $3::integer[]) d(off, le) ON q."offset" = d.off AND q.leader_epoch = d.le
WHERE q.partition_ref = $1"#;

/// See [`flow::parking::load`]. What waits for versions has queues of its own: it is of the aggregate that it joins.
const LOAD: &str = "WITH RECURSIVE k AS (
    SELECT (SELECT aggregate_key FROM inbox_parked WHERE partition_ref = $1 AND joins IS NULL ORDER BY aggregate_key LIMIT 1) AS aggregate_key, 1 AS n
    UNION ALL
    SELECT (SELECT q.aggregate_key FROM inbox_parked q WHERE q.partition_ref = $1 AND q.joins IS NULL AND q.aggregate_key > k.aggregate_key
        ORDER BY q.aggregate_key LIMIT 1), k.n + 1 FROM k WHERE k.aggregate_key IS NOT NULL AND k.n <= $2),
j AS (
    SELECT (SELECT joins FROM inbox_parked WHERE partition_ref = $1 AND joins IS NOT NULL ORDER BY joins LIMIT 1) AS joins, 1 AS n
    UNION ALL
    SELECT (SELECT q.joins FROM inbox_parked q WHERE q.partition_ref = $1 AND q.joins IS NOT NULL AND q.joins > j.joins
        ORDER BY q.joins LIMIT 1), j.n + 1 FROM j WHERE j.joins IS NOT NULL AND j.n <= $2)
SELECT least((SELECT count(aggregate_key) FROM (SELECT aggregate_key FROM k UNION SELECT joins FROM j) a), $2 + 1) AS aggregates,
    e.events, e.bytes
FROM (SELECT count(*) AS events, coalesce(sum(r.bytes), 0)::bigint AS bytes FROM
    (SELECT octet_length(record) AS bytes FROM inbox_parked WHERE partition_ref = $1 LIMIT $3::bigint + 1) r) e";

/// The keys of what is parked are by this build's rule: one that does not know that it has to make them anew
/// may not take the partition over while they are there (the constraint on `key_epoch`).
const KEYS_ARE_OURS: &str = concat!(
    "UPDATE inbox_partitions SET key_epoch = epoch WHERE partition_ref = $1 AND slot >= ",
    recent!("$1")
);

/// The partition's row is locked before any lane, as in a take-over.
pub(super) const PARK_ALONE: &str = concat!(
    "SELECT key_epoch IS NULL FROM inbox_partitions WHERE partition_ref = $1 AND slot >= ",
    recent!("$1"),
    " FOR NO KEY UPDATE"
);

impl Parkings for Postgres {
    async fn park(
        conn: &mut PgConnection,
        scope: &Scope,
        rows: &[Parking],
    ) -> Result<u64, sqlx::Error> {
        if rows.is_empty() {
            return Ok(0);
        }
        let ids: Vec<Uuid> = rows.iter().map(|r| Uuid::from_bytes(r.id)).collect();
        if insert(conn, scope, rows, &ids).await? < rows.len() {
            check_same(conn, scope, rows, &ids).await?;
        }
        let marked = sqlx::query(MARK).bind(scope.consumer_ref).bind(ids).execute(on(conn)).await;
        marked.map(|done| done.rows_affected())
    }

    async fn park_alone(conn: &mut PgConnection, scope: &Scope) -> Result<(), sqlx::Error> {
        let first: Option<bool> = sqlx::query_scalar(PARK_ALONE)
            .bind(scope.partition_ref)
            .fetch_optional(on(conn))
            .await?;
        if first == Some(true) {
            sqlx::query(KEYS_ARE_OURS).bind(scope.partition_ref).execute(on(conn)).await?;
        }
        Ok(())
    }

    async fn parked_load(
        conn: &mut PgConnection,
        scope: &Scope,
        limit: ParkedLoad,
    ) -> Result<ParkedLoad, sqlx::Error> {
        flow::parking::load::<Self>(conn, LOAD, scope, limit).await
    }

    async fn parked_at(
        conn: &mut PgConnection,
        scope: &Scope,
        deliveries: &[(Offset, LeaderEpoch)],
    ) -> Result<Vec<Offset>, sqlx::Error> {
        let offsets: Vec<i64> = deliveries.iter().map(|(offset, _)| offset.0).collect();
        let leader_epochs: Vec<i32> = deliveries.iter().map(|(_, epoch)| epoch.0).collect();
        let parked: Vec<i64> = sqlx::query_scalar(PARKED_AT)
            .bind(scope.partition_ref)
            .bind(offsets)
            .bind(leader_epochs)
            .fetch_all(on(conn))
            .await?;
        Ok(parked.into_iter().map(Offset).collect())
    }
}

/// How many rows are new.
async fn insert(
    conn: &mut PgConnection,
    scope: &Scope,
    rows: &[Parking],
    ids: &[Uuid],
) -> Result<usize, sqlx::Error> {
    let done = sqlx::query(PARK)
        .bind(scope.consumer_ref)
        .bind(scope.partition_ref)
        .bind(column(rows, |r| i32::from(r.lane.0)))
        .bind(column(rows, |r| r.aggregate))
        .bind(ids)
        .bind(column(rows, |r| r.fingerprint))
        .bind(column(rows, |r| r.offset.0))
        .bind(column(rows, |r| r.leader_epoch.0))
        .bind(rows.iter().map(|r| r.reason.as_str()).collect::<Vec<_>>())
        .bind(column(rows, |r| i32::try_from(r.attempts).unwrap_or(i32::MAX)))
        .bind(column(rows, |r| r.delay.map(millis)))
        .bind(rows.iter().map(|r| r.event_type.as_str()).collect::<Vec<_>>())
        .bind(rows.iter().map(|r| r.aggregate_text.as_str()).collect::<Vec<_>>())
        .bind(rows.iter().map(|r| r.errors.as_str()).collect::<Vec<_>>())
        .bind(rows.iter().map(|r| r.record.as_str()).collect::<Vec<_>>())
        .execute(on(conn))
        .await?;
    Ok(usize::try_from(done.rows_affected()).unwrap_or(usize::MAX))
}

/// A parked row of another record at the same place must not swallow this one.
async fn check_same(
    conn: &mut PgConnection,
    scope: &Scope,
    rows: &[Parking],
    ids: &[Uuid],
) -> Result<(), sqlx::Error> {
    let same: i64 = sqlx::query_scalar(PARKED_SAME)
        .bind(scope.partition_ref)
        .bind(ids)
        .bind(column(rows, |r| r.fingerprint))
        .bind(column(rows, |r| r.offset.0))
        .bind(column(rows, |r| r.leader_epoch.0))
        .fetch_one(on(conn))
        .await?;
    if usize::try_from(same).is_ok_and(|same| same == rows.len()) {
        return Ok(());
    }
    Err(unexpected(format!(
        "the partition has a parked row of a different record at an offset from {} that is to be \
         parked now: the log was rewritten; release or discard the older row first (`parked list` \
         shows it)",
        rows.iter().map(|row| row.offset.0).min().unwrap_or_default()
    )))
}

fn column<T>(rows: &[Parking], of: impl Fn(&Parking) -> T) -> Vec<T> {
    rows.iter().map(of).collect()
}
