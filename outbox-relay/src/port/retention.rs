//! Removing rows that were sent long ago.

use std::time::Duration;

use super::{FeedError, Sessions};

/// What came of removing rows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Pruned {
    /// Rows that were removed.
    pub removed: u64,
    /// The last row that was looked at; `None` behind all of them.
    pub last: Option<i64>,
    /// All that was looked at is removed, set aside or held, or is unsent and there is more than that: nothing more of it
    /// can go for longer.
    pub idle: bool,
    /// What was sent of all that was looked at was sent lately, and so was what is behind it.
    pub end: bool,
}

/// Removing rows.
pub(crate) trait Retention: Sessions {
    /// Removes rows that were sent or discarded that long ago, out of the first `chunk` behind a number.
    fn prune(
        session: &mut Self::Session,
        age: Duration,
        chunk: u32,
        after: i64,
    ) -> impl Future<Output = Result<Pruned, FeedError>> + Send;
}
