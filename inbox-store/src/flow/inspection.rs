//! Looking, for `status` and `check`.

use uuid::Uuid;

use super::{Columns, lanes};
use crate::{port::PartitionRow, takeover};

/// A row of `status`.
pub(crate) fn partition(row: &impl Columns) -> Result<PartitionRow, sqlx::Error> {
    let topic_id: Uuid = row.read("topic_id")?;
    Ok(PartitionRow {
        topic: row.read("topic")?,
        topic_id: topic_id.into_bytes(),
        partition: row.read("partition")?,
        watermark: row.read("watermark")?,
        reached: row.read("reached")?,
        epoch: row.read("epoch")?,
        lane_count: row.read("lane_count")?,
        lane_rule: row.read("lane_rule")?,
        next_lanes: lanes::waiting(row)?,
        id_scope: takeover::id_scope(row.read("within_topic")?),
        owner: row.read("owner")?,
        owner_seen_seconds: row.read("owner_seen_seconds")?,
        parked_aggregates: row.read("aggregates")?,
        parked_events: row.read("events")?,
        gaps: row.read("gaps")?,
        standstill: row.read("standstill")?,
        held_lanes: row.read("held_lanes")?,
        retired: row.read("retired")?,
    })
}
