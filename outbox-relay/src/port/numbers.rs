//! What the loop asks about the numbers of rows.

use super::{FeedError, Finding, Sessions};

/// The numbers of rows, which are their order.
pub(crate) trait Numbers: Sessions {
    /// What is wrong with the number that the next row gets. Fatal where it is not above those of all rows:
    /// new rows would be sent before older ones.
    fn numbering(
        session: &mut Self::Session,
    ) -> impl Future<Output = Result<Option<Finding>, FeedError>> + Send;
}
