//! What people ask about failed rows, and decide about them.

use crate::port::{FeedError, Sessions};

/// What is before the name of a destination that a row waits for, where it would else stand for a topic.
pub(crate) const DESTINATION: &str = "destination ";

/// Whether what a row waits for is a destination; a topic has no blank in its name.
pub(crate) fn is_destination(name: &str) -> bool {
    name.starts_with(DESTINATION)
}

/// A row that was set aside, for people.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize)]
pub(crate) struct FailedRow {
    /// Its number.
    pub seq: i64,
    /// The event's id.
    pub event_id: String,
    /// The event's type.
    pub event_type: String,
    /// Its aggregate, `type/id`.
    pub aggregate: String,
    /// The row's own topic.
    pub topic: Option<String>,
    /// How long ago it was set aside, or tried last.
    pub failed_seconds: i64,
    /// How many attempts have failed.
    pub attempts: i64,
    /// In how long it is tried again by itself, not below zero. `None`: a person decides, or it waits for something.
    pub retry_seconds: Option<i64>,
    /// The topic that it waits for, or `destination NAME`.
    pub waits_for: Option<String>,
    /// Why.
    pub error: String,
    /// Rows that are behind it, counted up to 10,001.
    pub behind: i64,
}

/// Everything about a row, for people: its columns, by their names. Times are text.
#[derive(Clone, PartialEq, Eq, Debug, Default, serde::Serialize)]
pub(crate) struct RowContent {
    pub seq: i64,
    pub event_id: String,
    pub event_type: String,
    pub aggregate_type: String,
    pub aggregate_id: String,
    pub aggregate_version: Option<i64>,
    pub schema_version: Option<i64>,
    pub occurred_at_ms: Option<i64>,
    pub bytes_max: i64,
    pub topic: Option<String>,
    pub dedup_key: Option<String>,
    pub created_at: Option<String>,
    pub deliver_after: Option<String>,
    pub sent_at: Option<String>,
    /// When it was parked, or has failed last.
    pub parked_at: Option<String>,
    /// As the parking store has it; `None` where it is not there.
    pub state: Option<String>,
    pub attempts: i64,
    pub due_at: Option<String>,
    pub destination: Option<String>,
    pub error: Option<String>,
    pub discarded_at: Option<String>,
    pub discarded_by: Option<String>,
    /// JSON, if nobody wrote something else by hand.
    pub headers: String,
    /// How many bytes the payload has; `None` is a tombstone.
    pub payload_bytes: Option<i64>,
    /// The beginning of the payload.
    #[serde(skip)]
    pub payload: Vec<u8>,
}

/// Which failed rows a command means. Empty means all, but not those that only wait for a time of theirs: these it means
/// where it names one by number.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Choice {
    /// By number.
    pub seq: Option<i64>,
    /// By aggregate: type and id.
    pub aggregate: Option<(String, String)>,
    /// By a part of the error.
    pub error: Option<String>,
    /// By the event's type.
    pub event_type: Option<String>,
}

/// Who decides about rows, and why: written into the audit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Act<'a> {
    /// Who.
    pub who: &'a str,
    /// Why; may be empty.
    pub why: &'a str,
}

/// A step of what a person decides.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Step {
    /// Rows that were changed.
    pub rows: u64,
    /// Rows that were left as they are, since a relay is delivering them.
    pub claimed: u64,
    /// The last of them; `None` when there are no more.
    pub last: Option<i64>,
}

/// Rows that were set aside until a person decides, or until their next attempt.
pub(crate) trait FailedRows: Sessions {
    /// The failed rows, the oldest first.
    fn failed(
        session: &mut Self::Session,
        choice: &Choice,
        rows_max: u32,
    ) -> impl Future<Output = Result<Vec<FailedRow>, FeedError>> + Send;
    /// Everything about the row of a number, with the beginning of its payload.
    fn content(
        session: &mut Self::Session,
        seq: i64,
        payload_max: usize,
    ) -> impl Future<Output = Result<Option<RowContent>, FeedError>> + Send;
    /// Has failed rows sent once more at once, with all their attempts before them; at most a thousand, the first
    /// behind the number `after`.
    fn retry(
        session: &mut Self::Session,
        choice: &Choice,
        after: i64,
        act: Act<'_>,
    ) -> impl Future<Output = Result<Step, FeedError>> + Send;
    /// Gives failed rows up for good, which lets what waits behind them go; at most a thousand, the first behind the
    /// number `after`.
    fn discard(
        session: &mut Self::Session,
        choice: &Choice,
        after: i64,
        act: Act<'_>,
    ) -> impl Future<Output = Result<Step, FeedError>> + Send;
}
