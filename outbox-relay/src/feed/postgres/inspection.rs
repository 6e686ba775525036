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

impl InspectionSql for Postgres {
    /// Each look is at one index in its order, or at one row. 20,000 rows that wait take 3 ms.
    const READING: &'static str = "SELECT
    (SELECT count(*) FROM (SELECT seq FROM outbox_events WHERE sent_at IS NULL AND failed_at IS NULL
        ORDER BY seq LIMIT 20000) w) AS unsent,
    o.seq AS oldest, o.waits AS oldest_waits, d.waits AS retry_waits, d.failing AS failing_waits, t.waits AS named_waits,
    (SELECT seq FROM outbox_events ORDER BY seq DESC LIMIT 1) AS newest,
    s.rows AS set_aside, d.rows - d.delayed AS retrying, d.delayed,
    t.rows - t.destinations AS without_topic, t.destinations AS without_destination,
    (SELECT count(*) FROM (SELECT seq FROM outbox_events WHERE failed_at IS NOT NULL AND discarded_at IS NULL
        ORDER BY aggregate_type, aggregate_id, seq LIMIT 2000) t) AS together,
    z.table_bytes, z.index_bytes,
    coalesce(date_part('epoch', r.lease_until) - date_part('epoch', now()), 0) AS lease
FROM (SELECT count(*) AS rows FROM (SELECT seq FROM outbox_events
    WHERE failed_at IS NOT NULL AND discarded_at IS NULL AND NOT held AND retry_at IS NULL AND waits_for IS NULL
    ORDER BY seq LIMIT 1000) a) s
CROSS JOIN (SELECT count(*) AS rows, count(*) FILTER (WHERE deliver_after > now()) AS delayed,
        max(date_part('epoch', now()) - date_part('epoch', since)) FILTER (WHERE coalesce(deliver_after <= now(), true)) AS waits,
        max(date_part('epoch', now()) - date_part('epoch', since)) FILTER (WHERE attempts > 0) AS failing
    FROM (SELECT deliver_after, attempts, greatest(created_at, deliver_after) AS since FROM outbox_events
        WHERE failed_at IS NOT NULL AND discarded_at IS NULL AND NOT held AND retry_at IS NOT NULL
        ORDER BY retry_at, seq LIMIT 1000) b) d
CROSS JOIN (SELECT count(*) AS rows, count(*) FILTER (WHERE waits_for LIKE 'destination %') AS destinations,
        max(date_part('epoch', now()) - date_part('epoch', since)) AS waits
    FROM (SELECT waits_for, greatest(created_at, deliver_after) AS since FROM outbox_events WHERE waits_for IS NOT NULL ORDER BY waits_for, seq LIMIT 1000) c) t
LEFT JOIN (SELECT seq, date_part('epoch', now()) - date_part('epoch', greatest(created_at, deliver_after)) AS waits
    FROM outbox_events
    WHERE sent_at IS NULL AND failed_at IS NULL ORDER BY seq LIMIT 1) o ON true
LEFT JOIN outbox_relays r ON true
CROSS JOIN (SELECT sum(pg_table_size(oid))::bigint AS table_bytes, sum(pg_indexes_size(oid))::bigint AS index_bytes FROM (
    SELECT relid::oid AS oid FROM pg_partition_tree('outbox_events') UNION SELECT 'outbox_events'::regclass::oid) p) z";

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
