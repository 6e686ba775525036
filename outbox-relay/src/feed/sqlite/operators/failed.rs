//! Failed rows, and what a person decides about them.

use sqlx::{Connection as _, Row as _, Sqlite, SqliteConnection, sqlite::SqliteRow};
use uuid::Uuid;

use crate::{
    feed::{
        flow::{
            Read as _, SqlClient as _,
            operators::failed::{Chosen, Deed, FailedSql},
            values,
        },
        sqlite::rows::BEGIN,
    },
    port::{FeedError, Step},
};

/// What a choice means: ?1 number, ?2 aggregate type, ?3 aggregate id, ?4 part of the error, ?5 event type, each NULL for
/// any; ?6 behind which number, ?7 how many. What only waits for its time has to be named by number.
macro_rules! chosen {
    ($before:literal) => {
        concat!(
            $before,
            " FROM outbox_events o WHERE o.failed_at IS NOT NULL AND o.discarded_at IS NULL AND o.held = 0
AND (?1 IS NULL OR o.seq = ?1) AND (?2 IS NULL OR (o.aggregate_type = ?2 AND o.aggregate_id = ?3))
AND (?4 IS NULL OR instr(o.error, ?4) > 0) AND (?5 IS NULL OR o.event_type = ?5)
AND (?1 IS NOT NULL OR coalesce(o.deliver_after <= CAST(unixepoch('subsec') * 1000 AS INTEGER), true))
AND o.seq > ?6 ORDER BY o.seq LIMIT ?7"
        )
    };
}

const CHOSEN: &str = chosen!("SELECT o.seq, o.event_id");
/// ?1 numbers as JSON. What lets rows go asks for what is held behind them, too.
const ASK: &str = "INSERT INTO outbox_releases (aggregate_type, aggregate_id)
SELECT DISTINCT aggregate_type, aggregate_id FROM outbox_events WHERE seq IN (SELECT value FROM json_each(?1))
ON CONFLICT (aggregate_type, aggregate_id) DO UPDATE SET asked = asked + 1";
/// ?1 numbers as JSON.
pub(in crate::feed) const RETRY: &str =
    "UPDATE outbox_events SET failed_at = NULL, error = NULL, waits_for = NULL,
    retry_at = NULL, attempts = 0, deliver_after = NULL
WHERE seq IN (SELECT value FROM json_each(?1))";
/// ?1 numbers as JSON, ?2 who.
const DISCARD: &str =
    "UPDATE outbox_events SET discarded_at = CAST(unixepoch('subsec') * 1000 AS INTEGER),
    discarded_by = ?2, waits_for = NULL, retry_at = NULL WHERE seq IN (SELECT value FROM json_each(?1))";
/// ?1 what, ?2 who, ?3 why, ?4 the choice in words, ?5 how many rows, ?6 the ids of their events as JSON.
pub(in crate::feed) const WRITE: &str =
    "INSERT INTO outbox_audit (what, who, why, choice, rows, event_ids)
VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
/// A time in words; one that no calendar has as its number.
macro_rules! at {
    ($column:literal) => {
        concat!(
            "coalesce(strftime('%Y-%m-%dT%H:%M:%fZ', ",
            $column,
            " / 1000.0, 'unixepoch'), CAST(",
            $column,
            " AS TEXT)) AS ",
            $column
        )
    };
}

impl FailedSql for Sqlite {
    const FAILED: &'static str = chosen!(
    "SELECT o.seq, o.event_id, o.event_type, o.aggregate_type || '/' || o.aggregate_id AS aggregate, o.topic,
    unixepoch() - o.failed_at / 1000 AS failed, coalesce(o.error, '') AS error, o.attempts, o.waits_for,
    max(0, o.retry_at / 1000 - unixepoch()) AS retry,
    (SELECT count(*) FROM (SELECT 1 FROM outbox_events b WHERE b.failed_at IS NOT NULL AND b.discarded_at IS NULL
        AND b.seq > o.seq AND b.held = 1
        AND b.aggregate_type = o.aggregate_type AND b.aggregate_id = o.aggregate_id LIMIT 10001)) AS behind"
);
    const CONTENT: &'static str = concat!(
        "SELECT seq, event_id, event_type, aggregate_type, aggregate_id, aggregate_version,
    schema_version, occurred_at_ms, bytes_max, topic, dedup_key, ",
        at!("created_at"),
        ", ",
        at!("deliver_after"),
        ", ",
        at!("sent_at"),
        ", ",
        at!("failed_at"),
        ", held, attempts, ",
        at!("retry_at"),
        ", waits_for, error, ",
        at!("discarded_at"),
        ", discarded_by, headers,
    length(payload) AS payload_bytes, substr(payload, 1, ?2) AS payload
FROM outbox_events WHERE seq = ?1"
    );

    fn event_id(row: &SqliteRow) -> Result<String, sqlx::Error> {
        Ok(row.try_get::<Uuid, _>("event_id")?.to_string())
    }

    /// What cannot be read of it is shown as such.
    fn text(row: &SqliteRow, column: &str) -> Result<Option<String>, sqlx::Error> {
        let bytes: Option<Vec<u8>> = row.try_get_unchecked(column)?;
        Ok(bytes.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()))
    }

    async fn step(
        session: &mut SqliteConnection,
        deed: Deed,
        chosen: Chosen<'_>,
        [who, why, choice]: [&str; 3],
    ) -> Result<Step, FeedError> {
        let mut tx = session.begin_with(BEGIN).await?;
        let found = Self::fetch_all(&mut tx, CHOSEN, &chosen).await?;
        let seqs: Vec<i64> = found.iter().map(|row| row.at(0)).collect::<Result<_, _>>()?;
        let numbers = serde_json::to_string(&seqs).unwrap_or_default();
        let numbers = numbers.as_str();
        Self::execute(&mut tx, ASK, values![numbers]).await?;
        let (what, rows) = match deed {
            Deed::Retry => ("retry", Self::execute(&mut tx, RETRY, values![numbers]).await?),
            Deed::Discard => {
                ("discard", Self::execute(&mut tx, DISCARD, values![numbers, who]).await?)
            }
        };
        if !seqs.is_empty() {
            let ids: Vec<String> = found.iter().map(Self::event_id).collect::<Result<_, _>>()?;
            let (count, ids) = (crate::feed::rows(ids.len()), serde_json::to_string(&ids));
            let ids = ids.unwrap_or_default();
            let values = values![what, who, why, choice, count, ids.as_str()];
            Self::execute(&mut tx, WRITE, values).await?;
        }
        tx.commit().await?;
        Ok(Step { rows, last: seqs.last().copied() })
    }
}
