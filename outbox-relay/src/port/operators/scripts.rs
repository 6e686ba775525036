//! The statements that make the outbox's tables, and the trigger on them.

use crate::port::{FeedError, Sessions};

/// Statements of tables and trigger.
pub(crate) trait Scripts: Sessions {
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
