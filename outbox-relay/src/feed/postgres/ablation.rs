//! What of PostgreSQL's statements enforces which rule. `cargo xtask ablate` switches each rule off.

use inbox_engine::internal::{
    Rule,
    ablation::{Cut, Row, Table},
};

use super::{operators::failed, retries, rows, turn};

pub(in crate::feed) static TABLE: Table = Table::new(ROWS);

const TOKEN: Cut = Cut::new(Rule::TurnHasToken, "token = $2", "$2::uuid IS NOT NULL");
const SENT: Cut = Cut::new(Rule::MarkNamesEvent, " AND o.event_id = s.event_id", "");
const FAILED: Cut = Cut::new(Rule::MarkNamesEvent, " AND o.event_id = f.event_id", "");

const LATE: Cut = Cut::new(Rule::MarkNamesEvent, " AND o.event_id = l.event_id", "");
const LATE_FENCED: Cut = Cut::new(
    Rule::RetryFenced,
    "AND EXISTS (SELECT FROM mine) RETURNING o.aggregate_type",
    "RETURNING o.aggregate_type",
);
const LATE_RELEASE: Cut =
    Cut::new(Rule::ReleaseAfterDelivery, "FROM late ORDER", "FROM late WHERE false ORDER");
const DUE: Cut = Cut::new(Rule::RetryAwaitsTime, " AND retry_at <= now()", "");
const BLOCKED: Cut = Cut::new(Rule::RetryKeepsPlace, "AND f.seq < o.seq) AS", "AND false) AS");
const WRITTEN: Cut = Cut::new(Rule::ActsAreWritten, "HAVING count(*) > 0", "HAVING false");

static ROWS: &[Row] = &[
    (turn::TEXTS.keep, &[TOKEN]),
    (turn::TEXTS.give_up, &[TOKEN]),
    (rows::MARK_SENT, &[TOKEN, SENT]),
    (rows::MARK, &[TOKEN, SENT, FAILED, LATE, LATE_FENCED, LATE_RELEASE]),
    (retries::DUE, &[DUE, BLOCKED]),
    (failed::RETRY, &[WRITTEN]),
    (failed::DISCARD, &[WRITTEN]),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_cut_fits_its_statement() {
        assert_eq!(TABLE.faults(), [""; 0]);
    }
}
