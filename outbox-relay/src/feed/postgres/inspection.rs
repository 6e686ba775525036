//! Looking, for metrics, and for what is wrong; and what the relay's role may do.

use outbox_core::internal::{keeps_statements, objects, rights};
use sqlx::{PgConnection, Postgres};

use crate::{
    feed::flow::{Read as _, SqlClient as _, inspection::InspectionSql},
    port::{FeedError, Finding, Rights},
};

const DURABILITY: &str = "SELECT current_setting('fsync'), current_setting('synchronous_commit')";

/// Tables whose trigger of `adopt`, which copies into our own, is not fired by all that comes in; and whether it is fired by anything.
const ADOPTED: &str = "SELECT t.tgrelid::regclass::text, t.tgenabled = 'O' FROM pg_trigger t
JOIN pg_proc p ON p.oid = t.tgfoid, pg_class o JOIN pg_namespace n ON n.oid = o.relnamespace
WHERE t.tgname = 'outbox_adopt' AND t.tgparentid = 0 AND o.oid = 'outbox_events'::regclass
    AND strpos(replace(p.prosrc, '\"', ''), ' ' || n.nspname || '.outbox_events') > 0 AND (t.tgenabled IN ('D', 'R') OR t.tgenabled = 'O' AND EXISTS (
    SELECT FROM pg_subscription_rel s WHERE s.srrelid = t.tgrelid
        OR s.srrelid IN (SELECT p.relid FROM pg_partition_tree(t.tgrelid) p)))";

/// The first parked rows of a state, and for how many seconds each waits. Not as a join: PostgreSQL may read the whole table
/// for that.
macro_rules! parked {
    ($columns:literal, $state:literal, $rows:literal) => {
        concat!(
            "SELECT ",
            $columns,
            ", (SELECT date_part('epoch', now()) - date_part('epoch', greatest(e.created_at, e.deliver_after))
        FROM outbox_events e WHERE e.seq = p.seq) AS waits
    FROM outbox_parked p WHERE state = '",
            $state,
            "' ORDER BY seq LIMIT ",
            $rows
        )
    };
}

impl InspectionSql for Postgres {
    /// Each look is at one index in its order, or at one row. 20,000 rows that wait take 3 ms.
    const READING: &'static str = concat!("SELECT least(20000, w.rows + y.rows) AS unsent, least(o.seq, r.seq) AS oldest,
    greatest(o.waits, r.waits, f.waits, s.waits, t.waits) AS oldest_waits, f.waits AS oldest_retry,
    (SELECT seq FROM outbox_events ORDER BY seq DESC LIMIT 1) AS newest,
    p.rows AS set_aside, f.rows AS retrying, s.rows AS delayed,
    t.topics AS without_topic, t.rows - t.topics AS without_destination, b.rows AS held, z.table_bytes, z.index_bytes,
    coalesce(date_part('epoch', l.lease_until) - date_part('epoch', now()), 0) AS lease
FROM (SELECT count(*) AS rows FROM (SELECT seq FROM outbox_events WHERE sent_at IS NULL AND parked_at IS NULL
    ORDER BY seq LIMIT 20000) w) w
CROSS JOIN (SELECT count(*) AS rows FROM (SELECT seq FROM outbox_parked WHERE state = 'ready' ORDER BY seq LIMIT 20000) y) y
CROSS JOIN (SELECT count(*) AS rows FROM (SELECT seq FROM outbox_parked WHERE state = 'parked' ORDER BY seq LIMIT 1000) p) p
CROSS JOIN (SELECT count(*) AS rows FROM (SELECT seq FROM outbox_parked WHERE state = 'behind' ORDER BY seq LIMIT 2000) b) b
CROSS JOIN (SELECT count(*) AS rows, max(waits) AS waits
    FROM (",
        parked!("seq", "retry", "1000"),
        ") f) f
CROSS JOIN (SELECT count(*) AS rows, max(waits) FILTER (WHERE due_at <= now()) AS waits
    FROM (",
        parked!("seq, due_at", "scheduled", "1000"),
        ") s) s
CROSS JOIN (SELECT count(*) AS rows, count(*) FILTER (WHERE destination LIKE 'kafka:%') AS topics,
        max(waits) AS waits
    FROM (",
        parked!("seq, destination", "waiting", "1000"),
        ") t) t
LEFT JOIN (SELECT seq, date_part('epoch', now()) - date_part('epoch', greatest(created_at, deliver_after)) AS waits
    FROM outbox_events WHERE sent_at IS NULL AND parked_at IS NULL ORDER BY seq LIMIT 1) o ON true
LEFT JOIN (",
        parked!("seq", "ready", "1"),
        ") r ON true
LEFT JOIN (SELECT lease_until FROM outbox_relays WHERE shards <> 0 ORDER BY lease_until NULLS FIRST LIMIT 1) l ON true
CROSS JOIN (SELECT sum(pg_table_size(oid))::bigint AS table_bytes, sum(pg_indexes_size(oid))::bigint AS index_bytes FROM (
    SELECT relid::oid AS oid FROM pg_partition_tree('outbox_events') UNION SELECT 'outbox_events'::regclass::oid) p) z");

    async fn doubts(session: &mut PgConnection) -> Result<Vec<Finding>, FeedError> {
        let row = Self::fetch_one(session, DURABILITY, &[]).await?;
        let (fsync, commit): (String, String) = (row.at(0)?, row.at(1)?);
        let mut found = Vec::new();
        if fsync == "off" {
            found.push(Finding {
                fatal: false,
                text: "the database runs with fsync = off: a crash of its machine may lose events \
                     and effects; set it to on"
                    .into(),
            });
        }
        if commit == "off" {
            found.push(Finding {
                fatal: false,
                text:
                    "synchronous_commit is off for the relay's user: a crash of the database may \
                     cause events to be sent a second time; set it to on"
                        .into(),
            });
        }
        let keeps = keeps_statements(session);
        let open = rights::open_schemas(&mut *session, keeps).await?;
        found.extend(open.map(|text| Finding { fatal: false, text }));
        let unsound = objects::unsound(&mut *session, keeps, objects::OUTBOX).await?;
        found.extend(unsound.into_iter().map(|text| Finding { fatal: false, text }));
        found.extend(adopted(session, keeps).await?);
        Ok(found)
    }
}

/// Whether the triggers of `adopt` copy what comes into their tables.
async fn adopted(session: &mut PgConnection, keeps: bool) -> Result<Vec<Finding>, FeedError> {
    let rows: Vec<(String, bool)> =
        sqlx::query_as(ADOPTED).persistent(keeps).fetch_all(session).await?;
    let found = rows.into_iter().map(|(table, works)| {
        let text = if works {
            format!(
                "a subscription inserts rows into {table}, for which its trigger outbox_adopt \
                 does not fire, as for all writes with session_replication_role = replica: they \
                 are not sent. If no other outbox sends them, run, as the table's owner: ALTER \
                 TABLE {table} ENABLE ALWAYS TRIGGER outbox_adopt"
            )
        } else {
            format!(
                "the trigger outbox_adopt of {table} is disabled: rows inserted there are not \
                 sent; run, as the table's owner: ALTER TABLE {table} ENABLE TRIGGER outbox_adopt"
            )
        };
        Finding { fatal: false, text }
    });
    Ok(found.collect())
}

impl Rights for Postgres {
    async fn rights(session: &mut PgConnection) -> Result<Option<Finding>, FeedError> {
        let keeps = keeps_statements(session);
        if rights::missing(&mut *session, keeps, &[rights::RELAY]).await?.is_none() {
            return Ok(None);
        }
        let all =
            rights::missing(&mut *session, keeps, &[rights::RELAY, rights::ACTS, rights::NUMBERS])
                .await?;
        let text = format!(
            "the relay's role lacks privileges; run, as the owner of the tables: {};",
            all.unwrap_or_default()
        );
        Ok(Some(Finding { fatal: true, text }))
    }
}
