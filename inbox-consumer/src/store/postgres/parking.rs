//! Parked events, written in the transaction of their batch.

use inbox_engine::{LeaderEpoch, Offset};
use sqlx::{PgConnection, Postgres};
use uuid::Uuid;

use crate::{
    pipeline::port::{Parking, Parkings, Scope},
    store::unexpected,
};

/// $1 consumer, $2 partition, then one array a column; the order of the arrays is the order of the
/// queue. A delivery that has its parked row already (a redelivery) changes nothing.
const PARK: &str = r#"INSERT INTO inbox_parked (partition_ref, lane, aggregate_key, consumer_ref, event_id, fingerprint,
    "offset", leader_epoch, reason, attempts, due_at, record)
SELECT $2, p.lane, p.aggregate, $1, p.id, p.fp, p.off, p.le, p.reason, p.attempts,
    CASE WHEN p.reason <> 'follower' THEN 'infinity'::timestamptz END, p.record
FROM unnest($3::integer[], $4::bytea[], $5::uuid[], $6::bytea[], $7::bigint[], $8::integer[], $9::text[],
    $10::integer[], $11::text[]) WITH ORDINALITY p(lane, aggregate, id, fp, off, le, reason, attempts, record, ord)
ORDER BY p.ord
ON CONFLICT (partition_ref, "offset", leader_epoch) DO NOTHING"#;

/// How many of the deliveries are parked with this very id and content.
const PARKED_SAME: &str = r#"SELECT count(*) FROM inbox_parked q
JOIN unnest($2::uuid[], $3::bytea[], $4::bigint[], $5::integer[]) p(id, fp, off, le)
    ON q."offset" = p.off AND q.leader_epoch = p.le AND q.event_id = p.id AND q.fingerprint = p.fp
WHERE q.partition_ref = $1"#;

const MARK: &str =
    "UPDATE inbox_events SET parked = true WHERE consumer_ref = $1 AND event_id = ANY($2)";

const PARKED_AT: &str = r#"SELECT q."offset" FROM inbox_parked q
JOIN unnest($2::bigint[], $3::integer[]) d(off, le) ON q."offset" = d.off AND q.leader_epoch = d.le
WHERE q.partition_ref = $1"#;

impl Parkings for Postgres {
    async fn park(
        conn: &mut PgConnection,
        scope: &Scope,
        rows: &[Parking],
    ) -> Result<(), sqlx::Error> {
        if rows.is_empty() {
            return Ok(());
        }
        let ids: Vec<Uuid> = rows.iter().map(|r| Uuid::from_bytes(r.id)).collect();
        if insert(conn, scope, rows, &ids).await? < rows.len() {
            check_same(conn, scope, rows, &ids).await?;
        }
        sqlx::query(MARK).bind(scope.consumer_ref).bind(ids).execute(conn).await.map(drop)
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
            .fetch_all(conn)
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
        .bind(rows.iter().map(|r| r.record.as_str()).collect::<Vec<_>>())
        .execute(conn)
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
        .fetch_one(conn)
        .await?;
    if usize::try_from(same).is_ok_and(|same| same == rows.len()) {
        return Ok(());
    }
    Err(unexpected(format!(
        "partition_ref {} has a parked row of another record at the offset of one that is to be parked: \
         the log was written again; release or discard the older row first",
        scope.partition_ref
    )))
}

fn column<T>(rows: &[Parking], of: impl Fn(&Parking) -> T) -> Vec<T> {
    rows.iter().map(of).collect()
}
