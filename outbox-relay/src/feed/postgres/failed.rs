//! Failed rows, and what a person decides about them.

use sqlx::{PgConnection, Postgres, Row as _, postgres::PgRow};

use crate::{
    feed::flow::{Read as _, SqlClient as _, Value, failed::FailedSql, values},
    port::{FeedError, Step},
};

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

impl FailedSql for Postgres {
    const FAILED: &'static str = chosen!(
    "SELECT o.seq, o.event_id::text, o.event_type, o.aggregate_type || '/' || o.aggregate_id AS aggregate, o.topic,
    extract(epoch FROM now() - o.failed_at)::bigint AS failed, coalesce(o.error, '') AS error,
    (SELECT count(*) FROM (SELECT FROM outbox_events b WHERE b.failed_at IS NOT NULL AND b.discarded_at IS NULL
        AND b.seq > o.seq AND b.held
        AND b.aggregate_type = o.aggregate_type AND b.aggregate_id = o.aggregate_id LIMIT 10001) b) AS behind",
);

    fn event_id(row: &PgRow) -> Result<String, sqlx::Error> {
        row.try_get("event_id")
    }

    fn text(row: &PgRow, column: &str) -> Result<Option<String>, sqlx::Error> {
        row.try_get(column)
    }

    async fn step(
        session: &mut PgConnection,
        chosen: [Value<'_>; 6],
        who: Option<&str>,
    ) -> Result<Step, FeedError> {
        let row = match who {
            None => Self::fetch_one(session, RETRY, &chosen).await?,
            Some(who) => {
                let values = [&chosen[..], values![who]].concat();
                Self::fetch_one(session, DISCARD, &values).await?
            }
        };
        let rows: i64 = row.at(0)?;
        Ok(Step { rows: rows.unsigned_abs(), last: row.at(1)? })
    }
}
