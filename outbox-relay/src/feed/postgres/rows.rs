//! The rows that wait.

use outbox_core::internal::keeps_statements;
use sqlx::{PgConnection, Postgres, Row as _, postgres::PgRow};
use uuid::Uuid;

use crate::{
    feed::{attempts, flow, millis, rows, text_to_send},
    port::{FeedError, Marked, Marks, RowId, RowPage, RowQuery, Rows, Turn},
};

/// The first rows that wait: $1 so many. PostgreSQL may take the primary key for a bound, and read what was sent:
/// looks from the start have none.
macro_rules! window {
    ($columns:literal, $above:literal) => {
        concat!(
            "SELECT ",
            $columns,
            " FROM outbox_events WHERE sent_at IS NULL AND failed_at IS NULL",
            $above,
            " ORDER BY seq LIMIT $1"
        )
    };
}
/// Whether anything is set aside: one probe of an index. Where much is, PostgreSQL takes the first that it meets in the
/// table for near, and it is behind all that was sent; the order makes it ask the index.
macro_rules! aside {
    () => {
        "EXISTS (SELECT FROM (SELECT FROM outbox_events WHERE failed_at IS NOT NULL AND discarded_at IS NULL
    ORDER BY aggregate_type, aggregate_id, seq LIMIT 1) f)"
    };
}
/// A row that waits for another attempt: the condition of its index. Builds that do not know of `retry_at` leave it as
/// it is.
macro_rules! retries {
    () => {
        "failed_at IS NOT NULL AND discarded_at IS NULL AND NOT held AND retry_at IS NOT NULL"
    };
}
/// Milliseconds from a time to another, in numbers that are computed fast. Whoever writes rows may write any time,
/// such as `infinity` and `-infinity`.
macro_rules! millis_between {
    ($from:literal, $to:literal) => {
        concat!(
            "ceil(greatest(-1e12::float8, least((date_part('epoch', ",
            $to,
            ") - date_part('epoch', ",
            $from,
            ")) * 1000, 1e12::float8)))::bigint"
        )
    };
}
/// What each look reads of a row, and how its bytes are known without reading the payload.
macro_rules! select {
    ($payload:literal) => {
        concat!(
            "SELECT seq, event_id, event_type, aggregate_type, aggregate_id, aggregate_version,
    occurred_at_ms, schema_version, topic, dedup_key, headers, attempts, ",
            millis_between!("created_at", "now()"),
            " AS age,
    CASE WHEN deliver_after > now() THEN ",
            millis_between!("now()", "deliver_after"),
            " END AS delay, ",
            $payload
        )
    };
}
macro_rules! row_bytes {
    () => {
        "least(octet_length(e.headers)::bigint + coalesce(octet_length(e.payload), 0), 2147483647)::integer"
    };
}
/// $2 bytes; the first event goes whatever its size. Of use as long as nothing is set aside.
macro_rules! unsent {
    ($above:literal) => {
        concat!(
            select!("payload, false AS blocked, "),
            aside!(),
            " AS aside
FROM (SELECT e.*, sum(",
            row_bytes!(),
            ") OVER (ORDER BY e.seq ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS bytes
    FROM (",
            window!("*", $above),
            ") e) e
WHERE coalesce(bytes, 0) < $2 ORDER BY seq"
        )
    };
}
/// $2 bytes, $3 events. Rows behind one of their aggregate that was set aside are told as such: to leave them out would
/// make a look as long as what is held back. What is set aside is asked for once for each aggregate: what was let go
/// stays in the index for a while, and each row would read all of that. A join, since that finds many by a hash. Where
/// little is set aside, which is the rule, all of it is read at once ($4): not while that is slow, since the index may
/// have many dead entries.
macro_rules! unsent_beside {
    ($above:literal) => {
        concat!(
            "WITH few AS MATERIALIZED (SELECT aggregate_type, aggregate_id, seq FROM outbox_events
    WHERE failed_at IS NOT NULL AND discarded_at IS NULL ORDER BY aggregate_type, aggregate_id, seq LIMIT CASE WHEN $4 THEN 200 ELSE 0 END),
aside AS MATERIALIZED (SELECT aggregate_type, aggregate_id, min(seq) AS seq FROM few
    WHERE $4 AND (SELECT count(*) FROM few) < 200 GROUP BY 1, 2
    UNION ALL SELECT a.aggregate_type, a.aggregate_id, f.seq
    FROM (SELECT DISTINCT aggregate_type, aggregate_id FROM (",
            window!("aggregate_type, aggregate_id", $above),
            ") o WHERE NOT $4 OR (SELECT count(*) FROM few) >= 200) a CROSS JOIN LATERAL (SELECT f.seq FROM outbox_events f
        WHERE f.failed_at IS NOT NULL AND f.discarded_at IS NULL
        AND f.aggregate_type = a.aggregate_type AND f.aggregate_id = a.aggregate_id ORDER BY f.seq LIMIT 1) f)
",
            select!("CASE WHEN blocked THEN NULL ELSE payload END AS payload, blocked, "),
            aside!(),
            " AS aside
FROM (SELECT e.*, count(*) FILTER (WHERE NOT blocked) OVER w AS events,
        sum(CASE WHEN blocked THEN 0 ELSE ",
            row_bytes!(),
            " END) OVER w AS bytes
    FROM (SELECT o.*, coalesce(f.seq < o.seq, false) AS blocked
        FROM (",
            window!("*", $above),
            ") o LEFT JOIN aside f ON f.aggregate_type = o.aggregate_type AND f.aggregate_id = o.aggregate_id
        ORDER BY o.seq OFFSET 0) e
    WINDOW w AS (ORDER BY e.seq ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)) e
WHERE coalesce(events, 0) < $3 AND coalesce(bytes, 0) < $2 ORDER BY seq"
        )
    };
}
/// A number below which no row waits, unless rows are let go.
const UNSENT: [&str; 2] = [
    unsent!(""),
    unsent!(" AND seq > CASE WHEN EXISTS (SELECT FROM outbox_releases) THEN 0 ELSE $3 END"),
];
pub(super) const UNSENT_BESIDE: [&str; 2] = [
    unsent_beside!(""),
    unsent_beside!(" AND seq > CASE WHEN EXISTS (SELECT FROM outbox_releases) THEN 0 ELSE $5 END"),
];

/// $1 fence, $2 token: the turn, if it is ours. The lock holds whoever wants it until this is committed.
macro_rules! mine {
    () => {
        "WITH mine AS MATERIALIZED (
    SELECT 1 FROM outbox_relays WHERE epoch = $1 AND token = $2 FOR NO KEY UPDATE)"
    };
}
/// $3 and $4: rows by number and id.
macro_rules! sent {
    () => {
        "UPDATE outbox_events o SET sent_at = now()
    FROM unnest($3::bigint[], $4::uuid[]) s(seq, event_id)
    WHERE o.seq = s.seq AND o.event_id = s.event_id AND o.sent_at IS NULL AND EXISTS (SELECT FROM mine)"
    };
}
/// For a batch without failures. To count within the statement takes 4 % longer.
pub(super) const MARK_SENT: &str = concat!(mine!(), "\n", sent!());
/// $5 and $6 failed, $7 errors, $8 the topics that they wait for, $9 attempts, $10 in how many milliseconds they are tried
/// again; $11 and $12 sent, of those that waited for that. What is held behind these goes.
pub(super) const MARK: &str = concat!(
    mine!(),
    ",
sent AS (",
    sent!(),
    " RETURNING 1),
failed AS (UPDATE outbox_events o SET failed_at = now(), error = f.error, waits_for = f.topic, attempts = f.attempts,
    retry_at = CASE WHEN f.after IS NOT NULL THEN now() + least(f.after, 1000000000000) * interval '1 millisecond' END
    FROM unnest($5::bigint[], $6::uuid[], $7::text[], $8::text[], $9::integer[], $10::bigint[])
        f(seq, event_id, error, topic, attempts, after)
    WHERE o.seq = f.seq AND o.event_id = f.event_id AND o.sent_at IS NULL AND (o.failed_at IS NULL
        OR (o.discarded_at IS NULL AND NOT o.held AND o.retry_at IS NOT NULL))
    AND EXISTS (SELECT FROM mine) RETURNING 1),
late AS (UPDATE outbox_events o SET sent_at = now(), failed_at = NULL, retry_at = NULL, error = NULL
    FROM unnest($11::bigint[], $12::uuid[]) l(seq, event_id)
    WHERE o.seq = l.seq AND o.event_id = l.event_id AND o.sent_at IS NULL
    AND EXISTS (SELECT FROM mine) RETURNING o.aggregate_type, o.aggregate_id),
asked AS (INSERT INTO outbox_releases AS r (aggregate_type, aggregate_id)
    SELECT DISTINCT aggregate_type, aggregate_id FROM late ORDER BY aggregate_type, aggregate_id
    ON CONFLICT (aggregate_type, aggregate_id) DO UPDATE SET asked = r.asked + 1)
SELECT EXISTS (SELECT FROM mine),
    (SELECT count(*) FROM sent) + (SELECT count(*) FROM failed) + (SELECT count(*) FROM late)"
);
/// $1 and $2: rows by number and id. How many of them are not there.
const MISSING: &str = "SELECT count(*) FROM unnest($1::bigint[], $2::uuid[]) n(seq, event_id)
WHERE NOT EXISTS (SELECT FROM outbox_events o WHERE o.seq = n.seq AND o.event_id = n.event_id)";

impl Rows for Postgres {
    async fn unsent(session: &mut PgConnection, look: RowQuery) -> Result<RowPage, FeedError> {
        let persistent = keeps_statements(session);
        let bound = usize::from(look.above > 0);
        if !look.aside {
            let query = sqlx::query(UNSENT[bound])
                .persistent(persistent)
                .bind(rows(look.window.min(look.events_max)))
                .bind(rows(look.bytes_max));
            let query = if bound == 0 { query } else { query.bind(look.above) };
            let view = view(&query.fetch_all(&mut *session).await?, look)?;
            if !view.aside {
                return Ok(view);
            }
        }
        let query = sqlx::query(UNSENT_BESIDE[bound])
            .persistent(persistent)
            .bind(rows(look.window))
            .bind(rows(look.bytes_max))
            .bind(rows(look.events_max))
            .bind(look.few);
        let query = if bound == 0 { query } else { query.bind(look.above) };
        Ok(view(&query.fetch_all(session).await?, look)?)
    }

    async fn mark(
        session: &mut PgConnection,
        turn: Turn,
        marks: Marks<'_>,
    ) -> Result<Marked, FeedError> {
        let persistent = keeps_statements(session);
        let Marks { sent, late, failed } = marks;
        let (seqs, ids) = halves(sent.iter().copied());
        if failed.is_empty() && late.is_empty() {
            let changed = sqlx::query(text_to_send(MARK_SENT))
                .persistent(persistent)
                .bind(turn.fence)
                .bind(turn.token)
                .bind(&seqs)
                .bind(&ids)
                .execute(&mut *session)
                .await?
                .rows_affected();
            if changed == sent.len() as u64 {
                return Ok(Marked::All);
            }
        }
        let (failed_seqs, failed_ids) = halves(failed.iter().map(|failure| failure.id));
        let errors: Vec<&str> = failed.iter().map(|failure| failure.error.as_str()).collect();
        let topics: Vec<Option<&str>> =
            failed.iter().map(|failure| failure.waits_for.as_deref()).collect();
        let attempts: Vec<i32> = failed.iter().map(attempts).collect();
        let afters: Vec<Option<i64>> =
            failed.iter().map(|failure| failure.retry_after.map(millis)).collect();
        let (late_seqs, late_ids) = halves(late.iter().copied());
        let (mine, changed): (bool, i64) = sqlx::query_as(text_to_send(MARK))
            .persistent(persistent)
            .bind(turn.fence)
            .bind(turn.token)
            .bind(&seqs)
            .bind(&ids)
            .bind(&failed_seqs)
            .bind(&failed_ids)
            .bind(errors)
            .bind(topics)
            .bind(attempts)
            .bind(afters)
            .bind(&late_seqs)
            .bind(&late_ids)
            .fetch_one(&mut *session)
            .await?;
        if !mine {
            return Ok(Marked::NotOurs);
        }
        if changed == rows(sent.len() + failed.len() + late.len()) {
            return Ok(Marked::All);
        }
        // Marked before, in a call whose answer was lost; or not there.
        let (seqs, ids) = halves(marks.ids());
        let missing: i64 = sqlx::query_scalar(MISSING)
            .persistent(persistent)
            .bind(seqs)
            .bind(ids)
            .fetch_one(session)
            .await?;
        Ok(Marked::of(missing))
    }
}

pub(super) fn halves(rows: impl Iterator<Item = RowId>) -> (Vec<i64>, Vec<Uuid>) {
    rows.map(|row| (row.seq, row.event)).unzip()
}

fn view(found: &[PgRow], look: RowQuery) -> Result<RowPage, sqlx::Error> {
    let aside = match found.first() {
        Some(row) => row.try_get("aside")?,
        None => look.aside,
    };
    Ok(RowPage {
        rows: found.iter().map(|row| flow::rows::row(row, false)).collect::<Result<_, _>>()?,
        aside,
    })
}

pub(super) use {millis_between, retries, row_bytes, select};
