//! What of PostgreSQL's statements enforces which rule. `cargo xtask ablate` switches each rule off.

use inbox_engine::internal::{
    Rule,
    ablation::{Cut, Row, Table},
};

use super::{rows, turn};

pub(in crate::feed) static TABLE: Table = Table::new(ROWS);

const TOKEN: Cut = Cut::new(Rule::TurnHasToken, "token = $2", "$2::uuid IS NOT NULL");
const SENT: Cut = Cut::new(Rule::MarkNamesEvent, " AND o.event_id = s.event_id", "");
const FAILED: Cut = Cut::new(Rule::MarkNamesEvent, " AND o.event_id = f.event_id", "");

static ROWS: &[Row] = &[
    (turn::TEXTS.keep, &[TOKEN]),
    (turn::TEXTS.give_up, &[TOKEN]),
    (rows::MARK_SENT, &[TOKEN, SENT]),
    (rows::MARK, &[TOKEN, SENT, FAILED]),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_cut_fits_its_statement() {
        assert_eq!(TABLE.faults(), [""; 0]);
    }
}
