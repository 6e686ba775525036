//! How the outbox stands, for people.

use crate::port::{FeedError, ReportedOutage, Sessions};

/// How the outbox stands.
#[derive(Clone, PartialEq, Debug, Default, serde::Serialize)]
pub(crate) struct Overview {
    /// Rows that wait to be sent, those behind a failed one included.
    pub waiting: i64,
    /// Of those, the ones that wait behind a failed row of their aggregate.
    pub held: i64,
    /// How long the oldest has waited that goes by itself and is not held back.
    pub oldest_seconds: Option<i64>,
    /// Rows that were set aside until a person decides.
    pub failed: i64,
    /// Rows that could not be delivered and are tried again by themselves.
    pub retrying: i64,
    /// Rows that are not sent before a time of theirs.
    pub delayed: i64,
    /// In how long the next of these two is due, not below zero.
    pub next_due_seconds: Option<i64>,
    /// Rows that go by themselves when their topic is there.
    pub waiting_for_topic: i64,
    /// Rows that go by themselves when their destination works, those in the relay's memory aside.
    pub waiting_for_destination: i64,
    /// The topics that are missing, the first ten.
    pub missing_topics: Vec<String>,
    /// The destinations that these rows wait for, the first ten.
    pub destinations_out: Vec<String>,
    /// The destinations that are down for the relay that has the turn, the first ten.
    pub destination_outages: Vec<ReportedOutage>,
    /// Rows that are sent or discarded and not yet removed.
    pub sent: i64,
    /// Who has the turn.
    pub holder: Option<String>,
    /// How long ago it took it.
    pub taken_seconds: Option<i64>,
    /// What is left of its lease, not below zero.
    pub lease_left_seconds: Option<i64>,
    /// The number of the turn.
    pub fence: i64,
    /// How many relays share the work.
    pub relays: i64,
    /// Why it ships nothing; empty when it does.
    pub standstill: Option<String>,
}

/// How the outbox stands.
pub(crate) trait Overviews: Sessions {
    /// Counts rows, and reads who has the turn.
    fn overview(
        session: &mut Self::Session,
    ) -> impl Future<Output = Result<Overview, FeedError>> + Send;
    /// The destinations that are down for the relay that has the turn.
    fn destination_outages(
        session: &mut Self::Session,
    ) -> impl Future<Output = Result<Vec<ReportedOutage>, FeedError>> + Send;
}
