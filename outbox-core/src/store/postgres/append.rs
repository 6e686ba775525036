//! Events into the table, as arrays: one statement whatever their number.

use sqlx::{PgConnection, Row as _};
use uuid::Uuid;

use super::super::{Appended, Outbox, appended::Form};
use crate::{OutboxEvent, header_json::headers_to_json};

/// $1 limit, $2 whether relays are woken, $3 ids, $4 types, $5 aggregate types, $6 aggregate ids, $7 versions,
/// $8 times, $9 schema versions, $10 topics, $11 headers, $12 payloads; further ones, if any, from $13 on. Numbers
/// are given after the sorting, in its order. PostgreSQL drops the second of two equal notifications of a
/// transaction.
macro_rules! append {
    ($columns:literal, $values:literal, $arrays:literal, $names:literal, $conflict:literal, $returned:literal,
        $woken:literal, $more:literal) => {
        concat!(
            "WITH written AS (
    INSERT INTO outbox_events (bytes_max, event_id, event_type, aggregate_type, aggregate_id, aggregate_version,
        occurred_at_ms, schema_version, topic, headers, payload",
            $columns,
            ")
    SELECT $1, e.id, e.type, e.aggregate_type, e.aggregate_id, e.version, e.occurred, e.schema, e.topic, e.headers, e.payload",
            $values,
            "
    FROM unnest($3::uuid[], $4::text[], $5::text[], $6::text[], $7::bigint[], $8::bigint[], $9::integer[], $10::text[],
        $11::text[], $12::bytea[]",
            $arrays,
            ") WITH ORDINALITY
        e(id, type, aggregate_type, aggregate_id, version, occurred, schema, topic, headers, payload, ",
            $names,
            "place)
    ORDER BY e.place
    ",
            $conflict,
            "RETURNING ",
            $returned,
            ")
SELECT count(*), (SELECT pg_notify('outbox_events', 'outbox_events'::regclass::oid::text)::text WHERE $2",
            $woken,
            ")",
            $more,
            " FROM written"
        )
    };
}

const APPEND: &str = append!("", "", "", "", "", "1", "", "");

/// $13 milliseconds since 1970. An interval of them is exact, unlike a number of seconds.
const APPEND_DELAYED: &str = append!(
    ", deliver_after",
    ", timestamptz 'epoch' + e.not_before * interval '1 millisecond'",
    ", $13::bigint[]",
    "not_before, ",
    "",
    "1",
    "",
    ""
);

/// $14 dedup keys. Answers those that are new; needs SELECT on their column. The index is named by what it is
/// of: another conflict, such as that of a number which is taken, stays an error.
const APPEND_KEYED: &str = append!(
    ", deliver_after, dedup_key",
    ", timestamptz 'epoch' + e.not_before * interval '1 millisecond', e.dedup_key",
    ", $13::bigint[], $14::text[]",
    "not_before, dedup_key, ",
    "ON CONFLICT (dedup_key) WHERE dedup_key IS NOT NULL DO NOTHING
    ",
    "dedup_key",
    " AND EXISTS (SELECT FROM written)",
    ", coalesce(array_agg(dedup_key) FILTER (WHERE dedup_key IS NOT NULL), '{}')"
);

/// Writes the rows.
pub(super) async fn rows(
    conn: &mut PgConnection,
    outbox: &Outbox,
    events: &[OutboxEvent],
) -> Result<Appended, sqlx::Error> {
    let columns = Columns::new(events);
    let form = Form::of(events);
    let text = match form {
        Form::Plain => APPEND,
        Form::Delayed => APPEND_DELAYED,
        Form::Keyed => APPEND_KEYED,
    };
    let mut append = sqlx::query(text)
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
        .bind(columns.payloads);
    if form != Form::Plain {
        append = append.bind(events.iter().map(OutboxEvent::deliver_after_ms).collect::<Vec<_>>());
    }
    if form == Form::Keyed {
        append = append.bind(events.iter().map(OutboxEvent::dedup_key).collect::<Vec<_>>());
    }
    let row = append.fetch_one(conn).await?;
    let written: i64 = row.try_get(0)?;
    let keys = if form == Form::Keyed { row.try_get(2)? } else { Vec::new() };
    Appended::of(events, written.unsigned_abs(), keys)
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
