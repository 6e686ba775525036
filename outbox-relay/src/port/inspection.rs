//! What the relay and its metrics ask: how the outbox stands, what is wrong with it, and what its role may do.

use std::time::Duration;

use super::{FeedError, Sessions};

/// How the outbox stands, as far as a look of a few milliseconds tells: rows are counted to a bound.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Reading {
    /// Rows that nothing is in the way of, at most 20,000.
    pub unsent: u64,
    /// The number of the oldest of them.
    pub oldest: Option<i64>,
    /// How long it has waited, or another row that goes by itself: in retry, or without a topic or a destination. From its
    /// append, or the time before which it is not sent.
    pub oldest_waits: Option<Duration>,
    /// The same of the rows that have failed and are tried again.
    pub oldest_retry: Option<Duration>,
    /// The largest number of a row.
    pub newest: Option<i64>,
    /// Rows that were set aside until a person decides, at most 1,000.
    pub set_aside: u64,
    /// Rows that could not be delivered and are tried again by themselves, at most 1,000.
    pub retrying: u64,
    /// Rows that are not sent before a time of theirs, at most 1,000.
    pub delayed: u64,
    /// Rows that go by themselves when their topic is there; with the next, at most 1,000.
    pub without_topic: u64,
    /// Rows that go by themselves when their destination works, those in the relay's memory aside.
    pub without_destination: u64,
    /// Rows that wait behind one of these kinds, at most 2,000.
    pub held: u64,
    /// The table and what belongs to it, its indexes aside; `None` where the database does not say.
    pub table_bytes: Option<u64>,
    /// Its indexes.
    pub index_bytes: Option<u64>,
    /// What is left of the lease of whoever has the turn; zero when nobody has.
    pub lease_left: Duration,
}

/// Something that `check` found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finding {
    /// Whether the relay cannot do its work with it.
    pub fatal: bool,
    /// What is wrong, and what to do.
    pub text: String,
}

/// What is wrong with an outbox.
pub(crate) trait Inspection: Sessions {
    /// What keeps a relay from its work, or may.
    fn findings(
        session: &mut Self::Session,
    ) -> impl Future<Output = Result<Vec<Finding>, FeedError>> + Send;
}

/// What metrics are made of.
pub(crate) trait Measurements: Sessions {
    /// How the outbox stands.
    fn reading(
        session: &mut Self::Session,
    ) -> impl Future<Output = Result<Reading, FeedError>> + Send;
}

/// What the relay's role may do.
pub(crate) trait Rights: Sessions {
    /// What the session's role may not do, all of it, with the statements that give it.
    fn rights(
        session: &mut Self::Session,
    ) -> impl Future<Output = Result<Option<Finding>, FeedError>> + Send;
}
