//! The parking store: rows that cannot go now, whichever feed they came from.

use std::time::Duration;

use super::{FeedError, Row, Sessions, Shards, Turn};

/// What comes before the name of a topic that rows wait for. No destination has a colon in its name.
pub(crate) const TOPIC: &str = "kafka:";

/// Rows of one claim at most: with this limit a database prefers the index in its order to a sort.
pub(crate) const CLAIM_MAX: usize = 1_000;

/// When a destination's next parked row may go.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct DueDestination {
    /// As the row has it.
    pub destination: String,
    /// In how long; zero if it may now.
    pub after: Duration,
}

/// Rows that are claimed again when they may go.
pub(crate) trait Parked: Sessions {
    /// Claims rows of a destination whose time has come, of aggregates in the shards, the longest due first; they stay in the store, claimed. The first
    /// may have more than `bytes_max`. `None`: another has the turn.
    fn claim(
        session: &mut Self::Session,
        turn: (Turn, Shards),
        destination: &str,
        rows_max: usize,
        bytes_max: usize,
    ) -> impl Future<Output = Result<Option<Vec<Row>>, FeedError>> + Send;
    /// The destinations with rows that may go now or later, those aside that are claimed in this turn.
    fn due_destinations(
        session: &mut Self::Session,
        turn: Turn,
        shards: Shards,
    ) -> impl Future<Output = Result<Vec<DueDestination>, FeedError>> + Send;
    /// Ends all claims of a turn: its memory is lost.
    fn end_claims(
        session: &mut Self::Session,
        turn: Turn,
    ) -> impl Future<Output = Result<(), FeedError>> + Send;
    /// Makes ready what is behind no other row any more, as after a change by hand: of the first thousand aggregates
    /// behind the one that is named. Answers the last of them, `None` if there are no more.
    fn release_orphans(
        session: &mut Self::Session,
        after: (&str, &str),
    ) -> impl Future<Output = Result<Option<(String, String)>, FeedError>> + Send;
}

/// Who may still append rows with numbers that were given out.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Appenders {
    /// The largest number of a row that can be seen.
    pub most: i64,
    /// The open transactions that may have smaller ones, in the database's words.
    pub open: Vec<String>,
}

/// What a feed that is a table has to know of its writers.
pub(crate) trait Writers: Sessions {
    /// Who may still append rows below those that can be seen. `None` where nobody can tell.
    fn appenders(
        session: &mut Self::Session,
    ) -> impl Future<Output = Result<Option<Appenders>, FeedError>> + Send;
}
