//! Statements without their rules, for `cargo xtask ablate`. A crate with statements has a table of what of
//! each statement enforces which rule, in files that exist under the feature `ablation` alone.

use std::sync::OnceLock;

use crate::Rule;

/// A statement's text, and what of it enforces rules.
pub type Row = (&'static str, &'static [Cut]);

/// While `rule` is off, `instead` stands where `fragment` was.
#[derive(Debug)]
pub struct Cut {
    rule: Rule,
    fragment: &'static str,
    instead: &'static str,
}

impl Cut {
    /// Names the fragment of a statement that enforces a rule.
    pub const fn new(rule: Rule, fragment: &'static str, instead: &'static str) -> Self {
        Self { rule, fragment, instead }
    }
}

/// The statements of a crate that enforce rules.
#[derive(Debug)]
pub struct Table {
    rows: &'static [Row],
    changed: OnceLock<Vec<(&'static str, String)>>,
}

impl Table {
    /// A table of these rows.
    pub const fn new(rows: &'static [Row]) -> Self {
        Self { rows, changed: OnceLock::new() }
    }

    /// What to send in place of a statement while a rule in it is off.
    pub fn replacement(&'static self, text: &str) -> Option<&'static str> {
        let changed = self.changed.get_or_init(|| cut(self.rows, Rule::on));
        changed.iter().find(|(whole, _)| *whole == text).map(|(_, cut)| cut.as_str())
    }

    /// What is wrong with the table: the ablation would prove nothing, or something else.
    pub fn faults(&self) -> Vec<String> {
        faults(self.rows)
    }
}

/// The statements of a table that are others while some rules are off: each as it is, and without them.
///
/// # Panics
///
/// When a fragment is not in its statement.
pub(crate) fn cut(table: &[Row], on: impl Fn(Rule) -> bool) -> Vec<(&'static str, String)> {
    let mut changed = Vec::new();
    for (text, cuts) in table {
        let off = cuts.iter().filter(|cut| !on(cut.rule));
        let cut = off.fold((*text).to_owned(), |text, Cut { rule, fragment, instead }| {
            assert!(text.contains(fragment), "{rule:?} is not in its statement: {fragment}");
            text.replacen(fragment, instead, 1)
        });
        if cut != **text {
            changed.push((*text, cut));
        }
    }
    changed
}

pub(crate) fn faults(table: &[Row]) -> Vec<String> {
    let mut found = Vec::new();
    for (place, (text, cuts)) in table.iter().enumerate() {
        if cuts.is_empty() {
            found.push(format!("no rule is in\n{text}"));
        }
        if table[..place].iter().any(|(other, _)| other == text) {
            found.push(format!("in two rows is\n{text}"));
        }
        for Cut { rule, fragment, instead } in *cuts {
            let times = text.matches(fragment).count();
            if times != 1 {
                found.push(format!("{rule:?}: {fragment}\nis {times} times in\n{text}"));
            }
            if fragment == instead {
                found.push(format!("{rule:?}: nothing becomes another of\n{text}"));
            }
        }
    }
    found
}
