//! The texts of lanes.

use sqlx::Postgres;

use crate::flow::lanes::{LaneSql, LaneTexts};

/// The offset behind the furthest one that a lane of a partition has settled. Each lane is found at the end of its
/// key: what is dead of it lies before.
macro_rules! reached {
    ($partition:literal) => {
        concat!(
            "(SELECT max(x.last_offset) + 1 FROM generate_series(0, ",
            $partition,
            ".lane_count - 1) n, LATERAL
        (SELECT l.last_offset FROM inbox_lanes l WHERE l.partition_ref = ",
            $partition,
            ".partition_ref AND l.lane = n ORDER BY l.slot DESC LIMIT 1) x)"
        )
    };
}
pub(super) use reached;

pub(super) static TEXTS: LaneTexts = LaneTexts {
    lock: "SELECT last_offset FROM inbox_lanes WHERE partition_ref = $1 ORDER BY lane FOR UPDATE",
    remove: "DELETE FROM inbox_lanes WHERE partition_ref = $1",
    add: "INSERT INTO inbox_lanes (partition_ref, lane, epoch, last_offset, slot, last_leader_epoch, added_by)
SELECT $1, l, 0, $3, $3::bigint >> 8, -1, 7 FROM generate_series(0, $2 - 1) l
WHERE NOT EXISTS (SELECT FROM inbox_lanes o WHERE o.partition_ref = $1 AND o.lane = l)",
    raise: "WITH k AS MATERIALIZED (SELECT lane FROM inbox_lanes WHERE partition_ref = $1 ORDER BY lane FOR UPDATE)
UPDATE inbox_lanes l SET epoch = $2, slot = l.last_offset >> 8 FROM k WHERE l.partition_ref = $1 AND l.lane = k.lane
RETURNING l.lane, l.last_offset, l.last_leader_epoch",
};

impl LaneSql for Postgres {
    fn lanes() -> &'static LaneTexts {
        &TEXTS
    }
}
