//! The rows that wait.

use inbox_engine::{Cut, Rule, Statement};
use outbox_core::keeps_statements;
use sqlx::{PgConnection, Postgres, Row as _, postgres::PgRow};
use uuid::Uuid;

use crate::{
    feed::{rows, stored::decoded},
    port::{Failure, FeedError, Look, Marked, Row, RowId, Rows, Turn},
};

/// $1 rows to look at, $2 bytes, $3 events. The first event goes whatever its size; what a row adds is known
/// without reading its payload. Rows behind one of their aggregate that was set aside are told as such: to leave them
/// out would make a look as long as what is held back. Three things that PostgreSQL would do 500 times for nothing: to
/// ask for what is set aside though nothing is, to sum `numeric`, to sort what is sorted.
macro_rules! unsent {
    ($above:literal) => {
        concat!(
            "SELECT seq, event_id, event_type, aggregate_type, aggregate_id, aggregate_version,
    occurred_at_ms, schema_version, topic, headers, CASE WHEN blocked THEN NULL ELSE payload END AS payload, blocked
FROM (SELECT e.*, count(*) FILTER (WHERE NOT blocked) OVER w AS events,
        sum(CASE WHEN blocked THEN 0 ELSE least(
            octet_length(e.headers)::bigint + coalesce(octet_length(e.payload), 0), 2147483647)::integer END)
            OVER w AS bytes
    FROM (SELECT o.*, EXISTS (SELECT FROM outbox_events WHERE failed_at IS NOT NULL AND discarded_at IS NULL)
            AND EXISTS (SELECT FROM outbox_events f WHERE f.failed_at IS NOT NULL AND f.discarded_at IS NULL
                AND f.aggregate_type = o.aggregate_type AND f.aggregate_id = o.aggregate_id AND f.seq < o.seq)
            AS blocked
        FROM (SELECT * FROM outbox_events WHERE sent_at IS NULL AND failed_at IS NULL",
            $above,
            " ORDER BY seq LIMIT $1) o ORDER BY seq OFFSET 0) e
    WINDOW w AS (ORDER BY e.seq ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)) e
WHERE coalesce(events, 0) < $3 AND coalesce(bytes, 0) < $2 ORDER BY seq"
        )
    };
}
/// From the start. Without a bound no index but the one of what waits is the cheapest; with one PostgreSQL may read
/// what was sent, by the primary key.
const UNSENT: &str = unsent!("");
/// $4 a number below which no row waits, unless rows are let go.
const UNSENT_ABOVE: &str =
    unsent!(" AND seq > CASE WHEN EXISTS (SELECT FROM outbox_releases) THEN 0 ELSE $4 END");

/// $1 fence, $2 token, $3 and $4 sent, $5 and $6 failed, $7 errors, $8 the topics that they wait for: rows by number
/// and id. The lock holds whoever wants the turn until this is committed.
static MARK: Statement = Statement::new(
    "WITH mine AS MATERIALIZED (
    SELECT 1 FROM outbox_relays WHERE epoch = $1 AND token = $2 FOR NO KEY UPDATE),
sent AS (UPDATE outbox_events o SET sent_at = now()
    FROM unnest($3::bigint[], $4::uuid[]) s(seq, event_id)
    WHERE o.seq = s.seq AND o.event_id = s.event_id AND o.sent_at IS NULL AND EXISTS (SELECT FROM mine) RETURNING 1),
failed AS (UPDATE outbox_events o SET failed_at = now(), error = f.error, waits_for = f.topic
    FROM unnest($5::bigint[], $6::uuid[], $7::text[], $8::text[]) f(seq, event_id, error, topic)
    WHERE o.seq = f.seq AND o.event_id = f.event_id AND o.sent_at IS NULL AND o.failed_at IS NULL
    AND EXISTS (SELECT FROM mine) RETURNING 1)
SELECT EXISTS (SELECT FROM mine), (SELECT count(*) FROM sent) + (SELECT count(*) FROM failed)",
    &[
        Cut::new(Rule::MarkNamesEvent, " AND o.event_id = s.event_id", ""),
        Cut::new(Rule::MarkNamesEvent, " AND o.event_id = f.event_id", ""),
        Cut::new(Rule::TurnHasToken, "token = $2", "$2::uuid IS NOT NULL"),
    ],
);
/// $1 and $2: rows by number and id. How many of them are not there.
const MISSING: &str = "SELECT count(*) FROM unnest($1::bigint[], $2::uuid[]) n(seq, event_id)
WHERE NOT EXISTS (SELECT FROM outbox_events o WHERE o.seq = n.seq AND o.event_id = n.event_id)";

impl Rows for Postgres {
    async fn unsent(session: &mut PgConnection, look: Look) -> Result<Vec<Row>, FeedError> {
        let (text, above) = match look.above {
            0 => (UNSENT, None),
            above => (UNSENT_ABOVE, Some(above)),
        };
        let mut query = sqlx::query(text)
            .persistent(keeps_statements(session))
            .bind(rows(look.window))
            .bind(rows(look.bytes_max))
            .bind(rows(look.events_max));
        if let Some(above) = above {
            query = query.bind(above);
        }
        let found = query.fetch_all(session).await?;
        Ok(found.iter().map(columns).collect::<Result<Vec<_>, _>>()?)
    }

    async fn mark(
        session: &mut PgConnection,
        turn: Turn,
        sent: &[RowId],
        failed: &[Failure],
    ) -> Result<Marked, FeedError> {
        let (mut seqs, mut ids) = halves(sent.iter().copied());
        let (failed_seqs, failed_ids) = halves(failed.iter().map(|failure| failure.id));
        let errors: Vec<&str> = failed.iter().map(|failure| failure.error.as_str()).collect();
        let topics: Vec<Option<&str>> =
            failed.iter().map(|failure| failure.waits_for.as_deref()).collect();
        let (mine, changed): (bool, i64) = sqlx::query_as(MARK.text())
            .persistent(keeps_statements(session))
            .bind(turn.fence)
            .bind(turn.token)
            .bind(&seqs)
            .bind(&ids)
            .bind(&failed_seqs)
            .bind(&failed_ids)
            .bind(errors)
            .bind(topics)
            .fetch_one(&mut *session)
            .await?;
        if !mine {
            return Ok(Marked::NotOurs);
        }
        if changed == rows(sent.len() + failed.len()) {
            return Ok(Marked::All);
        }
        // Marked before, in a call whose answer was lost; or not there.
        seqs.extend(failed_seqs);
        ids.extend(failed_ids);
        let missing: i64 = sqlx::query_scalar(MISSING)
            .persistent(keeps_statements(session))
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

fn columns(row: &PgRow) -> Result<Row, sqlx::Error> {
    let columns = decoded!(row);
    if !Rule::ColumnsReadAlone.on() {
        columns.whole()?;
    }
    Ok(columns.row(row.try_get("blocked")?))
}
