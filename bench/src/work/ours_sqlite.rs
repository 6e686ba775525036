//! Our handlers on SQLite.

use inbox_consumer::{BatchHandler, Event, Handler, HandlerError, HandlerResult, Routes, Tx};
use sqlx::Sqlite;

use super::record::Deposited;
use super::sqlite::UPSERT;
use super::sums::Sums;
use crate::candidate::Candidate;
use crate::plan::EVENT_TYPE;

/// Sums of many accounts, as JSON: an array per account.
const UPSERT_SUMS: &str =
    "INSERT INTO accounts AS a (account, balance, events, last_sequence, disorder)
    SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4 FROM json_each(?1)
    WHERE true
    ON CONFLICT (account) DO UPDATE SET
        balance = a.balance + excluded.balance,
        events = a.events + excluded.events,
        last_sequence = excluded.last_sequence,
        disorder = a.disorder + excluded.disorder
            + (excluded.last_sequence - excluded.events <> a.last_sequence)";

/// The route of a candidate.
pub(super) fn routes(candidate: Candidate) -> Routes<Sqlite> {
    let none = Routes::<Sqlite>::default();
    match candidate {
        Candidate::Batch => none.on_batch(EVENT_TYPE, Deposits),
        _ => none.on(EVENT_TYPE, Deposit),
    }
}

/// One awaited statement per event.
struct Deposit;

impl Handler<Sqlite> for Deposit {
    type Event = Deposited;

    async fn handle(&self, event: &Event<Deposited>, tx: &mut Tx<'_, Sqlite>) -> HandlerResult {
        sqlx::query(UPSERT)
            .bind(event.payload.account)
            .bind(event.payload.amount)
            .bind(event.payload.sequence)
            .execute(tx)
            .await?;
        Ok(())
    }
}

/// One statement per run.
struct Deposits;

impl BatchHandler<Sqlite> for Deposits {
    type Event = Deposited;

    async fn handle(&self, events: &[Event<Deposited>], tx: &mut Tx<'_, Sqlite>) -> HandlerResult {
        let sums = Sums::of(events.iter().map(|event| &event.payload));
        let json = serde_json::to_string(&sums.rows()).map_err(HandlerError::from)?;
        sqlx::query(UPSERT_SUMS).bind(json).execute(tx).await?;
        Ok(())
    }
}
