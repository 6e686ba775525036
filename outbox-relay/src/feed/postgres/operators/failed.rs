//! Failed rows, and what a person decides about them.

use sqlx::{Postgres, Row as _, postgres::PgRow};

use crate::feed::flow::operators::failed::{ActTexts, FailedSql};

/// What a choice means: $1 number, $2 aggregate type, $3 aggregate id, $4 part of the error, $5 event type, each NULL for
/// any; $6 behind which number, $7 how many. What only waits for its time has to be named by number.
macro_rules! chosen {
    ($before:literal) => {
        concat!(
            $before,
            " FROM outbox_parked p JOIN outbox_events o ON o.seq = p.seq WHERE p.state NOT IN ('ready', 'behind')
AND ($1::bigint IS NULL OR p.seq = $1) AND ($2::text IS NULL OR (p.aggregate_type = $2 AND p.aggregate_id = $3))
AND ($4::text IS NULL OR strpos(p.error, $4) > 0) AND ($5::text IS NULL OR o.event_type = $5)
AND ($1::bigint IS NOT NULL OR p.state <> 'scheduled' OR p.due_at <= now()) AND p.seq > $6 ORDER BY p.seq LIMIT $7"
        )
    };
}
/// A time in words; one without end as it is.
macro_rules! at {
    ($time:literal, $name:literal) => {
        concat!(
            "CASE WHEN isfinite(",
            $time,
            ") THEN to_char(",
            $time,
            " AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.MS\"Z\"') ELSE ",
            $time,
            "::text END AS ",
            $name
        )
    };
}
pub(in crate::feed) const WRITE: &str =
    "INSERT INTO outbox_audit (what, who, why, choice, rows, event_ids)
SELECT $1, $2, $3, $4, $5, ARRAY(SELECT id::uuid FROM json_array_elements_text($6::json) id) WHERE $5 > 0";
static TEXTS: ActTexts = ActTexts {
    lock: "SELECT FROM outbox_relays WHERE shards <> 0 ORDER BY relay_ref FOR NO KEY UPDATE",
    chosen: chosen!(
        "SELECT p.seq, o.event_id::text, EXISTS (SELECT FROM outbox_relays r
    WHERE r.epoch = p.claimed_by AND r.lease_until > now()) AS claimed"
    ),
    retry_events: "UPDATE outbox_events o SET deliver_after = NULL FROM json_to_recordset($1::json) s(seq bigint)
WHERE o.seq = s.seq AND o.deliver_after IS NOT NULL",
    retry: "UPDATE outbox_parked p SET state = 'behind', due_at = NULL, attempts = 0, error = NULL, claimed_by = NULL,
    destination = CASE WHEN p.destination LIKE 'kafka:%' THEN 'kafka' ELSE p.destination END
FROM json_to_recordset($1::json) s(seq bigint) WHERE p.seq = s.seq",
    discard_events: "UPDATE outbox_events o SET discarded_at = now(), discarded_by = $2
FROM json_to_recordset($1::json) s(seq bigint) WHERE o.seq = s.seq",
    discard: "DELETE FROM outbox_parked p USING json_to_recordset($1::json) s(seq bigint) WHERE p.seq = s.seq",
    write: WRITE,
    notify: Some("SELECT pg_notify('outbox_events', 'outbox_events'::regclass::oid::text)"),
};

impl FailedSql for Postgres {
    const FAILED: &'static str = chosen!(
        "SELECT o.seq, o.event_id::text, o.event_type, o.aggregate_type || '/' || o.aggregate_id AS aggregate, o.topic,
    greatest(-1e12::float8, least(date_part('epoch', now()) - date_part('epoch', p.parked_at), 1e12::float8))::bigint
        AS failed, p.error, p.attempts::bigint AS attempts, CASE WHEN p.state = 'waiting' THEN p.destination END AS waits_for,
    CASE WHEN p.state IN ('retry', 'scheduled') THEN greatest(0,
        least(date_part('epoch', p.due_at) - date_part('epoch', now()), 1e9::float8))::bigint END AS retry,
    (SELECT count(*) FROM (SELECT FROM outbox_parked b WHERE b.seq > p.seq AND b.state = 'behind'
        AND b.aggregate_type = p.aggregate_type AND b.aggregate_id = p.aggregate_id LIMIT 10001) b) AS behind"
    );
    const CONTENT: &'static str = concat!(
        "SELECT o.seq, o.event_id::text, o.event_type, o.aggregate_type, o.aggregate_id, o.aggregate_version,
    o.schema_version::bigint, o.occurred_at_ms, o.bytes_max::bigint, o.topic, o.dedup_key, ",
        at!("o.created_at", "created_at"),
        ", ",
        at!("o.deliver_after", "deliver_after"),
        ", ",
        at!("o.sent_at", "sent_at"),
        ", ",
        at!("coalesce(p.parked_at, o.parked_at)", "parked_at"),
        ", p.state, coalesce(p.attempts, 0)::bigint AS attempts, ",
        at!("p.due_at", "due_at"),
        ", p.destination, p.error, ",
        at!("o.discarded_at", "discarded_at"),
        ", o.discarded_by, o.headers,
    octet_length(o.payload)::bigint AS payload_bytes, substring(o.payload FROM 1 FOR $2::integer) AS payload
FROM outbox_events o LEFT JOIN outbox_parked p ON p.seq = o.seq WHERE o.seq = $1"
    );

    fn act_texts() -> &'static ActTexts {
        &TEXTS
    }

    fn event_id(row: &PgRow) -> Result<String, sqlx::Error> {
        row.try_get("event_id")
    }

    fn text(row: &PgRow, column: &str) -> Result<Option<String>, sqlx::Error> {
        row.try_get(column)
    }
}
