//! The lanes of a partition, as a take-over finds, makes and raises them.

use inbox_engine::internal::{Epoch, LaneState, LeaderEpoch, NextOffset, Offset};

use super::{Columns, Read as _, SqlClient, values};
use crate::{
    port::TakeOver,
    shared::lane,
    takeover::{self, PartitionState},
};

/// The texts of lanes.
pub(crate) struct LaneTexts {
    /// 1 partition. Locked in order before anything is read of them: this waits for the transactions of the old
    /// owner.
    pub(crate) lock: &'static str,
    /// 1 partition.
    pub(crate) remove: &'static str,
    /// 1 partition, 2 lanes, 3 last offset. Adds those that are missing.
    pub(crate) add: &'static str,
    /// 1 partition, 2 epoch.
    pub(crate) raise: &'static str,
}

/// A database with lanes.
pub(crate) trait LaneSql: SqlClient {
    fn lanes() -> &'static LaneTexts;
}

/// The lanes that wait, if there are any.
pub(crate) fn waiting(row: &impl Columns) -> Result<Option<(i32, String)>, sqlx::Error> {
    let count: Option<i32> = row.read("next_lane_count")?;
    let rule: Option<String> = row.read("next_lane_rule")?;
    Ok(count.zip(rule))
}

/// The row with the lanes that hold from now on: other ones only if those that it has are drained.
pub(super) async fn choose<DB: LaneSql>(
    conn: &mut DB::Connection,
    mut row: PartitionState,
    request: &TakeOver,
) -> Result<PartitionState, sqlx::Error> {
    if !takeover::wants_others(&row, request) {
        row.next_lanes = None;
        return Ok(row);
    }
    let rows = DB::fetch_all(conn, DB::lanes().lock, values![row.partition_ref]).await?;
    let last = rows.iter().map(|row| row.read("last_offset")).collect::<Result<Vec<i64>, _>>()?;
    Ok(takeover::with_lanes(row, &last, request))
}

/// Sees to the lane rows: a remap makes them anew, else only missing ones are added.
pub(super) async fn make<DB: LaneSql>(
    conn: &mut DB::Connection,
    row: &PartitionState,
    remap: bool,
) -> Result<(), sqlx::Error> {
    if remap {
        DB::execute(conn, DB::lanes().remove, values![row.partition_ref]).await?;
    }
    let last = NextOffset(row.watermark).last().0;
    add::<DB>(conn, row.partition_ref, row.lane_count, last).await
}

/// Adds the lane rows that are missing.
pub(super) async fn add<DB: LaneSql>(
    conn: &mut DB::Connection,
    partition_ref: i64,
    lane_count: i32,
    last: i64,
) -> Result<(), sqlx::Error> {
    DB::execute(conn, DB::lanes().add, values![partition_ref, lane_count, last]).await.map(drop)
}

/// Raises the epoch of the lanes, in their order, and reads them.
pub(super) async fn raise<DB: LaneSql>(
    conn: &mut DB::Connection,
    row: &PartitionState,
    epoch: Epoch,
) -> Result<Vec<LaneState>, sqlx::Error> {
    let raise = DB::lanes().raise;
    let rows = DB::fetch_all(conn, raise, values![row.partition_ref, epoch.0]).await?;
    let mut lanes = rows.iter().map(state).collect::<Result<Vec<_>, _>>()?;
    lanes.sort_unstable_by_key(|(lane, _)| *lane);
    Ok(lanes.into_iter().map(|(_, state)| state).collect())
}

fn state(row: &impl Columns) -> Result<(inbox_engine::internal::Lane, LaneState), sqlx::Error> {
    let state = LaneState {
        last: Offset(row.read("last_offset")?),
        leader_epoch: LeaderEpoch(row.read("last_leader_epoch")?),
    };
    Ok((lane(row.read("lane")?)?, state))
}
