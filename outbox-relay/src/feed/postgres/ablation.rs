//! What of PostgreSQL's statements enforces which rule. `cargo xtask ablate` switches each rule off.

use inbox_engine::internal::{
    Rule,
    ablation::{Cut, Row, Table},
};

use super::{operators::failed, parking, rows, store, turn};

pub(in crate::feed) static TABLE: Table = Table::new(ROWS);

const TOKEN: Cut = Cut::new(Rule::TurnHasToken, "token = $2", "$2::uuid IS NOT NULL");
/// A transaction is in the turn as a whole, or not at all.
const FENCED: Cut = Cut::new(Rule::RetryFenced, "epoch = $1 AND", "$1 IS NOT NULL OR");
const MARKED: Cut = Cut::new(Rule::MarkNamesEvent, " AND o.event_id = s.event_id", "");
const NAMED: Cut = Cut::new(Rule::MarkNamesEvent, " AND o.event_id = s.event", "");
const RELEASE: Cut = Cut::new(
    Rule::ReleaseAfterDelivery,
    "FROM run r WHERE p.seq = r.seq",
    "FROM run r WHERE false",
);
const DUE: Cut = Cut::new(Rule::RetryAwaitsTime, "p.due_at <= now()", "p.due_at IS NOT NULL");
const DUE_STILL: Cut = Cut::new(Rule::RetryAwaitsTime, "now() >= p.due_at", "p.due_at IS NOT NULL");
const BLOCKED: Cut = Cut::new(
    Rule::RetryKeepsPlace,
    "f.seq < p.seq
            AND",
    "false
            AND",
);
const PLACE: Cut = Cut::new(Rule::RetryKeepsPlace, "WHERE place = earlier", "WHERE true");
const WRITTEN: Cut = Cut::new(Rule::ActsAreWritten, "WHERE $5 > 0", "WHERE false");

static ROWS: &[Row] = &[
    (turn::TEXTS.keep, &[TOKEN]),
    (turn::TEXTS.give_up, &[TOKEN]),
    (rows::MARK_SENT, &[TOKEN, MARKED]),
    (store::TEXTS.mine, &[TOKEN, FENCED]),
    (store::TEXTS.sent, &[NAMED]),
    (store::TEXTS.delivered, &[NAMED]),
    (store::TEXTS.unpark, &[NAMED]),
    (store::TEXTS.leave_feed, &[NAMED]),
    (store::TEXTS.park, &[NAMED]),
    (store::TEXTS.promote, &[RELEASE]),
    (parking::CLAIM, &[TOKEN, DUE, DUE_STILL, BLOCKED, PLACE]),
    (failed::WRITE, &[WRITTEN]),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_cut_fits_its_statement() {
        assert_eq!(TABLE.faults(), [""; 0]);
    }
}
