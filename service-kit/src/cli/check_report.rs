//! What `check` reports: a sentence and a table for people, JSON for scripts. The consumer and the relay share it.

use serde::Serialize;

use super::columns;
use crate::printed::{self, counted};

/// How bad a finding is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
enum Severity {
    /// Keeps the program from starting, or from its guarantees.
    Error,
    /// Doubtful.
    Warning,
    /// Worth a look.
    Note,
}

/// One finding and what it is about.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
struct ReportedFinding {
    level: Severity,
    about: &'static str,
    finding: String,
}

/// All findings of a `check`.
#[derive(Debug, Default)]
pub struct CheckReport {
    findings: Vec<ReportedFinding>,
}

/// A report as JSON has it.
#[derive(Debug, Serialize)]
pub struct CheckDocument<'r> {
    startable: bool,
    findings: Vec<&'r ReportedFinding>,
}

impl CheckReport {
    /// Adds findings about one part of the program (`configuration`, `database`, `kafka` and the like), each with
    /// whether it is an error.
    pub fn add(&mut self, about: &'static str, findings: impl IntoIterator<Item = (bool, String)>) {
        let finding = |(fatal, finding)| {
            let level = if fatal { Severity::Error } else { Severity::Warning };
            ReportedFinding { level, about, finding }
        };
        self.findings.extend(findings.into_iter().map(finding));
    }

    /// Adds what is only worth a look.
    pub fn note(&mut self, about: &'static str, texts: impl IntoIterator<Item = String>) {
        let note = |finding| ReportedFinding { level: Severity::Note, about, finding };
        self.findings.extend(texts.into_iter().map(note));
    }

    /// Whether no finding is an error.
    pub fn startable(&self) -> bool {
        self.count(Severity::Error) == 0
    }

    fn count(&self, level: Severity) -> usize {
        self.findings.iter().filter(|finding| finding.level == level).count()
    }

    /// The worst first; within a level in the order of the checks.
    fn sorted(&self) -> Vec<&ReportedFinding> {
        let mut findings: Vec<&ReportedFinding> = self.findings.iter().collect();
        findings.sort_by_key(|finding| finding.level);
        findings
    }

    /// For scripts.
    pub fn document(&self) -> CheckDocument<'_> {
        CheckDocument { startable: self.startable(), findings: self.sorted() }
    }

    /// In a few words: `OK to start, 1 warning`, `cannot start: 1 error, 2 warnings`.
    pub fn summary(&self) -> String {
        let count = |level, one| match self.count(level) {
            0 => None,
            count => Some(counted(count as u64, one)),
        };
        let warnings = count(Severity::Warning, "warning");
        match (count(Severity::Error, "error"), warnings) {
            (None, None) => "OK to start".to_owned(),
            (None, Some(warnings)) => format!("OK to start, {warnings}"),
            (Some(errors), None) => format!("cannot start: {errors}"),
            (Some(errors), Some(warnings)) => format!("cannot start: {errors}, {warnings}"),
        }
    }

    /// For people: the summary, then a table.
    pub fn rendered(&self) -> String {
        if self.findings.is_empty() {
            return self.summary();
        }
        let row = |finding: &&ReportedFinding| {
            let level = match finding.level {
                Severity::Error => "error",
                Severity::Warning => "warning",
                Severity::Note => "note",
            };
            // A finding may have several lines; a row of the table has one.
            let text = finding.finding.lines().collect::<Vec<_>>().join(" ");
            [level.to_owned(), finding.about.to_owned(), text]
        };
        let rows: Vec<_> = self.sorted().iter().map(row).collect();
        let table = columns(["LEVEL", "ABOUT", "FINDING AND WHAT TO CHANGE"], &rows, [false; 3]);
        format!("{}\n\n{table}", self.summary())
    }

    /// For scripts, as text.
    pub fn json(&self) -> String {
        printed::json(&self.document())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_a_summary_and_a_table_with_the_worst_first() {
        let mut report = CheckReport::default();
        assert_eq!(report.rendered(), "OK to start");
        report.note("handlers", ["look".to_owned()]);
        assert_eq!(report.summary(), "OK to start");
        report.add("kafka", [(false, "one\nreplica".to_owned())]);
        assert_eq!(report.summary(), "OK to start, 1 warning");
        assert!(report.startable());
        report.add("database", [(true, "no tables".to_owned())]);
        assert!(!report.startable());
        let expected = "\
cannot start: 1 error, 1 warning

LEVEL    ABOUT     FINDING AND WHAT TO CHANGE
error    database  no tables
warning  kafka     one replica
note     handlers  look";
        assert_eq!(report.rendered(), expected);
        let json: serde_json::Value = serde_json::from_str(&report.json()).unwrap();
        assert_eq!(json["startable"], false);
        assert_eq!(json["findings"][0]["about"], "database");
        assert_eq!(json["findings"][0]["level"], "error");
        assert_eq!(json["findings"][0]["finding"], "no tables");
        report.add("database", [(true, "no rights".to_owned())]);
        assert_eq!(report.summary(), "cannot start: 2 errors, 1 warning");
    }
}
