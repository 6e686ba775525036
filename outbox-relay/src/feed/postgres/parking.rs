//! The parking store.

use outbox_core::internal::keeps_statements;
use sqlx::{PgConnection, Postgres, Row as _};

use super::rows::{millis_between, row_bytes, select};
use crate::{
    feed::{
        flow::{
            self, Read as _, SqlClient as _,
            parking::{ParkingSql, ParkingTexts},
            values,
        },
        rows, text_to_send,
    },
    port::{Appenders, FeedError, Row, Shards, Turn, Writers},
};

/// $1 fence, $2 token, $3 destination, $4 rows, $5 bytes, $6 shards; the first one may be larger. Nothing is claimed before
/// an earlier row of its aggregate: not while one of them cannot go (the first condition), and not where one is due later
/// than it, or does not come along for another reason (the last one). The constant limit keeps PostgreSQL from expecting a
/// tenth of all that is due, and from sorting that. What has changed since this statement began is seen by the UPDATE.
pub(in crate::feed) const CLAIM: &str = concat!(
    "WITH mine AS MATERIALIZED (
    SELECT 1 FROM outbox_relays WHERE epoch = $1 AND token = $2 FOR NO KEY UPDATE),
due AS MATERIALIZED (SELECT p.* FROM generate_series(0, 15) s CROSS JOIN LATERAL (SELECT * FROM (
        SELECT p.seq, p.due_at, p.attempts, p.aggregate_type, p.aggregate_id
        FROM outbox_parked p
        WHERE p.destination = $3 AND p.shard = s::smallint AND p.due_at <= now() AND p.claimed_by IS DISTINCT FROM $1 AND NOT EXISTS (
            SELECT FROM outbox_parked f
            WHERE f.aggregate_type = p.aggregate_type AND f.aggregate_id = p.aggregate_id AND f.seq < p.seq
            AND f.claimed_by IS DISTINCT FROM $1 AND (f.due_at IS NULL OR f.due_at > now() OR f.destination <> $3) OFFSET 0)
        ORDER BY p.due_at, p.seq LIMIT 1000) p LIMIT $4) p
    WHERE ($6::integer >> s) & 1 = 1 AND EXISTS (SELECT FROM mine) ORDER BY p.due_at, p.seq LIMIT $4),
sized AS MATERIALIZED (SELECT * FROM (SELECT d.seq, d.due_at, d.attempts, sum(",
    row_bytes!(),
    ") OVER (ORDER BY d.due_at, d.seq ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS bytes, d.aggregate_type, d.aggregate_id
        FROM due d JOIN outbox_events e ON e.seq = d.seq) d
    WHERE coalesce(bytes, 0) < $5),
chosen AS MATERIALIZED (SELECT seq, attempts FROM (SELECT seq, attempts,
        row_number() OVER (PARTITION BY aggregate_type, aggregate_id ORDER BY seq) - 1 AS place,
        (SELECT count(*) FROM outbox_parked f
            WHERE f.aggregate_type = d.aggregate_type AND f.aggregate_id = d.aggregate_id AND f.seq < d.seq
            AND f.claimed_by IS DISTINCT FROM $1) AS earlier
        FROM sized d) d
    WHERE place = earlier),
claimed AS (UPDATE outbox_parked p SET claimed_by = $1 FROM chosen c
    WHERE p.seq = c.seq AND now() >= p.due_at AND p.claimed_by IS DISTINCT FROM $1 RETURNING p.seq, p.attempts)
SELECT e.*, x.mine FROM (SELECT EXISTS (SELECT FROM mine) AS mine) x LEFT JOIN (",
    select!(),
    "payload, false AS blocked, attempts FROM claimed JOIN outbox_events USING (seq)) e ON true"
);

/// The destinations one by one, each found by one probe of the index, and the first row of each.
pub(in crate::feed) const DUE_DESTINATIONS: &str = concat!(
    "WITH RECURSIVE d AS (
    (SELECT destination FROM outbox_parked WHERE due_at IS NOT NULL ORDER BY destination LIMIT 1)
    UNION ALL
    SELECT (SELECT p.destination FROM outbox_parked p WHERE p.due_at IS NOT NULL AND p.destination > d.destination
        ORDER BY p.destination LIMIT 1) FROM d WHERE d.destination IS NOT NULL)
SELECT d.destination, ",
    millis_between!("now()", "f.due_at"),
    " FROM d CROSS JOIN LATERAL (SELECT p.due_at FROM generate_series(0, 15) s CROSS JOIN LATERAL (SELECT p.due_at FROM outbox_parked p
        WHERE p.destination = d.destination AND p.shard = s::smallint AND p.due_at IS NOT NULL
        AND p.claimed_by IS DISTINCT FROM $1 ORDER BY p.due_at, p.seq LIMIT 1) p
    WHERE ($2::integer >> s) & 1 = 1 ORDER BY p.due_at LIMIT 1) f WHERE d.destination IS NOT NULL"
);

/// $1 and $2 behind which aggregate. One probe of the index for each. What is parked though its event is gone, sent or
/// discarded, as by hand, goes. No claim takes a row before one that is parked meanwhile, so that it does not matter
/// whose turn it is.
const RELEASE: &str = "WITH RECURSIVE a AS (
    (SELECT 1 AS n, p.aggregate_type, p.aggregate_id, p.seq, p.state FROM outbox_parked p
        WHERE (p.aggregate_type, p.aggregate_id) > ($1, $2)
        ORDER BY p.aggregate_type, p.aggregate_id, p.seq LIMIT 1)
    UNION ALL
    SELECT a.n + 1, f.* FROM a CROSS JOIN LATERAL (
        SELECT p.aggregate_type, p.aggregate_id, p.seq, p.state FROM outbox_parked p
        WHERE (p.aggregate_type, p.aggregate_id) > (a.aggregate_type, a.aggregate_id)
        ORDER BY p.aggregate_type, p.aggregate_id, p.seq LIMIT 1) f WHERE a.n < 1000),
heads AS MATERIALIZED (SELECT a.seq, a.state, EXISTS (SELECT FROM outbox_events o
    WHERE o.seq = a.seq AND o.sent_at IS NULL AND o.discarded_at IS NULL OFFSET 0) AS waits FROM a),
gone AS (DELETE FROM outbox_parked p USING heads h WHERE p.seq = h.seq AND NOT h.waits),
ready AS (UPDATE outbox_parked p SET state = 'ready', due_at = now() FROM heads h
    WHERE p.seq = h.seq AND h.waits AND h.state = 'behind' AND p.state = 'behind')
SELECT aggregate_type, aggregate_id FROM a WHERE n = 1000";

/// A transaction that inserts has the table's lock before it gets a number, and until its end. Visible rows have got
/// theirs before this statement, so that a transaction with a smaller one is among these or has ended. A session that takes
/// several numbers at once may keep some: then nobody can tell.
const APPENDERS: &str = "SELECT (SELECT coalesce(max(seq), 0) FROM outbox_events),
    (SELECT coalesce(array_agg(virtualtransaction::text), '{}') FROM pg_locks WHERE relation = 'outbox_events'::regclass
        AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
        AND mode = 'RowExclusiveLock' AND granted),
    coalesce((SELECT seqcache = 1 FROM pg_sequence
        WHERE seqrelid = pg_get_serial_sequence('outbox_events', 'seq')::regclass), false)";

static TEXTS: ParkingTexts = ParkingTexts {
    due_destinations: DUE_DESTINATIONS,
    end_claims: "UPDATE outbox_parked SET claimed_by = NULL WHERE claimed_by = $1
    AND EXISTS (SELECT FROM outbox_relays WHERE epoch = $1 AND token = $2)",
};

impl ParkingSql for Postgres {
    fn parking_texts() -> &'static ParkingTexts {
        &TEXTS
    }

    async fn claim_rows(
        session: &mut PgConnection,
        (turn, shards): (Turn, Shards),
        destination: &str,
        rows_max: usize,
        bytes_max: usize,
    ) -> Result<Option<Vec<Row>>, FeedError> {
        let found = sqlx::query(text_to_send(CLAIM))
            .persistent(keeps_statements(session))
            .bind(turn.fence)
            .bind(turn.token)
            .bind(destination)
            .bind(rows(rows_max))
            .bind(rows(bytes_max))
            .bind(i32::from(shards.0))
            .fetch_all(session)
            .await?;
        let mut claimed = Vec::new();
        for row in &found {
            if !row.try_get::<bool, _>("mine")? {
                return Ok(None);
            }
            if row.try_get::<Option<i64>, _>("seq")?.is_some() {
                claimed.push(flow::rows::row(row, true)?);
            }
        }
        Ok(Some(claimed))
    }

    async fn release(
        session: &mut PgConnection,
        after: (&str, &str),
    ) -> Result<Option<(String, String)>, FeedError> {
        let last = Self::fetch_optional(session, RELEASE, values![after.0, after.1]).await?;
        Ok(last.map(|row| Ok::<_, sqlx::Error>((row.at(0)?, row.at(1)?))).transpose()?)
    }
}

impl Writers for Postgres {
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
