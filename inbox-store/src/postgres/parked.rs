//! The texts of looks at parked events and at what operators did.

use sqlx::Postgres;

use crate::flow::parked::{ParkedSql, ParkedTexts, behind, head};

/// The events of a consumer that match a filter; the parameters are those of [`filter_values`](crate::flow::parked::filter_values).
macro_rules! matching {
    () => {
        "FROM inbox_parked q JOIN inbox_partitions p USING (partition_ref)
    JOIN inbox_consumers c ON c.consumer_ref = q.consumer_ref
WHERE c.consumer = $1 AND ($2::bigint IS NULL OR q.parked_seq = $2)
AND ($3::bigint IS NULL OR (q.partition_ref, q.aggregate_key) =
    (SELECT s.partition_ref, s.aggregate_key FROM inbox_parked s WHERE s.parked_seq = $3))
AND ($4::text IS NULL OR p.topic = $4) AND ($5::integer IS NULL OR p.partition = $5)
AND ($6::text IS NULL OR q.event_type = $6)
AND ($7::text IS NULL OR q.aggregate = $7 OR substr(q.aggregate, strpos(q.aggregate, '/') + 1) = $7)
AND ($8::text IS NULL OR q.reason = $8)
AND ($9::text IS NULL OR EXISTS (SELECT FROM jsonb_array_elements(q.errors::jsonb) e
    WHERE strpos(lower(e ->> 'error'), lower($9)) > 0))
AND ($10::text IS NULL OR CASE $10
    WHEN 'due' THEN q.intent IS NOT NULL OR coalesce(q.due_at <= now(), false)
    ELSE q.intent IS NULL AND coalesce(q.due_at = 'infinity', false) END)"
    };
}
pub(super) use matching;

macro_rules! time {
    ($column:literal) => {
        concat!("to_char(", $column, r#" AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')"#)
    };
}

macro_rules! list {
    ($order:literal) => {
        concat!(
            r#"SELECT q.parked_seq, p.topic, p.partition, q."offset", q.leader_epoch, q.lane, q.event_id,
    q.event_type, q.aggregate, q.reason, q.attempts, q.releases, "#,
            time!("q.parked_at"),
            " AS parked_at, CASE WHEN isfinite(q.due_at) THEN ",
            time!("q.due_at"),
            " ELSE q.due_at::text END AS due_at,
    CASE WHEN isfinite(q.due_at) THEN extract(epoch FROM q.due_at - now())::double precision END AS due_seconds,
    q.intent, q.intent_by, ",
            time!("q.intent_at"),
            " AS intent_at, q.errors::jsonb -> -1 ->> 'error' AS error, ",
            head!(),
            " AS head, ",
            behind!(),
            " AS followers, p.retired_at IS NOT NULL AS retired ",
            matching!(),
            " AND ($11 OR q.due_at IS NOT NULL) ORDER BY q.parked_at ",
            $order,
            ", q.partition_ref ",
            $order,
            r#", q."offset" "#,
            $order,
            ", q.leader_epoch ",
            $order,
            " LIMIT $12"
        )
    };
}

static TEXTS: ParkedTexts = ParkedTexts {
    oldest: list!(""),
    newest: list!("DESC"),
    counts: concat!(
    "SELECT count(*) AS events, count(DISTINCT (q.partition_ref, q.aggregate_key)) AS aggregates,
    count(*) FILTER (WHERE q.due_at IS NULL) AS followers,
    count(*) FILTER (WHERE q.intent IS NOT NULL OR q.due_at <= now()) AS due,
    count(*) FILTER (WHERE q.intent IS NULL AND q.due_at > now() AND q.due_at < 'infinity') AS scheduled,
    count(*) FILTER (WHERE q.intent IS NULL AND q.due_at = 'infinity') AS waiting ",
    matching!()
),
    kept: "SELECT q.record, q.errors, q.fingerprint FROM inbox_parked q
    JOIN inbox_consumers c USING (consumer_ref) WHERE c.consumer = $1 AND q.parked_seq = $2",
    acts: concat!(
    "SELECT a.audit_seq, ",
    time!("a.at"),
    r#" AS at, a.who, a.what, a.why, a.topic, a.partition, a."offset", a.event_id, a.aggregate, a.event_type
FROM inbox_audit a JOIN inbox_consumers c USING (consumer_ref) WHERE c.consumer = $1
AND ($2::text IS NULL OR a.topic = $2) AND ($3::integer IS NULL OR a.partition = $3)
AND ($4::bigint IS NULL OR a."offset" = $4) AND ($5::text IS NULL OR a.who = $5)
AND ($6::text IS NULL OR a.what = $6) ORDER BY a.at DESC, a.audit_seq DESC LIMIT $7"#
),
};

impl ParkedSql for Postgres {
    fn parked() -> &'static ParkedTexts {
        &TEXTS
    }
}
