//! Looking, for `status`, `check` and `failed`; and what a person decides about failed rows.

use outbox_core::internal::{keeps_statements, rights};
use sqlx::{PgConnection, Postgres, Row as _, postgres::PgRow};

use crate::{
    feed::{STEP, TOPICS_SHOWN},
    port::{
        Choice, FailedRow, FeedError, Finding, Holding as _, Inspection, Numbers as _, Overview,
        RoleKind, Step,
    },
};

/// What is held is counted in the index of all that is set aside: it may be much.
const OVERVIEW: &str = "SELECT w.unsent + h.held AS waiting, h.held,
    (SELECT extract(epoch FROM now() - created_at)::bigint FROM outbox_events
        WHERE sent_at IS NULL AND failed_at IS NULL ORDER BY seq LIMIT 1) AS oldest,
    h.heads - t.rows AS failed, t.rows AS waiting_for_topic,
    (SELECT count(*) FROM outbox_events WHERE sent_at IS NOT NULL OR discarded_at IS NOT NULL) AS sent,
    r.owner, extract(epoch FROM now() - r.taken_at)::bigint AS taken,
    greatest(0, extract(epoch FROM r.lease_until - now())::bigint) AS lease_left,
    coalesce(r.epoch, 0) AS fence, r.standstill
FROM (SELECT count(*) AS unsent FROM outbox_events WHERE sent_at IS NULL AND failed_at IS NULL) w
CROSS JOIN (SELECT count(*) AS rows FROM outbox_events WHERE waits_for IS NOT NULL) t
CROSS JOIN (SELECT n.heads, a.together - n.heads AS held FROM
    (SELECT count(*) AS together FROM outbox_events WHERE failed_at IS NOT NULL AND discarded_at IS NULL) a,
    (SELECT count(*) AS heads FROM outbox_events WHERE failed_at IS NOT NULL AND discarded_at IS NULL AND NOT held) n) h
LEFT JOIN outbox_relays r ON true";

const DURABILITY: &str = "SELECT current_setting('fsync'), current_setting('synchronous_commit')";

/// What a choice means: $1 number, $2 aggregate type, $3 aggregate id, $4 part of the error, each NULL for any; $5
/// behind which number, $6 how many.
macro_rules! chosen {
    ($before:literal, $($after:tt)*) => {
        concat!(
            $before,
            " FROM outbox_events o WHERE o.failed_at IS NOT NULL AND o.discarded_at IS NULL AND NOT o.held
AND ($1::bigint IS NULL OR o.seq = $1) AND ($2::text IS NULL OR (o.aggregate_type = $2 AND o.aggregate_id = $3))
AND ($4::text IS NULL OR strpos(o.error, $4) > 0) AND o.seq > $5 ORDER BY o.seq LIMIT $6",
            $($after)*
        )
    };
}

const FAILED: &str = chosen!(
    "SELECT o.seq, o.event_id::text, o.event_type, o.aggregate_type || '/' || o.aggregate_id AS aggregate, o.topic,
    extract(epoch FROM now() - o.failed_at)::bigint AS failed, coalesce(o.error, '') AS error,
    (SELECT count(*) FROM (SELECT FROM outbox_events b WHERE b.failed_at IS NOT NULL AND b.discarded_at IS NULL
        AND b.seq > o.seq AND b.held
        AND b.aggregate_type = o.aggregate_type AND b.aggregate_id = o.aggregate_id LIMIT 10001) b) AS behind",
);
/// What lets rows go asks for what is held behind them, too.
macro_rules! step {
    ($change:literal) => {
        chosen!(
            "WITH due AS MATERIALIZED (SELECT o.seq, o.aggregate_type, o.aggregate_id",
            "),
asked AS (INSERT INTO outbox_releases AS r (aggregate_type, aggregate_id)
    SELECT DISTINCT aggregate_type, aggregate_id FROM due
    ON CONFLICT (aggregate_type, aggregate_id) DO UPDATE SET asked = r.asked + 1),
done AS (UPDATE outbox_events o SET ",
            $change,
            " FROM due d
    WHERE o.seq = d.seq AND o.failed_at IS NOT NULL AND o.discarded_at IS NULL RETURNING 1)
SELECT (SELECT count(*) FROM done), max(seq),
    (SELECT pg_notify('outbox_events', 'outbox_events'::regclass::oid::text)::text) FROM due"
        )
    };
}
const RETRY: &str = step!("failed_at = NULL, error = NULL, waits_for = NULL");
/// $7 who.
const DISCARD: &str = step!("discarded_at = now(), discarded_by = $7, waits_for = NULL");

impl Inspection for Postgres {
    async fn overview(session: &mut PgConnection) -> Result<Overview, FeedError> {
        let asked = sqlx::query(OVERVIEW).persistent(keeps_statements(session));
        let mut found = overview(&asked.fetch_one(&mut *session).await?)?;
        found.missing_topics = Self::topics(session).await?;
        found.missing_topics.truncate(TOPICS_SHOWN);
        Ok(found)
    }

    async fn findings(session: &mut PgConnection) -> Result<Vec<Finding>, FeedError> {
        let mut found = Vec::from_iter(Self::rights(session).await?);
        let (fsync, commit): (String, String) = sqlx::query_as(DURABILITY)
            .persistent(keeps_statements(session))
            .fetch_one(&mut *session)
            .await?;
        if fsync == "off" {
            found.push(Finding {
                fatal: false,
                text:
                    "the database runs with fsync = off: after a crash of its machine events and \
                       effects may be gone; set it to on"
                        .into(),
            });
        }
        if commit == "off" {
            found.push(Finding {
                fatal: false,
                text:
                    "synchronous_commit is off for the relay's user: after a crash of the database \
                       events may be sent a second time; set it to on"
                        .into(),
            });
        }
        let keeps = keeps_statements(session);
        let open = rights::open_schemas(&mut *session, keeps).await?;
        found.extend(open.map(|text| Finding { fatal: false, text }));
        found.extend(Self::numbering(session).await?);
        Ok(found)
    }

    async fn rights(session: &mut PgConnection) -> Result<Option<Finding>, FeedError> {
        let keeps = keeps_statements(session);
        if rights::missing(&mut *session, keeps, &[rights::RELAY]).await?.is_none() {
            return Ok(None);
        }
        let all = rights::missing(&mut *session, keeps, &[rights::RELAY, rights::NUMBERS]).await?;
        let text = format!(
            "the relay's role lacks rights; run as the owner of the tables: {};",
            all.unwrap_or_default()
        );
        Ok(Some(Finding { fatal: true, text }))
    }

    fn grants(schema: Option<&str>, role: &str, kind: RoleKind) -> Option<String> {
        let rights: &[&[rights::Right]] = match kind {
            RoleKind::Relay => &[rights::RELAY, rights::NUMBERS],
            RoleKind::Appender => &[rights::APPENDER],
            RoleKind::Reader => &[rights::READER],
        };
        Some(rights::grants(schema, role, rights))
    }

    async fn failed(
        session: &mut PgConnection,
        choice: &Choice,
        rows_max: u32,
    ) -> Result<Vec<FailedRow>, FeedError> {
        let (kind, id) = halves(choice);
        let found = sqlx::query(FAILED)
            .persistent(keeps_statements(session))
            .bind(choice.seq)
            .bind(kind)
            .bind(id)
            .bind(choice.error.as_deref())
            .bind(0_i64)
            .bind(i64::from(rows_max))
            .fetch_all(session)
            .await?;
        Ok(found.iter().map(failed).collect::<Result<Vec<_>, _>>()?)
    }

    async fn retry(
        session: &mut PgConnection,
        choice: &Choice,
        after: i64,
    ) -> Result<Step, FeedError> {
        let (kind, id) = halves(choice);
        let (done, last, _): (i64, Option<i64>, Option<String>) = sqlx::query_as(RETRY)
            .persistent(keeps_statements(session))
            .bind(choice.seq)
            .bind(kind)
            .bind(id)
            .bind(choice.error.as_deref())
            .bind(after)
            .bind(STEP)
            .fetch_one(session)
            .await?;
        Ok(Step { rows: done.unsigned_abs(), last })
    }

    async fn discard(
        session: &mut PgConnection,
        choice: &Choice,
        after: i64,
        who: &str,
    ) -> Result<Step, FeedError> {
        let (kind, id) = halves(choice);
        let (done, last, _): (i64, Option<i64>, Option<String>) = sqlx::query_as(DISCARD)
            .persistent(keeps_statements(session))
            .bind(choice.seq)
            .bind(kind)
            .bind(id)
            .bind(choice.error.as_deref())
            .bind(after)
            .bind(STEP)
            .bind(who)
            .fetch_one(session)
            .await?;
        Ok(Step { rows: done.unsigned_abs(), last })
    }
}

fn halves(choice: &Choice) -> (Option<&str>, Option<&str>) {
    choice.aggregate.as_ref().map(|(kind, id)| (kind.as_str(), id.as_str())).unzip()
}

fn overview(row: &PgRow) -> Result<Overview, sqlx::Error> {
    Ok(Overview {
        waiting: row.try_get("waiting")?,
        held: row.try_get("held")?,
        oldest_seconds: row.try_get("oldest")?,
        failed: row.try_get("failed")?,
        waiting_for_topic: row.try_get("waiting_for_topic")?,
        missing_topics: Vec::new(),
        sent: row.try_get("sent")?,
        holder: row.try_get("owner")?,
        taken_seconds: row.try_get("taken")?,
        lease_left_seconds: row.try_get("lease_left")?,
        fence: row.try_get("fence")?,
        standstill: row.try_get("standstill")?,
    })
}

fn failed(row: &PgRow) -> Result<FailedRow, sqlx::Error> {
    Ok(FailedRow {
        seq: row.try_get("seq")?,
        event_id: row.try_get("event_id")?,
        event_type: row.try_get("event_type")?,
        aggregate: row.try_get("aggregate")?,
        topic: row.try_get("topic")?,
        failed_seconds: row.try_get("failed")?,
        error: row.try_get("error")?,
        behind: row.try_get("behind")?,
    })
}
