//! The outbox's tables: their version, and how they get a newer one.

use super::{FeedError, Sessions};

/// The outbox's tables.
pub(crate) trait Schema: Sessions {
    /// Brings them up to date; answers the versions applied.
    fn migrate(
        session: &mut Self::Session,
    ) -> impl Future<Output = Result<Vec<i64>, FeedError>> + Send;
    /// Their version, `None` without them.
    fn version(
        session: &mut Self::Session,
    ) -> impl Future<Output = Result<Option<i64>, FeedError>> + Send;
    /// The newest that this build knows.
    fn newest() -> i64;
}
