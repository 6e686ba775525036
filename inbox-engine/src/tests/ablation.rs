//! Statements without their rules.

use crate::{
    Rule,
    ablation::{Cut, Row, cut, faults},
};

const TEXT: &str = "UPDATE t SET a = 1 WHERE b = 1 AND c = 1";
const FITS: Row = (TEXT, &[Cut::new(Rule::LaneOrder, " AND c = 1", "")]);

#[test]
fn a_statement_loses_the_fragment_of_a_rule_that_is_off() {
    assert_eq!(cut(&[FITS], |_| true), []);
    let without = cut(&[FITS], |rule| rule != Rule::LaneOrder);
    assert_eq!(without, [(TEXT, "UPDATE t SET a = 1 WHERE b = 1".to_owned())]);
}

#[test]
fn a_cut_that_does_not_fit_is_a_fault() {
    const CUTS: &[Cut] = &[
        Cut::new(Rule::LaneOrder, "3", ""),
        Cut::new(Rule::LaneOrder, "E", ""),
        Cut::new(Rule::LaneOrder, "2", "2"),
    ];
    assert_eq!(faults(&[FITS]), [""; 0]);
    let found = faults(&[FITS, FITS, ("SELECT 1", &[]), ("SELECT 2", CUTS)]);
    let begin = ["in two rows", "no rule", "LaneOrder: 3\nis 0 times", "LaneOrder: E\nis 2 times"];
    for (fault, begin) in found.iter().zip(begin.into_iter().chain(["LaneOrder: nothing"])) {
        assert!(fault.starts_with(begin), "{fault}");
    }
    assert_eq!(found.len(), 5);
}
