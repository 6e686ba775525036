//! Looking, for `status` and `check`.

use outbox_core::internal::objects;
use sqlx::{Sqlite, SqliteConnection};

use crate::{
    flow, inspect,
    port::{Finding, Inspections, OldSnapshot, PartitionRow, RoleKind, Schemas},
};

const PARTITIONS: &str = r#"SELECT p.topic, p.topic_id, p."partition", p.watermark, p.epoch, p.lane_count, p.lane_rule, p.next_lane_count, p.next_lane_rule, p.id_scope_epoch IS NOT NULL AS within_topic, p.owner, p.standstill, p.held_lanes,
    max(p.watermark, coalesce((SELECT max(l.last_offset) + 1 FROM inbox_lanes l WHERE l.partition_ref = p.partition_ref), 0)) AS reached,
    unixepoch('subsec') - p.owner_seen / 1000.0 AS owner_seen_seconds,
    p.retired_at IS NOT NULL AS retired,
    (SELECT count(DISTINCT coalesce(joins, aggregate_key)) FROM inbox_parked q WHERE q.partition_ref = p.partition_ref) AS aggregates,
    (SELECT count(*) FROM inbox_parked q WHERE q.partition_ref = p.partition_ref) AS events,
    (SELECT count(joins) FROM inbox_parked q WHERE q.partition_ref = p.partition_ref) AS gaps
FROM inbox_partitions p JOIN inbox_consumers c USING (consumer_ref)
WHERE c.consumer = ?1 ORDER BY p.topic, p."partition", p.partition_ref"#;

const JOURNAL_MODE: &str = "PRAGMA journal_mode";
const SYNCHRONOUS: &str = "PRAGMA synchronous";
/// `PRAGMA synchronous`: 2 is FULL, 3 is EXTRA.
const SYNCHRONOUS_FULL: i64 = 2;

impl Inspections for Sqlite {
    async fn partitions(
        conn: &mut SqliteConnection,
        consumer: &str,
    ) -> Result<Vec<PartitionRow>, sqlx::Error> {
        let rows = sqlx::query(PARTITIONS).bind(consumer).fetch_all(conn).await?;
        rows.iter().map(flow::inspection::partition).collect()
    }

    /// Dead pages are in the log file, which ends when its readers do.
    async fn oldest_snapshot(
        _conn: &mut SqliteConnection,
    ) -> Result<Option<OldSnapshot>, sqlx::Error> {
        Ok(None)
    }

    async fn findings(conn: &mut SqliteConnection) -> Result<Vec<Finding>, sqlx::Error> {
        let mut findings = settings(conn).await?;
        findings.extend(inspect::schema(Self::version(conn).await?, Self::newest()));
        let wanted = inspect::inbox(&["lane", "partition_ref"]);
        let unsound = objects::unsound_in_file(conn, &wanted).await?;
        findings.extend(inspect::unsound(unsound));
        Ok(findings)
    }

    /// A file knows no roles.
    async fn rights(_conn: &mut SqliteConnection) -> Result<Option<Finding>, sqlx::Error> {
        Ok(None)
    }

    async fn appends(_conn: &mut SqliteConnection) -> Result<bool, sqlx::Error> {
        Ok(true)
    }

    fn grants(
        _schema: Option<&str>,
        _role: &str,
        _kind: RoleKind,
        _audit_ends: bool,
    ) -> Option<String> {
        None
    }
}

/// What the file's settings mean for the promise.
async fn settings(conn: &mut SqliteConnection) -> Result<Vec<Finding>, sqlx::Error> {
    let mut findings = Vec::new();
    let mode: String = sqlx::query_scalar(JOURNAL_MODE).fetch_one(&mut *conn).await?;
    if !mode.eq_ignore_ascii_case("wal") {
        findings.push(inspect::doubtful(format!(
            "the journal mode of the SQLite file is {mode}, not WAL: readers and the writer block \
             each other; put the file on a local file system"
        )));
    }
    let synchronous: i64 = sqlx::query_scalar(SYNCHRONOUS).fetch_one(conn).await?;
    if synchronous < SYNCHRONOUS_FULL {
        findings.push(inspect::fatal(
            "PRAGMA synchronous is below FULL: a power failure can lose committed transactions; \
             remove the setting from the URL",
        ));
    }
    Ok(findings)
}
