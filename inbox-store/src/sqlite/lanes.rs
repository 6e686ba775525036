//! The lanes of a partition, as a take-over finds, makes and raises them.

use inbox_engine::{Epoch, LaneState, LeaderEpoch, NextOffset, Offset};
use sqlx::{Row, SqliteConnection, sqlite::SqliteRow};

use crate::{
    port::TakeOver,
    shared::lane,
    takeover::{self, PartitionState},
};

const LANES: &str = "SELECT last_offset FROM inbox_lanes WHERE partition_ref = ?1";
const REMOVE_LANES: &str = "DELETE FROM inbox_lanes WHERE partition_ref = ?1";
/// ?1 partition, ?2 lanes, ?3 last offset.
const ADD_LANES: &str = "WITH RECURSIVE lanes(lane) AS
    (SELECT 0 UNION ALL SELECT lane + 1 FROM lanes WHERE lane + 1 < ?2)
INSERT INTO inbox_lanes (partition_ref, lane, epoch, last_offset, last_leader_epoch)
SELECT ?1, lane, 0, ?3, -1 FROM lanes WHERE true ON CONFLICT DO NOTHING";

/// ?1 partition, ?2 epoch.
const RAISE_LANES: &str = "UPDATE inbox_lanes SET epoch = ?2 WHERE partition_ref = ?1
RETURNING lane, last_offset, last_leader_epoch";

/// The lanes that wait, if there are any.
pub(super) fn waiting(row: &SqliteRow) -> Result<Option<(i32, String)>, sqlx::Error> {
    let count: Option<i32> = row.try_get("next_lane_count")?;
    let rule: Option<String> = row.try_get("next_lane_rule")?;
    Ok(count.zip(rule))
}

/// The row with the lanes that hold from now on: other ones only if those that it has are drained.
pub(super) async fn choose(
    conn: &mut SqliteConnection,
    mut row: PartitionState,
    request: &TakeOver,
) -> Result<PartitionState, sqlx::Error> {
    if !takeover::wants_others(&row, request) {
        row.next_lanes = None;
        return Ok(row);
    }
    let last: Vec<i64> = sqlx::query_scalar(LANES).bind(row.partition_ref).fetch_all(conn).await?;
    Ok(takeover::with_lanes(row, &last, request))
}

/// Sees to the lane rows: a remap makes them anew, else only missing ones are added.
pub(super) async fn make(
    conn: &mut SqliteConnection,
    row: &PartitionState,
    remap: bool,
) -> Result<(), sqlx::Error> {
    if remap {
        sqlx::query(REMOVE_LANES).bind(row.partition_ref).execute(&mut *conn).await?;
    }
    sqlx::query(ADD_LANES)
        .bind(row.partition_ref)
        .bind(row.lane_count)
        .bind(NextOffset(row.watermark).last().0)
        .execute(conn)
        .await
        .map(drop)
}

/// Raises the epoch of the lanes and reads them.
pub(super) async fn raise(
    conn: &mut SqliteConnection,
    row: &PartitionState,
    epoch: Epoch,
) -> Result<Vec<LaneState>, sqlx::Error> {
    let rows =
        sqlx::query(RAISE_LANES).bind(row.partition_ref).bind(epoch.0).fetch_all(conn).await?;
    let mut lanes = rows
        .iter()
        .map(|row| {
            let state = LaneState {
                last: Offset(row.try_get("last_offset")?),
                leader_epoch: LeaderEpoch(row.try_get("last_leader_epoch")?),
            };
            Ok((lane(row.try_get("lane")?)?, state))
        })
        .collect::<Result<Vec<_>, sqlx::Error>>()?;
    lanes.sort_unstable_by_key(|(lane, _)| *lane);
    Ok(lanes.into_iter().map(|(_, state)| state).collect())
}
