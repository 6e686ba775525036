//! What was measured, as a table and as JSON.

use std::{collections::BTreeMap, fmt::Write as _};

use serde::Serialize;

use super::{NAMED_WITHIN, watch::Sighting};

/// Everything.
#[derive(Debug, Serialize)]
pub struct Report {
    /// One row for each thing that had to be named.
    pub rows: Vec<Row>,
}

/// A fault, and how long it took until it had a name.
#[derive(Debug, Default, Serialize)]
pub struct Row {
    /// The case.
    pub case: String,
    /// What was done, and from when on the seconds count.
    pub done: String,
    /// What each of the four channels said first, and when: `ready`, `metrics`, `status`, `log`.
    pub sightings: BTreeMap<&'static str, Sighting>,
    /// It has to have a name: a case that only counts deaths has none.
    pub asked: bool,
    /// Other figures.
    pub figures: BTreeMap<&'static str, f64>,
    /// What is wrong with the effects, or with how the process ended.
    pub wrong: Vec<String>,
}

impl Row {
    /// A row that needs a name.
    pub(super) fn new(case: &str, done: &str) -> Self {
        Self { case: case.to_owned(), done: done.to_owned(), asked: true, ..Self::default() }
    }

    /// The channel that was first.
    pub fn first(&self) -> Option<(&'static str, &Sighting)> {
        let all = self.sightings.iter().map(|(channel, sighting)| (*channel, sighting));
        all.min_by(|(_, a), (_, b)| a.seconds.total_cmp(&b.seconds))
    }

    /// Why the row is not as it should be.
    pub fn faults(&self) -> Vec<String> {
        let late = match self.first() {
            Some((_, first)) if first.seconds <= NAMED_WITHIN => None,
            _ if !self.asked => None,
            Some((_, first)) => Some(format!("named after {:.1} s", first.seconds)),
            None => Some("never named".to_owned()),
        };
        late.into_iter().chain(self.wrong.iter().cloned()).collect()
    }

    /// One line for people.
    pub(super) fn line(&self) -> String {
        let seconds = |channel: &str| {
            let sighting = self.sightings.get(channel);
            sighting.map_or("-".to_owned(), |sighting| format!("{:.1}", sighting.seconds))
        };
        let first = self
            .first()
            .map_or("-".to_owned(), |(channel, sighting)| format!("{channel}: {}", sighting.name));
        let faults = self.faults();
        let mut text = format!(
            "{:<32} {:<28} {:>7} {:>7} {:>7} {:>7}  {}",
            self.case,
            first,
            seconds("ready"),
            seconds("metrics"),
            seconds("status"),
            seconds("log"),
            if faults.is_empty() { "ok".to_owned() } else { faults.join("; ") }
        );
        let _ = write!(text, "\n    {}", self.done);
        for (what, figure) in &self.figures {
            let _ = write!(text, "\n    {what}: {figure:.1}");
        }
        text
    }
}

impl Report {
    /// The table for people.
    pub fn table(&self) -> String {
        let mut text = format!(
            "{:<32} {:<28} {:>7} {:>7} {:>7} {:>7}  within {NAMED_WITHIN} s\n",
            "case", "first", "ready", "metrics", "status", "log"
        );
        for row in &self.rows {
            text.push_str(&row.line());
            text.push('\n');
        }
        text
    }

    /// What is not as it should be.
    pub fn faults(&self) -> Vec<String> {
        let of = |row: &Row| {
            let faults = row.faults();
            (!faults.is_empty()).then(|| format!("{}: {}", row.case, faults.join("; ")))
        };
        self.rows.iter().filter_map(of).collect()
    }
}
