//! What of PostgreSQL's statements enforces which rule. `cargo xtask ablate` switches each rule off.

use inbox_engine::internal::{
    Rule,
    ablation::{Cut, Row, Table},
};
use sqlx::{Postgres, SqlStr};

use super::{claim, corrections, lanes, ownership, parking, release, retention, versions};
use crate::parts::Parts;

static TABLE: Table = Table::new(ROWS);

/// A skip and a retirement raise it.
const PARTITION_EPOCH: &[Cut] = &[Cut::new(
    Rule::CorrectionRaisesEpoch,
    "epoch = $2, key_epoch = key_epoch - epoch + $2,
    id_scope_epoch = id_scope_epoch - epoch + $2",
    "epoch = epoch + 0 * $2",
)];

/// What every claim of several events reads.
const HELD_READ: Cut = Cut::new(
    Rule::HeldReadInClaim,
    "(SELECT FROM inbox_parked q WHERE q.partition_ref = $2 AND q.aggregate_key = k)",
    "(SELECT WHERE false)",
);
const LANES_READ: Cut = Cut::new(
    Rule::LanesAtClaim,
    "JOIN unnest($7::integer[], $8::bigint[]) v(lane, prev) USING (lane)
        WHERE l.partition_ref = $2 AND l.slot = v.prev >> 8 AND l.epoch = $9 AND l.last_offset = v.prev",
    "WHERE l.partition_ref = $2 AND l.lane = ANY($7)",
);

const BY_SLOT_OF_PREV: Cut =
    Cut::new(Rule::LanesFoundBySlot, "l.slot = v.prev >> 8", "l.slot + 0 = v.prev >> 8");

static ROWS: &[Row] = &[
    (
        claim::CLAIM,
        &[
            Cut::new(Rule::Inbox, "ARRAY(SELECT event_id FROM ins)", "$3"),
            Cut::new(Rule::ConsumerScope, "SELECT $1,", "SELECT $1 * 0,"),
            Cut::new(Rule::ConsumerScope, "e.consumer_ref = $1 ", "e.consumer_ref = $1 * 0 "),
            HELD_READ,
            LANES_READ,
            BY_SLOT_OF_PREV,
        ],
    ),
    (
        claim::CLAIM_NEW,
        &[
            Cut::new(Rule::Inbox, " RETURNING 1", " ON CONFLICT DO NOTHING RETURNING 1"),
            Cut::new(Rule::Inbox, "(SELECT count(*) FROM ins)", "cardinality($3)::bigint"),
            Cut::new(Rule::ConsumerScope, "SELECT $1,", "SELECT $1 * 0,"),
            HELD_READ,
            LANES_READ,
            BY_SLOT_OF_PREV,
        ],
    ),
    (
        claim::CLAIM_ONE,
        &[
            Cut::new(Rule::Inbox, "EXISTS (SELECT FROM ins)", "true"),
            Cut::new(Rule::ConsumerScope, "VALUES ($1,", "VALUES ($1 * 0,"),
            Cut::new(
                Rule::HeldReadInClaim,
                "EXISTS (SELECT FROM inbox_parked q WHERE q.partition_ref = $2 AND q.aggregate_key = $6)",
                "false",
            ),
            Cut::new(Rule::LanesFoundBySlot, "l.slot = $8::bigint", "l.slot + 0 = $8::bigint"),
            Cut::new(Rule::LanesAtClaim, " AND l.slot = $8::bigint >> 8 AND l.epoch = $9 AND l.last_offset = $8", ""),
        ],
    ),
    (
        claim::RECHECK,
        &[
            Cut::new(Rule::ConsumerScope, "e.consumer_ref = $1 ", "e.consumer_ref = $1 * 0 "),
            Cut::new(
                Rule::DuplicatesRereadLanes,
                "JOIN unnest($4::integer[], $5::bigint[]) v(lane, prev) USING (lane)
        WHERE l.partition_ref = $2 AND l.slot = v.prev >> 8 AND l.epoch = $6 AND l.last_offset = v.prev",
                "WHERE l.partition_ref = $2 AND l.lane = ANY($4)",
            ),
        ],
    ),
    (
        claim::ADVANCE,
        &[
            Cut::new(
                Rule::EpochAtAdvance,
                "l.partition_ref = $1 AND l.epoch = $2",
                "l.partition_ref = $1",
            ),
            Cut::new(Rule::EpochAtAdvance, "l.lane = k.lane AND l.epoch = $2", "l.lane = k.lane"),
            BY_SLOT_OF_PREV,
            Cut::new(Rule::LanesFoundBySlot, "l.slot = k.prev >> 8", "l.slot + 0 = k.prev >> 8"),
            Cut::new(Rule::PrevAtAdvance, " AND l.slot = v.prev >> 8 AND l.last_offset = v.prev", ""),
            Cut::new(Rule::PrevAtAdvance, " AND l.slot = k.prev >> 8 AND l.last_offset = k.prev", ""),
            Cut::new(Rule::SameTransactionAtAdvance, "AND pg_current_xact_id()::text = $3", ""),
            Cut::new(Rule::LanesLockedInOrder, "ORDER BY l.lane FOR UPDATE OF l", ""),
        ],
    ),
    (
        claim::ADVANCE_ONE,
        &[
            Cut::new(Rule::EpochAtAdvance, " AND l.epoch = $2", ""),
            Cut::new(Rule::LanesFoundBySlot, "l.slot = $5::bigint", "l.slot + 0 = $5::bigint"),
            Cut::new(Rule::PrevAtAdvance, " AND l.slot = $5::bigint >> 8 AND l.last_offset = $5", ""),
            Cut::new(Rule::SameTransactionAtAdvance, "AND pg_current_xact_id()::text = $3", ""),
        ],
    ),
    (
        corrections::TEXTS.raise_lanes,
        &[
            Cut::new(
                Rule::CorrectionRaisesEpoch,
                "SET epoch = $2, ",
                "SET epoch = l.epoch + 0 * $2, ",
            ),
            Cut::new(
                Rule::SkipOnlyRaises,
                "last_offset = greatest(l.last_offset, $3), slot = greatest(l.last_offset, $3) >> 8",
                "last_offset = $3, slot = $3::bigint >> 8",
            ),
            Cut::new(
                Rule::SkipForgetsLeaderEpoch,
                "CASE WHEN l.last_offset < $3 THEN -1 ELSE l.last_leader_epoch END",
                "l.last_leader_epoch",
            ),
        ],
    ),
    (corrections::TEXTS.skip, PARTITION_EPOCH),
    (corrections::TEXTS.retire, PARTITION_EPOCH),
    (
        lanes::TEXTS.lock,
        &[Cut::new(Rule::LanesLockedInOrder, "ORDER BY lane FOR UPDATE", "FOR UPDATE")],
    ),
    (lanes::TEXTS.raise, &[Cut::new(Rule::LanesLockedInOrder, "ORDER BY lane FOR UPDATE", "")]),
    (
        ownership::TEXTS.watermark,
        &[
            Cut::new(
                Rule::WatermarkCas,
                " AND w.epoch = $2 AND w.watermark = $3 AND w.watermark <= $4",
                "",
            ),
            Cut::new(
                Rule::WatermarkChecksLanes,
                "AND NOT EXISTS (SELECT FROM unnest($6::bigint[]) WITH ORDINALITY x(off, i)
    LEFT JOIN inbox_lanes l ON l.partition_ref = $1 AND l.lane = x.i - 1 AND l.slot >= x.off >> 8
    WHERE l.epoch IS DISTINCT FROM $2 OR l.last_offset < x.off)",
                "",
            ),
        ],
    ),
    (
        ownership::WATERMARKS,
        &[
            Cut::new(
                Rule::WatermarkCas,
                " AND w.epoch = x.epoch AND w.watermark = x.old AND w.watermark <= x.new",
                "",
            ),
            Cut::new(
                Rule::WatermarkChecksLanes,
                " WHERE (SELECT count(*) FROM generate_series(x.first, x.last) i, LATERAL
    (SELECT FROM inbox_lanes l WHERE l.partition_ref = x.ref AND l.lane = i - x.first
        AND l.slot >= ($8::bigint[])[i] >> 8 AND l.epoch = x.epoch AND l.last_offset >= ($8::bigint[])[i] LIMIT 1) l) = x.last - x.first + 1",
                "",
            ),
        ],
    ),
    (
        versions::ADVANCE,
        &[
            Cut::new(Rule::ConsumerScope, "SELECT $9,", "SELECT $9 * 0,"),
            Cut::new(Rule::ConsumerScope, "w.consumer_ref = $9 AND", "w.consumer_ref = $9 * 0 AND"),
            Cut::new(Rule::VersionsCompared, " AND w.version = v.prev", ""),
            Cut::new(Rule::GapsWoken, "AND q.joins IS NOT NULL", "AND false"),
        ],
    ),
    (parking::PARK_ALONE, &[Cut::new(Rule::ParkedLimitLocked, " FOR NO KEY UPDATE", "")]),
    (
        release::TEXTS.queue,
        &[
            Cut::new(
                Rule::ReleaseInOrder,
                r#"ORDER BY q."offset", q.leader_epoch FOR UPDATE"#,
                r#"ORDER BY q."offset" DESC FOR UPDATE"#,
            ),
            Cut::new(
                Rule::QueueByOffset,
                r#"ORDER BY q."offset", q.leader_epoch FOR UPDATE"#,
                "ORDER BY q.parked_seq FOR UPDATE",
            ),
        ],
    ),
    (release::TEXTS.promote, &[Cut::new(Rule::ReleasePromotes, "due_at IS NULL AND", "false AND")]),
    (
        retention::PRUNE,
        &[
            Cut::new(Rule::ConsumerScope, "AND i.consumer_ref = c.consumer_ref", ""),
            Cut::new(Rule::PruneSparesParked, "AND NOT i.parked", ""),
            Cut::new(
                Rule::PruneBelowWatermark,
                r#"AND (i."offset" < w.watermark OR w.retired_at IS NOT NULL)"#,
                "",
            ),
            // A process whose clock runs ahead.
            Cut::new(
                Rule::PruneByDatabaseClock,
                "now() - make_interval",
                "now() + interval '100 years' - make_interval",
            ),
        ],
    ),
];

/// A statement without the rules that are off.
pub(super) fn without_rules(query: Parts<Postgres>) -> Parts<Postgres> {
    match TABLE.replacement(query.sql.as_str()) {
        Some(text) => Parts { sql: SqlStr::from_static(text), ..query },
        None => query,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_cut_fits_its_statement() {
        assert_eq!(TABLE.faults(), [""; 0]);
    }
}
