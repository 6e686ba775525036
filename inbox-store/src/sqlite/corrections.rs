//! The texts of corrections. The transaction is the lock.

use inbox_engine::internal::{Cut, Rule, Statement};
use sqlx::{Sqlite, SqliteConnection};

use crate::{
    flow::{
        Read as _, SqlClient as _,
        corrections::{CorrectionSql, CorrectionTexts},
        values,
    },
    json::numbers,
    port::Correction,
};

static TEXTS: CorrectionTexts = CorrectionTexts {
    rows: r#"SELECT p.partition_ref, p.topic_id, p."partition", p.watermark, p.owner, p.standstill,
    max(p.watermark, coalesce((SELECT max(l.last_offset) + 1 FROM inbox_lanes l WHERE l.partition_ref = p.partition_ref), 0)) AS reached,
    unixepoch('subsec') - p.owner_seen / 1000.0 AS owner_seen_seconds,
    (SELECT count(*) FROM inbox_parked q WHERE q.partition_ref = p.partition_ref) AS parked,
    p.retired_at IS NOT NULL AS retired
FROM inbox_partitions p JOIN inbox_consumers c USING (consumer_ref)
WHERE c.consumer = ?1 AND p.topic = ?2 ORDER BY p."partition", p.partition_ref"#,
    standing: "SELECT epoch, watermark, lane_count, owner, retired_at IS NOT NULL AS retired,
    unixepoch('subsec') - owner_seen / 1000.0 AS owner_seen_seconds
FROM inbox_partitions WHERE partition_ref = ?1",
    parked: "SELECT count(*) FROM inbox_parked WHERE partition_ref = ?1",
    raise_lanes: Statement::new(
    "UPDATE inbox_lanes SET epoch = ?2, last_offset = max(last_offset, ?3),
    last_leader_epoch = CASE WHEN last_offset < ?3 THEN -1 ELSE last_leader_epoch END
WHERE partition_ref = ?1",
    &[
        Cut::new(Rule::CorrectionRaisesEpoch, "SET epoch = ?2, ", "SET epoch = epoch + 0 * ?2, "),
        Cut::new(Rule::SkipOnlyRaises, "max(last_offset, ?3)", "?3"),
        Cut::new(
            Rule::SkipForgetsLeaderEpoch,
            "CASE WHEN last_offset < ?3 THEN -1 ELSE last_leader_epoch END",
            "last_leader_epoch",
        ),
    ],
),
    skip: Statement::new(
    "UPDATE inbox_partitions SET epoch = ?2, key_epoch = key_epoch - epoch + ?2,
    id_scope_epoch = id_scope_epoch - epoch + ?2, watermark = ?3,
    watermark_leader_epoch = -1, record_next = -1, record_leader_epoch = -1, log_end_seen = NULL, standstill = NULL,
    owner = NULL, owner_instance = NULL, owner_incarnation = NULL, owner_seen = NULL WHERE partition_ref = ?1",
    &[Cut::new(
        Rule::CorrectionRaisesEpoch,
        "epoch = ?2, key_epoch = key_epoch - epoch + ?2,
    id_scope_epoch = id_scope_epoch - epoch + ?2",
        "epoch = epoch + 0 * ?2",
    )],
),
    refence: "UPDATE inbox_partitions SET epoch = ?2, key_epoch = key_epoch - epoch + ?2,
    id_scope_epoch = id_scope_epoch - epoch + ?2 WHERE partition_ref = ?1",
    retire: Statement::new(
    "UPDATE inbox_partitions SET epoch = ?2, key_epoch = key_epoch - epoch + ?2,
    id_scope_epoch = id_scope_epoch - epoch + ?2,
    retired_at = coalesce(retired_at, CAST(unixepoch('subsec') * 1000 AS INTEGER)), standstill = NULL,
    owner = NULL, owner_instance = NULL, owner_incarnation = NULL, owner_seen = NULL WHERE partition_ref = ?1",
    &[Cut::new(
        Rule::CorrectionRaisesEpoch,
        "epoch = ?2, key_epoch = key_epoch - epoch + ?2,
    id_scope_epoch = id_scope_epoch - epoch + ?2",
        "epoch = epoch + 0 * ?2",
    )],
),
    write: r#"INSERT INTO inbox_audit (who, what, why, consumer_ref, topic, "partition", "offset")
SELECT ?2, ?3, ?4, consumer_ref, topic, "partition", ?5 FROM inbox_partitions WHERE partition_ref = ?1"#,
};

/// ?1 partition, ?2 at most.
const PICK: &str = r#"SELECT parked_seq FROM inbox_parked WHERE partition_ref = ?1 ORDER BY "offset", leader_epoch LIMIT ?2"#;

/// ?1 numbers, ?2 who, ?3 why.
const WRITE_DISCARDED: &str = r#"INSERT INTO inbox_audit
    (who, what, why, consumer_ref, topic, "partition", "offset", event_id, aggregate, event_type)
SELECT ?2, 'discard', ?3, q.consumer_ref, p.topic, p."partition", q."offset", q.event_id, q.aggregate, q.event_type
FROM inbox_parked q JOIN inbox_partitions p USING (partition_ref)
WHERE q.parked_seq IN (SELECT value FROM json_each(?1)) ORDER BY q."offset""#;

/// ?1 numbers.
const FREE: &str = "UPDATE inbox_events AS e SET parked = 0,
    processed_at = CAST(unixepoch('subsec') * 1000 AS INTEGER)
FROM inbox_parked g WHERE g.parked_seq IN (SELECT value FROM json_each(?1))
AND e.consumer_ref = g.consumer_ref AND e.event_id = g.event_id
AND NOT EXISTS (SELECT 1 FROM inbox_parked x WHERE x.consumer_ref = g.consumer_ref
    AND x.event_id = g.event_id AND x.parked_seq NOT IN (SELECT value FROM json_each(?1)))";

/// ?1 numbers.
const DISCARD: &str =
    "DELETE FROM inbox_parked WHERE parked_seq IN (SELECT value FROM json_each(?1))";

impl CorrectionSql for Sqlite {
    fn corrections() -> &'static CorrectionTexts {
        &TEXTS
    }

    async fn discard(
        conn: &mut SqliteConnection,
        correction: &Correction,
        max: u32,
    ) -> Result<u64, sqlx::Error> {
        let Correction { partition_ref, who, why, .. } = correction;
        let picked = Self::fetch_all(conn, PICK, values![*partition_ref, i64::from(max)]).await?;
        let picked = picked.iter().map(|row| row.at(0)).collect::<Result<Vec<i64>, _>>()?;
        let seqs = numbers(picked);
        Self::execute(conn, WRITE_DISCARDED, values![&seqs, who, why]).await?;
        Self::execute(conn, FREE, values![&seqs]).await?;
        Self::execute(conn, DISCARD, values![&seqs]).await
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn each_rule_is_in_its_statement() {
        super::TEXTS.raise_lanes.check();
        super::TEXTS.retire.check();
        super::TEXTS.skip.check();
    }
}
