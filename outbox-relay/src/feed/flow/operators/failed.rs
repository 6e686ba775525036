//! Failed rows: listed, shown, sent once more, given up.

use std::future::Future;

use crate::{
    feed::{
        flow::{Read as _, SqlClient, Value, values},
        rows,
    },
    port::{Act, Choice, FailedRow, FailedRows, FeedError, RowContent, Step},
};

/// So many failed rows are retried or discarded by one statement: a short transaction, however many there are.
const STEP: i64 = 1_000;

/// What a person wants of failed rows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Deed {
    /// Once more, at once.
    Retry,
    /// Never.
    Discard,
}

/// A choice: 1 number, 2 aggregate type, 3 aggregate id, 4 part of the error, 5 event type, each NULL for any; 6 behind
/// which number, 7 how many.
pub(crate) type Chosen<'a> = [Value<'a>; 7];

/// A database with failed rows.
pub(crate) trait FailedSql: SqlClient {
    /// A choice.
    const FAILED: &'static str;
    /// 1 number, 2 so many bytes of the payload.
    const CONTENT: &'static str;
    /// Reads the column `event_id`.
    fn event_id(row: &Self::Row) -> Result<String, sqlx::Error>;
    /// Reads a text that somebody wrote.
    fn text(row: &Self::Row, column: &str) -> Result<Option<String>, sqlx::Error>;
    /// Retries or discards what is chosen, and writes who did so, why, and by which choice. What lets rows go asks for
    /// what is held behind them, too.
    fn step(
        session: &mut Self::Session,
        deed: Deed,
        chosen: Chosen<'_>,
        act: [&str; 3],
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

    async fn content(
        session: &mut DB::Session,
        seq: i64,
        payload_max: usize,
    ) -> Result<Option<RowContent>, FeedError> {
        let values = values![seq, rows(payload_max)];
        let found = DB::fetch_optional(session, DB::CONTENT, values).await?;
        Ok(found.as_ref().map(content::<DB>).transpose()?)
    }

    async fn retry(
        session: &mut DB::Session,
        choice: &Choice,
        after: i64,
        act: Act<'_>,
    ) -> Result<Step, FeedError> {
        let said = said(choice);
        let act = [act.who, act.why, &said];
        DB::step(session, Deed::Retry, chosen(choice, after, STEP), act).await
    }

    async fn discard(
        session: &mut DB::Session,
        choice: &Choice,
        after: i64,
        act: Act<'_>,
    ) -> Result<Step, FeedError> {
        let said = said(choice);
        let act = [act.who, act.why, &said];
        DB::step(session, Deed::Discard, chosen(choice, after, STEP), act).await
    }
}

fn chosen(choice: &Choice, after: i64, most: i64) -> Chosen<'_> {
    let aggregate = choice.aggregate.as_ref();
    let (kind, id) = aggregate.map(|(kind, id)| (kind.as_str(), id.as_str())).unzip();
    let (error, event_type) = (choice.error.as_deref(), choice.event_type.as_deref());
    *values![choice.seq, kind, id, error, event_type, after, most]
}

/// A choice as it is typed, for the audit.
fn said(choice: &Choice) -> String {
    let Choice { seq, aggregate, error, event_type } = choice;
    let parts = [
        seq.map(|seq| format!("--seq {seq}")),
        aggregate.as_ref().map(|(kind, id)| format!("--aggregate {kind}/{id}")),
        error.as_ref().map(|text| format!("--error {text:?}")),
        event_type.as_ref().map(|name| format!("--type {name}")),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    if parts.is_empty() { "--all".into() } else { parts.join(" ") }
}

fn failed<DB: FailedSql>(row: &DB::Row) -> Result<FailedRow, sqlx::Error> {
    Ok(FailedRow {
        seq: row.read("seq")?,
        event_id: DB::event_id(row)?,
        event_type: DB::text(row, "event_type")?.unwrap_or_default(),
        aggregate: DB::text(row, "aggregate")?.unwrap_or_default(),
        topic: DB::text(row, "topic")?,
        failed_seconds: row.read("failed")?,
        attempts: row.read("attempts")?,
        retry_seconds: row.read("retry")?,
        waits_for: DB::text(row, "waits_for")?,
        error: row.read("error")?,
        behind: row.read("behind")?,
    })
}

fn content<DB: FailedSql>(row: &DB::Row) -> Result<RowContent, sqlx::Error> {
    let text = |column| DB::text(row, column);
    let payload: Option<Vec<u8>> = row.read("payload")?;
    Ok(RowContent {
        seq: row.read("seq")?,
        event_id: DB::event_id(row)?,
        event_type: text("event_type")?.unwrap_or_default(),
        aggregate_type: text("aggregate_type")?.unwrap_or_default(),
        aggregate_id: text("aggregate_id")?.unwrap_or_default(),
        aggregate_version: row.read("aggregate_version")?,
        schema_version: row.read("schema_version")?,
        occurred_at_ms: row.read("occurred_at_ms")?,
        bytes_max: row.read("bytes_max")?,
        topic: text("topic")?,
        dedup_key: text("dedup_key")?,
        created_at: text("created_at")?,
        deliver_after: text("deliver_after")?,
        sent_at: text("sent_at")?,
        failed_at: text("failed_at")?,
        held: row.read("held")?,
        attempts: row.read("attempts")?,
        retry_at: text("retry_at")?,
        waits_for: text("waits_for")?,
        error: text("error")?,
        discarded_at: text("discarded_at")?,
        discarded_by: text("discarded_by")?,
        headers: text("headers")?.unwrap_or_default(),
        payload_bytes: row.read("payload_bytes")?,
        payload: payload.unwrap_or_default(),
    })
}
