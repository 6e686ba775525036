//! The texts of lanes.

use inbox_engine::internal::Statement;
use sqlx::Sqlite;

use crate::flow::lanes::{LaneSql, LaneTexts};

static TEXTS: LaneTexts = LaneTexts {
    lock: Statement::new("SELECT last_offset FROM inbox_lanes WHERE partition_ref = ?1", &[]),
    remove: "DELETE FROM inbox_lanes WHERE partition_ref = ?1",
    add: "WITH RECURSIVE lanes(lane) AS
    (SELECT 0 UNION ALL SELECT lane + 1 FROM lanes WHERE lane + 1 < ?2)
INSERT INTO inbox_lanes (partition_ref, lane, epoch, last_offset, last_leader_epoch)
SELECT ?1, lane, 0, ?3, -1 FROM lanes WHERE true ON CONFLICT DO NOTHING",
    raise: Statement::new(
        "UPDATE inbox_lanes SET epoch = ?2 WHERE partition_ref = ?1
RETURNING lane, last_offset, last_leader_epoch",
        &[],
    ),
};

impl LaneSql for Sqlite {
    fn lanes() -> &'static LaneTexts {
        &TEXTS
    }
}
