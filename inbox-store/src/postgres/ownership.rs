//! The texts of ownership.

use inbox_engine::{Cut, NextOffset, Rule, Statement};
use sqlx::{PgConnection, Postgres};

use super::{release, sent::on, watermarks};
use crate::{
    flow::{
        Dialect as _,
        ownership::{OwnershipSql, OwnershipTexts},
        values,
    },
    port::{Note, Scope, WatermarkMove, release::DueQueue},
};

static TEXTS: OwnershipTexts = OwnershipTexts {
    consumer: "SELECT consumer_ref, inbox_id FROM inbox_consumers WHERE consumer = $1",
    add_consumer: "INSERT INTO inbox_consumers (consumer) VALUES ($1) ON CONFLICT (consumer) DO NOTHING",
    name_inbox: None,
    partitions: "SELECT partition_ref, topic_id, lane_count, lane_rule, remapped_below, key_rule, key_epoch,
    id_scope_epoch IS NOT NULL AS within_topic,
    next_lane_count, next_lane_rule, epoch, watermark,
    watermark_leader_epoch, record_next, record_leader_epoch, log_end_seen,
    owner_instance, owner_incarnation, retired_at IS NOT NULL AS retired,
    extract(epoch FROM now() - owner_seen)::double precision AS owner_seen_seconds
FROM inbox_partitions WHERE consumer_ref = $1 AND topic = $2 AND partition = $3
ORDER BY partition_ref FOR UPDATE",
    first_start: "SELECT NOT EXISTS (SELECT FROM inbox_partitions WHERE consumer_ref = $1
    AND topic = $2 AND (created_at < now() - interval '10 minutes' OR retired_at IS NOT NULL)),
    (SELECT id_scope_epoch IS NOT NULL FROM inbox_partitions WHERE consumer_ref = $1 AND retired_at IS NULL LIMIT 1)",
    add_partition: "INSERT INTO inbox_partitions
    (consumer_ref, topic, topic_id, partition, lane_count, lane_rule, watermark, id_scope_epoch)
VALUES ($1, $2, $3, $4, $5, $6, $7, CASE WHEN $8 THEN 0 END) ON CONFLICT (consumer_ref, topic, topic_id, partition) DO NOTHING
RETURNING partition_ref",
    forget_start: "DELETE FROM inbox_partitions p WHERE partition_ref = $1 AND NOT EXISTS
    (SELECT FROM inbox_lanes l WHERE l.partition_ref = $1 AND l.last_offset >= p.watermark)",
    own: "UPDATE inbox_partitions SET epoch = $2, owner = $3, owner_instance = $4,
    owner_incarnation = $5, owner_seen = now(), topic_id = $6, lane_count = $7, lane_rule = $8,
    remapped_below = $9, key_rule = $10, key_epoch = CASE WHEN $11 THEN $2::bigint END,
    id_scope_epoch = id_scope_epoch - epoch + $2, next_lane_count = $12, next_lane_rule = $13, retired_at = NULL, standstill = NULL, held_lanes = NULL WHERE partition_ref = $1",
    stand_still: "UPDATE inbox_partitions SET standstill = $2,
    log_end_seen = least(log_end_seen, $3) WHERE partition_ref = $1",
    watermark: Statement::new(
    "UPDATE inbox_partitions w SET watermark = $4, watermark_leader_epoch = $5, owner_seen = now(),
    record_next = $7, record_leader_epoch = $8,
    log_end_seen = CASE WHEN $4 > $3 THEN NULL ELSE log_end_seen END
WHERE w.partition_ref = $1 AND w.epoch = $2 AND w.watermark = $3 AND w.watermark <= $4
AND NOT EXISTS (SELECT FROM unnest($6::bigint[]) WITH ORDINALITY x(off, i)
    LEFT JOIN inbox_lanes l ON l.partition_ref = $1 AND l.lane = x.i - 1
    WHERE l.epoch IS DISTINCT FROM $2 OR l.last_offset < x.off)",
    &[
        Cut::new(
            Rule::WatermarkCas,
            " AND w.epoch = $2 AND w.watermark = $3 AND w.watermark <= $4",
            "",
        ),
        Cut::new(
            Rule::WatermarkChecksLanes,
            "AND NOT EXISTS (SELECT FROM unnest($6::bigint[]) WITH ORDINALITY x(off, i)
    LEFT JOIN inbox_lanes l ON l.partition_ref = $1 AND l.lane = x.i - 1
    WHERE l.epoch IS DISTINCT FROM $2 OR l.last_offset < x.off)",
            "",
        ),
    ],
),
};

/// $1 partitions, $2 their epochs. Locked in order, as by everybody who waits for several of them.
const DISOWN: &str = "WITH k AS MATERIALIZED (SELECT p.partition_ref FROM inbox_partitions p
    JOIN unnest($1::bigint[], $2::bigint[]) x(ref, epoch) ON p.partition_ref = x.ref AND p.epoch = x.epoch
    ORDER BY p.partition_ref FOR NO KEY UPDATE OF p)
UPDATE inbox_partitions w SET owner = NULL, owner_instance = NULL,
    owner_incarnation = NULL, owner_seen = NULL FROM k WHERE w.partition_ref = k.partition_ref";

/// $1 partitions, $2 their epochs, $3 texts. Locked in order, as by everybody who waits for several of them.
macro_rules! write_words {
    ($column:literal) => {
        concat!(
            "WITH k AS MATERIALIZED (SELECT p.partition_ref, x.said FROM inbox_partitions p
    JOIN unnest($1::bigint[], $2::bigint[], $3::text[]) x(ref, epoch, said)
        ON p.partition_ref = x.ref AND p.epoch = x.epoch
    ORDER BY p.partition_ref FOR NO KEY UPDATE OF p)
UPDATE inbox_partitions w SET ",
            $column,
            " = k.said FROM k WHERE w.partition_ref = k.partition_ref"
        )
    };
}
const WRITE_STANDSTILLS: &str = write_words!("standstill");
const WRITE_HELD_LANES: &str = write_words!("held_lanes");

impl OwnershipSql for Postgres {
    fn ownership() -> &'static OwnershipTexts {
        &TEXTS
    }

    async fn watermarks(
        conn: &mut PgConnection,
        changes: &[(Scope, WatermarkMove)],
    ) -> Result<Vec<bool>, sqlx::Error> {
        watermarks::write(conn, changes).await
    }

    async fn let_go(conn: &mut PgConnection, scopes: &[Scope]) -> Result<(), sqlx::Error> {
        let (partitions, epochs): (Vec<i64>, Vec<i64>) =
            scopes.iter().map(|scope| (scope.partition_ref, scope.epoch.0)).unzip();
        Self::execute(conn, DISOWN, values![&partitions, &epochs]).await.map(drop)
    }

    async fn due(
        conn: &mut PgConnection,
        looks: &[(Scope, NextOffset)],
        max: i64,
    ) -> Result<Vec<Vec<DueQueue>>, sqlx::Error> {
        release::find_due(conn, looks, max).await
    }

    async fn words(
        conn: &mut PgConnection,
        note: Note,
        words: &[(Scope, Option<String>)],
    ) -> Result<(), sqlx::Error> {
        let text = match note {
            Note::Standstill => WRITE_STANDSTILLS,
            Note::HeldLanes => WRITE_HELD_LANES,
        };
        let (partitions, epochs): (Vec<i64>, Vec<i64>) =
            words.iter().map(|(scope, _)| (scope.partition_ref, scope.epoch.0)).unzip();
        let words: Vec<Option<&str>> = words.iter().map(|(_, words)| words.as_deref()).collect();
        let query = sqlx::query(text).bind(partitions).bind(epochs).bind(words);
        query.execute(on(conn)).await.map(drop)
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn each_rule_is_in_its_statement() {
        super::TEXTS.watermark.check();
    }
}
