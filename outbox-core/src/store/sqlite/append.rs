//! Events into the table, as one JSON text and two blobs: one statement whatever their number.

use serde_json::json;
use sqlx::{Row as _, SqliteConnection};

use super::super::{Appended, Outbox, appended::Form};
use crate::{OutboxEvent, header_json::headers_to_json};

/// ?1 limit, ?2 rows, ?3 ids, ?4 payloads, one behind the other. A row names the place and the length of its
/// payload; without a place it is a tombstone. Then come, if any says them, its time and its dedup key.
macro_rules! append {
    ($columns:literal, $values:literal, $conflict:literal) => {
        concat!(
            "INSERT INTO outbox_events (bytes_max, event_id, event_type, aggregate_type, aggregate_id, aggregate_version,
    occurred_at_ms, schema_version, topic, headers, payload",
            $columns,
            ")
SELECT ?1, substr(?3, e.key * 16 + 1, 16), e.value ->> 0, e.value ->> 1, e.value ->> 2, e.value ->> 3,
    e.value ->> 4, e.value ->> 5, e.value ->> 6, e.value ->> 7,
    CASE WHEN e.value ->> 8 IS NULL THEN NULL WHEN e.value ->> 9 = 0 THEN x''
        ELSE substr(?4, (e.value ->> 8) + 1, e.value ->> 9) END",
            $values,
            "
FROM json_each(?2) e WHERE true ORDER BY e.key",
            $conflict
        )
    };
}

const APPEND: &str = append!("", "", "");

/// Answers a row for each that is new. The index is named by what it is of: another conflict stays an error.
const APPEND_MORE: &str = append!(
    ", deliver_after, dedup_key",
    ", e.value ->> 10, e.value ->> 11",
    " ON CONFLICT (dedup_key) WHERE dedup_key IS NOT NULL DO NOTHING RETURNING dedup_key"
);

/// Writes the rows.
pub(super) async fn rows(
    conn: &mut SqliteConnection,
    outbox: &Outbox,
    events: &[OutboxEvent],
) -> Result<Appended, sqlx::Error> {
    let Columns { rows, ids, payloads } = Columns::new(events);
    let text = if Form::of(events) == Form::Plain { APPEND } else { APPEND_MORE };
    let append =
        sqlx::query(text).bind(outbox.bytes_max_column()).bind(rows).bind(ids).bind(payloads);
    if text == APPEND {
        let done = append.execute(conn).await?;
        return Appended::of(events, done.rows_affected(), Vec::new());
    }
    let new = append.fetch_all(conn).await?;
    let keys = new.iter().map(|row| row.try_get(0)).collect::<Result<Vec<Option<String>>, _>>()?;
    let written = u64::try_from(new.len()).unwrap_or(u64::MAX);
    Appended::of(events, written, keys.into_iter().flatten().collect())
}

/// What the statement is given.
struct Columns {
    rows: String,
    ids: Vec<u8>,
    payloads: Vec<u8>,
}

impl Columns {
    fn new(events: &[OutboxEvent]) -> Self {
        let mut payloads = Vec::new();
        let is_more = Form::of(events) != Form::Plain;
        let rows: serde_json::Value = events
            .iter()
            .map(|event| {
                let envelope = event.envelope();
                let place = envelope.payload.as_ref().map(|_| payloads.len());
                let payload = envelope.payload.as_deref().unwrap_or_default();
                payloads.extend_from_slice(payload);
                let mut row = vec![
                    json!(envelope.event_type.as_str()),
                    json!(envelope.aggregate.aggregate_type()),
                    json!(envelope.aggregate.aggregate_id()),
                    json!(envelope.aggregate_version),
                    json!(envelope.occurred_at_ms),
                    json!(envelope.schema_version),
                    json!(event.topic()),
                    json!(headers_to_json(event.headers())),
                    json!(place),
                    json!(payload.len()),
                ];
                if is_more {
                    row.extend([json!(event.deliver_after_ms()), json!(event.dedup_key())]);
                }
                serde_json::Value::from(row)
            })
            .collect();
        let ids = events.iter().flat_map(|event| *event.id().as_bytes()).collect();
        Self { rows: rows.to_string(), ids, payloads }
    }
}
