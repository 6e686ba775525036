//! What was read, and what became of it: one transaction in the turn.

use std::{future::Future, time::Duration};

use serde::Serialize;
use uuid::Uuid;

use super::{Read as _, SqlClient, values};
use crate::{
    feed::millis,
    port::{Conclusion, FeedError, Park, ParkState, RowKey, RowPage, RowQuery, Rows, Stored, Turn},
};

/// The longest that a row may wait for its time, in milliseconds: thirty years, which every column of times holds.
const AFTER_MAX: i64 = 1_000_000_000_000;

/// The texts of a store. Rows are JSON: `[{"seq": 1, "event": "…"}, …]`, the id as 32 hexadecimal digits.
pub(crate) struct StoreTexts {
    /// 1 fence, 2 token: a row, if the turn is ours, which it stays until the end of the transaction.
    pub(crate) mine: &'static str,
    /// 1 rows: sent, of those that came from the feed.
    pub(crate) sent: &'static str,
    /// 1 rows: sent, of those that were parked.
    pub(crate) delivered: &'static str,
    /// 1 rows: parked no longer.
    pub(crate) unpark: &'static str,
    /// 1 rows: out of what a read finds.
    pub(crate) leave_feed: &'static str,
    /// 1 rows with all that is parked of them: `state`, `after`, `destination`, `attempts`, `error`, `claim` by which turn.
    pub(crate) park: &'static str,
    /// 1 rows: those of them that are behind no other are ready.
    pub(crate) heads: &'static str,
    /// 1 rows: what is ready behind those of them that are not is behind them.
    pub(crate) demote: &'static str,
    /// 1 rows, by number alone: the first hundred rows of their aggregates are ready, up to one that waits for something
    /// else or goes elsewhere.
    pub(crate) promote: &'static str,
    /// 1 rows: how many of them are not there.
    pub(crate) missing: &'static str,
}

/// A database whose rows are read and stored.
pub(crate) trait StoreSql: SqlClient {
    fn store_texts() -> &'static StoreTexts;
    /// What a read finds.
    fn page(
        session: &mut Self::Session,
        query: RowQuery,
    ) -> impl Future<Output = Result<RowPage, FeedError>> + Send;
    /// Opens a transaction that writes, where none is open.
    fn begin_writing(
        session: &mut Self::Session,
    ) -> impl Future<Output = Result<(), sqlx::Error>> + Send;
    /// Commits it.
    fn end_writing(
        session: &mut Self::Session,
    ) -> impl Future<Output = Result<(), sqlx::Error>> + Send;
    /// Marks rows that came from the feed by one statement, as most conclusions want. `false`: the turn is another's, or a
    /// row was not marked.
    fn mark_sent(
        session: &mut Self::Session,
        turn: Turn,
        sent: &[RowKey],
    ) -> impl Future<Output = Result<bool, sqlx::Error>> + Send;
}

impl<DB: StoreSql> Rows for DB {
    async fn unsent(session: &mut DB::Session, query: RowQuery) -> Result<RowPage, FeedError> {
        DB::page(session, query).await
    }

    async fn store(
        session: &mut DB::Session,
        turn: Turn,
        conclusion: &Conclusion,
    ) -> Result<Stored, FeedError> {
        let Conclusion { sent, delivered, parked } = conclusion;
        if delivered.is_empty() && parked.is_empty() && DB::mark_sent(session, turn, sent).await? {
            return Ok(Stored::All);
        }
        let texts = DB::store_texts();
        DB::begin_writing(session).await?;
        let values = values![turn.fence, turn.token];
        if DB::fetch_optional(session, texts.mine, values).await?.is_none() {
            DB::end_writing(session).await?;
            return Ok(Stored::NotOurs);
        }
        if !sent.is_empty() {
            let rows = json(sent.iter().copied());
            DB::execute(session, texts.sent, values![rows.as_str()]).await?;
        }
        if !delivered.is_empty() {
            let rows = json(delivered.iter().copied());
            for text in [texts.delivered, texts.unpark] {
                DB::execute(session, text, values![rows.as_str()]).await?;
            }
        }
        park::<DB>(session, turn, parked).await?;
        if !delivered.is_empty() {
            let rows = json(delivered.iter().copied());
            DB::execute(session, texts.promote, values![rows.as_str()]).await?;
        }
        // What was stored before, in a call whose answer was lost, is there.
        let parked = parked.iter().map(|park| park.key);
        let rows = json(sent.iter().chain(delivered).copied().chain(parked));
        let missing = DB::fetch_one(session, texts.missing, values![rows.as_str()]).await?.at(0)?;
        DB::end_writing(session).await?;
        Ok(Stored::of(missing))
    }
}

/// Parks rows, which puts the later ones of their aggregates behind them.
async fn park<DB: StoreSql>(
    session: &mut DB::Session,
    turn: Turn,
    parked: &[Park],
) -> Result<(), sqlx::Error> {
    if parked.is_empty() {
        return Ok(());
    }
    let texts = DB::store_texts();
    let rows = text(&parked.iter().map(|park| ParkedJson::of(park, turn)).collect::<Vec<_>>());
    let values = values![rows.as_str()];
    DB::execute(session, texts.leave_feed, values).await?;
    DB::execute(session, texts.park, values).await?;
    if parked.iter().any(|park| park.state == ParkState::Behind) {
        DB::execute(session, texts.heads, values).await?;
    }
    if parked.iter().any(|park| park.state != ParkState::Ready) {
        DB::execute(session, texts.demote, values).await?;
    }
    Ok(())
}

#[derive(Serialize)]
struct RowJson {
    seq: i64,
    event: uuid::fmt::Simple,
}

impl From<RowKey> for RowJson {
    fn from(RowKey { seq, event }: RowKey) -> Self {
        Self { seq, event: Uuid::from_u128(event).simple() }
    }
}

#[derive(Serialize)]
struct ParkedJson<'a> {
    #[serde(flatten)]
    row: RowJson,
    state: &'static str,
    after: i64,
    destination: &'a str,
    attempts: i32,
    error: Option<&'a str>,
    claim: Option<i64>,
}

impl<'a> ParkedJson<'a> {
    fn of(park: &'a Park, turn: Turn) -> Self {
        Self {
            row: park.key.into(),
            state: name(park.state),
            after: after(park.after),
            destination: &park.destination,
            attempts: i32::try_from(park.attempts).unwrap_or(i32::MAX),
            error: park.error.as_deref(),
            claim: park.claimed.then_some(turn.fence),
        }
    }
}

fn after(duration: Duration) -> i64 {
    millis(duration).min(AFTER_MAX)
}

/// A state as its column has it.
fn name(state: ParkState) -> &'static str {
    match state {
        ParkState::Ready => "ready",
        ParkState::Scheduled => "scheduled",
        ParkState::Retry => "retry",
        ParkState::Waiting => "waiting",
        ParkState::Behind => "behind",
        ParkState::Parked => "parked",
    }
}

/// Rows by number and id.
fn json(rows: impl Iterator<Item = RowKey>) -> String {
    text(&rows.map(RowJson::from).collect::<Vec<_>>())
}

/// Numbers and texts always are JSON.
fn text(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default()
}
