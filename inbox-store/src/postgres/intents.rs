//! The texts of intents.

use sqlx::{PgConnection, Postgres, postgres::PgRow};

use super::{parked::matching, sent::on};
use crate::{
    flow::{
        SqlClient as _,
        intents::{IntentSql, IntentTexts, read_intended},
        parked::{behind, filter_values, head},
        values,
    },
    port::{Intended, IntentRequest, ParkedFilter},
};

static TEXTS: IntentTexts = IntentTexts {
    weigh: concat!(
    "SELECT topic, partition, owner, owner_seen_seconds, standstill, retired, count(*) AS events,
    count(*) FILTER (WHERE state = 'free') AS free, count(*) FILTER (WHERE state = 'same') AS same,
    count(*) FILTER (WHERE state = 'opposite') AS opposite,
    count(*) FILTER (WHERE state = 'doubtful') AS doubtful,
    count(*) FILTER (WHERE state = 'following') AS following,
    coalesce(sum(behind) FILTER (WHERE state = 'free'), 0)::bigint AS behind
FROM (SELECT w.*, CASE WHEN NOT first THEN 'following' WHEN intent = $11 THEN 'same' WHEN $12 THEN 'free'
        WHEN intent IS NOT NULL THEN 'opposite' WHEN reason IN ('releasing', 'torn') THEN 'doubtful'
        ELSE 'free' END AS state
    FROM (SELECT p.topic, p.partition, p.owner, p.standstill, p.retired_at IS NOT NULL AS retired,
        extract(epoch FROM now() - p.owner_seen)::double precision AS owner_seen_seconds, q.intent, q.reason,
        $11 = 'discard' OR q.parked_seq = ",
    head!(),
    " AS first, CASE $11 WHEN 'discard' THEN 0 ELSE ",
    behind!(),
    " END AS behind ",
    matching!(),
    ") w) s GROUP BY topic, partition, owner, owner_seen_seconds, standstill, retired ORDER BY topic, partition"
),
    erase: "UPDATE inbox_audit SET why = '', aggregate = NULL
    WHERE consumer_ref = (SELECT consumer_ref FROM inbox_consumers WHERE consumer = $1) AND aggregate = $2
    AND ($3::text IS NULL OR topic = $3)",
    unhold: "UPDATE inbox_partitions SET held_lanes = NULL
    WHERE consumer_ref = (SELECT consumer_ref FROM inbox_consumers WHERE consumer = $1)
    AND strpos(held_lanes, $2) > 0",
    forgot: "INSERT INTO inbox_audit (who, what, consumer_ref, topic)
    SELECT $2, 'forget', consumer_ref, $3 FROM inbox_consumers WHERE consumer = $1",
};

/// Behind the filter's parameters: $11 what, $12 force, $13 after, $14 at most, $15 who, $16 why. What
/// a transaction of the owner holds is being released or discarded at this moment.
const INTEND: &str = concat!(
    "WITH picked AS MATERIALIZED (SELECT q.parked_seq ",
    matching!(),
    " AND q.parked_seq > $13 AND ($11 = 'discard' OR q.parked_seq = ",
    head!(),
    r#") AND q.intent IS DISTINCT FROM $11
    AND ($12 OR (q.intent IS NULL AND q.reason NOT IN ('releasing', 'torn')))
    ORDER BY q.parked_seq LIMIT $14 FOR UPDATE OF q SKIP LOCKED),
marked AS (UPDATE inbox_parked q SET intent = $11, intent_by = $15, intent_at = now()
    FROM picked k WHERE q.parked_seq = k.parked_seq RETURNING q.*),
written AS (INSERT INTO inbox_audit
    (who, what, why, consumer_ref, topic, partition, "offset", event_id, aggregate, event_type)
    SELECT $15, $11, $16, m.consumer_ref, p.topic, p.partition, m."offset", m.event_id, m.aggregate, m.event_type
    FROM marked m JOIN inbox_partitions p USING (partition_ref) ORDER BY m.partition_ref, m."offset", m.leader_epoch)
SELECT m.parked_seq, m."offset", m.partition_ref, m.aggregate_key, CASE $11 WHEN 'discard' THEN m."offset" ELSE
    (SELECT max(l."offset") FROM inbox_parked l
    WHERE l.partition_ref = m.partition_ref AND l.aggregate_key = m.aggregate_key) END AS last
FROM marked m ORDER BY m.parked_seq"#
);

/// $1 what, then one array a column. A release is done when its whole queue of then is gone.
const OUTCOMES: &str = r#"SELECT v.seq, q.parked_seq AS rest, q.reason, q.errors::jsonb -> -1 ->> 'error' AS error,
    CASE $1 WHEN 'discard' THEN coalesce(q.intent = 'discard', false)
    ELSE q.intent IS NOT NULL OR q.due_at IS NULL OR q.due_at <= now() END AS pending
FROM unnest($2::bigint[], $3::bigint[], $4::bigint[], $5::bytea[], $6::bigint[]) v(seq, last, partition_ref, aggregate_key, off)
JOIN inbox_parked q ON q.parked_seq = (SELECT m.parked_seq FROM inbox_parked m
    WHERE m.partition_ref = v.partition_ref AND m.aggregate_key = v.aggregate_key
    AND m."offset" BETWEEN v.off AND v.last ORDER BY m."offset", m.leader_epoch LIMIT 1)"#;

impl IntentSql for Postgres {
    fn intents() -> &'static IntentTexts {
        &TEXTS
    }

    async fn write_intents(
        conn: &mut PgConnection,
        (consumer, filter): (&str, &ParkedFilter),
        order: &IntentRequest,
        (after, max): (i64, u32),
    ) -> Result<Vec<Intended>, sqlx::Error> {
        let values = filter_values(
            consumer,
            filter,
            values![
                order.intent.as_str(),
                order.force,
                after,
                i64::from(max),
                &order.who,
                &order.why,
            ],
        );
        let rows = Self::fetch_all(conn, INTEND, &values).await?;
        rows.iter().map(read_intended).collect()
    }

    async fn find_intent_states(
        conn: &mut PgConnection,
        order: &IntentRequest,
        intended: &[Intended],
    ) -> Result<Vec<PgRow>, sqlx::Error> {
        sqlx::query(OUTCOMES)
            .bind(order.intent.as_str())
            .bind(column(intended, |i| i.seq))
            .bind(column(intended, |i| i.last))
            .bind(column(intended, |i| i.partition_ref))
            .bind(column(intended, |i| i.aggregate))
            .bind(column(intended, |i| i.offset))
            .fetch_all(on(conn))
            .await
    }
}

fn column<T>(intended: &[Intended], of: impl Fn(&Intended) -> T) -> Vec<T> {
    intended.iter().map(of).collect()
}
