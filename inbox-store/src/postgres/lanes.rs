//! The lanes of a partition, as a take-over finds, makes and raises them.

use inbox_engine::{Cut, Epoch, LaneState, LeaderEpoch, NextOffset, Offset, Rule, Statement};
use sqlx::{PgConnection, Row, postgres::PgRow};

use super::sent::on;
use crate::{
    port::TakeOver,
    shared::lane,
    takeover::{self, PartitionState},
};

/// Locked in order before anything is read of them: this waits for the transactions of the old owner.
static LOCK_LANES: Statement = Statement::new(
    "SELECT last_offset FROM inbox_lanes WHERE partition_ref = $1 ORDER BY lane FOR UPDATE",
    &[Cut::new(Rule::LanesLockedInOrder, "ORDER BY lane FOR UPDATE", "FOR UPDATE")],
);
const REMOVE_LANES: &str = "DELETE FROM inbox_lanes WHERE partition_ref = $1";
/// $1 partition, $2 lanes, $3 last offset.
const ADD_LANES: &str =
    "INSERT INTO inbox_lanes (partition_ref, lane, epoch, last_offset, last_leader_epoch)
SELECT $1, l, 0, $3, -1 FROM generate_series(0, $2 - 1) l ON CONFLICT DO NOTHING";

/// $1 partition, $2 epoch.
static RAISE_LANES: Statement = Statement::new(
    "WITH k AS MATERIALIZED (SELECT lane FROM inbox_lanes WHERE partition_ref = $1 ORDER BY lane FOR UPDATE)
UPDATE inbox_lanes l SET epoch = $2 FROM k WHERE l.partition_ref = $1 AND l.lane = k.lane
RETURNING l.lane, l.last_offset, l.last_leader_epoch",
    &[Cut::new(Rule::LanesLockedInOrder, "ORDER BY lane FOR UPDATE", "")],
);

/// The lanes that wait, if there are any.
pub(super) fn waiting(row: &PgRow) -> Result<Option<(i32, String)>, sqlx::Error> {
    let count: Option<i32> = row.try_get("next_lane_count")?;
    let rule: Option<String> = row.try_get("next_lane_rule")?;
    Ok(count.zip(rule))
}

/// The row with the lanes that hold from now on: other ones only if those that it has are drained.
pub(super) async fn choose(
    conn: &mut PgConnection,
    mut row: PartitionState,
    request: &TakeOver,
) -> Result<PartitionState, sqlx::Error> {
    if !takeover::wants_others(&row, request) {
        row.next_lanes = None;
        return Ok(row);
    }
    let last: Vec<i64> =
        sqlx::query_scalar(LOCK_LANES.text()).bind(row.partition_ref).fetch_all(on(conn)).await?;
    Ok(takeover::with_lanes(row, &last, request))
}

/// Sees to the lane rows: a remap makes them anew, else only missing ones are added.
pub(super) async fn make(
    conn: &mut PgConnection,
    row: &PartitionState,
    remap: bool,
) -> Result<(), sqlx::Error> {
    if remap {
        sqlx::query(REMOVE_LANES).bind(row.partition_ref).execute(on(conn)).await?;
    }
    sqlx::query(ADD_LANES)
        .bind(row.partition_ref)
        .bind(row.lane_count)
        .bind(NextOffset(row.watermark).last().0)
        .execute(on(conn))
        .await
        .map(drop)
}

/// Raises the epoch of the lanes, in their order, and reads them.
pub(super) async fn raise(
    conn: &mut PgConnection,
    row: &PartitionState,
    epoch: Epoch,
) -> Result<Vec<LaneState>, sqlx::Error> {
    let rows = sqlx::query(RAISE_LANES.text())
        .bind(row.partition_ref)
        .bind(epoch.0)
        .fetch_all(on(conn))
        .await?;
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

#[cfg(test)]
mod tests {
    #[test]
    fn each_rule_is_in_its_statement() {
        super::LOCK_LANES.check();
        super::RAISE_LANES.check();
    }
}
