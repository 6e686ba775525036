//! `[[handlers]]`: handlers without Rust. What a statement may be, the router knows.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// A handler of one event type: a statement that reads the relation
/// `events(ord, event_id, aggregate_id, occurred_at, …)`. docs/declared-handlers.md tells what it may be.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Declared {
    /// The type of the events.
    pub event_type: String,
    /// Whether the statement sees one event or a run.
    #[serde(default)]
    pub mode: DeclaredMode,
    /// Whether each aggregate may occur only once in a run; so it is in the mode `run` unless it says false.
    #[serde(default)]
    pub one_per_aggregate: Option<bool>,
    /// The typed columns of the relation: `TYPE`, or `TYPE from SOURCE`.
    #[serde(default)]
    pub columns: BTreeMap<String, String>,
    /// The statement.
    pub sql: String,
}

/// How many events a declared statement sees.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DeclaredMode {
    /// It runs once for each event.
    #[default]
    Each,
    /// It runs once for a run of events.
    Run,
}
