//! What of SQLite's statements enforces which rule. `cargo xtask ablate` switches each rule off.

use inbox_engine::internal::{
    Rule,
    ablation::{Cut, Row, Table},
};

use super::{rows, turn};

pub(in crate::feed) static TABLE: Table = Table::new(ROWS);

const TOKEN: Cut = Cut::new(Rule::TurnHasToken, "token = ?2", "?2 IS NOT NULL");

static ROWS: &[Row] = &[
    (turn::TEXTS.keep, &[TOKEN]),
    (turn::TEXTS.give_up, &[TOKEN]),
    (rows::MINE, &[TOKEN]),
    (rows::SENT, &[Cut::new(Rule::MarkNamesEvent, " AND outbox_events.event_id = s.event_id", "")]),
    (rows::FAILED, &[Cut::new(Rule::MarkNamesEvent, "event_id = ?2", "?2 IS NOT NULL")]),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_cut_fits_its_statement() {
        assert_eq!(TABLE.faults(), [""; 0]);
    }
}
