//! What people and metrics ask: how the outbox stands, what is wrong with it, and what a role may do.

use std::time::Duration;

use super::{FeedError, Sessions};

/// How the outbox stands.
#[derive(Clone, PartialEq, Debug, Default, serde::Serialize)]
pub(crate) struct Overview {
    /// Rows that wait to be sent, those behind a failed one included.
    pub waiting: i64,
    /// Of those, the ones that wait behind a failed row of their aggregate.
    pub held: i64,
    /// How long the oldest that is not held back has waited.
    pub oldest_seconds: Option<i64>,
    /// Rows that were set aside until a person decides.
    pub failed: i64,
    /// Rows that could not be delivered and are tried again by themselves.
    pub retrying: i64,
    /// Rows that are not sent before a time of theirs.
    pub delayed: i64,
    /// In how long the next of these two is due, not below zero.
    pub next_due_seconds: Option<i64>,
    /// Rows that go by themselves when their topic is there.
    pub waiting_for_topic: i64,
    /// Rows that go by themselves when their destination works, those in the relay's memory aside.
    pub waiting_for_destination: i64,
    /// The topics that are missing, the first ten.
    pub missing_topics: Vec<String>,
    /// The destinations that are out, the first ten.
    pub destinations_out: Vec<String>,
    /// Rows that are sent or discarded and not yet removed.
    pub sent: i64,
    /// Who has the turn.
    pub holder: Option<String>,
    /// How long ago it took it.
    pub taken_seconds: Option<i64>,
    /// What is left of its lease, not below zero.
    pub lease_left_seconds: Option<i64>,
    /// The number of the turn.
    pub fence: i64,
    /// Why it ships nothing; empty when it does.
    pub standstill: Option<String>,
}

/// How the outbox stands, as far as a look of a few milliseconds tells: rows are counted to a bound.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Reading {
    /// Rows that wait to be sent, at most 20,000.
    pub unsent: u64,
    /// The number of the oldest of them.
    pub oldest: Option<i64>,
    /// How long that one has waited.
    pub oldest_waits: Option<Duration>,
    /// The largest number of a row.
    pub newest: Option<i64>,
    /// Rows that were set aside until a person decides, at most 1,000.
    pub set_aside: u64,
    /// Rows that could not be delivered and are tried again by themselves; with the next, at most 1,000.
    pub retrying: u64,
    /// Rows that are not sent before a time of theirs.
    pub delayed: u64,
    /// Rows that go by themselves when their topic is there; with the next, at most 1,000.
    pub without_topic: u64,
    /// Rows that go by themselves when their destination works, those in the relay's memory aside.
    pub without_destination: u64,
    /// Rows that wait behind one of these five kinds, at most 2,000 together with these.
    pub held: u64,
    /// The table and what belongs to it, its indexes aside; `None` where the database does not say.
    pub table_bytes: Option<u64>,
    /// Its indexes.
    pub index_bytes: Option<u64>,
    /// What is left of the lease of whoever has the turn; zero when nobody has.
    pub lease_left: Duration,
}

/// Something that `check` found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finding {
    /// Whether the relay cannot do its work with it.
    pub fatal: bool,
    /// What is wrong, and what to do.
    pub text: String,
}

/// What a role of the database is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "cli", derive(clap::ValueEnum))]
pub(crate) enum RoleKind {
    /// Ships the outbox
    Relay,
    /// Appends events, and nothing else
    Appender,
    /// Looks, and changes nothing
    Reader,
}

/// Looks.
pub(crate) trait Inspection: Sessions {
    /// How the outbox stands.
    fn overview(
        session: &mut Self::Session,
    ) -> impl Future<Output = Result<Overview, FeedError>> + Send;
    /// What keeps a relay from its work, or may.
    fn findings(
        session: &mut Self::Session,
    ) -> impl Future<Output = Result<Vec<Finding>, FeedError>> + Send;
}

/// What metrics are made of.
pub(crate) trait Measurements: Sessions {
    /// How the outbox stands.
    fn reading(
        session: &mut Self::Session,
    ) -> impl Future<Output = Result<Reading, FeedError>> + Send;
}

/// Roles, and what they may do.
pub(crate) trait Rights: Sessions {
    /// What the session's role may not do, all of it, with the statements that give it.
    fn rights(
        session: &mut Self::Session,
    ) -> impl Future<Output = Result<Option<Finding>, FeedError>> + Send;
    /// The statements that give a role what it needs; `None` where there are no roles.
    fn grants(schema: Option<&str>, role: &str, kind: RoleKind) -> Option<String>;
}
