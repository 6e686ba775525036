//! The parking store.

use sqlx::{Sqlite, SqliteConnection};

use super::{
    rows::{millis_until, select},
    store,
};
use crate::{
    feed::{
        flow::{
            self, SqlClient as _,
            parking::{ParkingSql, ParkingTexts},
            store::StoreSql as _,
            values,
        },
        rows,
    },
    port::{Appenders, FeedError, Row, Shards, Turn, Writers},
};

/// ?1 fence, ?2 destination, ?3 rows, ?4 bytes; the first one may be larger. Nothing is claimed before an earlier row
/// of its aggregate: not while one of them cannot go (the first condition), and not where one is due later than it, or does
/// not come along for another reason (the last one).
pub(super) const CLAIM: &str = concat!(
    select!(),
    "
FROM (SELECT e.*, d.attempts, 0 AS blocked, row_number() OVER (PARTITION BY d.aggregate_type, d.aggregate_id ORDER BY d.seq) - 1 AS place,
        (SELECT count(*) FROM outbox_parked f
            WHERE f.aggregate_type = d.aggregate_type AND f.aggregate_id = d.aggregate_id AND f.seq < d.seq
            AND f.claimed_by IS NOT ?1) AS earlier
    FROM (SELECT d.*, sum(length(e.headers) + coalesce(length(e.payload), 0))
            OVER (ORDER BY d.due_at, d.seq ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS bytes
        FROM (SELECT p.seq, p.due_at, p.attempts, p.aggregate_type, p.aggregate_id FROM outbox_parked p
            WHERE p.destination = ?2 AND p.due_at <= CAST(unixepoch('subsec') * 1000 AS INTEGER) AND p.claimed_by IS NOT ?1
            AND NOT EXISTS (SELECT 1 FROM outbox_parked f
                WHERE f.aggregate_type = p.aggregate_type AND f.aggregate_id = p.aggregate_id AND f.seq < p.seq
                AND f.claimed_by IS NOT ?1 AND (f.due_at IS NULL
                    OR f.due_at > CAST(unixepoch('subsec') * 1000 AS INTEGER) OR f.destination <> ?2))
            ORDER BY p.due_at, p.seq LIMIT ?3) d JOIN outbox_events e ON e.seq = d.seq) d
    JOIN outbox_events e ON e.seq = d.seq WHERE coalesce(d.bytes, 0) < ?4)
WHERE place = earlier ORDER BY seq"
);
/// ?1 rows as JSON, ?2 fence.
const CLAIMED: &str = "UPDATE outbox_parked SET claimed_by = ?2
WHERE seq IN (SELECT value FROM json_each(?1))";
/// The destinations one by one, each found by one probe of the index, and the first row of each.
const DUE_DESTINATIONS: &str = concat!(
    "WITH RECURSIVE d(destination) AS (
    SELECT * FROM (SELECT destination FROM outbox_parked INDEXED BY outbox_parked_dues
        WHERE due_at IS NOT NULL ORDER BY destination LIMIT 1)
    UNION ALL
    SELECT (SELECT p.destination FROM outbox_parked p INDEXED BY outbox_parked_dues
        WHERE p.due_at IS NOT NULL AND p.destination > d.destination ORDER BY p.destination LIMIT 1)
    FROM d WHERE d.destination IS NOT NULL)
SELECT destination, ",
    millis_until!("due_at"),
    " FROM (SELECT d.destination, (SELECT p.due_at FROM outbox_parked p INDEXED BY outbox_parked_dues
        WHERE p.destination = d.destination AND p.due_at IS NOT NULL AND p.claimed_by IS NOT ?1
        ORDER BY p.due_at, p.seq LIMIT 1) AS due_at FROM d WHERE d.destination IS NOT NULL)
WHERE due_at IS NOT NULL AND ?2 <> 0"
);
/// What is parked though its event is gone, sent or discarded, as by hand, goes.
const GONE: &str = "DELETE FROM outbox_parked WHERE NOT EXISTS (SELECT 1 FROM outbox_events o
    WHERE o.seq = outbox_parked.seq AND o.sent_at IS NULL AND o.discarded_at IS NULL)";
const ORPHANS: &str = "UPDATE outbox_parked AS p
SET state = 'ready', due_at = CAST(unixepoch('subsec') * 1000 AS INTEGER)
WHERE p.state = 'behind' AND NOT EXISTS (SELECT 1 FROM outbox_parked f
    WHERE f.aggregate_type = p.aggregate_type AND f.aggregate_id = p.aggregate_id AND f.seq < p.seq)";

static TEXTS: ParkingTexts = ParkingTexts {
    due_destinations: DUE_DESTINATIONS,
    end_claims: "UPDATE outbox_parked SET claimed_by = NULL WHERE claimed_by = ?1
    AND EXISTS (SELECT 1 FROM outbox_relays WHERE epoch = ?1 AND token = ?2)",
};

impl ParkingSql for Sqlite {
    fn parking_texts() -> &'static ParkingTexts {
        &TEXTS
    }

    async fn claim_rows(
        session: &mut SqliteConnection,
        (turn, _): (Turn, Shards),
        destination: &str,
        rows_max: usize,
        bytes_max: usize,
    ) -> Result<Option<Vec<Row>>, FeedError> {
        Self::begin_writing(session).await?;
        let mine = values![turn.fence, turn.token];
        if Self::fetch_optional(session, store::TEXTS.mine, mine).await?.is_none() {
            Self::end_writing(session).await?;
            return Ok(None);
        }
        let values = values![turn.fence, destination, rows(rows_max), rows(bytes_max)];
        let found = Self::fetch_all(session, CLAIM, values).await?;
        let claimed: Vec<Row> =
            found.iter().map(|row| flow::rows::row(row, true)).collect::<Result<_, _>>()?;
        let seqs: Vec<i64> = claimed.iter().map(|row| row.id.seq).collect();
        let seqs = serde_json::Value::from(seqs).to_string();
        Self::execute(session, CLAIMED, values![seqs.as_str(), turn.fence]).await?;
        Self::end_writing(session).await?;
        Ok(Some(claimed))
    }

    /// Of all aggregates at once: a file holds no millions of them.
    async fn release(
        session: &mut SqliteConnection,
        _: (&str, &str),
    ) -> Result<Option<(String, String)>, FeedError> {
        Self::execute(session, GONE, &[]).await?;
        Self::execute(session, ORPHANS, &[]).await?;
        Ok(None)
    }
}

impl Writers for Sqlite {
    /// There is one writer at a time: nobody has a number that cannot be seen. And a row that was sent leaves nothing
    /// behind in the index.
    async fn appenders(_: &mut SqliteConnection) -> Result<Option<Appenders>, FeedError> {
        Ok(None)
    }
}
