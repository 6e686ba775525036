//! The keys of parked rows, made anew when aggregates are found by another rule.

use sqlx::{PgConnection, Row, postgres::PgRow};

use super::sent::on;
use crate::{
    port::{Lanes, TakeOver},
    shared::{KEYS_MAX, sixteen},
    takeover::{self, ParkedRecord, PartitionState},
};

const ARE_THERE: &str = "SELECT EXISTS (SELECT FROM inbox_parked WHERE partition_ref = $1)";

/// $1 partition, $2 and $3 behind which offset and leader epoch, $4 at most.
const RECORDS: &str = r#"SELECT parked_seq, "offset", leader_epoch, aggregate_key, record FROM inbox_parked
WHERE partition_ref = $1 AND ("offset", leader_epoch) > ($2, $3) ORDER BY "offset", leader_epoch LIMIT $4"#;

/// $1 partition, then one array a column.
const SET: &str = "UPDATE inbox_parked q SET aggregate_key = k.key FROM unnest($2::bigint[], $3::bytea[]) k(seq, key)
WHERE q.partition_ref = $1 AND q.parked_seq = k.seq";

/// A queue that was divided has heads that were followers.
const PROMOTE: &str = r#"UPDATE inbox_parked q SET due_at = now() WHERE q.partition_ref = $1 AND q.due_at IS NULL
AND NOT EXISTS (SELECT FROM inbox_parked h WHERE h.partition_ref = q.partition_ref
    AND h.aggregate_key = q.aggregate_key AND (h."offset", h.leader_epoch) < (q."offset", q.leader_epoch))"#;

/// Whether anything is parked in a partition.
pub(super) async fn are_there(
    conn: &mut PgConnection,
    partition_ref: i64,
) -> Result<bool, sqlx::Error> {
    sqlx::query_scalar(ARE_THERE).bind(partition_ref).fetch_one(on(conn)).await
}

/// The parked rows that need another key, and which; or why the partition has to stand still.
pub(super) async fn other_keys(
    conn: &mut PgConnection,
    row: &PartitionState,
    request: &TakeOver,
    lanes: &Lanes,
) -> Result<takeover::OtherKeys, sqlx::Error> {
    let mut changed = Vec::new();
    let mut behind = Some((i64::MIN, i32::MIN)).filter(|_| takeover::has_other_keys(row, lanes));
    while let Some((offset, leader_epoch)) = behind {
        let rows = sqlx::query(RECORDS)
            .bind(row.partition_ref)
            .bind(offset)
            .bind(leader_epoch)
            .bind(KEYS_MAX)
            .fetch_all(on(conn))
            .await?;
        let rows = rows.iter().map(parked).collect::<Result<Vec<_>, _>>()?;
        behind = rows.last().map(|row| (row.offset, row.leader_epoch));
        match takeover::other_keys(&rows, request, lanes) {
            Ok(more) => changed.extend(more),
            Err(reason) => return Ok(Err(reason)),
        }
    }
    Ok(Ok(changed))
}

/// Gives parked rows their new keys. Each queue has a head that is due, or has a time of its own.
pub(super) async fn set(
    conn: &mut PgConnection,
    partition_ref: i64,
    keys: &[(i64, [u8; 16])],
) -> Result<(), sqlx::Error> {
    if keys.is_empty() {
        return Ok(());
    }
    sqlx::query(SET)
        .bind(partition_ref)
        .bind(keys.iter().map(|(seq, _)| *seq).collect::<Vec<_>>())
        .bind(keys.iter().map(|(_, key)| *key).collect::<Vec<_>>())
        .execute(on(conn))
        .await?;
    sqlx::query(PROMOTE).bind(partition_ref).execute(on(conn)).await.map(drop)
}

fn parked(row: &PgRow) -> Result<ParkedRecord, sqlx::Error> {
    Ok(ParkedRecord {
        seq: row.try_get("parked_seq")?,
        offset: row.try_get("offset")?,
        leader_epoch: row.try_get("leader_epoch")?,
        key: sixteen(row.try_get("aggregate_key")?)?,
        record: row.try_get("record")?,
    })
}
