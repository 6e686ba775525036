//! The rows that wait: what each batch asks.

use std::time::Duration;

use bytes::Bytes;
use outbox_core::OutboxEvent;

use super::{FeedError, Sessions, Turn};

/// Which row, for certain: after a failover or a restore a number is given twice.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct RowId {
    /// Its number.
    pub seq: i64,
    /// Its event's id.
    pub event: uuid::Uuid,
}

/// What came of marking rows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Marked {
    /// All of them are marked.
    All,
    /// So many of them are not there any more: the database has gone back to an older state. The others are
    /// marked.
    Missing(u64),
    /// Another has the turn, and nothing was changed.
    NotOurs,
}

/// A row that waits, whole or not.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    /// Which it is.
    pub id: RowId,
    /// Its aggregate, `type/id`, as the row has it.
    pub aggregate: String,
    /// It waits behind one of its aggregate that was set aside.
    pub blocked: bool,
    /// It waited for another attempt, set aside, and is so still: what becomes of it is told as such.
    pub waited: bool,
    /// How often it was tried in vain.
    pub attempts: u32,
    /// What is left of the time that it is not sent before, by the database's clock.
    pub delay: Option<Duration>,
    /// How long ago it was appended, by the database's clock.
    pub age: Duration,
    /// The event, or why the row is none.
    pub event: Result<OutboxEvent, String>,
}

impl Row {
    /// About what a look counts for it. Where that is more, a look that ends by its bytes is not taken for full, and the
    /// next one comes later.
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

/// How far to look.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(
    not(feature = "postgres"),
    expect(dead_code, reason = "SQLite reads its index from the start, whatever was sent before")
)]
pub(crate) struct RowQuery {
    /// So many rows, blocked or not.
    pub window: usize,
    /// Events at most.
    pub events_max: usize,
    /// Their bytes together; the first may have more.
    pub bytes_max: usize,
    /// Up to this number there is no row that waits.
    pub above: i64,
    /// Little is set aside, as far as is known: all of it is read at once.
    pub few: bool,
    /// Something was set aside when it was last looked at; without, a look that finds nothing is one for nothing.
    pub aside: bool,
}

/// What a look found.
#[derive(Debug)]
pub(crate) struct RowPage {
    /// The rows, in the order of their numbers.
    pub rows: Vec<Row>,
    /// Something is set aside, whatever its aggregate.
    pub aside: bool,
}

impl Marked {
    /// So many rows are not there.
    pub(crate) fn of(missing: i64) -> Self {
        match missing.unsigned_abs() {
            0 => Self::All,
            missing => Self::Missing(missing),
        }
    }
}

/// A row to set aside, and why.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct RowFailure {
    /// Which row.
    pub id: RowId,
    /// Its aggregate and the event's id, for the log.
    pub event: String,
    /// One sentence.
    pub error: String,
    /// The topic that it waits for, if nothing else is wrong with it.
    pub waits_for: Option<String>,
    /// How often it was tried in vain, this time included.
    pub attempts: u32,
    /// In how long it is tried again by itself. `None`: a person decides, or its topic comes.
    pub retry_after: Option<Duration>,
}

impl RowFailure {
    /// Set aside until a person decides.
    pub(crate) fn new(id: RowId, event: String, attempts: u32, error: String) -> Self {
        Self { id, event, error, waits_for: None, attempts, retry_after: None }
    }

    /// Set aside until what it waits for is there, or works.
    pub(crate) fn waiting_for(self, name: String) -> Self {
        Self { waits_for: Some(name), ..self }
    }

    /// Set aside for so long.
    pub(crate) fn retried_after(self, after: Duration) -> Self {
        Self { retry_after: Some(after), ..self }
    }
}

/// What became of rows.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Marks<'a> {
    /// Acknowledged.
    pub sent: &'a [RowId],
    /// Acknowledged, of those that waited for another attempt: what is held behind them goes.
    pub late: &'a [RowId],
    /// Set aside, whether they waited for another attempt or not.
    pub failed: &'a [RowFailure],
}

impl Marks<'_> {
    /// Every row that is marked.
    pub(crate) fn ids(&self) -> impl Iterator<Item = RowId> {
        let failed = self.failed.iter().map(|failure| failure.id);
        self.sent.iter().chain(self.late).copied().chain(failed)
    }
}

/// The rows that wait.
pub(crate) trait Rows: Sessions {
    /// The first of them in the order of their numbers.
    fn unsent(
        session: &mut Self::Session,
        look: RowQuery,
    ) -> impl Future<Output = Result<RowPage, FeedError>> + Send;
    /// Marks what was acknowledged and sets aside what failed. Marking twice is marking once.
    fn mark(
        session: &mut Self::Session,
        turn: Turn,
        marks: Marks<'_>,
    ) -> impl Future<Output = Result<Marked, FeedError>> + Send;
}
