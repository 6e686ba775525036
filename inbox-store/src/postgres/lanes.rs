//! The texts of lanes.

use inbox_engine::internal::{Cut, Rule, Statement};
use sqlx::Postgres;

use crate::flow::lanes::{LaneSql, LaneTexts};

static TEXTS: LaneTexts = LaneTexts {
    lock: Statement::new(
    "SELECT last_offset FROM inbox_lanes WHERE partition_ref = $1 ORDER BY lane FOR UPDATE",
    &[Cut::new(Rule::LanesLockedInOrder, "ORDER BY lane FOR UPDATE", "FOR UPDATE")],
),
    remove: "DELETE FROM inbox_lanes WHERE partition_ref = $1",
    add: "INSERT INTO inbox_lanes (partition_ref, lane, epoch, last_offset, last_leader_epoch)
SELECT $1, l, 0, $3, -1 FROM generate_series(0, $2 - 1) l ON CONFLICT DO NOTHING",
    raise: Statement::new(
    "WITH k AS MATERIALIZED (SELECT lane FROM inbox_lanes WHERE partition_ref = $1 ORDER BY lane FOR UPDATE)
UPDATE inbox_lanes l SET epoch = $2 FROM k WHERE l.partition_ref = $1 AND l.lane = k.lane
RETURNING l.lane, l.last_offset, l.last_leader_epoch",
    &[Cut::new(Rule::LanesLockedInOrder, "ORDER BY lane FOR UPDATE", "")],
),
};

impl LaneSql for Postgres {
    fn lanes() -> &'static LaneTexts {
        &TEXTS
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn each_rule_is_in_its_statement() {
        super::TEXTS.lock.check();
        super::TEXTS.raise.check();
    }
}
