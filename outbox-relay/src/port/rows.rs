//! The rows that wait, and what became of them: what each batch asks.

use std::time::Duration;

use bytes::Bytes;
use outbox_core::OutboxEvent;
use outbox_planner::internal::{Conclusion, RowKey};

use super::{FeedError, Sessions, Shards, Turn};

/// A row as the feed or the parking store has it.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    /// Which it is.
    pub id: RowKey,
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
