//! Parked events, written in the transaction of their batch.

use inbox_engine::internal::{LeaderEpoch, Offset};
use sqlx::{Sqlite, SqliteConnection};

use crate::{
    flow,
    json::{joined, places},
    port::{ParkedLoad, Parking, Parkings, Scope},
    shared::{millis, unexpected},
};

/// A delivery that has its parked row already (a redelivery) changes nothing.
const PARK: &str = r#"INSERT INTO inbox_parked (partition_ref, lane, aggregate_key, consumer_ref, event_id, fingerprint,
    "offset", leader_epoch, reason, attempts, due_at, event_type, aggregate, errors, record, sha256)
VALUES (?2, ?3, ?4, ?1, ?5, ?6, ?7, ?8, ?9, ?10,
    CASE WHEN ?9 <> 'follower' THEN coalesce(CAST(unixepoch('subsec') * 1000 AS INTEGER) + ?11, 9223372036854775807) END,
    ?12, ?13, ?14, ?15, 1)
ON CONFLICT (partition_ref, "offset", leader_epoch) DO NOTHING"#;

/// Whether the delivery is parked with this very id and content. Of a row of an older build (XXH3) place and id
/// tell: its fingerprint is no proof of anything.
const PARKED_SAME: &str = r#"SELECT count(*) FROM inbox_parked WHERE partition_ref = ?1 AND "offset" = ?2
AND leader_epoch = ?3 AND event_id = ?4 AND (fingerprint = ?5 OR NOT sha256)"#;

/// ?1 consumer, ?2 ids, ?3 their places.
pub(super) const MARK: &str =
    "UPDATE inbox_events SET parked = 1 WHERE consumer_ref = ?1 AND event_id IN
(SELECT substr(?2, value * 16 + 1, 16) FROM json_each(?3))";

/// ?1 partition, ?2 `[[offset,leader_epoch],…]`.
pub(super) const PARKED_AT: &str = r#"SELECT q."offset" FROM json_each(?2) d CROSS JOIN inbox_parked q ON q.partition_ref = ?1
AND q."offset" = d.value ->> 0 AND q.leader_epoch = d.value ->> 1"#;

/// See [`flow::parking::load`]. What waits for versions has queues of its own: it is of the aggregate that it joins.
const LOAD: &str = "WITH RECURSIVE k AS (
    SELECT (SELECT aggregate_key FROM inbox_parked WHERE partition_ref = ?1 AND joins IS NULL ORDER BY aggregate_key LIMIT 1) AS aggregate_key, 1 AS n
    UNION ALL
    SELECT (SELECT q.aggregate_key FROM inbox_parked q WHERE q.partition_ref = ?1 AND q.joins IS NULL AND q.aggregate_key > k.aggregate_key
        ORDER BY q.aggregate_key LIMIT 1), k.n + 1 FROM k WHERE k.aggregate_key IS NOT NULL AND k.n <= ?2),
j AS (
    SELECT (SELECT joins FROM inbox_parked WHERE partition_ref = ?1 AND joins IS NOT NULL ORDER BY joins LIMIT 1) AS joins, 1 AS n
    UNION ALL
    SELECT (SELECT q.joins FROM inbox_parked q WHERE q.partition_ref = ?1 AND q.joins IS NOT NULL AND q.joins > j.joins
        ORDER BY q.joins LIMIT 1), j.n + 1 FROM j WHERE j.joins IS NOT NULL AND j.n <= ?2)
SELECT min((SELECT count(aggregate_key) FROM (SELECT aggregate_key FROM k UNION SELECT joins FROM j) a), ?2 + 1) AS aggregates,
    e.events, e.bytes
FROM (SELECT count(*) AS events, coalesce(sum(r.bytes), 0) AS bytes FROM
    (SELECT octet_length(record) AS bytes FROM inbox_parked WHERE partition_ref = ?1 LIMIT ?3 + 1) r) e";

/// The keys of what is parked are by this build's rule: one that does not know that it has to make them anew
/// may not take the partition over while they are there (the constraint on `key_epoch`).
const KEYS_ARE_OURS: &str =
    "UPDATE inbox_partitions SET key_epoch = epoch WHERE partition_ref = ?1 AND key_epoch IS NULL";

impl Parkings for Sqlite {
    async fn park(
        conn: &mut SqliteConnection,
        scope: &Scope,
        rows: &[Parking],
    ) -> Result<u64, sqlx::Error> {
        if rows.is_empty() {
            return Ok(0);
        }
        for row in rows {
            if !insert(conn, scope, row).await? {
                check_same(conn, scope, row).await?;
            }
        }
        sqlx::query(MARK)
            .bind(scope.consumer_ref)
            .bind(joined(rows.iter().map(|row| &row.id)))
            .bind(places(rows.len()))
            .execute(conn)
            .await
            .map(|done| done.rows_affected())
    }

    /// The writer is alone already.
    async fn park_alone(conn: &mut SqliteConnection, scope: &Scope) -> Result<(), sqlx::Error> {
        sqlx::query(KEYS_ARE_OURS).bind(scope.partition_ref).execute(conn).await.map(drop)
    }

    async fn parked_load(
        conn: &mut SqliteConnection,
        scope: &Scope,
        limit: ParkedLoad,
    ) -> Result<ParkedLoad, sqlx::Error> {
        flow::parking::load::<Self>(conn, LOAD, scope, limit).await
    }

    async fn parked_at(
        conn: &mut SqliteConnection,
        scope: &Scope,
        deliveries: &[(Offset, LeaderEpoch)],
    ) -> Result<Vec<Offset>, sqlx::Error> {
        let pairs: Vec<_> = deliveries
            .iter()
            .map(|(offset, epoch)| format!("[{},{}]", offset.0, epoch.0))
            .collect();
        let parked: Vec<i64> = sqlx::query_scalar(PARKED_AT)
            .bind(scope.partition_ref)
            .bind(format!("[{}]", pairs.join(",")))
            .fetch_all(conn)
            .await?;
        Ok(parked.into_iter().map(Offset).collect())
    }
}

/// Whether the row is new.
async fn insert(
    conn: &mut SqliteConnection,
    scope: &Scope,
    row: &Parking,
) -> Result<bool, sqlx::Error> {
    let done = sqlx::query(PARK)
        .bind(scope.consumer_ref)
        .bind(scope.partition_ref)
        .bind(row.lane.0)
        .bind(&row.aggregate[..])
        .bind(&row.id[..])
        .bind(&row.fingerprint[..])
        .bind(row.offset.0)
        .bind(row.leader_epoch.0)
        .bind(row.reason.as_str())
        .bind(i64::from(row.attempts))
        .bind(row.delay.map(millis))
        .bind(&row.event_type)
        .bind(&row.aggregate_text)
        .bind(&row.errors)
        .bind(&row.record)
        .execute(conn)
        .await?;
    Ok(done.rows_affected() == 1)
}

/// A parked row of another record at the same place must not swallow this one.
async fn check_same(
    conn: &mut SqliteConnection,
    scope: &Scope,
    row: &Parking,
) -> Result<(), sqlx::Error> {
    let same: i64 = sqlx::query_scalar(PARKED_SAME)
        .bind(scope.partition_ref)
        .bind(row.offset.0)
        .bind(row.leader_epoch.0)
        .bind(&row.id[..])
        .bind(&row.fingerprint[..])
        .fetch_one(conn)
        .await?;
    if same == 1 {
        return Ok(());
    }
    Err(unexpected(format!(
        "the partition has a parked row of a different record at the offset {}: the log was \
         rewritten; release or discard the older row first (`parked list` shows it)",
        row.offset.0
    )))
}
