//! Failed rows, and what a person decides about them.

use sqlx::{PgConnection, Postgres, Row as _, postgres::PgRow};

use crate::{
    feed::flow::{
        Read as _, SqlClient as _, Value,
        operators::failed::{Chosen, Deed, FailedSql},
    },
    port::{FeedError, Step},
};

/// What a choice means: $1 number, $2 aggregate type, $3 aggregate id, $4 part of the error, $5 event type, each NULL for
/// any; $6 behind which number, $7 how many. What only waits for its time has to be named by number.
macro_rules! chosen {
    ($before:literal, $($after:tt)*) => {
        concat!(
            $before,
            " FROM outbox_events o WHERE o.failed_at IS NOT NULL AND o.discarded_at IS NULL AND NOT o.held
AND ($1::bigint IS NULL OR o.seq = $1) AND ($2::text IS NULL OR (o.aggregate_type = $2 AND o.aggregate_id = $3))
AND ($4::text IS NULL OR strpos(o.error, $4) > 0) AND ($5::text IS NULL OR o.event_type = $5)
AND ($1::bigint IS NOT NULL OR coalesce(o.deliver_after <= now(), true)) AND o.seq > $6 ORDER BY o.seq LIMIT $7",
            $($after)*
        )
    };
}

/// What lets rows go asks for what is held behind them, too. $8 who, $9 why, $10 the choice in words.
macro_rules! step {
    ($what:literal, $change:literal) => {
        chosen!(
            "WITH due AS MATERIALIZED (SELECT o.seq, o.aggregate_type, o.aggregate_id",
            "),
asked AS (INSERT INTO outbox_releases AS r (aggregate_type, aggregate_id)
    SELECT DISTINCT aggregate_type, aggregate_id FROM due
    ON CONFLICT (aggregate_type, aggregate_id) DO UPDATE SET asked = r.asked + 1),
done AS (UPDATE outbox_events o SET ",
            $change,
            " FROM due d
    WHERE o.seq = d.seq AND o.failed_at IS NOT NULL AND o.discarded_at IS NULL RETURNING o.seq, o.event_id),
written AS (INSERT INTO outbox_audit (what, who, why, choice, rows, event_ids)
    SELECT '",
            $what,
            "', $8, $9, $10, count(*), array_agg(event_id ORDER BY seq) FROM done HAVING count(*) > 0)
SELECT (SELECT count(*) FROM done), max(seq),
    (SELECT pg_notify('outbox_events', 'outbox_events'::regclass::oid::text)::text) FROM due"
        )
    };
}
pub(in crate::feed) const RETRY: &str = step!(
    "retry",
    "failed_at = NULL, error = NULL, waits_for = NULL, retry_at = NULL, attempts = 0, deliver_after = NULL"
);
pub(in crate::feed) const DISCARD: &str =
    step!("discard", "discarded_at = now(), discarded_by = $8, waits_for = NULL, retry_at = NULL");
/// A time in words; one without end as it is.
macro_rules! at {
    ($column:literal) => {
        concat!(
            "CASE WHEN isfinite(",
            $column,
            ") THEN to_char(",
            $column,
            " AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.MS\"Z\"') ELSE ",
            $column,
            "::text END AS ",
            $column
        )
    };
}

impl FailedSql for Postgres {
    const FAILED: &'static str = chosen!(
    "SELECT o.seq, o.event_id::text, o.event_type, o.aggregate_type || '/' || o.aggregate_id AS aggregate, o.topic,
    greatest(-1e12::float8, least(date_part('epoch', now()) - date_part('epoch', o.failed_at), 1e12::float8))::bigint
        AS failed, coalesce(o.error, '') AS error,
    o.attempts::bigint AS attempts, o.waits_for,
    CASE WHEN o.retry_at IS NOT NULL THEN greatest(0,
        least(date_part('epoch', o.retry_at) - date_part('epoch', now()), 1e9::float8))::bigint END AS retry,
    (SELECT count(*) FROM (SELECT FROM outbox_events b WHERE b.failed_at IS NOT NULL AND b.discarded_at IS NULL
        AND b.seq > o.seq AND b.held
        AND b.aggregate_type = o.aggregate_type AND b.aggregate_id = o.aggregate_id LIMIT 10001) b) AS behind",
);
    const CONTENT: &'static str = concat!(
        "SELECT seq, event_id::text, event_type, aggregate_type, aggregate_id, aggregate_version,
    schema_version::bigint, occurred_at_ms, bytes_max::bigint, topic, dedup_key, ",
        at!("created_at"),
        ", ",
        at!("deliver_after"),
        ", ",
        at!("sent_at"),
        ", ",
        at!("failed_at"),
        ", held, attempts::bigint, ",
        at!("retry_at"),
        ", waits_for, error, ",
        at!("discarded_at"),
        ", discarded_by, headers,
    octet_length(payload)::bigint AS payload_bytes, substring(payload FROM 1 FOR $2::integer) AS payload
FROM outbox_events WHERE seq = $1"
    );

    fn event_id(row: &PgRow) -> Result<String, sqlx::Error> {
        row.try_get("event_id")
    }

    fn text(row: &PgRow, column: &str) -> Result<Option<String>, sqlx::Error> {
        row.try_get(column)
    }

    async fn step(
        session: &mut PgConnection,
        deed: Deed,
        chosen: Chosen<'_>,
        act: [&str; 3],
    ) -> Result<Step, FeedError> {
        let text = match deed {
            Deed::Retry => RETRY,
            Deed::Discard => DISCARD,
        };
        let values = [&chosen[..], &act.map(Value::from)].concat();
        let row = Self::fetch_one(session, text, &values).await?;
        let rows: i64 = row.at(0)?;
        Ok(Step { rows: rows.unsigned_abs(), last: row.at(1)? })
    }
}
