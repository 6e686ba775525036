//! `[[handlers]]`: handlers without Rust. What a statement may be, the router knows.

use std::{collections::BTreeMap, time::Duration};

use service_kit::{choice, section};

section! {
    /// A handler of one event type: a statement that reads the relation
    /// `events(ord, event_id, aggregate_id, occurred_at, …)`. docs/declared-handlers.md tells what it may be.
    pub struct Declared as "handlers" {
        /// The type of the events that it handles.
        event_type: String = required;
        /// `each`: the statement runs once for each event, in order. `run`: once for a run of
        /// events as a set, which is fastest.
        mode: DeclaredMode;
        /// With mode `run`: whether each aggregate occurs only once in a run, since `UPDATE … FROM`
        /// and `ON CONFLICT DO UPDATE` cannot touch a row twice. `true` by default; `false` makes
        /// longer runs, for statements that aggregate or only insert.
        one_per_aggregate: Option<bool>;
        /// How events with aggregate versions are handled. `stale`: an event at or below the last
        /// applied version is settled and counted, without its handler. `gap`: in addition, an
        /// event that is not the next version waits for those before it. See docs/versions.md.
        versions: VersionMode;
        /// With `versions`: the first version of an aggregate. By default the first event seen is
        /// applied, regardless of its version.
        version_first: Option<u32>;
        /// With `versions = "gap"`: how long an event waits for the version before its own.
        gap_wait: Duration = "30s", in 1ms..=365d;
        /// With `versions = "gap"`: what happens after `gap_wait`. `park`: the event keeps waiting,
        /// for that version or for manual action. `run`: it runs without it, and the missing
        /// version is stale from then on.
        gap_end: GapEnd;
        /// With `versions`: an event without a version is parked. Otherwise it runs and changes no version.
        version_required: bool;
        /// The typed columns of the relation: `name = "TYPE"` or `name = "TYPE from SOURCE"`.
        /// Types: bool, bytea, date, float8, int4, int8, jsonb, numeric, text, timestamptz, uuid; a
        /// `?` after the type makes the value optional. Sources: `/json/pointer` (by default
        /// `/name`), `payload`, `header:NAME`, `key`.
        columns: BTreeMap<String, String>;
        /// The statement: INSERT, UPDATE, DELETE, MERGE, or SELECT of functions. It reads `events(ord, event_id,
        /// aggregate_id, occurred_at, …)`.
        sql: String = required;
    }
}

choice! {
    /// What becomes of events whose aggregate counts versions.
    pub enum VersionMode {
        /// Nobody looks at versions.
        Off = "off",
        /// What is at or below the last version that was applied is not run.
        Stale = "stale",
        /// Besides, what is not the next version waits.
        Gap = "gap",
    }
}

choice! {
    /// What becomes of an event whose predecessor has not come in time.
    pub enum GapEnd {
        /// It waits on.
        Park = "park",
        /// It is run.
        Run = "run",
    }
}

choice! {
    /// How many events a declared statement sees.
    pub enum DeclaredMode {
        /// It runs once for each event.
        Each = "each",
        /// It runs once for a run of events.
        Run = "run",
    }
}
