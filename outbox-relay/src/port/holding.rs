//! What the loop asks about rows that are held back, and about what lets them go.

use super::{FeedError, RowId, Sessions, Turn};

/// What came of letting held rows go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ReleasedRows {
    /// Another has the turn, and nothing was changed.
    NotOurs,
    /// Nobody asks for any, behind the place that was named.
    Nothing,
    /// All that was looked at, up to this place.
    UpTo(i64),
}

/// Who may still append rows with numbers that were given out.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Appenders {
    /// The largest number of a row that can be seen.
    pub most: i64,
    /// The open transactions that may have smaller ones, in the database's words.
    pub open: Vec<String>,
}

/// Rows that wait behind one that was set aside, or for a topic.
pub(crate) trait Holding: Sessions {
    /// Marks rows as held, those that wait for another attempt, too: they are out of the way of later looks. `false`:
    /// another has the turn.
    fn hold(
        session: &mut Self::Session,
        turn: Turn,
        rows: &[RowId],
    ) -> impl Future<Output = Result<bool, FeedError>> + Send;
    /// Lets go what is held of aggregates for which that was asked, the first rows of each, up to the next one
    /// that is set aside; about `rows` in all. It begins behind the place `after`.
    fn release(
        session: &mut Self::Session,
        turn: Turn,
        after: i64,
        rows: usize,
    ) -> impl Future<Output = Result<ReleasedRows, FeedError>> + Send;
    /// Asks to let go what is held though no row before it is set aside any more, as after a change by hand: of the
    /// first thousand aggregates behind the one that is named. Answers the last of them, `None` if there are no more.
    fn release_orphans(
        session: &mut Self::Session,
        after: (&str, &str),
    ) -> impl Future<Output = Result<Option<(String, String)>, FeedError>> + Send;
    /// Lets the first `rows` go that wait for a topic; answers how many, `None` if another has the turn.
    fn topic_is_there(
        session: &mut Self::Session,
        turn: Turn,
        topic: &str,
        rows: usize,
    ) -> impl Future<Output = Result<Option<u64>, FeedError>> + Send;
    /// Who may still append rows below those that can be seen. `None` where nobody can tell.
    fn appenders(
        session: &mut Self::Session,
    ) -> impl Future<Output = Result<Option<Appenders>, FeedError>> + Send;
}

/// What a name begins with where rows wait for a destination: no topic has a space in its name.
pub(crate) const DESTINATION: &str = "destination ";

/// Whether rows wait for a destination, not for a topic.
pub(crate) fn is_destination(waits_for: &str) -> bool {
    waits_for.starts_with(DESTINATION)
}

/// Topics that are missing.
pub(crate) trait Topics: Sessions {
    /// The topics and destinations that rows wait for, all of them.
    fn topics(
        session: &mut Self::Session,
    ) -> impl Future<Output = Result<Vec<String>, FeedError>> + Send;
}
