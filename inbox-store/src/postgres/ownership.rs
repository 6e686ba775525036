//! The texts of ownership.

use inbox_engine::internal::{LeaderEpoch, NextOffset};
use sqlx::{PgConnection, Postgres};

use super::{release, sent::on};
use crate::{
    flow::{
        SqlClient as _,
        ownership::{OwnershipSql, OwnershipTexts},
        values,
    },
    port::{Note, Scope, WatermarkMove, release::DueQueue},
};

/// The slot of a row that is written now.
macro_rules! slot_now {
    () => {
        "(date_part('epoch', now())::bigint >> 7)"
    };
}
/// The slot that the row of this partition has, or one below it: what an open snapshot keeps of the row in lower ones
/// is not read. Its owner writes it every few seconds, so that it is in this slot or in the one before; of a row that
/// nobody has written for longer every version is read.
macro_rules! recent {
    ($partition:literal) => {
        concat!(
            "coalesce((SELECT ",
            slot_now!(),
            " - 1 FROM inbox_partitions r WHERE r.partition_ref = ",
            $partition,
            " AND r.slot >= ",
            slot_now!(),
            " - 1 LIMIT 1), 0)"
        )
    };
}
pub(super) use {recent, slot_now};

pub(super) static TEXTS: OwnershipTexts = OwnershipTexts {
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
    first_start: "SELECT CASE WHEN count(retired_at) > 0 THEN 0
    ELSE coalesce(max(partitions_at_start), max(partition) + 1) END,
    (SELECT id_scope_epoch IS NOT NULL FROM inbox_partitions WHERE consumer_ref = $1 AND retired_at IS NULL LIMIT 1)
FROM inbox_partitions WHERE consumer_ref = $1 AND topic = $2",
    add_partition: "INSERT INTO inbox_partitions
    (consumer_ref, topic, topic_id, partition, lane_count, lane_rule, watermark, id_scope_epoch, partitions_at_start)
VALUES ($1, $2, $3, $4, $5, $6, $7, CASE WHEN $8 THEN 0 END, $9) ON CONFLICT (consumer_ref, topic, topic_id, partition) DO NOTHING
RETURNING partition_ref",
    forget_start: "DELETE FROM inbox_partitions p WHERE partition_ref = $1 AND NOT EXISTS
    (SELECT FROM inbox_lanes l WHERE l.partition_ref = $1 AND l.last_offset >= p.watermark)",
    own: concat!(
        "UPDATE inbox_partitions SET slot = greatest(slot, ",
        slot_now!(),
        "), epoch = $2, owner = $3, owner_instance = $4,
    owner_incarnation = $5, owner_seen = now(), topic_id = $6, lane_count = $7, lane_rule = $8,
    remapped_below = $9, key_rule = $10, key_epoch = CASE WHEN $11 THEN $2::bigint END,
    id_scope_epoch = id_scope_epoch - epoch + $2, next_lane_count = $12, next_lane_rule = $13, retired_at = NULL, standstill = NULL, held_lanes = NULL WHERE partition_ref = $1"
    ),
    stand_still: "UPDATE inbox_partitions SET standstill = $2,
    log_end_seen = least(log_end_seen, $3) WHERE partition_ref = $1",
    watermark: concat!(
        "UPDATE inbox_partitions w SET slot = greatest(w.slot, ",
        slot_now!(),
        "), watermark = $4, watermark_leader_epoch = $5, owner_seen = now(),
    record_next = $7, record_leader_epoch = $8,
    log_end_seen = CASE WHEN $4 > $3 THEN NULL ELSE log_end_seen END
WHERE w.partition_ref = $1 AND w.slot >= ",
        recent!("$1"),
        " AND w.epoch = $2 AND w.watermark = $3 AND w.watermark <= $4
AND NOT EXISTS (SELECT FROM unnest($6::bigint[]) WITH ORDINALITY x(off, i)
    LEFT JOIN inbox_lanes l ON l.partition_ref = $1 AND l.lane = x.i - 1 AND l.slot >= x.off >> 8
    WHERE l.epoch IS DISTINCT FROM $2 OR l.last_offset < x.off)"
    ),
};

/// One array a column: $1 partition, $2 epoch, $3 old, $4 new, $5 leader epoch, $6 and $7 the first and the
/// last of its numbers in $8, expected; $9 behind the last record, $10 its leader epoch. What somebody has locked is left out. Each lane is
/// looked for by itself, which its limit sees to: a join would read all versions that a snapshot keeps.
pub(super) const WATERMARKS: &str = concat!(
    "WITH x AS MATERIALIZED (SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[],
    $5::integer[], $6::integer[], $7::integer[], $9::bigint[], $10::integer[])
    x(ref, epoch, old, new, leader_epoch, first, last, record_next, record_leader_epoch)),
fit AS MATERIALIZED (SELECT * FROM x WHERE (SELECT count(*) FROM generate_series(x.first, x.last) i, LATERAL
    (SELECT FROM inbox_lanes l WHERE l.partition_ref = x.ref AND l.lane = i - x.first
        AND l.slot >= ($8::bigint[])[i] >> 8 AND l.epoch = x.epoch AND l.last_offset >= ($8::bigint[])[i] LIMIT 1) l) = x.last - x.first + 1),
k AS MATERIALIZED (SELECT w.partition_ref, w.place FROM (SELECT * FROM fit ORDER BY ref) x, LATERAL
    (SELECT w.partition_ref, w.ctid AS place FROM inbox_partitions w WHERE w.partition_ref = x.ref AND w.slot >= ",
    recent!("x.ref"),
    " AND w.epoch = x.epoch AND w.watermark = x.old AND w.watermark <= x.new LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED) w)
UPDATE inbox_partitions w SET slot = greatest(w.slot, ",
    slot_now!(),
    "), watermark = x.new, watermark_leader_epoch = x.leader_epoch, owner_seen = now(),
    record_next = x.record_next, record_leader_epoch = x.record_leader_epoch,
    log_end_seen = CASE WHEN x.new > x.old THEN NULL ELSE w.log_end_seen END
FROM fit x JOIN k ON k.partition_ref = x.ref WHERE w.ctid = k.place
RETURNING w.partition_ref"
);

/// $1 partitions, $2 their epochs. Locked in order, as by everybody who waits for several of them.
const DISOWN: &str = "WITH k AS MATERIALIZED (SELECT p.partition_ref FROM inbox_partitions p
    JOIN unnest($1::bigint[], $2::bigint[]) x(ref, epoch) ON p.partition_ref = x.ref AND p.epoch = x.epoch
    ORDER BY p.partition_ref FOR NO KEY UPDATE OF p)
UPDATE inbox_partitions w SET owner = NULL, owner_instance = NULL,
    owner_incarnation = NULL, owner_seen = NULL FROM k WHERE w.partition_ref = k.partition_ref";

/// $1 partitions, $2 their epochs, $3 texts. Locked in order, as by everybody who waits for several of them.
macro_rules! write_notes {
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
const WRITE_STANDSTILLS: &str = write_notes!("standstill");
const WRITE_HELD_LANES: &str = write_notes!("held_lanes");

impl OwnershipSql for Postgres {
    fn ownership() -> &'static OwnershipTexts {
        &TEXTS
    }

    async fn move_watermarks(
        conn: &mut PgConnection,
        changes: &[(Scope, WatermarkMove)],
    ) -> Result<Vec<bool>, sqlx::Error> {
        let of = |value: fn(&(Scope, WatermarkMove)) -> i64| -> Vec<i64> {
            changes.iter().map(value).collect()
        };
        let epochs = |value: fn(&WatermarkMove) -> LeaderEpoch| -> Vec<i32> {
            changes.iter().map(|(_, change)| value(change).0).collect()
        };
        let (firsts, lasts): (Vec<i32>, Vec<i32>) = ranges(changes).unzip();
        let expected: Vec<i64> =
            changes.iter().flat_map(|(_, change)| &change.expected).copied().collect();
        let moved: Vec<i64> = sqlx::query_scalar(WATERMARKS)
            .bind(of(|(scope, _)| scope.partition_ref))
            .bind(of(|(scope, _)| scope.epoch.0))
            .bind(of(|(_, change)| change.old.0))
            .bind(of(|(_, change)| change.new.0))
            .bind(epochs(|change| change.leader_epoch))
            .bind(firsts)
            .bind(lasts)
            .bind(expected)
            .bind(of(|(_, change)| change.record.next.0))
            .bind(epochs(|change| change.record.leader_epoch))
            .fetch_all(on(conn))
            .await?;
        Ok(changes.iter().map(|(scope, _)| moved.contains(&scope.partition_ref)).collect())
    }

    async fn let_go(conn: &mut PgConnection, scopes: &[Scope]) -> Result<(), sqlx::Error> {
        let (partitions, epochs): (Vec<i64>, Vec<i64>) =
            scopes.iter().map(|scope| (scope.partition_ref, scope.epoch.0)).unzip();
        Self::execute(conn, DISOWN, values![&partitions, &epochs]).await.map(drop)
    }

    async fn find_queues(
        conn: &mut PgConnection,
        looks: &[(Scope, NextOffset)],
        max: i64,
    ) -> Result<Vec<Vec<DueQueue>>, sqlx::Error> {
        release::find_due(conn, looks, max).await
    }

    async fn put_notes(
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

/// Where the lanes of each partition are in the array of all: the first and the last, from 1.
fn ranges(changes: &[(Scope, WatermarkMove)]) -> impl Iterator<Item = (i32, i32)> {
    changes.iter().scan(0, |end, (_, change)| {
        let first = *end + 1;
        *end += i32::try_from(change.expected.len()).unwrap_or(i32::MAX);
        Some((first, *end))
    })
}
