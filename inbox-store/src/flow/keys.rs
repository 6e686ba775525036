//! The keys of parked rows, made anew when aggregates are found by another rule.

use std::future::Future;

use super::{Columns, Read as _, SqlClient, values};
use crate::{
    port::{Lanes, TakeOver},
    takeover::{self, ParkedRecord, PartitionState},
};

/// Parked rows whose keys are looked at in one statement: each comes with its record.
const KEYS_MAX: i64 = 500;

/// The texts of keys.
pub(crate) struct KeyTexts {
    /// 1 partition. Whether anything is parked in it.
    pub(crate) are_there: &'static str,
    /// 1 partition, 2 and 3 behind which offset and leader epoch, 4 at most.
    pub(crate) records: &'static str,
    /// 1 partition. A queue that was divided has heads that were followers.
    pub(crate) promote: &'static str,
}

/// A database with keys of parked rows.
pub(crate) trait KeySql: SqlClient {
    fn keys() -> &'static KeyTexts;
    /// Gives parked rows, by their numbers, other keys.
    fn set_keys(
        conn: &mut Self::Connection,
        partition_ref: i64,
        keys: &[(i64, [u8; 16])],
    ) -> impl Future<Output = Result<(), sqlx::Error>> + Send;
}

/// Whether anything is parked in a partition.
pub(super) async fn are_there<DB: KeySql>(
    conn: &mut DB::Connection,
    partition_ref: i64,
) -> Result<bool, sqlx::Error> {
    DB::fetch_one(conn, DB::keys().are_there, values![partition_ref]).await?.at(0)
}

/// The parked rows that need another key, and which; or why the partition has to stand still.
pub(super) async fn other_keys<DB: KeySql>(
    conn: &mut DB::Connection,
    row: &PartitionState,
    request: &TakeOver,
    lanes: &Lanes,
) -> Result<takeover::OtherKeys, sqlx::Error> {
    let mut changed = Vec::new();
    let mut behind = Some((i64::MIN, i32::MIN)).filter(|_| takeover::has_other_keys(row, lanes));
    while let Some((offset, leader_epoch)) = behind {
        let values = values![row.partition_ref, offset, leader_epoch, KEYS_MAX];
        let rows = DB::fetch_all(conn, DB::keys().records, values).await?;
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
pub(super) async fn set<DB: KeySql>(
    conn: &mut DB::Connection,
    partition_ref: i64,
    keys: &[(i64, [u8; 16])],
) -> Result<(), sqlx::Error> {
    if keys.is_empty() {
        return Ok(());
    }
    DB::set_keys(conn, partition_ref, keys).await?;
    DB::execute(conn, DB::keys().promote, values![partition_ref]).await.map(drop)
}

fn parked(row: &impl Columns) -> Result<ParkedRecord, sqlx::Error> {
    Ok(ParkedRecord {
        seq: row.read("parked_seq")?,
        offset: row.read("offset")?,
        leader_epoch: row.read("leader_epoch")?,
        key: row.read("aggregate_key")?,
        record: row.read("record")?,
    })
}
