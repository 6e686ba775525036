//! What people ask about failed rows, and decide about them.

use super::{FeedError, Sessions};

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
    /// How long ago it was set aside.
    pub failed_seconds: i64,
    /// Why.
    pub error: String,
    /// Rows that are held behind it, counted up to 10,001.
    pub behind: i64,
}

/// Which failed rows a command means. Empty means all.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Choice {
    /// By number.
    pub seq: Option<i64>,
    /// By aggregate: type and id.
    pub aggregate: Option<(String, String)>,
    /// By a part of the error.
    pub error: Option<String>,
}

/// A step of what a person decides.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Step {
    /// Rows that were changed.
    pub rows: u64,
    /// The last of them; `None` when there are no more.
    pub last: Option<i64>,
}

/// Rows that were set aside until a person decides.
pub(crate) trait FailedRows: Sessions {
    /// The failed rows, the oldest first.
    fn failed(
        session: &mut Self::Session,
        choice: &Choice,
        rows_max: u32,
    ) -> impl Future<Output = Result<Vec<FailedRow>, FeedError>> + Send;
    /// Lets failed rows be sent once more, at most a thousand, the first behind the number `after`.
    fn retry(
        session: &mut Self::Session,
        choice: &Choice,
        after: i64,
    ) -> impl Future<Output = Result<Step, FeedError>> + Send;
    /// Gives failed rows up for good, which lets what waits behind them go; at most a thousand, the first behind the
    /// number `after`.
    fn discard(
        session: &mut Self::Session,
        choice: &Choice,
        after: i64,
        who: &str,
    ) -> impl Future<Output = Result<Step, FeedError>> + Send;
}
