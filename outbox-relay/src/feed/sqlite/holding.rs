//! Rows that wait behind one that was set aside, or for a topic.

use sqlx::{Sqlite, SqliteConnection};

use super::rows::{halves, in_turn, retries};
use crate::{
    feed::{
        flow::{Read as _, SqlClient as _, topics::TopicSql, values},
        rows,
    },
    port::{Appenders, FeedError, Holding, ReleasedRows, RowId, Turn},
};

/// ?1 numbers as JSON, ?2 ids, one behind the other.
const HOLD: &str = concat!(
    "UPDATE outbox_events SET failed_at = CAST(unixepoch('subsec') * 1000 AS INTEGER), held = 1, retry_at = NULL
FROM (SELECT value AS seq, substr(?2, key * 16 + 1, 16) AS event_id FROM json_each(?1)) h
WHERE outbox_events.seq = h.seq AND outbox_events.event_id = h.event_id AND sent_at IS NULL AND (failed_at IS NULL OR (",
    retries!(),
    "))"
);

/// ?1 place, ?2 rows: the first of the aggregate that was asked for there, up to the next that is set aside.
const RELEASE: &str = "UPDATE outbox_events SET failed_at = NULL, held = 0 WHERE seq IN (
    SELECT seq FROM (SELECT seq, min(held) OVER (ORDER BY seq) AS free FROM (
        SELECT o.seq, o.held FROM outbox_releases r JOIN outbox_events o ON o.failed_at IS NOT NULL
            AND o.discarded_at IS NULL AND o.aggregate_type = r.aggregate_type AND o.aggregate_id = r.aggregate_id
        WHERE r.release_ref = ?1 ORDER BY o.seq LIMIT ?2)) WHERE free = 1)";
/// ?1 behind which place.
const ASKED: &str =
    "SELECT release_ref FROM outbox_releases WHERE release_ref > ?1 ORDER BY release_ref LIMIT 100";
const DONE: &str = "DELETE FROM outbox_releases WHERE release_ref = ?1";

const ORPHANS: &str = "INSERT INTO outbox_releases (aggregate_type, aggregate_id)
SELECT DISTINCT o.aggregate_type, o.aggregate_id FROM outbox_events o
WHERE o.failed_at IS NOT NULL AND o.discarded_at IS NULL AND o.held = 1 AND NOT EXISTS (
    SELECT 1 FROM outbox_events f WHERE f.failed_at IS NOT NULL AND f.discarded_at IS NULL AND f.seq < o.seq
    AND f.aggregate_type = o.aggregate_type AND f.aggregate_id = o.aggregate_id)
ON CONFLICT (aggregate_type, aggregate_id) DO NOTHING";

/// ?1 topic, ?2 rows: of which aggregates they are, and what becomes of them.
const THERE_ASK: &str = "INSERT INTO outbox_releases (aggregate_type, aggregate_id)
SELECT DISTINCT aggregate_type, aggregate_id FROM (
    SELECT * FROM outbox_events WHERE waits_for = ?1 ORDER BY seq LIMIT ?2) WHERE true
ON CONFLICT (aggregate_type, aggregate_id) DO UPDATE SET asked = asked + 1";
const THERE: &str = "UPDATE outbox_events SET failed_at = NULL, error = NULL, waits_for = NULL
WHERE seq IN (SELECT seq FROM outbox_events WHERE waits_for = ?1 ORDER BY seq LIMIT ?2)";

impl Holding for Sqlite {
    async fn hold(
        session: &mut SqliteConnection,
        turn: Turn,
        rows: &[RowId],
    ) -> Result<bool, FeedError> {
        let Some(mut tx) = in_turn(session, turn).await? else { return Ok(false) };
        let (seqs, ids) = halves(rows.iter().copied());
        sqlx::query(HOLD).bind(seqs).bind(ids).execute(&mut *tx).await?;
        tx.commit().await?;
        Ok(true)
    }

    async fn release(
        session: &mut SqliteConnection,
        turn: Turn,
        after: i64,
        most: usize,
    ) -> Result<ReleasedRows, FeedError> {
        let asked = Self::fetch_all(session, ASKED, values![after]).await?;
        let asked: Vec<i64> = asked.iter().map(|row| row.at(0)).collect::<Result<_, _>>()?;
        let Some(last) = asked.last().copied() else { return Ok(ReleasedRows::Nothing) };
        let Some(mut tx) = in_turn(session, turn).await? else { return Ok(ReleasedRows::NotOurs) };
        let each = (most / asked.len()).max(10);
        for place in asked {
            let released = Self::execute(&mut tx, RELEASE, values![place, rows(each)]).await?;
            if released < each as u64 {
                Self::execute(&mut tx, DONE, values![place]).await?;
            }
        }
        tx.commit().await?;
        Ok(ReleasedRows::UpTo(last))
    }

    /// Of all aggregates at once: a file holds no millions of them.
    async fn release_orphans(
        session: &mut SqliteConnection,
        _: (&str, &str),
    ) -> Result<Option<(String, String)>, FeedError> {
        Self::execute(session, ORPHANS, &[]).await?;
        Ok(None)
    }

    async fn topic_is_there(
        session: &mut SqliteConnection,
        turn: Turn,
        topic: &str,
        most: usize,
    ) -> Result<Option<u64>, FeedError> {
        let Some(mut tx) = in_turn(session, turn).await? else { return Ok(None) };
        let values = values![topic, rows(most)];
        Self::execute(&mut tx, THERE_ASK, values).await?;
        let gone = Self::execute(&mut tx, THERE, values).await?;
        tx.commit().await?;
        Ok(Some(gone))
    }

    /// There is one writer at a time: nobody has a number that cannot be seen. And a row that was sent leaves nothing
    /// behind in the index.
    async fn appenders(_: &mut SqliteConnection) -> Result<Option<Appenders>, FeedError> {
        Ok(None)
    }
}

impl TopicSql for Sqlite {
    const TOPICS: &'static str = "SELECT DISTINCT waits_for FROM outbox_events WHERE waits_for > ?1 ORDER BY waits_for LIMIT ?2";
}
