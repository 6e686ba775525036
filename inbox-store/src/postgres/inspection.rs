//! Looking, for `status` and `check`.

use outbox_core::internal::{
    objects,
    rights::{self, Right, right},
};
use sqlx::{PgConnection, Postgres, Row, postgres::PgRow};

use super::{lanes::reached, sent::on};
use crate::{
    flow, inspect,
    port::{Finding, Inspections, OldSnapshot, PartitionRow, RoleKind, Schemas},
};

const PARTITIONS: &str = concat!(
    "SELECT p.topic, p.topic_id, p.partition, p.watermark, p.epoch, p.lane_count, p.lane_rule, p.next_lane_count, p.next_lane_rule, p.id_scope_epoch IS NOT NULL AS within_topic, p.owner, p.standstill, p.held_lanes,
    greatest(p.watermark, ",
    reached!("p"),
    ") AS reached,
    extract(epoch FROM now() - p.owner_seen)::double precision AS owner_seen_seconds,
    p.retired_at IS NOT NULL AS retired, q.aggregates, q.events, q.gaps
FROM inbox_partitions p JOIN inbox_consumers c USING (consumer_ref)
CROSS JOIN LATERAL (SELECT count(DISTINCT coalesce(joins, aggregate_key)) AS aggregates, count(*) AS events, count(joins) AS gaps
    FROM inbox_parked WHERE partition_ref = p.partition_ref) q
WHERE c.consumer = $1 ORDER BY p.topic, p.partition, p.partition_ref"
);

/// Those of other databases keep nothing here; a replica that answers queries does, and so does a slot of one.
const OLDEST_SNAPSHOT: &str =
    "SELECT holder, extract(epoch FROM now() - since)::double precision AS seconds, held::bigint AS transactions
FROM (SELECT format('process %s of %s (%s)', pid, coalesce(usename, backend_type),
        concat_ws(', ', nullif(application_name, ''), state)) AS holder, xact_start AS since, age(backend_xmin) AS held
    FROM pg_stat_activity WHERE backend_xmin IS NOT NULL AND pid <> pg_backend_pid()
        AND coalesce(datname = current_database(), backend_type = 'walsender') AND backend_type <> 'autovacuum worker'
    UNION ALL SELECT format('replication slot %s', slot_name), NULL, age(xmin)
    FROM pg_replication_slots WHERE xmin IS NOT NULL
    UNION ALL SELECT format('prepared transaction %s', gid), prepared, age(transaction)
    FROM pg_prepared_xacts WHERE database = current_database()) open ORDER BY held DESC LIMIT 1";

const SETTINGS: &str = "SELECT pg_is_in_recovery() AS replica,
    current_setting('server_version_num')::integer AS version,
    current_setting('fsync') AS fsync, current_setting('full_page_writes') AS full_page_writes,
    current_setting('synchronous_commit') AS synchronous_commit,
    current_setting('default_transaction_read_only') AS read_only, current_user::text AS role";

/// What the consumer does with its tables.
const CONSUMER: &[Right] = &[
    right("inbox_schema_versions", &["SELECT"]),
    right("inbox_consumers", &["SELECT", "INSERT"]),
    right("inbox_partitions", &["SELECT", "INSERT", "UPDATE", "DELETE"]),
    right("inbox_lanes", &["SELECT", "INSERT", "UPDATE", "DELETE"]),
    right("inbox_events", &["SELECT", "INSERT", "UPDATE", "DELETE"]),
    right("inbox_parked", &["SELECT", "INSERT", "UPDATE", "DELETE"]),
    right("inbox_suspects", &["SELECT", "INSERT", "UPDATE", "DELETE"]),
    right("inbox_versions", &["SELECT", "INSERT", "UPDATE"]),
    right("inbox_audit", &["INSERT"]),
];

/// What it does besides if its handlers append.
const APPENDING: &[Right] =
    &[right("outbox_schema_versions", &["SELECT"]), right("outbox_events", &["INSERT"])];

/// What `retention.audit` does.
const AUDIT_ENDS: &[Right] = &[right("inbox_audit", &["DELETE"])];

/// What `parked show` and `parked audit` read.
const AUDIT: &[Right] = &[right("inbox_audit", &["SELECT"])];

/// What `check` compares the tables with.
const NUMBERS: &[Right] = &[
    right("inbox_audit_audit_seq_seq", &["SELECT"]),
    right("inbox_consumers_consumer_ref_seq", &["SELECT"]),
    right("inbox_parked_parked_seq_seq", &["SELECT"]),
    right("inbox_partitions_partition_ref_seq", &["SELECT"]),
];

const READER: &[Right] = &[
    right("inbox_schema_versions", &["SELECT"]),
    right("inbox_consumers", &["SELECT"]),
    right("inbox_partitions", &["SELECT"]),
    right("inbox_lanes", &["SELECT"]),
    right("inbox_parked", &["SELECT"]),
];

/// What `forget` does: it alone changes the audit.
const ERASER: &[Right] = &[
    right("inbox_schema_versions", &["SELECT"]),
    right("inbox_consumers", &["SELECT"]),
    right("inbox_partitions", &["SELECT", "UPDATE"]),
    right("inbox_parked", &["SELECT", "UPDATE"]),
    right("inbox_audit", &["SELECT", "INSERT", "UPDATE"]),
];

/// `pg_current_xact_id` is there since this version.
const VERSION_MIN: i32 = 130_000;

impl Inspections for Postgres {
    async fn partitions(
        conn: &mut PgConnection,
        consumer: &str,
    ) -> Result<Vec<PartitionRow>, sqlx::Error> {
        let rows = sqlx::query(PARTITIONS).bind(consumer).fetch_all(on(conn)).await?;
        rows.iter().map(flow::inspection::partition).collect()
    }

    async fn oldest_snapshot(conn: &mut PgConnection) -> Result<Option<OldSnapshot>, sqlx::Error> {
        let row = sqlx::query(OLDEST_SNAPSHOT).fetch_optional(on(conn)).await?;
        let read = |row: PgRow| {
            Ok(OldSnapshot {
                holder: row.try_get("holder")?,
                seconds: row.try_get("seconds")?,
                transactions: row.try_get("transactions")?,
            })
        };
        row.map(read).transpose()
    }

    async fn findings(conn: &mut PgConnection) -> Result<Vec<Finding>, sqlx::Error> {
        let mut findings = settings(conn).await?;
        let version = Self::version(conn).await?;
        findings.extend(inspect::schema(version, Self::newest()));
        findings.extend(Self::rights(conn).await?);
        let open = rights::open_schemas(on(conn), true).await?;
        findings.extend(open.map(inspect::doubtful));
        let wanted = inspect::inbox(&["lane", "partition_ref", "slot"]);
        let unsound = objects::unsound(on(conn), true, &wanted).await?;
        findings.extend(inspect::unsound(unsound));
        Ok(findings)
    }

    async fn rights(conn: &mut PgConnection) -> Result<Option<Finding>, sqlx::Error> {
        // A role that may not append has handlers that do not.
        let appending = if Self::appends(conn).await? { APPENDING } else { &[] };
        let Some(all) =
            rights::missing(on(conn), true, &[CONSUMER, appending, AUDIT, NUMBERS]).await?
        else {
            return Ok(None);
        };
        let fatal = rights::missing(on(conn), true, &[CONSUMER, appending]).await?.is_some();
        let text = format!("the role lacks privileges; run, as the owner of the tables: {all};");
        Ok(Some(Finding { fatal, text }))
    }

    async fn appends(conn: &mut PgConnection) -> Result<bool, sqlx::Error> {
        Ok(rights::missing(on(conn), true, &[rights::APPENDER]).await?.is_none())
    }

    fn grants(
        schema: Option<&str>,
        role: &str,
        kind: RoleKind,
        audit_ends: bool,
    ) -> Option<String> {
        let ends = if audit_ends { AUDIT_ENDS } else { &[] };
        let rights: &[&[Right]] = match kind {
            RoleKind::Consumer => &[CONSUMER, ends, AUDIT, NUMBERS],
            RoleKind::AppendingConsumer => {
                &[CONSUMER, ends, APPENDING, rights::KEYS, AUDIT, NUMBERS]
            }
            RoleKind::Relay => &[rights::RELAY, rights::ACTS, rights::NUMBERS],
            RoleKind::Appender => &[rights::APPENDER, rights::KEYS],
            RoleKind::Reader => &[READER, AUDIT, rights::READER],
            RoleKind::Eraser => &[ERASER],
        };
        Some(rights::grants(schema, role, rights))
    }
}

/// What the server's settings mean for the promise.
async fn settings(conn: &mut PgConnection) -> Result<Vec<Finding>, sqlx::Error> {
    let row = sqlx::query(SETTINGS).fetch_one(on(conn)).await?;
    let on = |name| row.try_get::<String, _>(name).map(|value| value != "off");
    let mut findings = Vec::new();
    if row.try_get("replica")? {
        findings.push(inspect::fatal("this is a replica; set the URL to the primary"));
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
            "fsync is off: a crash of the server can lose committed transactions or corrupt its \
             files; switch it on in postgresql.conf",
        ));
    }
    if !on("full_page_writes")? {
        findings.push(inspect::doubtful(
            "full_page_writes is off: a crash of the server can tear pages; switch it on unless \
             the file system writes pages atomically",
        ));
    }
    if !on("synchronous_commit")? {
        findings.push(inspect::doubtful(
            "synchronous_commit is off by default here: the inbox switches it on for its own \
             transactions, but other commits may be lost; switch it on",
        ));
    }
    if !on("read_only")? {
        let role: String = row.try_get("role")?;
        findings.push(inspect::fatal(format!(
            "sessions are not read-only by default, so a handler that ends its transaction could \
             keep writing; run: ALTER ROLE {role} SET default_transaction_read_only = on"
        )));
    }
    Ok(findings)
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, fs, path::Path};

    use super::{APPENDING, AUDIT, AUDIT_ENDS, CONSUMER, ERASER, rights::Right};

    /// What the statements of this folder do with the tables, `table VERB`. `migrate` is the owner's.
    fn done() -> BTreeSet<String> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/postgres");
        let files = fs::read_dir(folder).unwrap().map(|file| file.unwrap().path());
        let files = files.filter(|file| !file.ends_with("probe.rs"));
        let text: String = files.map(|file| fs::read_to_string(file).unwrap() + " ").collect();
        let words: Vec<&str> = text.split_whitespace().map(|word| word.trim_matches('"')).collect();
        let name = |word: &&str| {
            let end = word.find(|c: char| !c.is_ascii_lowercase() && c != '_');
            word[..end.unwrap_or(word.len())].to_owned()
        };
        let mut found = BTreeSet::new();
        for (at, pair) in words.windows(2).enumerate() {
            let table = name(&pair[1]);
            let verb = match pair[0].rsplit(['(', '"']).next().unwrap_or_default() {
                "INTO" => "INSERT",
                "UPDATE" => "UPDATE",
                "FROM" if at > 0 && words[at - 1].ends_with("DELETE") => "DELETE",
                "FROM" | "JOIN" | "USING" => "SELECT",
                _ => continue,
            };
            if table.starts_with("inbox_") && table != "inbox_schema_versions" {
                found.insert(format!("{table} {verb}"));
            }
            // An upsert.
            if verb == "INSERT" && words[at..].iter().take(60).any(|word| *word == "DO") {
                let upsert = words[at..].windows(2).take(60).any(|pair| pair == ["DO", "UPDATE"]);
                if upsert {
                    found.insert(format!("{table} UPDATE"));
                }
            }
        }
        found
    }

    fn given(rights: &[&[Right]]) -> BTreeSet<String> {
        let each = rights.iter().copied().flatten();
        let inbox =
            each.filter(|right| right.on.starts_with("inbox_") && !right.on.ends_with("_seq"));
        let inbox = inbox.filter(|right| right.on != "inbox_schema_versions");
        inbox
            .flat_map(|right| right.privileges.iter().map(|one| format!("{} {one}", right.on)))
            .collect()
    }

    #[test]
    fn the_rights_are_what_the_statements_do_and_no_more() {
        assert_eq!(given(&[CONSUMER, AUDIT, AUDIT_ENDS, ERASER]), done());
        let outbox = APPENDING.iter().all(|right| right.on.starts_with("outbox_"));
        assert!(outbox && CONSUMER.iter().all(|right| right.on.starts_with("inbox_")));
    }
}
