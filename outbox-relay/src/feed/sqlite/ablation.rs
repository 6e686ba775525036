//! What of SQLite's statements enforces which rule. `cargo xtask ablate` switches each rule off.

use inbox_engine::internal::{
    Rule,
    ablation::{Cut, Row, Table},
};

use super::{operators::failed, retries, rows, turn};

pub(in crate::feed) static TABLE: Table = Table::new(ROWS);

const TOKEN: Cut = Cut::new(Rule::TurnHasToken, "token = ?2", "?2 IS NOT NULL");

/// A transaction is in the turn as a whole, or not at all.
const FENCED: Cut = Cut::new(Rule::RetryFenced, "epoch = ?1 AND", "?1 IS NOT NULL OR");
const DUE: Cut = Cut::new(
    Rule::RetryAwaitsTime,
    " AND retry_at <= CAST(unixepoch('subsec') * 1000 AS INTEGER)",
    "",
);
const BLOCKED: Cut = Cut::new(Rule::RetryKeepsPlace, "AND f.seq < o.seq) AS", "AND false) AS");
const WRITTEN: Cut = Cut::new(
    Rule::ActsAreWritten,
    "VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
    "SELECT ?1, ?2, ?3, ?4, ?5, ?6 WHERE false",
);

static ROWS: &[Row] = &[
    (turn::TEXTS.keep, &[TOKEN]),
    (turn::TEXTS.give_up, &[TOKEN]),
    (rows::MINE, &[TOKEN, FENCED]),
    (rows::SENT, &[Cut::new(Rule::MarkNamesEvent, " AND outbox_events.event_id = s.event_id", "")]),
    (rows::FAILED, &[Cut::new(Rule::MarkNamesEvent, "event_id = ?2", "?2 IS NOT NULL")]),
    (rows::LATE, &[Cut::new(Rule::MarkNamesEvent, " AND outbox_events.event_id = l.event_id", "")]),
    (rows::LATE_ASK, &[Cut::new(Rule::ReleaseAfterDelivery, "WHERE true", "WHERE false")]),
    (retries::DUE, &[DUE, BLOCKED]),
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
