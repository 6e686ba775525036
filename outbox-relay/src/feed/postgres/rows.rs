//! The rows that wait: read, and marked as sent.

use outbox_core::internal::keeps_statements;
use sqlx::{PgConnection, Postgres, Row as _, postgres::PgRow};
use uuid::Uuid;

use super::store;
use crate::{
    feed::{
        flow::{
            self,
            store::{StoreSql, StoreTexts},
        },
        rows, text_to_send,
    },
    port::{FeedError, RowKey, RowPage, RowQuery, Shards, Turn},
};

/// The first rows that wait: $1 so many. PostgreSQL may take the primary key for a bound, and read what was sent:
/// reads from the start have none.
macro_rules! window {
    ($columns:literal, $above:expr) => {
        concat!(
            "SELECT ",
            $columns,
            " FROM outbox_events WHERE sent_at IS NULL AND parked_at IS NULL",
            $above,
            " ORDER BY seq LIMIT $1"
        )
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
/// What is read of a row.
macro_rules! select {
    () => {
        concat!(
            "SELECT seq, event_id, event_type, aggregate_type, aggregate_id, aggregate_version,
    occurred_at_ms, schema_version, topic, dedup_key, headers, ",
            millis_between!("created_at", "now()"),
            " AS age,
    CASE WHEN deliver_after > now() THEN ",
            millis_between!("now()", "deliver_after"),
            " END AS delay, "
        )
    };
}
/// Its bytes, which are known without reading the payload.
macro_rules! row_bytes {
    () => {
        "least(octet_length(e.headers)::bigint + coalesce(octet_length(e.payload), 0), 2147483647)::integer"
    };
}
/// Rows, each with whether anything is parked: one probe of an index. With the first of them, or instead of it, come the
/// numbers of what waits below; an array on each of them would be sent as often. In no order that is promised: another one
/// than that of the index would copy all payloads.
macro_rules! page {
    ($earlier:expr, $($rows:expr),+) => {
        concat!(
            "SELECT e.*, CASE WHEN e.bytes IS NULL THEN x.earlier END AS earlier, x.parked
FROM (SELECT ",
            $earlier,
            " AS earlier, EXISTS (SELECT FROM (SELECT FROM outbox_parked LIMIT 1) p) AS parked) x LEFT JOIN (",
            $($rows,)+
            ") e ON true"
        )
    };
}
/// $2 bytes; the first row may be larger. Of use as long as nothing is parked.
macro_rules! unsent {
    ($earlier:expr, $above:expr) => {
        page!(
            $earlier,
            select!(),
            "payload, false AS blocked, bytes
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
/// The same where something is parked. Blocked rows come marked as such, without their payload. The parking store is asked
/// once for each aggregate: what has left it stays in the index for a while, and each row would read all of that. A join,
/// since that finds many by a hash.
macro_rules! unsent_beside {
    ($earlier:expr, $above:expr) => {
        page!(
            $earlier,
            "WITH parked AS MATERIALIZED (SELECT a.aggregate_type, a.aggregate_id, f.seq
    FROM (SELECT DISTINCT aggregate_type, aggregate_id FROM (",
            window!("aggregate_type, aggregate_id", $above),
            ") o) a CROSS JOIN LATERAL (SELECT p.seq FROM outbox_parked p
        WHERE p.aggregate_type = a.aggregate_type AND p.aggregate_id = a.aggregate_id ORDER BY p.seq LIMIT 1) f)
",
            select!(),
            "CASE WHEN blocked THEN NULL ELSE payload END AS payload, blocked, bytes
FROM (SELECT e.*, sum(CASE WHEN blocked THEN 0 ELSE ",
            row_bytes!(),
            " END) OVER (ORDER BY e.seq ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS bytes
    FROM (SELECT o.*, coalesce(p.seq < o.seq, false) AS blocked
        FROM (",
            window!("*", $above),
            ") o LEFT JOIN parked p ON p.aggregate_type = o.aggregate_type AND p.aggregate_id = o.aggregate_id
        ORDER BY o.seq OFFSET 0) e) e
WHERE coalesce(bytes, 0) < $2 ORDER BY seq"
        )
    };
}
/// The condition that a row is of an aggregate in these shards.
macro_rules! of_shards {
    ($shards:literal) => {
        concat!(
            " AND (",
            $shards,
            "::integer >> (hashtextextended(aggregate_type || '/' || aggregate_id, 0) & 15)::integer) & 1 = 1"
        )
    };
}
/// A statement for all shards, and for some: from the start, $3 which, and behind $3, a number below which no row waits, and
/// $4, the last that was read, $5 which.
macro_rules! variants {
    ($statement:ident) => {
        [
            [
                $statement!("'{}'::bigint[]", ""),
                $statement!(
                    "ARRAY(SELECT seq FROM outbox_events WHERE sent_at IS NULL AND parked_at IS NULL AND seq > $3 AND seq <= $4
    ORDER BY seq)",
                    " AND seq > greatest($3::bigint, $4::bigint)"
                ),
            ],
            [
                $statement!("'{}'::bigint[]", of_shards!("$3")),
                $statement!(
                    concat!(
                        "ARRAY(SELECT seq FROM outbox_events WHERE sent_at IS NULL AND parked_at IS NULL AND seq > $3 AND seq <= $4",
                        of_shards!("$5"),
                        " ORDER BY seq)"
                    ),
                    concat!(" AND seq > greatest($3::bigint, $4::bigint)", of_shards!("$5"))
                ),
            ],
        ]
    };
}
const UNSENT: [[&str; 2]; 2] = variants!(unsent);
pub(in crate::feed) const UNSENT_BESIDE: [[&str; 2]; 2] = variants!(unsent_beside);

/// For a conclusion of rows from the feed, all of which were sent: $1 fence, $2 token, $3 and $4 rows by number and id. The
/// lock holds back who wants the turn until this is committed. To count within the statement takes 4 % longer.
pub(super) const MARK_SENT: &str = "WITH mine AS MATERIALIZED (
    SELECT 1 FROM outbox_relays WHERE epoch = $1 AND token = $2 FOR NO KEY UPDATE)
UPDATE outbox_events o SET sent_at = now()
FROM unnest($3::bigint[], $4::uuid[]) s(seq, event_id)
WHERE o.seq = s.seq AND o.event_id = s.event_id AND o.sent_at IS NULL AND EXISTS (SELECT FROM mine)";

/// Said aloud, since a role's default may be another.
const BEGIN: &str = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE";

impl StoreSql for Postgres {
    fn store_texts() -> &'static StoreTexts {
        &store::TEXTS
    }

    async fn page(session: &mut PgConnection, query: RowQuery) -> Result<RowPage, FeedError> {
        let (found, is_parked) = page(session, &UNSENT, query).await?;
        if !is_parked {
            return Ok(found);
        }
        Ok(page(session, &UNSENT_BESIDE, query).await?.0)
    }

    /// Behind a pooler one is open.
    async fn begin_writing(session: &mut PgConnection) -> Result<(), sqlx::Error> {
        if keeps_statements(session) {
            sqlx::raw_sql(BEGIN).execute(session).await?;
        }
        Ok(())
    }

    async fn end_writing(session: &mut PgConnection) -> Result<(), sqlx::Error> {
        if keeps_statements(session) {
            sqlx::raw_sql("COMMIT").execute(session).await?;
        }
        Ok(())
    }

    async fn mark_sent(
        session: &mut PgConnection,
        turn: Turn,
        sent: &[RowKey],
    ) -> Result<bool, sqlx::Error> {
        let (seqs, ids): (Vec<i64>, Vec<Uuid>) =
            sent.iter().map(|row| (row.seq, Uuid::from_u128(row.event))).unzip();
        let done = sqlx::query(text_to_send(MARK_SENT))
            .persistent(keeps_statements(session))
            .bind(turn.fence)
            .bind(turn.token)
            .bind(seqs)
            .bind(ids)
            .execute(session)
            .await?;
        Ok(done.rows_affected() == sent.len() as u64)
    }
}

/// What a statement finds, and whether anything is parked.
async fn page(
    session: &mut PgConnection,
    texts: &[[&'static str; 2]; 2],
    look: RowQuery,
) -> Result<(RowPage, bool), sqlx::Error> {
    let is_bound = look.floor > 0 || look.read_to > 0;
    let is_part = look.shards != Shards::ALL;
    let query = sqlx::query(texts[usize::from(is_part)][usize::from(is_bound)])
        .persistent(keeps_statements(session))
        .bind(rows(look.rows_max))
        .bind(rows(look.bytes_max));
    let query = if is_bound { query.bind(look.floor).bind(look.read_to) } else { query };
    let query = if is_part { query.bind(i32::from(look.shards.0)) } else { query };
    read(&query.fetch_all(session).await?)
}

fn read(found: &[PgRow]) -> Result<(RowPage, bool), sqlx::Error> {
    let mut page = RowPage::default();
    let mut is_parked = false;
    for row in found {
        is_parked = row.try_get("parked")?;
        let earlier: Option<Vec<i64>> = row.try_get("earlier")?;
        page.earlier.extend(earlier.into_iter().flatten());
        if row.try_get::<Option<i64>, _>("seq")?.is_some() {
            page.rows.push(flow::rows::row(row, false)?);
        }
    }
    page.rows.sort_by_key(|row| row.id.seq);
    Ok((page, is_parked))
}

pub(super) use {millis_between, row_bytes, select};
