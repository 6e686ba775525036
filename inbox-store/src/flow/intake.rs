//! The partition of an intake, and its lanes.

use inbox_engine::internal::{Epoch, Lane, Offset, Rule};
use uuid::Uuid;

use super::{Columns, suspects, suspects::SuspectSql, values};
use crate::{
    port::{IntakePartition, Intakes, LockedLane, Owner, Suspect, TakeOver, TakeOverError},
    shared::{lane, unexpected},
    takeover,
};

/// The texts of intakes.
pub(crate) struct IntakeTexts {
    /// 1 consumer, 2 topic, 3 partition.
    pub(crate) partition: &'static str,
    /// 1 partition, 2 lanes, 3 an offset that each was seen at or beyond. In ascending order.
    pub(crate) lock: &'static str,
    /// 1 partition, 2 lanes. For locked ones of which `is_misplaced` is true of one: a build
    /// that knew no slots has moved it.
    pub(crate) place: Option<&'static str>,
    /// 1 partition, 2 owner, 3 process.
    pub(crate) settle: &'static str,
}

/// A database with intakes.
pub(crate) trait IntakeSql: SuspectSql {
    fn intake() -> &'static IntakeTexts;
}

impl<DB: IntakeSql> Intakes for DB {
    async fn intake_partition(
        conn: &mut DB::Connection,
        request: &TakeOver,
    ) -> Result<Option<IntakePartition>, TakeOverError> {
        let TakeOver { consumer, partition: place, .. } = request;
        let values = values![consumer.as_str(), &*place.topic, place.partition];
        let row = DB::fetch_optional(conn, DB::intake().partition, values).await?;
        row.as_ref().map_or(Ok(None), |row| usable(row, request))
    }

    async fn lock_lanes(
        conn: &mut DB::Connection,
        partition_ref: i64,
        lanes: &[(Lane, Offset)],
    ) -> Result<Vec<LockedLane>, sqlx::Error> {
        let (lanes, mut seen): (Vec<i64>, Vec<i64>) =
            lanes.iter().map(|(lane, seen)| (i64::from(lane.0), seen.0)).unzip();
        let lock = DB::intake().lock;
        let mut rows = DB::fetch_all(conn, lock, values![partition_ref, &lanes, &seen]).await?;
        if rows.len() < lanes.len() {
            // The database has gone back, and a lane with it to where it was before.
            seen.fill(-1);
            rows = DB::fetch_all(conn, lock, values![partition_ref, &lanes, &seen]).await?;
        }
        if let Some(place) = DB::intake().place
            && Rule::LockPutsSlotRight.on()
            && misplaced(&rows)?
        {
            DB::execute(conn, place, values![partition_ref, &lanes]).await?;
        }
        rows.iter().map(locked).collect()
    }

    async fn settle_lanes(
        conn: &mut DB::Connection,
        partition_ref: i64,
        owner: &Owner,
    ) -> Result<(), sqlx::Error> {
        DB::begin_own(conn).await?;
        let values = values![partition_ref, owner.name.as_str(), owner.incarnation];
        let done = DB::execute(conn, DB::intake().settle, values).await;
        DB::end_own(conn, done.map(drop)).await
    }

    async fn unfinished(
        conn: &mut DB::Connection,
        partition_ref: i64,
        incarnation: Uuid,
    ) -> Result<Vec<Suspect>, sqlx::Error> {
        let left = suspects::all::<DB>(conn, partition_ref).await?;
        let left = left.into_iter().filter_map(|row| takeover::suspect(row, i64::MIN, incarnation));
        Ok(left.collect())
    }

    async fn forget_unfinished(
        conn: &mut DB::Connection,
        partition_ref: i64,
    ) -> Result<(), sqlx::Error> {
        DB::begin_own(conn).await?;
        let done = DB::execute(conn, DB::suspects().forget, values![partition_ref, 0_i64]).await;
        DB::end_own(conn, done.map(drop)).await
    }
}

/// The partition of a row, if it can be used as it is.
fn usable(
    row: &impl Columns,
    request: &TakeOver,
) -> Result<Option<IntakePartition>, TakeOverError> {
    let held = takeover::id_scope(row.read("within_topic")?);
    takeover::check_id_scope(held, request).map_err(TakeOverError::Standstill)?;
    let key_rule: Option<String> = row.read("key_rule")?;
    let is_another = |rule: &String| takeover::are_other_keys(Some(rule), &request.lanes);
    if key_rule.as_ref().is_some_and(is_another) {
        return Ok(None);
    }
    Ok(Some(partition(row)?))
}

fn partition(row: &impl Columns) -> Result<IntakePartition, sqlx::Error> {
    let lanes: i32 = row.read("lane_count")?;
    let lanes = u16::try_from(lanes).ok().filter(|lanes| *lanes > 0);
    Ok(IntakePartition {
        consumer_ref: row.read("consumer_ref")?,
        partition_ref: row.read("partition_ref")?,
        epoch: Epoch(row.read("epoch")?),
        lane_count: lanes
            .ok_or_else(|| unexpected("a partition has an unexpected number of lanes"))?,
        incarnation: row.read("owner_incarnation")?,
    })
}

fn misplaced(rows: &[impl Columns]) -> Result<bool, sqlx::Error> {
    let flags: Result<Vec<bool>, _> = rows.iter().map(|row| row.read("is_misplaced")).collect();
    Ok(flags?.contains(&true))
}

fn locked(row: &impl Columns) -> Result<LockedLane, sqlx::Error> {
    Ok(LockedLane {
        lane: lane(row.read("lane")?)?,
        epoch: Epoch(row.read("epoch")?),
        last: Offset(row.read("last_offset")?),
    })
}
