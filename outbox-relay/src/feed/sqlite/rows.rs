//! The rows that wait.

use sqlx::{Connection, Sqlite, SqliteConnection, Transaction};

use crate::{
    feed::{attempts, flow, millis, rows, text_to_send},
    port::{FeedError, Marked, Marks, RowId, RowPage, RowQuery, Rows, Turn},
};

/// Milliseconds until a time. Whoever writes rows may write any: a difference that is none of SQLite's whole numbers is
/// no whole number.
macro_rules! millis_until {
    ($time:literal) => {
        concat!(
            "max(-1000000000000, min(",
            $time,
            " - CAST(unixepoch('subsec') * 1000 AS INTEGER), 1000000000000))"
        )
    };
}
/// What each look reads of a row.
macro_rules! select {
    () => {
        concat!(
            "SELECT seq, event_id, event_type, aggregate_type, aggregate_id, aggregate_version,
    occurred_at_ms, schema_version, topic, dedup_key, headers, CASE WHEN blocked THEN NULL ELSE payload END AS payload, blocked,
    attempts, -",
            millis_until!("created_at"),
            " AS age, nullif(max(",
            millis_until!("coalesce(deliver_after, 0)"),
            ", 0), 0) AS delay"
        )
    };
}
/// A row that waits for another attempt: the condition of its index.
macro_rules! retries {
    () => {
        "failed_at IS NOT NULL AND discarded_at IS NULL AND held = 0 AND retry_at IS NOT NULL"
    };
}
/// ?1 rows to look at, ?2 bytes, ?3 events. The first event goes whatever its size. Rows behind one of their
/// aggregate that was set aside are told as such.
const UNSENT: &str = concat!(select!(), "
FROM (SELECT e.*, count(*) FILTER (WHERE NOT blocked) OVER w AS events,
        sum(CASE WHEN blocked THEN 0 ELSE length(e.headers) + coalesce(length(e.payload), 0) END) OVER w AS bytes
    FROM (SELECT o.*, EXISTS (SELECT 1 FROM outbox_events f WHERE f.failed_at IS NOT NULL AND f.discarded_at IS NULL
            AND f.aggregate_type = o.aggregate_type AND f.aggregate_id = o.aggregate_id AND f.seq < o.seq) AS blocked
        FROM (SELECT * FROM outbox_events WHERE sent_at IS NULL AND failed_at IS NULL ORDER BY seq LIMIT ?1) o) e
    WINDOW w AS (ORDER BY e.seq ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)) e
WHERE coalesce(events, 0) < ?3 AND coalesce(bytes, 0) < ?2 ORDER BY seq");

pub(super) const BEGIN: &str = "BEGIN IMMEDIATE";
/// ?1 fence, ?2 token.
pub(super) const MINE: &str = "SELECT 1 FROM outbox_relays WHERE epoch = ?1 AND token = ?2";
/// ?1 numbers as JSON, ?2 ids, one behind the other.
pub(super) const SENT: &str =
    "UPDATE outbox_events SET sent_at = CAST(unixepoch('subsec') * 1000 AS INTEGER)
FROM (SELECT value AS seq, substr(?2, key * 16 + 1, 16) AS event_id FROM json_each(?1)) s
WHERE outbox_events.seq = s.seq AND outbox_events.event_id = s.event_id AND sent_at IS NULL";
/// ?1 number, ?2 id, ?3 error, ?4 the topic that it waits for, ?5 attempts, ?6 in how many milliseconds it is tried again.
pub(super) const FAILED: &str = concat!(
    "UPDATE outbox_events SET failed_at = CAST(unixepoch('subsec') * 1000 AS INTEGER), error = ?3,
    waits_for = ?4, attempts = ?5, retry_at = CAST(unixepoch('subsec') * 1000 AS INTEGER) + min(?6, 1000000000000)
WHERE seq = ?1 AND event_id = ?2 AND sent_at IS NULL AND (failed_at IS NULL OR (",
    retries!(),
    "))"
);
/// ?1 numbers as JSON, ?2 ids, one behind the other: sent, of those that waited for another attempt.
pub(super) const LATE: &str =
    "UPDATE outbox_events SET sent_at = CAST(unixepoch('subsec') * 1000 AS INTEGER),
    failed_at = NULL, retry_at = NULL, error = NULL
FROM (SELECT value AS seq, substr(?2, key * 16 + 1, 16) AS event_id FROM json_each(?1)) l
WHERE outbox_events.seq = l.seq AND outbox_events.event_id = l.event_id AND sent_at IS NULL";
/// ?1 and ?2 as there, before they are: what is held behind them goes.
pub(super) const LATE_ASK: &str = "INSERT INTO outbox_releases (aggregate_type, aggregate_id)
SELECT DISTINCT o.aggregate_type, o.aggregate_id
FROM (SELECT value AS seq, substr(?2, key * 16 + 1, 16) AS event_id FROM json_each(?1)) l
JOIN outbox_events o ON o.seq = l.seq AND o.event_id = l.event_id AND o.sent_at IS NULL WHERE true
ON CONFLICT (aggregate_type, aggregate_id) DO UPDATE SET asked = asked + 1";
/// ?1 numbers as JSON, ?2 ids, one behind the other. How many of them are not there.
const MISSING: &str =
    "SELECT count(*) FROM (SELECT value AS seq, substr(?2, key * 16 + 1, 16) AS event_id FROM json_each(?1)) n
WHERE NOT EXISTS (SELECT 1 FROM outbox_events o WHERE o.seq = n.seq AND o.event_id = n.event_id)";

impl Rows for Sqlite {
    async fn unsent(session: &mut SqliteConnection, look: RowQuery) -> Result<RowPage, FeedError> {
        let found = sqlx::query(UNSENT)
            .bind(rows(look.window))
            .bind(rows(look.bytes_max))
            .bind(rows(look.events_max))
            .fetch_all(session)
            .await?;
        let rows =
            found.iter().map(|row| flow::rows::row(row, false)).collect::<Result<Vec<_>, _>>()?;
        Ok(RowPage { rows, aside: look.aside })
    }

    async fn mark(
        session: &mut SqliteConnection,
        turn: Turn,
        marks: Marks<'_>,
    ) -> Result<Marked, FeedError> {
        let Some(mut tx) = in_turn(session, turn).await? else { return Ok(Marked::NotOurs) };
        let Marks { sent, late, failed } = marks;
        if !late.is_empty() {
            let (seqs, ids) = halves(late.iter().copied());
            for text in [LATE_ASK, LATE] {
                let query = sqlx::query(text_to_send(text)).bind(&seqs).bind(&ids);
                query.execute(&mut *tx).await?;
            }
        }
        let (seqs, ids) = halves(sent.iter().copied());
        sqlx::query(text_to_send(SENT)).bind(seqs).bind(ids).execute(&mut *tx).await?;
        for failure in failed {
            let row = sqlx::query(text_to_send(FAILED)).bind(failure.id.seq).bind(failure.id.event);
            let row = row.bind(&failure.error).bind(&failure.waits_for).bind(attempts(failure));
            row.bind(failure.retry_after.map(millis)).execute(&mut *tx).await?;
        }
        let (seqs, ids) = halves(marks.ids());
        let missing = sqlx::query_scalar(MISSING).bind(seqs).bind(ids).fetch_one(&mut *tx).await?;
        tx.commit().await?;
        Ok(Marked::of(missing))
    }
}

/// A transaction that writes, if the turn is ours, which it stays until the end of it.
pub(super) async fn in_turn(
    session: &mut SqliteConnection,
    turn: Turn,
) -> Result<Option<Transaction<'_, Sqlite>>, sqlx::Error> {
    let mut tx = session.begin_with(BEGIN).await?;
    let mine = sqlx::query(text_to_send(MINE)).bind(turn.fence).bind(turn.token);
    if mine.fetch_optional(&mut *tx).await?.is_some() {
        return Ok(Some(tx));
    }
    tx.rollback().await?;
    Ok(None)
}

/// Numbers as JSON, and ids, one behind the other.
pub(super) fn halves(rows: impl Iterator<Item = RowId>) -> (String, Vec<u8>) {
    let (seqs, ids): (Vec<i64>, Vec<[u8; 16]>) =
        rows.map(|row| (row.seq, *row.event.as_bytes())).unzip();
    (serde_json::to_string(&seqs).unwrap_or_default(), ids.concat())
}

pub(super) use {millis_until, retries, select};

#[cfg(feature = "cli")]
#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::{collection::vec, option, prelude::*};
    use sqlx::SqliteConnection;
    use uuid::Uuid;

    use super::*;
    use crate::port::{
        Holding as _, Row, RowFailure, Schema as _, TurnAnswer, TurnRequest, Turns as _,
    };

    /// What the columns of a row hold: whatever they admit.
    #[derive(Clone, Debug)]
    struct Stored {
        event_type: Vec<u8>,
        aggregate: (Vec<u8>, Vec<u8>),
        numbers: [Option<i64>; 3],
        topic: Option<Vec<u8>>,
        headers: Vec<u8>,
        payload: Option<Vec<u8>>,
    }

    fn stored() -> impl Strategy<Value = Stored> {
        let text = || prop_oneof![vec(any::<u8>(), 1..4), vec(b'a'..=b'c', 1..2)];
        let headers = prop_oneof![
            Just(b"[]".to_vec()),
            Just(br#"[["a\u0000b",{"base64":"!"}]]"#.to_vec()),
            vec(any::<u8>(), 0..9),
        ];
        let numbers =
            [option::of(any::<i64>()), option::of(any::<i64>()), option::of(any::<i64>())];
        let payload = option::of(vec(any::<u8>(), 0..9));
        (text(), (text(), text()), numbers, option::of(text()), headers, payload).prop_map(
            |(event_type, aggregate, numbers, topic, headers, payload)| Stored {
                event_type,
                aggregate,
                numbers,
                topic,
                headers,
                payload,
            },
        )
    }

    async fn insert(session: &mut SqliteConnection, row: &Stored) {
        let sql = "INSERT INTO outbox_events (event_id, event_type, aggregate_type, aggregate_id, aggregate_version,
            occurred_at_ms, schema_version, topic, headers, payload)
            VALUES (?1, CAST(?2 AS TEXT), CAST(?3 AS TEXT), CAST(?4 AS TEXT), ?5, ?6, ?7, CAST(?8 AS TEXT),
            CAST(?9 AS TEXT), ?10)";
        sqlx::query(sql)
            .bind(Uuid::new_v4())
            .bind(&row.event_type)
            .bind(&row.aggregate.0)
            .bind(&row.aggregate.1)
            .bind(row.numbers[0])
            .bind(row.numbers[1])
            .bind(row.numbers[2])
            .bind(&row.topic)
            .bind(&row.headers)
            .bind(&row.payload)
            .execute(session)
            .await
            .unwrap();
    }

    /// Ships all rows there are, without a broker: events are sent, what is none is set aside.
    async fn ship(stored: &[Stored]) -> i64 {
        let mut session = SqliteConnection::connect("sqlite::memory:").await.unwrap();
        Sqlite::migrate(&mut session).await.unwrap();
        // As rows of before the trigger are.
        sqlx::raw_sql("DROP TRIGGER outbox_events_headers").execute(&mut session).await.unwrap();
        for row in stored {
            insert(&mut session, row).await;
        }
        let lease = Duration::from_mins(1);
        let request = TurnRequest { holder: "me", lease, token: Uuid::new_v4(), silent: None };
        let TurnAnswer::Taken(turn) = Sqlite::take_turn(&mut session, request).await.unwrap()
        else {
            panic!("nobody else is there");
        };
        loop {
            let look = RowQuery {
                window: 3,
                events_max: 3,
                bytes_max: 1 << 20,
                above: 0,
                few: true,
                aside: true,
            };
            let rows = Sqlite::unsent(&mut session, look).await.unwrap().rows;
            if rows.is_empty() {
                break;
            }
            let (blocked, rows): (Vec<Row>, Vec<Row>) =
                rows.into_iter().partition(|row| row.blocked);
            let blocked: Vec<RowId> = blocked.iter().map(|row| row.id).collect();
            assert!(Sqlite::hold(&mut session, turn, &blocked).await.unwrap());
            let (sent, failed): (Vec<Row>, Vec<Row>) =
                rows.into_iter().partition(|row| row.event.is_ok());
            let sent: Vec<RowId> = sent.iter().map(|row| row.id).collect();
            let failure = |row: Row| RowFailure {
                id: row.id,
                event: String::new(),
                error: row.event.unwrap_err(),
                waits_for: None,
                attempts: 1,
                retry_after: None,
            };
            let failed: Vec<RowFailure> = failed.into_iter().map(failure).collect();
            let marks = Marks { sent: &sent, failed: &failed, ..Marks::default() };
            let marked = Sqlite::mark(&mut session, turn, marks).await.unwrap();
            assert_eq!(marked, Marked::All);
        }
        // What is neither waits behind one that was set aside.
        let left = "SELECT count(*) FROM outbox_events o WHERE sent_at IS NULL AND (failed_at IS NULL OR held = 1)
            AND NOT EXISTS (SELECT 1 FROM outbox_events f WHERE f.failed_at IS NOT NULL AND f.held = 0 AND f.seq < o.seq
            AND f.aggregate_type = o.aggregate_type AND f.aggregate_id = o.aggregate_id)";
        let left = sqlx::query_scalar(left).fetch_one(&mut session).await.unwrap();
        let choice = crate::port::Choice::default();
        let listed = <Sqlite as crate::port::FailedRows>::failed(&mut session, &choice, 100).await;
        let named =
            "SELECT count(*) FROM outbox_events WHERE failed_at IS NOT NULL AND error <> ''";
        let named: i64 = sqlx::query_scalar(named).fetch_one(&mut session).await.unwrap();
        assert_eq!(listed.unwrap().len(), usize::try_from(named).unwrap());
        left
    }

    proptest! {
        #![proptest_config(ProptestConfig {
            cases: 48, failure_persistence: None, ..ProptestConfig::default()
        })]

        /// Whatever a row holds, it is sent or set aside, and no other row waits for it.
        #[test]
        fn every_row_is_sent_or_set_aside(stored in vec(stored(), 1..12)) {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            prop_assert_eq!(runtime.block_on(ship(&stored)), 0);
        }
    }
}
