//! Events into the table, as arrays: one statement whatever their number.

use sqlx::PgConnection;
use uuid::Uuid;

use super::super::{Outbox, all_written};
use crate::{OutboxEvent, header_json::headers_to_json};

/// $1 limit, $2 whether relays are woken, $3 ids, $4 types, $5 aggregate types, $6 aggregate ids, $7 versions,
/// $8 times, $9 schema versions, $10 topics, $11 headers, $12 payloads. Numbers are given after the sorting, in
/// its order. PostgreSQL drops the second of two equal notifications of a transaction.
const APPEND: &str = "WITH written AS (
    INSERT INTO outbox_events (bytes_max, event_id, event_type, aggregate_type, aggregate_id, aggregate_version,
        occurred_at_ms, schema_version, topic, headers, payload)
    SELECT $1, e.id, e.type, e.aggregate_type, e.aggregate_id, e.version, e.occurred, e.schema, e.topic, e.headers, e.payload
    FROM unnest($3::uuid[], $4::text[], $5::text[], $6::text[], $7::bigint[], $8::bigint[], $9::integer[], $10::text[],
        $11::text[], $12::bytea[]) WITH ORDINALITY
        e(id, type, aggregate_type, aggregate_id, version, occurred, schema, topic, headers, payload, place)
    ORDER BY e.place
    RETURNING 1)
SELECT count(*), (SELECT pg_notify('outbox_events', 'outbox_events'::regclass::oid::text)::text WHERE $2) FROM written";

/// Writes the rows.
pub(super) async fn rows(
    conn: &mut PgConnection,
    outbox: &Outbox,
    events: &[OutboxEvent],
) -> Result<(), sqlx::Error> {
    let columns = Columns::new(events);
    let (written, _): (i64, Option<String>) = sqlx::query_as(APPEND)
        .persistent(outbox.prepared)
        .bind(outbox.bytes_max_column())
        .bind(outbox.notify)
        .bind(columns.ids)
        .bind(columns.types)
        .bind(columns.aggregate_types)
        .bind(columns.aggregate_ids)
        .bind(columns.versions)
        .bind(columns.times)
        .bind(columns.schema_versions)
        .bind(columns.topics)
        .bind(columns.headers)
        .bind(columns.payloads)
        .fetch_one(conn)
        .await?;
    all_written(written.unsigned_abs(), events)
}

/// The columns of the rows, as arrays for `unnest`.
struct Columns<'a> {
    ids: Vec<Uuid>,
    types: Vec<&'a str>,
    aggregate_types: Vec<&'a str>,
    aggregate_ids: Vec<&'a str>,
    versions: Vec<Option<i64>>,
    times: Vec<Option<i64>>,
    schema_versions: Vec<Option<i32>>,
    topics: Vec<Option<&'a str>>,
    headers: Vec<String>,
    payloads: Vec<Option<&'a [u8]>>,
}

impl<'a> Columns<'a> {
    fn new(events: &'a [OutboxEvent]) -> Self {
        let envelopes = || events.iter().map(OutboxEvent::envelope);
        Self {
            ids: envelopes().map(|event| event.event_id.uuid()).collect(),
            types: envelopes().map(|event| event.event_type.as_str()).collect(),
            aggregate_types: envelopes().map(|event| event.aggregate.aggregate_type()).collect(),
            aggregate_ids: envelopes().map(|event| event.aggregate.aggregate_id()).collect(),
            versions: envelopes().map(|event| event.aggregate_version).collect(),
            times: envelopes().map(|event| event.occurred_at_ms).collect(),
            schema_versions: envelopes().map(|event| event.schema_version).collect(),
            topics: events.iter().map(OutboxEvent::topic).collect(),
            headers: events.iter().map(|event| headers_to_json(event.headers())).collect(),
            payloads: envelopes().map(|event| event.payload.as_deref()).collect(),
        }
    }
}
