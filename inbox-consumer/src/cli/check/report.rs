//! How `check` tells what it found: a table for people, JSON for scripts.

use inbox_store::internal::port::Finding;
use service_kit::printed;

use super::sample::Sample;
use crate::cli::table;

/// How bad a finding is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Level {
    /// It keeps the consumer from starting, or from what it promises.
    Error,
    /// It is doubtful.
    Warning,
    /// It is worth a look.
    Note,
}

/// One finding and what it is about.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize)]
pub(crate) struct Line {
    pub(crate) level: Level,
    /// `configuration`, `handlers`, `database` or `kafka`.
    pub(crate) about: &'static str,
    pub(crate) finding: String,
}

/// What was found.
#[derive(Debug, Default)]
pub(crate) struct Report {
    lines: Vec<Line>,
}

#[derive(serde::Serialize)]
struct Document<'r> {
    startable: bool,
    findings: Vec<&'r Line>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sample: Option<&'r [Sample]>,
}

impl Report {
    /// Adds findings about one thing.
    pub(crate) fn add(&mut self, about: &'static str, findings: impl IntoIterator<Item = Finding>) {
        self.lines.extend(findings.into_iter().map(|finding| {
            let level = if finding.fatal { Level::Error } else { Level::Warning };
            Line { level, about, finding: finding.text }
        }));
    }

    /// Adds what is only worth a look.
    pub(crate) fn note(&mut self, about: &'static str, texts: impl IntoIterator<Item = String>) {
        let line = |finding| Line { level: Level::Note, about, finding };
        self.lines.extend(texts.into_iter().map(line));
    }

    /// Whether nothing keeps the consumer from starting.
    pub(crate) fn startable(&self) -> bool {
        self.count(Level::Error) == 0
    }

    fn count(&self, level: Level) -> usize {
        self.lines.iter().filter(|line| line.level == level).count()
    }

    /// The worst first; within a level in the order of looking.
    fn sorted(&self) -> Vec<&Line> {
        let mut lines: Vec<&Line> = self.lines.iter().collect();
        lines.sort_by_key(|line| line.level);
        lines
    }

    /// As JSON, with the records that were asked for.
    pub(crate) fn json(&self, sample: Option<&[Sample]>) -> String {
        let document = Document { startable: self.startable(), findings: self.sorted(), sample };
        printed::json(&document)
    }

    /// In one sentence.
    pub(crate) fn summary(&self) -> String {
        match (self.count(Level::Error), self.count(Level::Warning)) {
            (0, 0) => "OK, no findings".to_owned(),
            (0, warnings) => format!("OK to start, {}", printed::counted(warnings, "warning")),
            (errors, _) => format!("cannot start: {}", printed::counted(errors, "error")),
        }
    }

    /// For people: the sentence, then a table.
    pub(crate) fn rendered(&self) -> String {
        if self.lines.is_empty() {
            return self.summary();
        }
        let row = |line: &&Line| {
            let level = match line.level {
                Level::Error => "error",
                Level::Warning => "warning",
                Level::Note => "note",
            };
            // A table has lines: one finding may be several sentences, one below the other.
            let finding = line.finding.lines().collect::<Vec<_>>().join(" ");
            [level.to_owned(), line.about.to_owned(), finding]
        };
        let rows: Vec<_> = self.sorted().iter().map(row).collect();
        let table = table::aligned(["LEVEL", "ABOUT", "FINDING AND WHAT TO CHANGE"], &rows);
        format!("{}\n\n{table}", self.summary())
    }
}
