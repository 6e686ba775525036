//! The texts of intakes.

use sqlx::Postgres;

use super::{
    lanes::reached,
    ownership::{recent, slot_now},
};
use crate::flow::intake::{IntakeSql, IntakeTexts};

pub(super) static TEXTS: IntakeTexts = IntakeTexts {
    partition: "SELECT c.consumer_ref, p.partition_ref, p.epoch, p.lane_count, p.owner_incarnation, p.id_scope_epoch IS NOT NULL AS within_topic,
    CASE WHEN p.key_epoch IS NOT NULL THEN p.key_rule END AS key_rule
FROM inbox_consumers c JOIN inbox_partitions p ON p.consumer_ref = c.consumer_ref
WHERE c.consumer = $1 AND p.topic = $2 AND p.partition = $3 AND p.retired_at IS NULL
ORDER BY p.partition_ref DESC LIMIT 1",
    // The order is that of the locks: rows are sorted before they are locked.
    lock: "SELECT l.lane, l.epoch, l.last_offset, l.slot <> l.last_offset >> 8 AS is_misplaced
FROM unnest($2::bigint[], $3::bigint[]) v(lane, seen)
JOIN inbox_lanes l ON l.partition_ref = $1 AND l.lane = v.lane AND l.slot >= v.seen >> 8 ORDER BY l.lane FOR UPDATE OF l",
    place: Some(
        "UPDATE inbox_lanes l SET slot = l.last_offset >> 8
WHERE l.partition_ref = $1 AND l.lane = ANY($2::bigint[]) AND l.slot <> l.last_offset >> 8",
    ),
    settle: concat!(
        "UPDATE inbox_partitions w SET slot = greatest(w.slot, ",
        slot_now!(),
        "), owner = $2, owner_incarnation = $3, owner_seen = now(), watermark = greatest(w.watermark,
    ",
        reached!("w"),
        ")
WHERE w.partition_ref = $1 AND w.slot >= ",
        recent!("$1"),
        " AND w.retired_at IS NULL"
    ),
};

impl IntakeSql for Postgres {
    fn intake() -> &'static IntakeTexts {
        &TEXTS
    }
}
