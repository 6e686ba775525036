//! The texts of ownership. The transaction is the lock.

use inbox_engine::internal::NextOffset;
use sqlx::{Sqlite, SqliteConnection};

use super::release;
use crate::{
    flow::{
        SqlClient as _,
        ownership::{OwnershipSql, OwnershipTexts, watermark},
        values,
    },
    port::{Note, Scope, WatermarkMove, release::DueQueue},
};

pub(super) static TEXTS: OwnershipTexts = OwnershipTexts {
    consumer: "SELECT consumer_ref, inbox_id FROM inbox_consumers WHERE consumer = ?1",
    add_consumer: "INSERT INTO inbox_consumers (consumer, inbox_id) VALUES (?1, randomblob(16))
    ON CONFLICT (consumer) DO NOTHING",
    name_inbox: Some("UPDATE inbox_consumers SET inbox_id = randomblob(16) WHERE consumer = ?1 AND inbox_id IS NULL"),
    partitions: r#"SELECT partition_ref, topic_id, lane_count, lane_rule, remapped_below, key_rule, key_epoch,
    id_scope_epoch IS NOT NULL AS within_topic,
    next_lane_count, next_lane_rule, epoch, watermark,
    watermark_leader_epoch, record_next, record_leader_epoch, log_end_seen,
    owner_instance, owner_incarnation, retired_at IS NOT NULL AS retired,
    unixepoch('subsec') - owner_seen / 1000.0 AS owner_seen_seconds
FROM inbox_partitions WHERE consumer_ref = ?1 AND topic = ?2 AND "partition" = ?3
ORDER BY partition_ref"#,
    first_start: r#"SELECT CASE WHEN count(retired_at) > 0 THEN 0
    ELSE coalesce(max(partitions_at_start), max("partition") + 1) END,
    (SELECT id_scope_epoch IS NOT NULL FROM inbox_partitions WHERE consumer_ref = ?1 AND retired_at IS NULL LIMIT 1)
FROM inbox_partitions WHERE consumer_ref = ?1 AND topic = ?2"#,
    add_partition: r#"INSERT INTO inbox_partitions
    (consumer_ref, topic, topic_id, "partition", lane_count, lane_rule, watermark, id_scope_epoch, partitions_at_start)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, CASE WHEN ?8 THEN 0 END, ?9) ON CONFLICT (consumer_ref, topic, topic_id, "partition") DO NOTHING
RETURNING partition_ref"#,
    forget_start: "DELETE FROM inbox_partitions AS p WHERE partition_ref = ?1 AND NOT EXISTS
    (SELECT 1 FROM inbox_lanes l WHERE l.partition_ref = ?1 AND l.last_offset >= p.watermark)",
    own: "UPDATE inbox_partitions SET epoch = ?2, owner = ?3, owner_instance = ?4,
    owner_incarnation = ?5, owner_seen = CAST(unixepoch('subsec') * 1000 AS INTEGER), topic_id = ?6,
    lane_count = ?7, lane_rule = ?8, remapped_below = ?9, key_rule = ?10,
    key_epoch = CASE WHEN ?11 THEN ?2 END, id_scope_epoch = id_scope_epoch - epoch + ?2,
    next_lane_count = ?12, next_lane_rule = ?13, retired_at = NULL, standstill = NULL, held_lanes = NULL
WHERE partition_ref = ?1",
    stand_still: "UPDATE inbox_partitions SET standstill = ?2,
    log_end_seen = coalesce(min(log_end_seen, ?3), log_end_seen, ?3) WHERE partition_ref = ?1",
    watermark: "UPDATE inbox_partitions AS w SET watermark = ?4, watermark_leader_epoch = ?5,
    record_next = ?7, record_leader_epoch = ?8,
    log_end_seen = CASE WHEN ?4 > ?3 THEN NULL ELSE log_end_seen END,
    owner_seen = CAST(unixepoch('subsec') * 1000 AS INTEGER)
WHERE w.partition_ref = ?1 AND w.epoch = ?2 AND w.watermark = ?3 AND w.watermark <= ?4
AND NOT EXISTS (SELECT 1 FROM json_each(?6) x
    LEFT JOIN inbox_lanes l ON l.partition_ref = ?1 AND l.lane = x.key
    WHERE l.epoch IS NOT ?2 OR l.last_offset < x.value)",
};

/// ?1 partition, ?2 epoch.
const DISOWN: &str = "UPDATE inbox_partitions SET owner = NULL, owner_instance = NULL,
    owner_incarnation = NULL, owner_seen = NULL WHERE partition_ref = ?1 AND epoch = ?2";

/// ?1 partition, ?2 epoch, ?3 text.
const WRITE_STANDSTILL: &str =
    "UPDATE inbox_partitions SET standstill = ?3 WHERE partition_ref = ?1 AND epoch = ?2";
const WRITE_HELD_LANES: &str =
    "UPDATE inbox_partitions SET held_lanes = ?3 WHERE partition_ref = ?1 AND epoch = ?2";

impl OwnershipSql for Sqlite {
    fn ownership() -> &'static OwnershipTexts {
        &TEXTS
    }

    async fn move_watermarks(
        conn: &mut SqliteConnection,
        changes: &[(Scope, WatermarkMove)],
    ) -> Result<Vec<bool>, sqlx::Error> {
        // The writer is alone: what it cannot write is fenced.
        let mut written = Vec::with_capacity(changes.len());
        for (scope, change) in changes {
            written.push(watermark::<Self>(conn, scope, change).await?);
        }
        Ok(written)
    }

    async fn let_go(conn: &mut SqliteConnection, scopes: &[Scope]) -> Result<(), sqlx::Error> {
        for scope in scopes {
            Self::execute(conn, DISOWN, values![scope.partition_ref, scope.epoch.0]).await?;
        }
        Ok(())
    }

    async fn find_queues(
        conn: &mut SqliteConnection,
        looks: &[(Scope, NextOffset)],
        max: i64,
    ) -> Result<Vec<Vec<DueQueue>>, sqlx::Error> {
        release::find_due(conn, looks, max).await
    }

    async fn put_notes(
        conn: &mut SqliteConnection,
        note: Note,
        words: &[(Scope, Option<String>)],
    ) -> Result<(), sqlx::Error> {
        let text = match note {
            Note::Standstill => WRITE_STANDSTILL,
            Note::HeldLanes => WRITE_HELD_LANES,
        };
        for (scope, words) in words {
            Self::execute(conn, text, values![scope.partition_ref, scope.epoch.0, words]).await?;
        }
        Ok(())
    }
}
