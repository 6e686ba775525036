//! The texts of intents.

use sqlx::{Sqlite, SqliteConnection, sqlite::SqliteRow};

use super::parked::matching;
use crate::{
    flow::{
        SqlClient as _,
        intents::{IntentSql, IntentTexts, read_intended},
        parked::{behind, filter_values, head},
        values,
    },
    json::{joined, numbers},
    port::{Intended, IntentRequest, ParkedFilter},
};

static TEXTS: IntentTexts = IntentTexts {
    weigh: concat!(
    r#"SELECT topic, "partition", owner, owner_seen_seconds, standstill, retired, count(*) AS events,
    count(*) FILTER (WHERE state = 'free') AS free, count(*) FILTER (WHERE state = 'same') AS same,
    count(*) FILTER (WHERE state = 'opposite') AS opposite,
    count(*) FILTER (WHERE state = 'doubtful') AS doubtful,
    count(*) FILTER (WHERE state = 'following') AS following,
    coalesce(sum(behind) FILTER (WHERE state = 'free'), 0) AS behind
FROM (SELECT w.*, CASE WHEN NOT first THEN 'following' WHEN intent = ?11 THEN 'same' WHEN ?12 THEN 'free'
        WHEN intent IS NOT NULL THEN 'opposite' WHEN reason IN ('releasing', 'torn') THEN 'doubtful'
        ELSE 'free' END AS state
    FROM (SELECT p.topic, p."partition", p.owner, p.standstill, p.retired_at IS NOT NULL AS retired,
        unixepoch('subsec') - p.owner_seen / 1000.0 AS owner_seen_seconds, q.intent, q.reason,
        ?11 = 'discard' OR q.parked_seq = "#,
    head!(),
    " AS first, CASE ?11 WHEN 'discard' THEN 0 ELSE ",
    behind!(),
    " END AS behind ",
    matching!(),
    r#") w) s GROUP BY topic, "partition", owner, standstill, retired ORDER BY topic, "partition""#
),
    erase: "UPDATE inbox_audit SET why = '', aggregate = NULL
    WHERE consumer_ref = (SELECT consumer_ref FROM inbox_consumers WHERE consumer = ?1) AND aggregate = ?2
    AND (?3 IS NULL OR topic = ?3)",
    unhold: "UPDATE inbox_partitions SET held_lanes = NULL
    WHERE consumer_ref = (SELECT consumer_ref FROM inbox_consumers WHERE consumer = ?1)
    AND instr(held_lanes, ?2) > 0",
    forgot: "INSERT INTO inbox_audit (who, what, consumer_ref, topic)
    SELECT ?2, 'forget', consumer_ref, ?3 FROM inbox_consumers WHERE consumer = ?1",
};

/// Behind the filter's parameters: ?11 what, ?12 force, ?13 after, ?14 at most. The transaction is the
/// lock.
const PICK: &str = concat!(
    r#"SELECT q.parked_seq, q."offset", q.partition_ref, q.aggregate_key, CASE ?11 WHEN 'discard' THEN q."offset" ELSE
    (SELECT max(l."offset") FROM inbox_parked l
    WHERE l.partition_ref = q.partition_ref AND l.aggregate_key = q.aggregate_key) END AS last "#,
    matching!(),
    " AND q.parked_seq > ?13 AND (?11 = 'discard' OR q.parked_seq = ",
    head!(),
    ") AND q.intent IS NOT ?11
    AND (?12 OR (q.intent IS NULL AND q.reason NOT IN ('releasing', 'torn')))
    ORDER BY q.parked_seq LIMIT ?14"
);

/// ?1 what, ?2 who, ?3 numbers.
const MARK: &str = "UPDATE inbox_parked SET intent = ?1, intent_by = ?2,
    intent_at = CAST(unixepoch('subsec') * 1000 AS INTEGER) WHERE parked_seq IN (SELECT value FROM json_each(?3))";

/// ?1 what, ?2 who, ?3 numbers, ?4 why.
const WRITE: &str = r#"INSERT INTO inbox_audit
    (who, what, why, consumer_ref, topic, "partition", "offset", event_id, aggregate, event_type)
SELECT ?2, ?1, ?4, q.consumer_ref, p.topic, p."partition", q."offset", q.event_id, q.aggregate, q.event_type
FROM inbox_parked q JOIN inbox_partitions p USING (partition_ref)
WHERE q.parked_seq IN (SELECT value FROM json_each(?3)) ORDER BY q.partition_ref, q."offset", q.leader_epoch"#;

/// ?1 what, ?2 the keys in one blob, ?3 `[[seq,last,partition_ref,offset],…]`. A release is done when its whole
/// queue of then is gone.
const OUTCOMES: &str = r#"SELECT v.value ->> 0 AS seq, q.parked_seq AS rest, q.reason,
    q.errors ->> '$[#-1].error' AS error, CASE ?1 WHEN 'discard' THEN coalesce(q.intent = 'discard', 0)
    ELSE q.intent IS NOT NULL OR q.due_at IS NULL OR q.due_at <= unixepoch('subsec') * 1000 END AS pending
FROM json_each(?3) v JOIN inbox_parked q ON q.parked_seq = (SELECT m.parked_seq FROM inbox_parked m
    WHERE m.partition_ref = v.value ->> 2 AND m.aggregate_key = substr(?2, v.key * 16 + 1, 16)
    AND m."offset" BETWEEN v.value ->> 3 AND v.value ->> 1 ORDER BY m."offset", m.leader_epoch LIMIT 1)"#;

impl IntentSql for Sqlite {
    fn intents() -> &'static IntentTexts {
        &TEXTS
    }

    async fn write_intents(
        conn: &mut SqliteConnection,
        (consumer, filter): (&str, &ParkedFilter),
        order: &IntentRequest,
        (after, max): (i64, u32),
    ) -> Result<Vec<Intended>, sqlx::Error> {
        let what = order.intent.as_str();
        let more = values![what, order.force, after, i64::from(max)];
        let rows = Self::fetch_all(conn, PICK, &filter_values(consumer, filter, more)).await?;
        let picked = rows.iter().map(read_intended).collect::<Result<Vec<_>, _>>()?;
        let seqs = numbers(picked.iter().map(|event| event.seq));
        Self::execute(conn, MARK, values![what, &order.who, &seqs]).await?;
        Self::execute(conn, WRITE, values![what, &order.who, &seqs, &order.why]).await?;
        Ok(picked)
    }

    async fn find_intent_states(
        conn: &mut SqliteConnection,
        order: &IntentRequest,
        intended: &[Intended],
    ) -> Result<Vec<SqliteRow>, sqlx::Error> {
        let place =
            |i: &Intended| format!("[{},{},{},{}]", i.seq, i.last, i.partition_ref, i.offset);
        let places: Vec<String> = intended.iter().map(place).collect();
        sqlx::query(OUTCOMES)
            .bind(order.intent.as_str())
            .bind(joined(intended.iter().map(|i| &i.aggregate)))
            .bind(format!("[{}]", places.join(",")))
            .fetch_all(conn)
            .await
    }
}
