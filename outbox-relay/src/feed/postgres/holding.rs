//! Rows that wait behind one that was set aside, or for a topic.

use outbox_core::internal::keeps_statements;
use sqlx::{PgConnection, Postgres};

use super::rows::halves;
use crate::{
    feed::{
        flow::{Read as _, SqlClient as _, topics::TopicSql, values},
        rows,
    },
    port::{Appenders, FeedError, Holding, ReleasedRows, RowId, Turn},
};

/// $1 fence, $2 token, $3 and $4 rows by number and id.
const HOLD: &str = "WITH mine AS MATERIALIZED (
    SELECT 1 FROM outbox_relays WHERE epoch = $1 AND token = $2 FOR NO KEY UPDATE),
held AS (UPDATE outbox_events o SET failed_at = now(), held = true, retry_at = NULL
    FROM unnest($3::bigint[], $4::uuid[]) h(seq, event_id)
    WHERE o.seq = h.seq AND o.event_id = h.event_id AND o.sent_at IS NULL AND (o.failed_at IS NULL
        OR (o.discarded_at IS NULL AND NOT o.held AND o.retry_at IS NOT NULL))
    AND EXISTS (SELECT FROM mine))
SELECT EXISTS (SELECT FROM mine)";

/// $1 behind which place.
const ANY: &str = "SELECT EXISTS (SELECT FROM outbox_releases WHERE release_ref > $1)";

/// $1 fence, $2 token, $3 behind which place, $4 about how many rows. What is asked for while this runs counts
/// `asked` up, so that it is not forgotten. No more than 1,000 rows can come of it; PostgreSQL has to be told, or it
/// expects a tenth of each aggregate and reads the whole table.
const RELEASE: &str = "WITH mine AS MATERIALIZED (
    SELECT 1 FROM outbox_relays WHERE epoch = $1 AND token = $2 FOR NO KEY UPDATE),
asked AS MATERIALIZED (SELECT *, greatest(10, least($4, 1000) / count(*) OVER ()) AS most FROM (
    SELECT * FROM outbox_releases WHERE release_ref > $3 AND EXISTS (SELECT FROM mine) ORDER BY release_ref LIMIT 100) r),
first AS MATERIALIZED (SELECT a.release_ref, f.seq FROM asked a CROSS JOIN LATERAL (
    SELECT seq, bool_and(held) OVER (ORDER BY seq) AS free FROM (
        SELECT o.seq, o.held FROM outbox_events o WHERE o.failed_at IS NOT NULL AND o.discarded_at IS NULL
        AND o.aggregate_type = a.aggregate_type AND o.aggregate_id = a.aggregate_id ORDER BY o.seq LIMIT a.most) o) f
    WHERE f.free LIMIT 1000),
released AS (UPDATE outbox_events o SET failed_at = NULL, held = false FROM first f WHERE o.seq = f.seq AND o.held),
done AS (DELETE FROM outbox_releases r USING asked a WHERE r.release_ref = a.release_ref AND r.asked = a.asked
    AND (SELECT count(*) FROM first f WHERE f.release_ref = a.release_ref) < a.most)
SELECT EXISTS (SELECT FROM mine), (SELECT max(release_ref) FROM asked)";

/// $1 and $2 behind which aggregate. One probe of the index for each. It only asks, so that it does not matter whose
/// turn it is.
const ORPHANS: &str = "WITH RECURSIVE a AS (
    (SELECT 1 AS n, o.aggregate_type, o.aggregate_id, o.held FROM outbox_events o
        WHERE o.failed_at IS NOT NULL AND o.discarded_at IS NULL AND (o.aggregate_type, o.aggregate_id) > ($1, $2)
        ORDER BY o.aggregate_type, o.aggregate_id, o.seq LIMIT 1)
    UNION ALL
    SELECT a.n + 1, f.* FROM a CROSS JOIN LATERAL (SELECT o.aggregate_type, o.aggregate_id, o.held FROM outbox_events o
        WHERE o.failed_at IS NOT NULL AND o.discarded_at IS NULL
        AND (o.aggregate_type, o.aggregate_id) > (a.aggregate_type, a.aggregate_id)
        ORDER BY o.aggregate_type, o.aggregate_id, o.seq LIMIT 1) f WHERE a.n < 1000),
asked AS (INSERT INTO outbox_releases (aggregate_type, aggregate_id)
    SELECT aggregate_type, aggregate_id FROM a WHERE held
    ON CONFLICT (aggregate_type, aggregate_id) DO NOTHING)
SELECT aggregate_type, aggregate_id FROM a WHERE n = 1000";

/// $1 fence, $2 token, $3 topic, $4 rows.
const THERE: &str = "WITH mine AS MATERIALIZED (
    SELECT 1 FROM outbox_relays WHERE epoch = $1 AND token = $2 FOR NO KEY UPDATE),
due AS MATERIALIZED (SELECT seq, aggregate_type, aggregate_id FROM outbox_events
    WHERE waits_for = $3 AND EXISTS (SELECT FROM mine) ORDER BY seq LIMIT $4),
asked AS (INSERT INTO outbox_releases AS r (aggregate_type, aggregate_id)
    SELECT DISTINCT aggregate_type, aggregate_id FROM due
    ON CONFLICT (aggregate_type, aggregate_id) DO UPDATE SET asked = r.asked + 1),
gone AS (UPDATE outbox_events o SET failed_at = NULL, error = NULL, waits_for = NULL FROM due d
    WHERE o.seq = d.seq AND o.waits_for = $3)
SELECT EXISTS (SELECT FROM mine), (SELECT count(*) FROM due)";

/// Whoever inserts has the table's lock before it gets a number, and until its end. Rows that can be seen have got
/// theirs before this statement, so that whoever has a smaller one is among these or has ended. A session that takes
/// several numbers at once may keep some: then nobody can tell.
const APPENDERS: &str = "SELECT (SELECT coalesce(max(seq), 0) FROM outbox_events),
    (SELECT coalesce(array_agg(virtualtransaction::text), '{}') FROM pg_locks WHERE relation = 'outbox_events'::regclass
        AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
        AND mode = 'RowExclusiveLock' AND granted),
    coalesce((SELECT seqcache = 1 FROM pg_sequence
        WHERE seqrelid = pg_get_serial_sequence('outbox_events', 'seq')::regclass), false)";

impl Holding for Postgres {
    async fn hold(
        session: &mut PgConnection,
        turn: Turn,
        rows: &[RowId],
    ) -> Result<bool, FeedError> {
        let (seqs, ids) = halves(rows.iter().copied());
        Ok(sqlx::query_scalar(HOLD)
            .persistent(keeps_statements(session))
            .bind(turn.fence)
            .bind(turn.token)
            .bind(seqs)
            .bind(ids)
            .fetch_one(session)
            .await?)
    }

    async fn release(
        session: &mut PgConnection,
        turn: Turn,
        after: i64,
        most: usize,
    ) -> Result<ReleasedRows, FeedError> {
        // Mostly there is none, and no lock is taken then.
        if !Self::fetch_one(session, ANY, values![after]).await?.at(0)? {
            return Ok(ReleasedRows::Nothing);
        }
        let values = values![turn.fence, turn.token, after, rows(most)];
        let row = Self::fetch_one(session, RELEASE, values).await?;
        Ok(match (row.at(0)?, row.at(1)?) {
            (false, _) => ReleasedRows::NotOurs,
            (true, None) => ReleasedRows::Nothing,
            (true, Some(last)) => ReleasedRows::UpTo(last),
        })
    }

    async fn release_orphans(
        session: &mut PgConnection,
        after: (&str, &str),
    ) -> Result<Option<(String, String)>, FeedError> {
        let last = Self::fetch_optional(session, ORPHANS, values![after.0, after.1]).await?;
        Ok(last.map(|row| Ok::<_, sqlx::Error>((row.at(0)?, row.at(1)?))).transpose()?)
    }

    async fn topic_is_there(
        session: &mut PgConnection,
        turn: Turn,
        topic: &str,
        most: usize,
    ) -> Result<Option<u64>, FeedError> {
        let values = values![turn.fence, turn.token, topic, rows(most)];
        let row = Self::fetch_one(session, THERE, values).await?;
        let (mine, count): (bool, i64) = (row.at(0)?, row.at(1)?);
        Ok(mine.then(|| count.unsigned_abs()))
    }

    async fn appenders(session: &mut PgConnection) -> Result<Option<Appenders>, FeedError> {
        // A pooler may lead to another server, which gives the same numbers once more, and say nothing.
        if !keeps_statements(session) {
            return Ok(None);
        }
        let (most, open, known): (i64, Vec<String>, bool) =
            sqlx::query_as(APPENDERS).persistent(true).fetch_one(session).await?;
        Ok(known.then_some(Appenders { most, open }))
    }
}

impl TopicSql for Postgres {
    const TOPICS: &'static str = "WITH RECURSIVE t AS (
    (SELECT waits_for AS topic FROM outbox_events WHERE waits_for > $1 ORDER BY waits_for LIMIT 1)
    UNION ALL
    SELECT (SELECT o.waits_for FROM outbox_events o WHERE o.waits_for > t.topic ORDER BY o.waits_for LIMIT 1)
    FROM t WHERE t.topic IS NOT NULL)
SELECT topic FROM t WHERE topic IS NOT NULL LIMIT $2";
}
