//! The texts of lanes.

use sqlx::Postgres;

use crate::flow::lanes::{LaneSql, LaneTexts};

pub(super) static TEXTS: LaneTexts = LaneTexts {
    lock: "SELECT last_offset FROM inbox_lanes WHERE partition_ref = $1 ORDER BY lane FOR UPDATE",
    remove: "DELETE FROM inbox_lanes WHERE partition_ref = $1",
    add: "INSERT INTO inbox_lanes (partition_ref, lane, epoch, last_offset, last_leader_epoch)
SELECT $1, l, 0, $3, -1 FROM generate_series(0, $2 - 1) l ON CONFLICT DO NOTHING",
    raise: "WITH k AS MATERIALIZED (SELECT lane FROM inbox_lanes WHERE partition_ref = $1 ORDER BY lane FOR UPDATE)
UPDATE inbox_lanes l SET epoch = $2 FROM k WHERE l.partition_ref = $1 AND l.lane = k.lane
RETURNING l.lane, l.last_offset, l.last_leader_epoch",
};

impl LaneSql for Postgres {
    fn lanes() -> &'static LaneTexts {
        &TEXTS
    }
}
