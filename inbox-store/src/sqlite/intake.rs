//! The texts of intakes. The transaction is the lock.

use sqlx::Sqlite;

use crate::flow::intake::{IntakeSql, IntakeTexts};

pub(super) static TEXTS: IntakeTexts = IntakeTexts {
    partition: r#"SELECT c.consumer_ref, p.partition_ref, p.epoch, p.lane_count, p.owner_incarnation, p.id_scope_epoch IS NOT NULL AS within_topic,
    CASE WHEN p.key_epoch IS NOT NULL THEN p.key_rule END AS key_rule
FROM inbox_consumers c JOIN inbox_partitions p ON p.consumer_ref = c.consumer_ref
WHERE c.consumer = ?1 AND p.topic = ?2 AND p."partition" = ?3 AND p.retired_at IS NULL
ORDER BY p.partition_ref DESC LIMIT 1"#,
    lock: "SELECT lane, epoch, last_offset FROM inbox_lanes
WHERE partition_ref = ?1 AND lane IN (SELECT value FROM json_each(?2)) AND ?3 IS NOT NULL ORDER BY lane",
    place: None,
    settle: "UPDATE inbox_partitions SET owner = ?2, owner_incarnation = ?3, owner_seen = CAST(unixepoch('subsec') * 1000 AS INTEGER),
    watermark = max(watermark, coalesce((SELECT max(l.last_offset) + 1 FROM inbox_lanes l WHERE l.partition_ref = ?1), 0))
WHERE partition_ref = ?1 AND retired_at IS NULL",
};

impl IntakeSql for Sqlite {
    fn intake() -> &'static IntakeTexts {
        &TEXTS
    }
}
