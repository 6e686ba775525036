//! Our handlers on SQLite.

use inbox_consumer::{BatchHandler, Event, Handler, HandlerResult, Routes, Tx};
use sqlx::{AssertSqlSafe, SqlSafeStr as _, SqlStr, Sqlite, SqliteExecutor};

use super::record::Deposited;
use super::sqlite::UPSERT;
use super::sums::Sums;
use crate::candidate::Candidate;
use crate::plan::EVENT_TYPE;

/// Sums of many accounts, a row of parameters for each: SQLite takes three times as long to read them from
/// a JSON text. Rows beyond the last account are NULL, so that few statements have to be prepared.
const UPSERT_SUMS: [&str; 2] = [
    "INSERT INTO accounts AS a (account, balance, events, last_sequence, disorder)
    SELECT * FROM (VALUES ",
    ") WHERE column1 IS NOT NULL
    ON CONFLICT (account) DO UPDATE SET
        balance = a.balance + excluded.balance,
        events = a.events + excluded.events,
        last_sequence = excluded.last_sequence,
        disorder = a.disorder + excluded.disorder
            + (excluded.last_sequence - excluded.events <> a.last_sequence)",
];

/// The statement for so many rows.
fn upsert(rows: usize) -> SqlStr {
    let [before, after] = UPSERT_SUMS;
    let values = vec!["(?, ?, ?, ?, ?)"; rows].join(", ");
    AssertSqlSafe(format!("{before}{values}{after}")).into_sql_str()
}

/// Writes the sums in one statement.
pub(super) async fn write_sums(sums: &Sums, to: impl SqliteExecutor<'_>) -> sqlx::Result<()> {
    let accounts = sums.rows();
    let rows = accounts.len().next_power_of_two();
    let mut query = sqlx::query(upsert(rows));
    for number in accounts.iter().flatten() {
        query = query.bind(*number);
    }
    for _ in accounts.len() * 5..rows * 5 {
        query = query.bind(None::<i64>);
    }
    query.execute(to).await.map(drop)
}

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
        write_sums(&sums, tx).await?;
        Ok(())
    }
}
