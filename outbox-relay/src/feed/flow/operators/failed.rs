//! Failed rows: listed, shown, sent once more, given up.

use serde_json::json;

use crate::{
    feed::{
        flow::{Read as _, Value, shown, store::StoreSql, values},
        rows,
    },
    port::{Act, Choice, FailedRow, FailedRows, FeedError, RowContent, Step},
};

/// So many failed rows are retried or discarded by one statement: a short transaction, however many there are.
const STEP: i64 = 1_000;

/// What a person wants of failed rows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Deed {
    /// Once more, at once.
    Retry,
    /// Never.
    Discard,
}

impl Deed {
    /// As the audit has it.
    fn name(self) -> &'static str {
        match self {
            Self::Retry => "retry",
            Self::Discard => "discard",
        }
    }
}

/// A choice: 1 number, 2 aggregate type, 3 aggregate id, 4 part of the error, 5 event type, each NULL for any; 6 behind
/// which number, 7 how many.
type Chosen<'a> = [Value<'a>; 7];

/// What a person decides, by steps of one transaction.
pub(crate) struct ActTexts {
    /// Holds what relays claim and store until the transaction ends.
    pub(crate) lock: &'static str,
    /// A choice: `seq`, `event_id`, and whether the row is `claimed` in a turn that lasts.
    pub(crate) chosen: &'static str,
    /// 1 rows as JSON: these have no time before which they are not sent.
    pub(crate) retry_events: &'static str,
    /// 1 rows as JSON: as if they were parked for the first time, behind what is before them.
    pub(crate) retry: &'static str,
    /// 1 rows as JSON, 2 who.
    pub(crate) discard_events: &'static str,
    /// 1 rows as JSON.
    pub(crate) discard: &'static str,
    /// 1 what, 2 who, 3 why, 4 the choice in words, 5 how many rows, 6 the ids of their events as JSON.
    pub(crate) write: &'static str,
    /// Wakes the relay, where it can be woken.
    pub(crate) notify: Option<&'static str>,
}

/// A database with failed rows.
pub(crate) trait FailedSql: StoreSql {
    /// A choice.
    const FAILED: &'static str;
    /// 1 number, 2 so many bytes of the payload.
    const CONTENT: &'static str;
    fn act_texts() -> &'static ActTexts;
    /// Reads the column `event_id`.
    fn event_id(row: &Self::Row) -> Result<String, sqlx::Error>;
    /// Reads a text that somebody wrote.
    fn text(row: &Self::Row, column: &str) -> Result<Option<String>, sqlx::Error>;
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
        Ok(step::<DB>(session, Deed::Retry, (choice, after), act).await?)
    }

    async fn discard(
        session: &mut DB::Session,
        choice: &Choice,
        after: i64,
        act: Act<'_>,
    ) -> Result<Step, FeedError> {
        Ok(step::<DB>(session, Deed::Discard, (choice, after), act).await?)
    }
}

/// Retries or discards what is chosen, and writes who did so, why, and by which choice. What is behind it may go with it.
async fn step<DB: FailedSql>(
    session: &mut DB::Session,
    deed: Deed,
    (choice, after): (&Choice, i64),
    act: Act<'_>,
) -> Result<Step, sqlx::Error> {
    let texts = DB::act_texts();
    DB::begin_writing(session).await?;
    DB::fetch_all(session, texts.lock, &[]).await?;
    let found = DB::fetch_all(session, texts.chosen, &chosen(choice, after, STEP)).await?;
    let (mut numbers, mut ids) = (Vec::new(), Vec::new());
    let (mut claimed, mut last) = (0, None);
    for row in &found {
        let seq: i64 = row.read("seq")?;
        last = Some(seq);
        if row.read("claimed")? {
            claimed += 1;
        } else {
            numbers.push(json!({ "seq": seq }));
            ids.push(DB::event_id(row)?);
        }
    }
    let changed = if numbers.is_empty() {
        0
    } else {
        let numbers = serde_json::Value::from(numbers).to_string();
        let changed = change::<DB>(session, deed, &numbers, act.who).await?;
        let (said, count) = (said(choice), rows(ids.len()));
        let ids = serde_json::Value::from(ids).to_string();
        let what = deed.name();
        let values = values![what, act.who, act.why, said.as_str(), count, ids.as_str()];
        DB::execute(session, texts.write, values).await?;
        if let Some(notify) = texts.notify {
            DB::execute(session, notify, &[]).await?;
        }
        changed
    };
    DB::end_writing(session).await?;
    Ok(Step { rows: changed, claimed, last })
}

async fn change<DB: FailedSql>(
    session: &mut DB::Session,
    deed: Deed,
    numbers: &str,
    who: &str,
) -> Result<u64, sqlx::Error> {
    let texts = DB::act_texts();
    let changed = match deed {
        Deed::Retry => {
            DB::execute(session, texts.retry_events, values![numbers]).await?;
            DB::execute(session, texts.retry, values![numbers]).await?
        }
        Deed::Discard => {
            DB::execute(session, texts.discard_events, values![numbers, who]).await?;
            DB::execute(session, texts.discard, values![numbers]).await?
        }
    };
    DB::execute(session, DB::store_texts().promote, values![numbers]).await?;
    Ok(changed)
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
        waits_for: DB::text(row, "waits_for")?.as_deref().map(shown),
        error: DB::text(row, "error")?.unwrap_or_default(),
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
        parked_at: text("parked_at")?,
        state: text("state")?,
        attempts: row.read("attempts")?,
        due_at: text("due_at")?,
        destination: text("destination")?,
        error: text("error")?,
        discarded_at: text("discarded_at")?,
        discarded_by: text("discarded_by")?,
        headers: text("headers")?.unwrap_or_default(),
        payload_bytes: row.read("payload_bytes")?,
        payload: payload.unwrap_or_default(),
    })
}
