//! A declared handler, as the configuration says.

use std::collections::BTreeMap;

use crate::VersionPolicy;

/// A handler of one event type: a statement that reads the relation
/// `events(ord, event_id, aggregate_id, occurred_at, …)`. docs/declared-handlers.md tells what it may be.
#[derive(Clone, Debug)]
pub struct Declared {
    /// The type of the events.
    pub event_type: String,
    /// Whether the statement sees one event or a run.
    pub mode: DeclaredMode,
    /// Whether each aggregate may occur only once in a run; so it is in the mode `run` unless it says false.
    pub one_per_aggregate: Option<bool>,
    /// How it looks at the versions of aggregates, if it does.
    pub versions: Option<VersionPolicy>,
    /// The typed columns of the relation: `TYPE`, or `TYPE from SOURCE`.
    pub columns: BTreeMap<String, String>,
    /// The statement.
    pub sql: String,
}

impl Declared {
    /// Whether each aggregate occurs once in a run.
    pub(super) fn aggregates_once(&self) -> bool {
        self.one_per_aggregate.unwrap_or(self.mode == DeclaredMode::Run)
    }
}

/// How many events a declared statement sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeclaredMode {
    /// It runs once for each event.
    Each,
    /// It runs once for a run of events.
    Run,
}
