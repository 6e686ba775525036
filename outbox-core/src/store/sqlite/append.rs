//! Events into the table, as one JSON text and two blobs: one statement whatever their number.

use serde_json::json;
use sqlx::SqliteConnection;

use super::super::{Outbox, all_written};
use crate::{OutboxEvent, header_json::headers_to_json};

/// ?1 limit, ?2 rows, ?3 ids, ?4 payloads, one behind the other. A row names the place and the length of its
/// payload; without a place it is a tombstone.
const APPEND: &str =
    "INSERT INTO outbox_events (bytes_max, event_id, event_type, aggregate_type, aggregate_id, aggregate_version,
    occurred_at_ms, schema_version, topic, headers, payload)
SELECT ?1, substr(?3, e.key * 16 + 1, 16), e.value ->> 0, e.value ->> 1, e.value ->> 2, e.value ->> 3,
    e.value ->> 4, e.value ->> 5, e.value ->> 6, e.value ->> 7,
    CASE WHEN e.value ->> 8 IS NULL THEN NULL WHEN e.value ->> 9 = 0 THEN x''
        ELSE substr(?4, (e.value ->> 8) + 1, e.value ->> 9) END
FROM json_each(?2) e WHERE true ORDER BY e.key";

/// Writes the rows.
pub(super) async fn rows(
    conn: &mut SqliteConnection,
    outbox: &Outbox,
    events: &[OutboxEvent],
) -> Result<(), sqlx::Error> {
    let Columns { rows, ids, payloads } = Columns::new(events);
    let done = sqlx::query(APPEND)
        .bind(outbox.bytes_max_column())
        .bind(rows)
        .bind(ids)
        .bind(payloads)
        .execute(conn)
        .await?;
    all_written(done.rows_affected(), events)
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
        let rows: serde_json::Value = events
            .iter()
            .map(|event| {
                let envelope = event.envelope();
                let place = envelope.payload.as_ref().map(|_| payloads.len());
                let payload = envelope.payload.as_deref().unwrap_or_default();
                payloads.extend_from_slice(payload);
                json!([
                    envelope.event_type.as_str(),
                    envelope.aggregate.aggregate_type(),
                    envelope.aggregate.aggregate_id(),
                    envelope.aggregate_version,
                    envelope.occurred_at_ms,
                    envelope.schema_version,
                    event.topic(),
                    headers_to_json(event.headers()),
                    place,
                    payload.len(),
                ])
            })
            .collect();
        let ids = events.iter().flat_map(|event| *event.id().as_bytes()).collect();
        Self { rows: rows.to_string(), ids, payloads }
    }
}
