//! Looking, for `status` and `check`.

use sqlx::{PgConnection, Postgres, Row, postgres::PgRow};

use super::{
    lanes,
    sent::on,
    session::{begin_own, end_own},
};
use crate::{
    pipeline::port::{Finding, Inspections, PartitionRow, Schemas, Scope},
    store::inspect,
};

const PARTITIONS: &str =
    "SELECT p.topic, p.partition, p.watermark, p.epoch, p.lane_count, p.lane_rule, p.next_lane_count, p.next_lane_rule, p.owner, p.standstill,
    greatest(p.watermark, (SELECT max(l.last_offset) + 1 FROM inbox_lanes l WHERE l.partition_ref = p.partition_ref)) AS reached,
    extract(epoch FROM now() - p.owner_seen)::double precision AS owner_seen_seconds,
    p.retired_at IS NOT NULL AS retired, q.aggregates, q.events
FROM inbox_partitions p JOIN inbox_consumers c USING (consumer_ref)
CROSS JOIN LATERAL (SELECT count(DISTINCT aggregate_key) AS aggregates, count(*) AS events
    FROM inbox_parked WHERE partition_ref = p.partition_ref) q
WHERE c.consumer = $1 ORDER BY p.topic, p.partition, p.partition_ref";

/// $1 partition, $2 epoch, $3 reason.
/// $1 partitions, $2 their epochs, $3 reasons. Locked in order, as by everybody who waits for several of them.
const WRITE_STANDSTILLS: &str =
    "WITH k AS MATERIALIZED (SELECT p.partition_ref, x.reason FROM inbox_partitions p
    JOIN unnest($1::bigint[], $2::bigint[], $3::text[]) x(ref, epoch, reason)
        ON p.partition_ref = x.ref AND p.epoch = x.epoch
    ORDER BY p.partition_ref FOR NO KEY UPDATE OF p)
UPDATE inbox_partitions w SET standstill = k.reason FROM k WHERE w.partition_ref = k.partition_ref";

const SETTINGS: &str = "SELECT pg_is_in_recovery() AS replica,
    current_setting('server_version_num')::integer AS version,
    current_setting('fsync') AS fsync, current_setting('full_page_writes') AS full_page_writes,
    current_setting('synchronous_commit') AS synchronous_commit,
    current_setting('default_transaction_read_only') AS read_only, current_user::text AS role";

/// What the consumer does with its tables; one row for each privilege that is missing.
const MISSING_PRIVILEGES: &str = "SELECT t || ': ' || p || '; run as its owner: GRANT ' || p || ' ON ' || t || ' TO ' || quote_ident(current_user) FROM (VALUES
    ('inbox_schema_versions', 'SELECT'),
    ('inbox_consumers', 'SELECT'), ('inbox_consumers', 'INSERT'),
    ('inbox_partitions', 'SELECT'), ('inbox_partitions', 'INSERT'), ('inbox_partitions', 'UPDATE'),
    ('inbox_lanes', 'SELECT'), ('inbox_lanes', 'INSERT'), ('inbox_lanes', 'UPDATE'), ('inbox_lanes', 'DELETE'),
    ('inbox_events', 'SELECT'), ('inbox_events', 'INSERT'), ('inbox_events', 'UPDATE'), ('inbox_events', 'DELETE'),
    ('inbox_parked', 'SELECT'), ('inbox_parked', 'INSERT'), ('inbox_parked', 'UPDATE'), ('inbox_parked', 'DELETE'),
    ('inbox_audit', 'INSERT')
) v(t, p) WHERE NOT has_table_privilege(t, p)";

/// The same for the tables of the outbox.
const MISSING_PRIVILEGES_OF_OUTBOX: &str = "SELECT t || ': ' || p || '; run as its owner: GRANT ' || p || ' ON ' || t || ' TO ' || quote_ident(current_user) FROM (VALUES
    ('outbox_schema_versions', 'SELECT'), ('outbox_events', 'INSERT')
) v(t, p) WHERE NOT has_table_privilege(t, p)";

/// `pg_current_xact_id` is there since this version.
const VERSION_MIN: i32 = 130_000;

impl Inspections for Postgres {
    async fn partitions(
        conn: &mut PgConnection,
        consumer: &str,
    ) -> Result<Vec<PartitionRow>, sqlx::Error> {
        let rows = sqlx::query(PARTITIONS).bind(consumer).fetch_all(on(conn)).await?;
        rows.iter().map(partition).collect()
    }

    async fn findings(conn: &mut PgConnection) -> Result<Vec<Finding>, sqlx::Error> {
        let mut findings = settings(conn).await?;
        let version = Self::version(conn).await?;
        findings.extend(inspect::schema(version, Self::newest()));
        // An older schema lacks tables; that is the finding then.
        if version >= Some(Self::newest()) {
            findings.extend(missing_privileges(conn, MISSING_PRIVILEGES, "inbox").await?);
        }
        if outbox_core::schema_version(conn).await?.is_some() {
            findings
                .extend(missing_privileges(conn, MISSING_PRIVILEGES_OF_OUTBOX, "outbox").await?);
        }
        Ok(findings)
    }

    async fn write_standstills(
        conn: &mut PgConnection,
        words: &[(Scope, Option<String>)],
    ) -> Result<(), sqlx::Error> {
        let (partitions, epochs): (Vec<i64>, Vec<i64>) =
            words.iter().map(|(scope, _)| (scope.partition_ref, scope.epoch.0)).unzip();
        let reasons: Vec<Option<&str>> =
            words.iter().map(|(_, reason)| reason.as_deref()).collect();
        begin_own(conn).await?;
        let done = sqlx::query(WRITE_STANDSTILLS)
            .bind(partitions)
            .bind(epochs)
            .bind(reasons)
            .execute(on(conn))
            .await;
        end_own(conn, done).await.map(drop)
    }
}

async fn missing_privileges(
    conn: &mut PgConnection,
    query: &'static str,
    tables: &str,
) -> Result<Vec<Finding>, sqlx::Error> {
    let missing: Vec<String> = sqlx::query_scalar(query).fetch_all(on(conn)).await?;
    let told = |what: &String| {
        inspect::fatal(format!("the role lacks a privilege on a table of the {tables}, {what}"))
    };
    Ok(missing.iter().map(told).collect())
}

fn partition(row: &PgRow) -> Result<PartitionRow, sqlx::Error> {
    Ok(PartitionRow {
        topic: row.try_get("topic")?,
        partition: row.try_get("partition")?,
        watermark: row.try_get("watermark")?,
        reached: row.try_get("reached")?,
        epoch: row.try_get("epoch")?,
        lane_count: row.try_get("lane_count")?,
        lane_rule: row.try_get("lane_rule")?,
        next_lanes: lanes::waiting(row)?,
        owner: row.try_get("owner")?,
        owner_seen_seconds: row.try_get("owner_seen_seconds")?,
        parked_aggregates: row.try_get("aggregates")?,
        parked_events: row.try_get("events")?,
        standstill: row.try_get("standstill")?,
        retired: row.try_get("retired")?,
    })
}

/// What the server's settings mean for the promise.
async fn settings(conn: &mut PgConnection) -> Result<Vec<Finding>, sqlx::Error> {
    let row = sqlx::query(SETTINGS).fetch_one(on(conn)).await?;
    let on = |name| row.try_get::<String, _>(name).map(|value| value != "off");
    let mut findings = Vec::new();
    if row.try_get("replica")? {
        findings.push(inspect::fatal("this is a replica; let the URL name the primary"));
    }
    let version: i32 = row.try_get("version")?;
    if version < VERSION_MIN {
        findings.push(inspect::fatal(format!(
            "the server is PostgreSQL {}; the inbox needs 13 or later",
            version / 10_000
        )));
    }
    if !on("fsync")? {
        findings.push(inspect::doubtful(
            "fsync is off: a crash of the server can lose what it confirmed or destroy its files; \
             switch it on in postgresql.conf",
        ));
    }
    if !on("full_page_writes")? {
        findings.push(inspect::doubtful(
            "full_page_writes is off: a crash of the server can tear pages; switch it on unless the \
             file system writes them whole",
        ));
    }
    if !on("synchronous_commit")? {
        findings.push(inspect::doubtful(
            "synchronous_commit is off by default here: the inbox switches it on for its own \
             transactions, everything else may lose what was confirmed; switch it on",
        ));
    }
    if !on("read_only")? {
        let role: String = row.try_get("role")?;
        findings.push(inspect::fatal(format!(
            "sessions are not read-only by default, so that a handler which ends its transaction could \
             go on writing; run: ALTER ROLE {role} SET default_transaction_read_only = on"
        )));
    }
    Ok(findings)
}
