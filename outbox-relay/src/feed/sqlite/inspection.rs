//! Looking, for `status`, `check` and `failed`; and what a person decides about failed rows.

use sqlx::{Row as _, Sqlite, SqliteConnection, sqlite::SqliteRow};

use crate::port::{Choice, FailedRow, FeedError, Finding, Inspection, Overview};

const OVERVIEW: &str = "SELECT
    (SELECT count(*) FROM outbox_events WHERE sent_at IS NULL AND failed_at IS NULL) AS waiting,
    (SELECT count(*) FROM outbox_events o WHERE sent_at IS NULL AND failed_at IS NULL AND EXISTS (
        SELECT 1 FROM outbox_events f WHERE f.failed_at IS NOT NULL AND f.discarded_at IS NULL
        AND f.aggregate_type = o.aggregate_type AND f.aggregate_id = o.aggregate_id AND f.seq < o.seq)) AS held,
    (SELECT unixepoch() - min(created_at) / 1000 FROM outbox_events
        WHERE sent_at IS NULL AND failed_at IS NULL) AS oldest,
    (SELECT count(*) FROM outbox_events WHERE failed_at IS NOT NULL AND discarded_at IS NULL) AS failed,
    (SELECT count(*) FROM outbox_events WHERE sent_at IS NOT NULL OR discarded_at IS NOT NULL) AS sent,
    r.owner, unixepoch() - r.taken_at / 1000 AS taken,
    max(0, r.lease_until / 1000 - unixepoch()) AS lease_left,
    coalesce(r.epoch, 0) AS fence, r.standstill
FROM (SELECT 1) one LEFT JOIN outbox_relays r";

const DURABLE: &str = "PRAGMA synchronous";

/// What a choice means: ?1 number, ?2 aggregate type, ?3 aggregate id, ?4 part of the error; each NULL for any.
macro_rules! chosen {
    ($before:literal, $after:literal) => {
        concat!(
            $before,
            " o.failed_at IS NOT NULL AND o.discarded_at IS NULL AND o.sent_at IS NULL
AND (?1 IS NULL OR o.seq = ?1) AND (?2 IS NULL OR (o.aggregate_type = ?2 AND o.aggregate_id = ?3))
AND (?4 IS NULL OR instr(o.error, ?4) > 0)",
            $after
        )
    };
}

const FAILED: &str = chosen!(
    "SELECT o.seq, o.event_id, o.event_type, o.aggregate_type || '/' || o.aggregate_id AS aggregate, o.topic,
    unixepoch() - o.failed_at / 1000 AS failed, coalesce(o.error, '') AS error,
    (SELECT count(*) FROM outbox_events b WHERE b.sent_at IS NULL AND b.failed_at IS NULL AND b.seq > o.seq
        AND b.aggregate_type = o.aggregate_type AND b.aggregate_id = o.aggregate_id) AS behind
FROM outbox_events o WHERE",
    " ORDER BY o.seq LIMIT ?5"
);
const RETRY: &str =
    chosen!("UPDATE outbox_events AS o SET failed_at = NULL, error = NULL WHERE", "");
/// ?5 who.
const DISCARD: &str = chosen!(
    "UPDATE outbox_events AS o SET discarded_at = CAST(unixepoch('subsec') * 1000 AS INTEGER), discarded_by = ?5
WHERE",
    ""
);

impl Inspection for Sqlite {
    async fn overview(session: &mut SqliteConnection) -> Result<Overview, FeedError> {
        let row = sqlx::query(OVERVIEW).fetch_one(session).await?;
        Ok(overview(&row)?)
    }

    async fn findings(session: &mut SqliteConnection) -> Result<Vec<Finding>, FeedError> {
        let level: i64 = sqlx::query_scalar(DURABLE).fetch_one(session).await?;
        let doubt = Finding {
            fatal: false,
            text: "the database is not durable: synchronous is below FULL; set it to FULL".into(),
        };
        Ok(if level >= 2 { Vec::new() } else { vec![doubt] })
    }

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
            .bind(i64::from(rows_max))
            .fetch_all(session)
            .await?;
        Ok(found.iter().map(failed).collect::<Result<Vec<_>, _>>()?)
    }

    async fn retry(session: &mut SqliteConnection, choice: &Choice) -> Result<u64, FeedError> {
        let (kind, id) = halves(choice);
        let done = sqlx::query(RETRY)
            .bind(choice.seq)
            .bind(kind)
            .bind(id)
            .bind(choice.error.as_deref())
            .execute(session)
            .await?;
        Ok(done.rows_affected())
    }

    async fn discard(
        session: &mut SqliteConnection,
        choice: &Choice,
        who: &str,
    ) -> Result<u64, FeedError> {
        let (kind, id) = halves(choice);
        let done = sqlx::query(DISCARD)
            .bind(choice.seq)
            .bind(kind)
            .bind(id)
            .bind(choice.error.as_deref())
            .bind(who)
            .execute(session)
            .await?;
        Ok(done.rows_affected())
    }
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
