//! The texts of looks at parked events and at what operators did.

use sqlx::Sqlite;

use crate::flow::parked::{ParkedSql, ParkedTexts, behind, head};

/// The events of a consumer that match a filter; the parameters are those of [`filter_values`](crate::flow::parked::filter_values).
macro_rules! matching {
    () => {
        r#"FROM inbox_parked q JOIN inbox_partitions p USING (partition_ref)
    JOIN inbox_consumers c ON c.consumer_ref = q.consumer_ref
WHERE c.consumer = ?1 AND (?2 IS NULL OR q.parked_seq = ?2)
AND (?3 IS NULL OR (q.partition_ref, q.aggregate_key) =
    (SELECT s.partition_ref, s.aggregate_key FROM inbox_parked s WHERE s.parked_seq = ?3))
AND (?4 IS NULL OR p.topic = ?4) AND (?5 IS NULL OR p."partition" = ?5)
AND (?6 IS NULL OR q.event_type = ?6)
AND (?7 IS NULL OR q.aggregate = ?7 OR substr(q.aggregate, instr(q.aggregate, '/') + 1) = ?7)
AND (?8 IS NULL OR q.reason = ?8)
AND (?9 IS NULL OR EXISTS (SELECT 1 FROM json_each(q.errors) e
    WHERE instr(lower(e.value ->> 'error'), lower(?9)) > 0))
AND (?10 IS NULL OR CASE ?10
    WHEN 'due' THEN q.intent IS NOT NULL OR coalesce(q.due_at <= unixepoch('subsec') * 1000, 0)
    ELSE q.intent IS NULL AND coalesce(q.due_at = 9223372036854775807, 0) END)"#
    };
}
pub(super) use matching;

macro_rules! time {
    ($column:literal) => {
        concat!("strftime('%Y-%m-%dT%H:%M:%fZ', ", $column, " / 1000.0, 'unixepoch')")
    };
}

macro_rules! list {
    ($order:literal) => {
        concat!(
            r#"SELECT q.parked_seq, p.topic, p."partition", q."offset", q.leader_epoch, q.lane, q.event_id,
    q.event_type, q.aggregate, q.reason, q.attempts, q.releases, "#,
            time!("q.parked_at"),
            " AS parked_at, CASE WHEN q.due_at = 9223372036854775807 THEN 'infinity' ELSE ",
            time!("q.due_at"),
            " END AS due_at,
    CASE WHEN q.due_at < 9223372036854775807 THEN q.due_at / 1000.0 - unixepoch('subsec') END AS due_seconds,
    q.intent, q.intent_by, ",
            time!("q.intent_at"),
            " AS intent_at, q.errors ->> '$[#-1].error' AS error, ",
            head!(),
            " AS head, ",
            behind!(),
            " AS followers, p.retired_at IS NOT NULL AS retired ",
            matching!(),
            " AND (?11 OR q.due_at IS NOT NULL) ORDER BY q.parked_at ",
            $order,
            ", q.partition_ref ",
            $order,
            r#", q."offset" "#,
            $order,
            ", q.leader_epoch ",
            $order,
            " LIMIT ?12"
        )
    };
}

static TEXTS: ParkedTexts = ParkedTexts {
    oldest: list!(""),
    newest: list!("DESC"),
    counts: concat!(
    "SELECT count(*) AS events, count(DISTINCT q.partition_ref || '/' || hex(q.aggregate_key)) AS aggregates,
    count(*) FILTER (WHERE q.due_at IS NULL) AS followers,
    count(*) FILTER (WHERE q.intent IS NOT NULL OR q.due_at <= unixepoch('subsec') * 1000) AS due,
    count(*) FILTER (WHERE q.intent IS NULL AND q.due_at > unixepoch('subsec') * 1000
        AND q.due_at < 9223372036854775807) AS scheduled,
    count(*) FILTER (WHERE q.intent IS NULL AND q.due_at = 9223372036854775807) AS waiting ",
    matching!()
),
    kept: "SELECT q.record, q.errors, q.fingerprint FROM inbox_parked q
    JOIN inbox_consumers c USING (consumer_ref) WHERE c.consumer = ?1 AND q.parked_seq = ?2",
    acts: concat!(
    "SELECT a.audit_seq, ",
    time!("a.at"),
    r#" AS at, a.who, a.what, a.why, a.topic, a."partition", a."offset", a.event_id, a.aggregate, a.event_type
FROM inbox_audit a JOIN inbox_consumers c USING (consumer_ref) WHERE c.consumer = ?1
AND (?2 IS NULL OR a.topic = ?2) AND (?3 IS NULL OR a."partition" = ?3)
AND (?4 IS NULL OR a."offset" = ?4) AND (?5 IS NULL OR a.who = ?5)
AND (?6 IS NULL OR a.what = ?6) ORDER BY a.at DESC, a.audit_seq DESC LIMIT ?7"#
),
};

impl ParkedSql for Sqlite {
    fn parked() -> &'static ParkedTexts {
        &TEXTS
    }
}
