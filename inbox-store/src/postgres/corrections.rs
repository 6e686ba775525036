//! The texts of corrections.

use sqlx::{PgConnection, Postgres};

use super::lanes::reached;
use crate::{
    flow::{
        SqlClient as _,
        corrections::{CorrectionSql, CorrectionTexts},
        values,
    },
    port::Correction,
};

pub(super) static TEXTS: CorrectionTexts = CorrectionTexts {
    rows: concat!(
        "SELECT p.partition_ref, p.topic_id, p.partition, p.watermark, p.owner, p.standstill,
    greatest(p.watermark, ",
        reached!("p"),
        ") AS reached,
    extract(epoch FROM now() - p.owner_seen)::double precision AS owner_seen_seconds,
    (SELECT count(*) FROM inbox_parked q WHERE q.partition_ref = p.partition_ref) AS parked,
    p.retired_at IS NOT NULL AS retired
FROM inbox_partitions p JOIN inbox_consumers c USING (consumer_ref)
WHERE c.consumer = $1 AND p.topic = $2 ORDER BY p.partition, p.partition_ref"
    ),
    standing: "SELECT epoch, watermark, lane_count, owner, retired_at IS NOT NULL AS retired,
    extract(epoch FROM now() - owner_seen)::double precision AS owner_seen_seconds
FROM inbox_partitions WHERE partition_ref = $1 FOR UPDATE",
    parked: "SELECT count(*) FROM inbox_parked WHERE partition_ref = $1",
    raise_lanes: "WITH k AS MATERIALIZED (SELECT lane FROM inbox_lanes WHERE partition_ref = $1 ORDER BY lane FOR UPDATE)
UPDATE inbox_lanes l SET epoch = $2, last_offset = greatest(l.last_offset, $3), slot = greatest(l.last_offset, $3) >> 8,
    last_leader_epoch = CASE WHEN l.last_offset < $3 THEN -1 ELSE l.last_leader_epoch END
FROM k WHERE l.partition_ref = $1 AND l.lane = k.lane",
    skip: "UPDATE inbox_partitions SET epoch = $2, key_epoch = key_epoch - epoch + $2,
    id_scope_epoch = id_scope_epoch - epoch + $2, watermark = $3,
    watermark_leader_epoch = -1, record_next = -1, record_leader_epoch = -1, log_end_seen = NULL, standstill = NULL,
    owner = NULL, owner_instance = NULL, owner_incarnation = NULL, owner_seen = NULL WHERE partition_ref = $1",
    refence: "UPDATE inbox_partitions SET epoch = $2, key_epoch = key_epoch - epoch + $2,
    id_scope_epoch = id_scope_epoch - epoch + $2 WHERE partition_ref = $1",
    retire: "UPDATE inbox_partitions SET epoch = $2, key_epoch = key_epoch - epoch + $2,
    id_scope_epoch = id_scope_epoch - epoch + $2, retired_at = coalesce(retired_at, now()), standstill = NULL,
    owner = NULL, owner_instance = NULL, owner_incarnation = NULL, owner_seen = NULL WHERE partition_ref = $1",
    write: r#"INSERT INTO inbox_audit (who, what, why, consumer_ref, topic, partition, "offset")
SELECT $2, $3, $4, consumer_ref, topic, partition, $5 FROM inbox_partitions WHERE partition_ref = $1"#,
};

/// $1 partition, $2 who, $3 why, $4 at most.
const DISCARD: &str = r#"WITH gone AS (DELETE FROM inbox_parked WHERE parked_seq IN
    (SELECT q.parked_seq FROM inbox_parked q WHERE q.partition_ref = $1 ORDER BY q."offset", q.leader_epoch LIMIT $4)
    RETURNING parked_seq, consumer_ref, partition_ref, "offset", event_id, aggregate, event_type),
freed AS (UPDATE inbox_events e SET parked = false, processed_at = now() FROM gone g
    WHERE e.consumer_ref = g.consumer_ref AND e.event_id = g.event_id
    AND NOT EXISTS (SELECT FROM inbox_parked x WHERE x.consumer_ref = g.consumer_ref
        AND x.event_id = g.event_id AND x.parked_seq NOT IN (SELECT parked_seq FROM gone)))
INSERT INTO inbox_audit (who, what, why, consumer_ref, topic, partition, "offset", event_id, aggregate, event_type)
SELECT $2, 'discard', $3, g.consumer_ref, p.topic, p.partition, g."offset", g.event_id, g.aggregate, g.event_type
FROM gone g JOIN inbox_partitions p USING (partition_ref) ORDER BY g."offset""#;

impl CorrectionSql for Postgres {
    fn corrections() -> &'static CorrectionTexts {
        &TEXTS
    }

    async fn discard(
        conn: &mut PgConnection,
        correction: &Correction,
        max: u32,
    ) -> Result<u64, sqlx::Error> {
        let Correction { partition_ref, who, why, .. } = correction;
        Self::execute(conn, DISCARD, values![*partition_ref, who, why, i64::from(max)]).await
    }
}
