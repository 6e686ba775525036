//! Looking, for `status`, `check` and `failed`; and what a person decides about failed rows.

use sqlx::{Connection as _, Row as _, Sqlite, SqliteConnection, sqlite::SqliteRow};

use crate::{
    feed::{STEP, TOPICS_SHOWN},
    port::{
        Choice, FailedRow, FailedRows, FeedError, Finding, Inspection, Overview, Rights, RoleKind,
        Step, Topics as _,
    },
};

const OVERVIEW: &str = "SELECT
    (SELECT count(*) FROM outbox_events WHERE sent_at IS NULL AND (failed_at IS NULL OR held = 1)) AS waiting,
    (SELECT count(*) FROM outbox_events WHERE failed_at IS NOT NULL AND discarded_at IS NULL AND held = 1) AS held,
    (SELECT unixepoch() - created_at / 1000 FROM outbox_events
        WHERE sent_at IS NULL AND failed_at IS NULL ORDER BY seq LIMIT 1) AS oldest,
    (SELECT count(*) FROM outbox_events WHERE failed_at IS NOT NULL AND discarded_at IS NULL AND held = 0
        AND waits_for IS NULL) AS failed,
    (SELECT count(*) FROM outbox_events WHERE waits_for IS NOT NULL) AS waiting_for_topic,
    (SELECT count(*) FROM outbox_events WHERE sent_at IS NOT NULL OR discarded_at IS NOT NULL) AS sent,
    r.owner, unixepoch() - r.taken_at / 1000 AS taken,
    max(0, r.lease_until / 1000 - unixepoch()) AS lease_left,
    coalesce(r.epoch, 0) AS fence, r.standstill
FROM (SELECT 1) one LEFT JOIN outbox_relays r";

const DURABLE: &str = "PRAGMA synchronous";

/// What a choice means: ?1 number, ?2 aggregate type, ?3 aggregate id, ?4 part of the error, each NULL for any; ?5
/// behind which number, ?6 how many.
macro_rules! chosen {
    ($before:literal) => {
        concat!(
            $before,
            " FROM outbox_events o WHERE o.failed_at IS NOT NULL AND o.discarded_at IS NULL AND o.held = 0
AND (?1 IS NULL OR o.seq = ?1) AND (?2 IS NULL OR (o.aggregate_type = ?2 AND o.aggregate_id = ?3))
AND (?4 IS NULL OR instr(o.error, ?4) > 0) AND o.seq > ?5 ORDER BY o.seq LIMIT ?6"
        )
    };
}

const FAILED: &str = chosen!(
    "SELECT o.seq, o.event_id, o.event_type, o.aggregate_type || '/' || o.aggregate_id AS aggregate, o.topic,
    unixepoch() - o.failed_at / 1000 AS failed, coalesce(o.error, '') AS error,
    (SELECT count(*) FROM (SELECT 1 FROM outbox_events b WHERE b.failed_at IS NOT NULL AND b.discarded_at IS NULL
        AND b.seq > o.seq AND b.held = 1
        AND b.aggregate_type = o.aggregate_type AND b.aggregate_id = o.aggregate_id LIMIT 10001)) AS behind"
);
const CHOSEN: &str = chosen!("SELECT o.seq");
/// ?1 numbers as JSON. What lets rows go asks for what is held behind them, too.
const ASK: &str = "INSERT INTO outbox_releases (aggregate_type, aggregate_id)
SELECT DISTINCT aggregate_type, aggregate_id FROM outbox_events WHERE seq IN (SELECT value FROM json_each(?1))
ON CONFLICT (aggregate_type, aggregate_id) DO UPDATE SET asked = asked + 1";
/// ?1 numbers as JSON.
const RETRY: &str = "UPDATE outbox_events SET failed_at = NULL, error = NULL, waits_for = NULL
WHERE seq IN (SELECT value FROM json_each(?1))";
/// ?1 numbers as JSON, ?2 who.
const DISCARD: &str =
    "UPDATE outbox_events SET discarded_at = CAST(unixepoch('subsec') * 1000 AS INTEGER),
    discarded_by = ?2, waits_for = NULL WHERE seq IN (SELECT value FROM json_each(?1))";

impl Inspection for Sqlite {
    async fn overview(session: &mut SqliteConnection) -> Result<Overview, FeedError> {
        let mut found = overview(&sqlx::query(OVERVIEW).fetch_one(&mut *session).await?)?;
        found.missing_topics = Self::topics(session).await?;
        found.missing_topics.truncate(TOPICS_SHOWN);
        Ok(found)
    }

    async fn findings(session: &mut SqliteConnection) -> Result<Vec<Finding>, FeedError> {
        let level: i64 = sqlx::query_scalar(DURABLE).fetch_one(session).await?;
        let doubt = Finding {
            fatal: false,
            text: "the database is not durable: synchronous is below FULL; set it to FULL".into(),
        };
        Ok(if level >= 2 { Vec::new() } else { vec![doubt] })
    }
}

impl Rights for Sqlite {
    /// A file knows no roles.
    async fn rights(_session: &mut SqliteConnection) -> Result<Option<Finding>, FeedError> {
        Ok(None)
    }

    fn grants(_schema: Option<&str>, _role: &str, _kind: RoleKind) -> Option<String> {
        None
    }
}

impl FailedRows for Sqlite {
    async fn failed(
        session: &mut SqliteConnection,
        choice: &Choice,
        rows_max: u32,
    ) -> Result<Vec<FailedRow>, FeedError> {
        let (kind, id) = halves(choice);
        let found = sqlx::query(FAILED)
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
        session: &mut SqliteConnection,
        choice: &Choice,
        after: i64,
    ) -> Result<Step, FeedError> {
        step(session, choice, after, None).await
    }

    async fn discard(
        session: &mut SqliteConnection,
        choice: &Choice,
        after: i64,
        who: &str,
    ) -> Result<Step, FeedError> {
        step(session, choice, after, Some(who)).await
    }
}

/// Retries a thousand rows, or lets somebody discard them.
async fn step(
    session: &mut SqliteConnection,
    choice: &Choice,
    after: i64,
    who: Option<&str>,
) -> Result<Step, FeedError> {
    let (kind, id) = halves(choice);
    let mut tx = session.begin_with("BEGIN IMMEDIATE").await?;
    let seqs: Vec<i64> = sqlx::query_scalar(CHOSEN)
        .bind(choice.seq)
        .bind(kind)
        .bind(id)
        .bind(choice.error.as_deref())
        .bind(after)
        .bind(STEP)
        .fetch_all(&mut *tx)
        .await?;
    let chosen = serde_json::to_string(&seqs).unwrap_or_default();
    sqlx::query(ASK).bind(&chosen).execute(&mut *tx).await?;
    let change = match who {
        None => sqlx::query(RETRY).bind(&chosen),
        Some(who) => sqlx::query(DISCARD).bind(&chosen).bind(who),
    };
    let rows = change.execute(&mut *tx).await?.rows_affected();
    tx.commit().await?;
    Ok(Step { rows, last: seqs.last().copied() })
}

fn halves(choice: &Choice) -> (Option<&str>, Option<&str>) {
    choice.aggregate.as_ref().map(|(kind, id)| (kind.as_str(), id.as_str())).unzip()
}

fn overview(row: &SqliteRow) -> Result<Overview, sqlx::Error> {
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

/// A text that may be none: what cannot be read of it is shown as such.
fn text(row: &SqliteRow, column: &str) -> Result<Option<String>, sqlx::Error> {
    let bytes: Option<Vec<u8>> = row.try_get_unchecked(column)?;
    Ok(bytes.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()))
}

fn failed(row: &SqliteRow) -> Result<FailedRow, sqlx::Error> {
    Ok(FailedRow {
        seq: row.try_get("seq")?,
        event_id: row.try_get::<uuid::Uuid, _>("event_id")?.to_string(),
        event_type: text(row, "event_type")?.unwrap_or_default(),
        aggregate: text(row, "aggregate")?.unwrap_or_default(),
        topic: text(row, "topic")?,
        failed_seconds: row.try_get("failed")?,
        error: row.try_get("error")?,
        behind: row.try_get("behind")?,
    })
}
