//! What people ask about the outbox's tables.

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
    /// All statements as one script.
    fn print() -> String;
    /// Makes the trigger that wakes relays at each INSERT, or removes it.
    fn set_trigger(
        session: &mut Self::Session,
        is_there: bool,
    ) -> impl Future<Output = Result<(), FeedError>> + Send;
    /// The statements that do; `None` where there is nobody to wake.
    fn print_trigger(is_there: bool) -> Option<&'static str>;
}
