//! The rows that wait, and what became of them: what each batch asks.

use std::time::Duration;

use bytes::Bytes;
use outbox_core::OutboxEvent;
use outbox_planner::internal::ParkState;

use super::{FeedError, Sessions, Shards, Turn};

/// Which row, for certain: after a failover or a restore a number is given twice.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct RowId {
    /// Its number.
    pub seq: i64,
    /// Its event's id.
    pub event: uuid::Uuid,
}

/// A row as the feed or the parking store has it.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    /// Which it is.
    pub id: RowId,
    /// Its aggregate, `type/id`, as the row has it.
    pub aggregate: String,
    /// An earlier row of its aggregate is parked.
    pub blocked: bool,
    /// It was claimed from the parking store.
    pub claimed: bool,
    /// How many attempts have failed.
    pub attempts: u32,
    /// What is left of the time before which it is not sent, by the database's clock.
    pub delay: Option<Duration>,
    /// How long ago it was appended, by the database's clock.
    pub age: Duration,
    /// The event, or why the row is none.
    pub event: Result<OutboxEvent, String>,
}

impl Row {
    /// About what a read counts for it.
    pub(crate) fn bytes(&self) -> usize {
        let Ok(event) = &self.event else { return 0 };
        let headers = event
            .headers()
            .iter()
            .map(|header| header.name.len() + header.value.as_ref().map_or(0, Bytes::len) + 8);
        let payload = event.envelope().payload.as_ref().map_or(0, Bytes::len);
        payload + 2 * headers.sum::<usize>()
    }
}

/// What a read asks for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RowQuery {
    /// Up to this number no row waits, nor can come to wait unseen; 0: none is known.
    pub floor: i64,
    /// Up to this number rows have been read; those that still wait are told by number alone.
    pub read_to: i64,
    /// Of aggregates in these.
    #[cfg_attr(
        not(feature = "postgres"),
        expect(dead_code, reason = "a file of SQLite has one relay at a time")
    )]
    pub shards: Shards,
    /// Rows at most.
    pub rows_max: usize,
    /// Their bytes together; the first may have more.
    pub bytes_max: usize,
}

/// What a read found, in one snapshot.
#[derive(Debug, Default)]
pub(crate) struct RowPage {
    /// The numbers of all rows that wait above the floor, up to `read_to`. One that the reader does not know became visible
    /// late: what is above it must not overtake it.
    pub earlier: Vec<i64>,
    /// The rows behind `read_to`, in the order of their numbers.
    pub rows: Vec<Row>,
}

/// A row to park.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Parking {
    /// Which row.
    pub id: RowId,
    /// Its aggregate and the event's id, for the log.
    pub event: String,
    /// Why.
    pub state: ParkState,
    /// In how long it may go: of those that are scheduled or in retry.
    pub after: Duration,
    /// Under which name it is claimed again, as the column of that name.
    pub destination: String,
    /// How many attempts have failed, this one included.
    pub attempts: u32,
    /// One sentence; `None` leaves what is written there.
    pub error: Option<String>,
    /// It is claimed at once: it is under way.
    pub claimed: bool,
}

/// What became of rows; written in one transaction.
#[derive(Clone, Debug, Default)]
pub(crate) struct Conclusion {
    /// Acknowledged, of those that came from the feed.
    pub sent: Vec<RowId>,
    /// Acknowledged, of those that were claimed: what is behind them is ready.
    pub delivered: Vec<RowId>,
    /// Parked, fresh or claimed; claims of these end. Later rows of their aggregates that are ready are behind them again,
    /// unless they are ready themselves.
    pub parked: Vec<Parking>,
}

impl Conclusion {
    /// Every row in it.
    pub(crate) fn ids(&self) -> impl Iterator<Item = RowId> {
        let parked = self.parked.iter().map(|parking| parking.id);
        self.sent.iter().chain(&self.delivered).copied().chain(parked)
    }
}

/// What came of storing a conclusion.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Stored {
    /// All of it.
    All,
    /// This many of its rows are not there any more: the database has gone back to an older state. The others are stored.
    Missing(u64),
    /// Another has the turn, and nothing was changed.
    NotOurs,
}

impl Stored {
    /// By how many rows are not there.
    pub(crate) fn of(missing: i64) -> Self {
        match missing.unsigned_abs() {
            0 => Self::All,
            missing => Self::Missing(missing),
        }
    }
}

/// The rows that wait.
pub(crate) trait Rows: Sessions {
    /// The first of them in the order of their numbers.
    fn unsent(
        session: &mut Self::Session,
        query: RowQuery,
    ) -> impl Future<Output = Result<RowPage, FeedError>> + Send;
    /// Stores what became of rows. Storing twice is storing once.
    fn store(
        session: &mut Self::Session,
        turn: Turn,
        conclusion: &Conclusion,
    ) -> impl Future<Output = Result<Stored, FeedError>> + Send;
}
