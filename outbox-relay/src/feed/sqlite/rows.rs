//! The rows that wait.

use sqlx::{Sqlite, SqliteConnection};

use super::store;
use crate::{
    feed::{
        flow::{
            self, Read as _, SqlClient as _,
            store::{StoreSql, StoreTexts},
            values,
        },
        rows,
    },
    port::{FeedError, RowKey, RowPage, RowQuery, Turn},
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
/// What is read of a row.
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
/// ?1 behind which number, ?2 rows, ?3 bytes. The first row may be larger. Blocked rows come marked as such, without
/// its payload.
const UNSENT: &str = concat!(select!(), "
FROM (SELECT e.*, 0 AS attempts, sum(CASE WHEN blocked THEN 0 ELSE length(e.headers) + coalesce(length(e.payload), 0) END)
        OVER (ORDER BY e.seq ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS bytes
    FROM (SELECT o.*, EXISTS (SELECT 1 FROM outbox_parked f
            WHERE f.aggregate_type = o.aggregate_type AND f.aggregate_id = o.aggregate_id AND f.seq < o.seq) AS blocked
        FROM (SELECT * FROM outbox_events INDEXED BY outbox_events_unsent
            WHERE sent_at IS NULL AND parked_at IS NULL AND seq > ?1 ORDER BY seq LIMIT ?2) o) e) e
WHERE coalesce(bytes, 0) < ?3 ORDER BY seq");
/// ?1 and ?2 between which numbers.
const EARLIER: &str = "SELECT seq FROM outbox_events INDEXED BY outbox_events_unsent
WHERE sent_at IS NULL AND parked_at IS NULL AND seq > ?1 AND seq <= ?2 ORDER BY seq";

/// Two reads of one snapshot.
const BEGIN_READ: &str = "BEGIN";
const BEGIN: &str = "BEGIN IMMEDIATE";
const COMMIT: &str = "COMMIT";

impl StoreSql for Sqlite {
    fn store_texts() -> &'static StoreTexts {
        &store::TEXTS
    }

    async fn page(session: &mut SqliteConnection, query: RowQuery) -> Result<RowPage, FeedError> {
        let RowQuery { floor, read_to, rows_max, bytes_max, .. } = query;
        let mut page = RowPage::default();
        let is_behind = read_to > floor;
        if is_behind {
            Self::execute(session, BEGIN_READ, &[]).await?;
            let found = Self::fetch_all(session, EARLIER, values![floor, read_to]).await?;
            page.earlier = found.iter().map(|row| row.at(0)).collect::<Result<_, _>>()?;
        }
        let values = values![floor.max(read_to), rows(rows_max), rows(bytes_max)];
        let found = Self::fetch_all(session, UNSENT, values).await?;
        if is_behind {
            Self::execute(session, COMMIT, &[]).await?;
        }
        page.rows =
            found.iter().map(|row| flow::rows::row(row, false)).collect::<Result<_, _>>()?;
        Ok(page)
    }

    async fn begin_writing(session: &mut SqliteConnection) -> Result<(), sqlx::Error> {
        Self::execute(session, BEGIN, &[]).await?;
        Ok(())
    }

    async fn end_writing(session: &mut SqliteConnection) -> Result<(), sqlx::Error> {
        Self::execute(session, COMMIT, &[]).await?;
        Ok(())
    }

    /// A transaction costs the file the same with one statement as with many.
    async fn mark_sent(
        _: &mut SqliteConnection,
        _: Turn,
        _: &[RowKey],
    ) -> Result<bool, sqlx::Error> {
        Ok(false)
    }
}

pub(super) use {millis_until, select};

#[cfg(feature = "cli")]
#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::{collection::vec, option, prelude::*};
    use sqlx::{Connection as _, SqliteConnection};
    use uuid::Uuid;

    use super::*;
    use crate::port::{
        Conclusion, Park, ParkState, Row, Rows as _, Schema as _, SeatChoice, Stored as Answer,
        TurnAnswer, TurnRequest, Turns as _,
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

    /// Ships all rows there are, without a broker: events are sent, what is none is parked.
    async fn ship(stored: &[Stored]) -> i64 {
        let mut session = SqliteConnection::connect("sqlite::memory:").await.unwrap();
        Sqlite::migrate(&mut session).await.unwrap();
        // As rows of before the trigger are.
        sqlx::raw_sql("DROP TRIGGER outbox_events_headers").execute(&mut session).await.unwrap();
        for row in stored {
            insert(&mut session, row).await;
        }
        let lease = Duration::from_mins(1);
        let (seats, token) = (SeatChoice::WithShards, Uuid::new_v4());
        let request = TurnRequest { holder: "me", lease, seats, token, silent: None };
        let TurnAnswer::Taken(turn, shards) =
            Sqlite::take_turn(&mut session, request).await.unwrap()
        else {
            panic!("nobody else is there");
        };
        loop {
            let query = RowQuery { floor: 0, read_to: 0, shards, rows_max: 3, bytes_max: 1 << 20 };
            let rows = Sqlite::unsent(&mut session, query).await.unwrap().rows;
            if rows.is_empty() {
                break;
            }
            let mut conclusion = Conclusion::default();
            for Row { id: key, blocked, event, aggregate, .. } in rows {
                let (state, error) = match event {
                    _ if blocked => (ParkState::Behind, None),
                    Err(error) => (ParkState::Parked, Some(error)),
                    Ok(_) => {
                        conclusion.sent.push(key);
                        continue;
                    }
                };
                conclusion.parked.push(Park {
                    key,
                    aggregate: aggregate.into(),
                    state,
                    after: Duration::ZERO,
                    destination: "kafka".to_owned(),
                    attempts: 1,
                    error,
                    claimed: false,
                });
            }
            let answer = Sqlite::store(&mut session, turn, &conclusion).await.unwrap();
            assert_eq!(answer, Answer::All);
        }
        // What is neither waits behind one that was set aside.
        let left = "SELECT count(*) FROM outbox_events o WHERE sent_at IS NULL AND seq NOT IN (
                SELECT seq FROM outbox_parked WHERE state = 'parked')
            AND NOT EXISTS (SELECT 1 FROM outbox_parked f WHERE f.state = 'parked' AND f.seq < o.seq
            AND f.aggregate_type = o.aggregate_type AND f.aggregate_id = o.aggregate_id)";
        let left = sqlx::query_scalar(left).fetch_one(&mut session).await.unwrap();
        let choice = crate::port::Choice::default();
        let listed = <Sqlite as crate::port::FailedRows>::failed(&mut session, &choice, 100).await;
        let named = "SELECT count(*) FROM outbox_parked WHERE error <> ''";
        let named: i64 = sqlx::query_scalar(named).fetch_one(&mut session).await.unwrap();
        assert_eq!(listed.unwrap().len(), usize::try_from(named).unwrap());
        left
    }

    proptest! {
        #![proptest_config(ProptestConfig {
            cases: 48, failure_persistence: None, ..ProptestConfig::default()
        })]

        /// A row with any content is sent or parked, and no row of another aggregate waits for it.
        #[test]
        fn every_row_is_sent_or_parked(stored in vec(stored(), 1..12)) {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            prop_assert_eq!(runtime.block_on(ship(&stored)), 0);
        }
    }
}
