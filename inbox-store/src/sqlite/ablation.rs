//! What of SQLite's statements enforces which rule. `cargo xtask ablate` switches each rule off.

use futures::{
    FutureExt as _, StreamExt as _,
    future::{self, BoxFuture},
    stream::{self, BoxStream},
};
use inbox_engine::internal::{
    Rule,
    ablation::{Cut, Row, Table},
};
use sqlx::{
    Describe, Either, Error, Execute, Executor, SqlStr, Sqlite, SqliteConnection,
    sqlite::{SqliteQueryResult, SqliteRow, SqliteStatement, SqliteTypeInfo},
};

use super::{claim, corrections, ownership, release, retention, versions};
use crate::parts::Parts;

static TABLE: Table = Table::new(ROWS);

/// A skip and a retirement raise it.
const PARTITION_EPOCH: &[Cut] = &[Cut::new(
    Rule::CorrectionRaisesEpoch,
    "epoch = ?2, key_epoch = key_epoch - epoch + ?2,
    id_scope_epoch = id_scope_epoch - epoch + ?2",
    "epoch = epoch + 0 * ?2",
)];

static ROWS: &[Row] = &[
    (
        claim::CLAIM,
        &[
            Cut::new(
                Rule::Inbox,
                "CROSS JOIN inbox_events e ON e.consumer_ref",
                "CROSS JOIN inbox_events e ON 0 AND e.consumer_ref",
            ),
            Cut::new(Rule::ConsumerScope, "e.consumer_ref = ?1 ", "e.consumer_ref = ?1 * 0 "),
            Cut::new(Rule::ConsumerScope, "SELECT ?1,", "SELECT ?1 * 0,"),
            Cut::new(
                Rule::HeldReadInClaim,
                "(SELECT 1 FROM inbox_parked q WHERE q.partition_ref = ?2 AND q.aggregate_key = substr(?5, value * 16 + 1, 16))",
                "(SELECT 1 WHERE false)",
            ),
            Cut::new(
                Rule::LanesAtClaim,
                "WHERE l.epoch = ?8 AND l.last_offset = v.value ->> 1",
                "",
            ),
        ],
    ),
    (
        claim::RECHECK,
        &[
            Cut::new(Rule::ConsumerScope, "e.consumer_ref = ?1 ", "e.consumer_ref = ?1 * 0 "),
            Cut::new(
                Rule::DuplicatesRereadLanes,
                "WHERE l.epoch = ?6 AND l.last_offset = v.value ->> 1",
                "",
            ),
        ],
    ),
    (
        claim::ADVANCE,
        &[
            Cut::new(Rule::EpochAtAdvance, " AND l.epoch = ?3", ""),
            Cut::new(Rule::PrevAtAdvance, " AND l.last_offset = v.prev", ""),
        ],
    ),
    (
        versions::ADVANCE,
        &[
            Cut::new(Rule::ConsumerScope, "SELECT ?4,", "SELECT ?4 * 0,"),
            Cut::new(
                Rule::VersionsCompared,
                "WHERE inbox_versions.version = excluded.previous",
                "",
            ),
            Cut::new(Rule::GapsWoken, "WHERE parked_seq IN", "WHERE false AND parked_seq IN"),
        ],
    ),
    (
        corrections::TEXTS.raise_lanes,
        &[
            Cut::new(
                Rule::CorrectionRaisesEpoch,
                "SET epoch = ?2, ",
                "SET epoch = epoch + 0 * ?2, ",
            ),
            Cut::new(Rule::SkipOnlyRaises, "max(last_offset, ?3)", "?3"),
            Cut::new(
                Rule::SkipForgetsLeaderEpoch,
                "CASE WHEN last_offset < ?3 THEN -1 ELSE last_leader_epoch END",
                "last_leader_epoch",
            ),
        ],
    ),
    (corrections::TEXTS.skip, PARTITION_EPOCH),
    (corrections::TEXTS.retire, PARTITION_EPOCH),
    (
        ownership::TEXTS.watermark,
        &[
            Cut::new(
                Rule::WatermarkCas,
                " AND w.epoch = ?2 AND w.watermark = ?3 AND w.watermark <= ?4",
                "",
            ),
            Cut::new(
                Rule::WatermarkChecksLanes,
                "AND NOT EXISTS (SELECT 1 FROM json_each(?6) x
    LEFT JOIN inbox_lanes l ON l.partition_ref = ?1 AND l.lane = x.key
    WHERE l.epoch IS NOT ?2 OR l.last_offset < x.value)",
                "",
            ),
        ],
    ),
    (
        release::TEXTS.queue,
        &[
            Cut::new(
                Rule::ReleaseInOrder,
                "))\nORDER BY q.\"offset\", q.leader_epoch",
                "))\nORDER BY q.\"offset\" DESC",
            ),
            Cut::new(
                Rule::QueueByOffset,
                "))\nORDER BY q.\"offset\", q.leader_epoch",
                "))\nORDER BY q.parked_seq",
            ),
        ],
    ),
    (release::TEXTS.promote, &[Cut::new(Rule::ReleasePromotes, "due_at IS NULL AND", "false AND")]),
    (retention::LOOK, &[Cut::new(Rule::PruneByDatabaseClock, "- ?3", "- ?3 + 3155760000000")]),
    (
        retention::PRUNE,
        &[
            Cut::new(
                Rule::ConsumerScope,
                "+i.consumer_ref = (SELECT consumer_ref FROM inbox_consumers WHERE consumer = ?1)",
                "true",
            ),
            Cut::new(Rule::PruneSparesParked, "AND NOT i.parked", ""),
            Cut::new(
                Rule::PruneBelowWatermark,
                r#"AND (i."offset" < w.watermark OR w.retired_at IS NOT NULL)"#,
                "",
            ),
            // A process whose clock runs ahead.
            Cut::new(Rule::PruneByDatabaseClock, "- ?4", "- ?4 + 3155760000000"),
        ],
    ),
];

/// A statement without the rules that are off.
fn without_rules(query: Parts<Sqlite>) -> Parts<Sqlite> {
    match TABLE.replacement(query.sql.as_str()) {
        Some(text) => Parts { sql: SqlStr::from_static(text), ..query },
        None => query,
    }
}

/// The session as an executor that sends statements without the rules that are off.
pub(super) fn on(conn: &mut SqliteConnection) -> On<'_> {
    On(conn)
}

/// See [`on`].
#[derive(Debug)]
pub(super) struct On<'c>(&'c mut SqliteConnection);

impl<'c> Executor<'c> for On<'c> {
    type Database = Sqlite;

    fn fetch_many<'e, 'q: 'e, E>(
        self,
        query: E,
    ) -> BoxStream<'e, Result<Either<SqliteQueryResult, SqliteRow>, Error>>
    where
        'c: 'e,
        E: 'q + Execute<'q, Sqlite>,
    {
        match Parts::of(query) {
            Ok(query) => self.0.fetch_many(without_rules(query)),
            Err(error) => stream::iter([Err(error)]).boxed(),
        }
    }

    fn fetch_optional<'e, 'q: 'e, E>(
        self,
        query: E,
    ) -> BoxFuture<'e, Result<Option<SqliteRow>, Error>>
    where
        'c: 'e,
        E: 'q + Execute<'q, Sqlite>,
    {
        match Parts::of(query) {
            Ok(query) => self.0.fetch_optional(without_rules(query)),
            Err(error) => future::ready(Err(error)).boxed(),
        }
    }

    fn prepare_with<'e>(
        self,
        sql: SqlStr,
        parameters: &'e [SqliteTypeInfo],
    ) -> BoxFuture<'e, Result<SqliteStatement, Error>>
    where
        'c: 'e,
    {
        self.0.prepare_with(sql, parameters)
    }

    fn describe<'e>(self, sql: SqlStr) -> BoxFuture<'e, Result<Describe<Sqlite>, Error>>
    where
        'c: 'e,
    {
        self.0.describe(sql)
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
