//! Rows that wait for another attempt.

use std::time::Duration;

use super::{FeedError, Row, Sessions};

/// The most rows that one look for due ones reads.
pub(crate) const DUE_MAX: usize = 1_000;

/// Rows that wait for another attempt, or for the time that they are not sent before. They are set aside, and are tried
/// where they stand: what comes behind them of their aggregate is held until they are delivered or given up.
pub(crate) trait Retries: Sessions {
    /// Those whose time has come, the longest due first: so many at most, and never more than [`DUE_MAX`], with so many
    /// bytes together; the first may have more. One behind another of its aggregate that was set aside is `blocked`:
    /// it is to be held.
    fn due(
        session: &mut Self::Session,
        rows: usize,
        bytes_max: usize,
    ) -> impl Future<Output = Result<Vec<Row>, FeedError>> + Send;
    /// In how long the next one is due; zero if one is. `None`: none waits.
    fn next_due(
        session: &mut Self::Session,
    ) -> impl Future<Output = Result<Option<Duration>, FeedError>> + Send;
}
