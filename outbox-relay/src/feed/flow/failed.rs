//! Failed rows: listed, sent once more, given up.

use std::future::Future;

use super::{Read as _, SqlClient, Value, values};
use crate::port::{Choice, FailedRow, FailedRows, FeedError, Step};

/// So many failed rows are retried or discarded by one statement: a short transaction, however many there are.
const STEP: i64 = 1_000;

/// A database with failed rows. A choice is 1 number, 2 aggregate type, 3 aggregate id, 4 part of the error, each
/// NULL for any; 5 behind which number, 6 how many.
pub(crate) trait FailedSql: SqlClient {
    /// A choice.
    const FAILED: &'static str;
    /// Reads the column `event_id`.
    fn event_id(row: &Self::Row) -> Result<String, sqlx::Error>;
    /// Reads a text that somebody wrote.
    fn text(row: &Self::Row, column: &str) -> Result<Option<String>, sqlx::Error>;
    /// Retries what is chosen, or lets somebody discard it. What lets rows go asks for what is held behind them,
    /// too.
    fn step(
        session: &mut Self::Session,
        chosen: [Value<'_>; 6],
        who: Option<&str>,
    ) -> impl Future<Output = Result<Step, FeedError>> + Send;
}

impl<DB: FailedSql> FailedRows for DB {
    async fn failed(
        session: &mut DB::Session,
        choice: &Choice,
        rows_max: u32,
    ) -> Result<Vec<FailedRow>, FeedError> {
        let chosen = chosen(choice, 0, i64::from(rows_max));
        let found = DB::fetch_all(session, DB::FAILED, &chosen).await?;
        Ok(found.iter().map(failed::<DB>).collect::<Result<_, _>>()?)
    }

    async fn retry(
        session: &mut DB::Session,
        choice: &Choice,
        after: i64,
    ) -> Result<Step, FeedError> {
        DB::step(session, chosen(choice, after, STEP), None).await
    }

    async fn discard(
        session: &mut DB::Session,
        choice: &Choice,
        after: i64,
        who: &str,
    ) -> Result<Step, FeedError> {
        DB::step(session, chosen(choice, after, STEP), Some(who)).await
    }
}

fn chosen(choice: &Choice, after: i64, most: i64) -> [Value<'_>; 6] {
    let aggregate = choice.aggregate.as_ref();
    let (kind, id) = aggregate.map(|(kind, id)| (kind.as_str(), id.as_str())).unzip();
    *values![choice.seq, kind, id, choice.error.as_deref(), after, most]
}

fn failed<DB: FailedSql>(row: &DB::Row) -> Result<FailedRow, sqlx::Error> {
    Ok(FailedRow {
        seq: row.read("seq")?,
        event_id: DB::event_id(row)?,
        event_type: DB::text(row, "event_type")?.unwrap_or_default(),
        aggregate: DB::text(row, "aggregate")?.unwrap_or_default(),
        topic: DB::text(row, "topic")?,
        failed_seconds: row.read("failed")?,
        error: row.read("error")?,
        behind: row.read("behind")?,
    })
}
