//! Runs through the erased routes, on SQLite in memory.

#![expect(clippy::unwrap_used, reason = "what cannot fail here ends the test")]

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use bytes::Bytes;
use inbox_engine::internal::Offset;
use outbox_core::{Aggregate, Envelope, EventId, Header, Record, TopicPartition};
use serde::Deserialize;
use sqlx::{Connection, Sqlite, SqliteConnection};

use super::{CallFailure, DecodedRun, RouteTable, Routes, RunEnd, RunEvent};
use crate::{
    BatchHandler, Delivery, Event, Fault, Handler, HandlerError, HandlerResult, Tx, statement,
};

const DEADLINE: Duration = Duration::from_secs(5);

pub(super) fn delivery(payload: Option<&str>, offset: i64) -> Arc<Delivery> {
    let payload = payload.map(|text| Bytes::copy_from_slice(text.as_bytes()));
    let header = |name: &str, value: &'static str| Header {
        name: name.into(),
        value: Some(Bytes::from_static(value.as_bytes())),
    };
    let headers = vec![header("traceparent", "old"), header("traceparent", "00-1-2-01")];
    let event = Envelope {
        event_id: EventId::foreign("topic", "e-1").unwrap(),
        source_id: Some("e-1".into()),
        event_type: "type".into(),
        aggregate: Aggregate::new("Account", "42").unwrap(),
        aggregate_version: Some(3),
        occurred_at_ms: Some(4),
        schema_version: Some(5),
        payload: payload.clone(),
    };
    Arc::new(Delivery {
        read_as: outbox_core::internal::ReadAs::default(),
        partition: TopicPartition { topic: "topic".into(), partition: 6 },
        offset: Offset(offset),
        record: Record { key: None, headers, payload, timestamp_ms: None },
        excerpt: None,
        event: Ok(event),
    })
}

/// What a run on a fresh table ended with, and the rows that the transaction then has.
struct Ran {
    end: RunEnd,
    rows: Vec<i64>,
}

async fn run_on(table: &RouteTable<Sqlite>, payloads: &[&str], savepoints_taken: u32) -> Ran {
    let mut conn = SqliteConnection::connect("sqlite::memory:").await.unwrap();
    let schema = "CREATE TABLE effects (n INTEGER UNIQUE); BEGIN IMMEDIATE";
    sqlx::raw_sql(schema).execute(&mut conn).await.unwrap();
    let deliveries: Vec<_> =
        payloads.iter().zip(0..).map(|(payload, at)| delivery(Some(payload), at)).collect();
    let run: Vec<_> = deliveries.iter().map(|delivery| RunEvent { delivery, attempt: 2 }).collect();
    let mut tx = Tx::new(&mut conn, savepoints_taken);
    let end = table.run(0, &run, DecodedRun::none(), &mut tx, DEADLINE).await;
    let rows = "SELECT n FROM effects ORDER BY n";
    let rows = sqlx::query_scalar(rows).fetch_all(&mut conn).await.unwrap();
    Ran { end, rows }
}

async fn run_each<H: Handler<Sqlite>>(handler: H, payloads: &[&str]) -> Ran {
    run_on(&Routes::default().on("type", handler).freeze().unwrap(), payloads, 0).await
}

async fn run_whole<H: BatchHandler<Sqlite>>(handler: H, payloads: &[&str]) -> Ran {
    run_on(&Routes::default().on_batch("type", handler).freeze().unwrap(), payloads, 0).await
}

#[track_caller]
fn failed(end: RunEnd) -> (Option<usize>, Fault, String, bool) {
    match end {
        RunEnd::Failed(CallFailure { at, fault, error, hung }) => (at, fault, error, hung),
        other => panic!("expected a failure, not {other:?}"),
    }
}

async fn insert(tx: &mut Tx<'_, Sqlite>, n: i64) -> Result<(), sqlx::Error> {
    sqlx::query("INSERT INTO effects VALUES (?)").bind(n).execute(&mut *tx).await.map(|_| ())
}

/// Inserts its payload, after what its name says for some payloads.
struct Inserts;

impl Handler<Sqlite> for Inserts {
    type Event = i64;

    async fn handle(&self, event: &Event<i64>, tx: &mut Tx<'_, Sqlite>) -> HandlerResult {
        match event.payload {
            100 => return Err(HandlerError::reject("never a hundred")),
            101 => return Err(HandlerError::retry("not yet").at(77)),
            102 => drop(insert(tx, 1).await),
            103 => panic!("one hundred and {}", 3),
            104 => tokio::time::sleep(Duration::from_secs(2)).await,
            105 => drop(tx.savepoint().await),
            106 => {
                let failed =
                    sqlx::query("SELECT * FROM nowhere").execute(tx.unguarded().await?).await;
                failed?;
            }
            107 => {
                let _ = insert(tx, 1).await;
                return Err(HandlerError::reject("taken"));
            }
            n => insert(tx, n).await?,
        }
        Ok(())
    }
}

#[tokio::test]
async fn events_are_handled_one_by_one_in_order() {
    let ran = run_each(Inserts, &["1", "2", "3"]).await;
    assert_eq!((ran.end, ran.rows), (RunEnd::Done, vec![1, 2, 3]));
}

#[tokio::test]
async fn an_undecodable_event_stops_the_run_before_it_touches_the_database() {
    let ran = run_each(Inserts, &["1", "2", "\"secret\"", "4"]).await;
    let RunEnd::Undecodable { at: 2, ran: 2, error } = ran.end else { panic!("{:?}", ran.end) };
    assert!(error.contains("expected i64") && !error.contains("secret"), "{error}");
    assert_eq!(ran.rows, [1, 2]);
}

/// A2
#[tokio::test]
async fn a_swallowed_error_fails_its_event() {
    let ran = run_each(Inserts, &["1", "102", "3"]).await;
    let (at, fault, error, hung) = failed(ran.end);
    assert_eq!((at, fault, hung), (Some(1), Fault::Retry, false));
    assert!(
        error.starts_with("the handler swallowed an error") && error.contains("UNIQUE"),
        "{error}"
    );
    assert_eq!(ran.rows, [1]);
}

#[tokio::test]
async fn an_error_that_is_returned_is_told_with_its_code() {
    let (at, fault, error, _) = failed(run_each(Inserts, &["1", "1"]).await.end);
    assert_eq!((at, fault), (Some(1), Fault::Retry));
    assert!(error.contains("UNIQUE") && error.ends_with("(code 2067)"), "{error}");
}

#[tokio::test]
async fn what_the_handler_says_counts_for_failures_of_its_own() {
    let (at, fault, error, _) = failed(run_each(Inserts, &["1", "100"]).await.end);
    assert_eq!((at, fault, &*error), (Some(1), Fault::Reject, "never a hundred"));
    let (at, fault, error, _) = failed(run_each(Inserts, &["101"]).await.end);
    assert_eq!((at, fault, &*error), (Some(0), Fault::Retry, "not yet"));
    let (_, fault, error, _) = failed(run_each(Inserts, &["1", "107"]).await.end);
    assert_eq!(fault, Fault::Reject);
    assert!(error.starts_with("taken; the first error in the transaction was: "), "{error}");
}

/// The transaction saw a conflict; the handler answered `Ok`.
#[tokio::test]
async fn a_conflict_stays_a_conflict_whatever_the_handler_answers() {
    let table = Routes::default().on("type", Inserts).freeze().unwrap();
    let (at, fault, error, _) =
        failed(run_on(&table, &["1", "105"], Tx::<Sqlite>::SAVEPOINTS_MAX).await.end);
    assert_eq!((at, fault), (Some(1), Fault::Conflict));
    assert!(error.contains("31 savepoints"), "{error}");
}

/// C8
#[tokio::test]
async fn a_panic_fails_its_event_and_is_told() {
    let ran = run_each(Inserts, &["1", "103", "2"]).await;
    let (at, fault, error, hung) = failed(ran.end);
    assert_eq!((at, fault, hung), (Some(1), Fault::Retry, false));
    assert_eq!(error, "the handler panicked: one hundred and 3");
    assert_eq!(ran.rows, [1]);
}

/// A14
#[tokio::test]
async fn a_missed_deadline_is_a_retry_on_a_session_that_is_given_up() {
    let mut conn = SqliteConnection::connect("sqlite::memory:").await.unwrap();
    let table = Routes::default().on("type", Inserts).freeze().unwrap();
    let stuck = delivery(Some("104"), 0);
    let run = [RunEvent { delivery: &stuck, attempt: 1 }];
    let mut tx = Tx::new(&mut conn, 0);
    let end = table.run(0, &run, DecodedRun::none(), &mut tx, Duration::from_millis(10)).await;
    let (at, fault, error, hung) = failed(end);
    assert_eq!((at, fault, hung), (Some(0), Fault::Retry, true));
    assert!(error.starts_with("the handler did not finish within 10ms"), "{error}");
}

#[tokio::test]
async fn an_error_of_the_lent_connection_is_the_handler_s() {
    let (_, fault, error, _) = failed(run_each(Inserts, &["106"]).await.end);
    assert_eq!(fault, Fault::Retry);
    assert!(error.contains("nowhere"), "{error}");
}

struct Sums {
    calls: Arc<AtomicUsize>,
    blames: usize,
}

impl BatchHandler<Sqlite> for Sums {
    type Event = i64;

    async fn handle(&self, events: &[Event<i64>], tx: &mut Tx<'_, Sqlite>) -> HandlerResult {
        self.calls.fetch_add(1, Relaxed);
        insert(tx, events.iter().map(|event| event.payload).sum()).await?;
        if events.iter().any(|event| event.payload == 100) {
            return Err(HandlerError::reject("never a hundred").at(self.blames));
        }
        Ok(())
    }
}

#[tokio::test]
async fn a_batch_handler_gets_its_run_in_one_call() {
    let calls = Arc::new(AtomicUsize::new(0));
    let ran = run_whole(Sums { calls: Arc::clone(&calls), blames: 0 }, &["1", "2", "3"]).await;
    assert_eq!((ran.end, ran.rows, calls.load(Relaxed)), (RunEnd::Done, vec![6], 1));
}

#[tokio::test]
async fn a_batch_handler_is_not_called_when_an_event_is_undecodable() {
    let calls = Arc::new(AtomicUsize::new(0));
    let ran = run_whole(Sums { calls: Arc::clone(&calls), blames: 0 }, &["1", "x", "y"]).await;
    assert!(matches!(ran.end, RunEnd::Undecodable { at: 1, ran: 0, .. }), "{:?}", ran.end);
    assert_eq!(calls.load(Relaxed), 0);
}

#[tokio::test]
async fn a_batch_handler_may_name_the_culprit() {
    let calls = Arc::new(AtomicUsize::new(0));
    for (blames, expected) in [(1, Some(1)), (2, None)] {
        let sums = Sums { calls: Arc::clone(&calls), blames };
        let (at, fault, ..) = failed(run_whole(sums, &["1", "100"]).await.end);
        assert_eq!((at, fault), (expected, Fault::Reject), "out of bounds names nobody");
    }
}

struct Explodes;

impl<'de> Deserialize<'de> for Explodes {
    fn deserialize<D: serde::Deserializer<'de>>(_: D) -> Result<Self, D::Error> {
        panic!("secret")
    }
}

impl Handler<Sqlite> for Explodes {
    type Event = Self;

    async fn handle(&self, _: &Event<Self>, _: &mut Tx<'_, Sqlite>) -> HandlerResult {
        Ok(())
    }
}

/// C8
#[tokio::test]
async fn a_decoder_that_panics_has_refused_the_payload() {
    let ran = run_each(Explodes, &["1"]).await;
    let error = "the payload's decoder panicked".to_owned();
    assert_eq!(ran.end, RunEnd::Undecodable { at: 0, ran: 0, error });
}

/// Looks at everything an event tells.
struct Looks;

impl Handler<Sqlite> for Looks {
    type Event = Option<i64>;

    async fn handle(&self, event: &Event<Option<i64>>, _: &mut Tx<'_, Sqlite>) -> HandlerResult {
        assert_eq!(event.payload, None);
        assert_eq!(event.id(), EventId::foreign("topic", "e-1")?);
        assert_eq!(event.source_id(), Some("e-1"));
        assert_eq!(event.event_type(), "type");
        assert_eq!(event.aggregate().to_string(), "Account/42");
        assert_eq!(event.aggregate_version(), Some(3));
        assert_eq!(event.occurred_at_ms(), Some(4));
        assert_eq!(event.schema_version(), Some(5));
        assert_eq!(event.headers().len(), 2);
        assert_eq!(event.header("traceparent"), Some(&b"00-1-2-01"[..]));
        assert_eq!(event.header("nothing"), None);
        assert_eq!(event.trace_parent(), Some("00-1-2-01"));
        assert_eq!((event.topic(), event.partition(), event.offset()), ("topic", 6, 7));
        assert_eq!(event.attempt(), 9);
        Ok(())
    }
}

#[tokio::test]
async fn an_event_tells_where_it_came_from_and_may_be_a_tombstone() {
    let mut conn = SqliteConnection::connect("sqlite::memory:").await.unwrap();
    let table = Routes::default().on("type", Looks).freeze().unwrap();
    let tombstone = delivery(None, 7);
    let run = [RunEvent { delivery: &tombstone, attempt: 9 }];
    let end = table.run(0, &run, DecodedRun::none(), &mut Tx::new(&mut conn, 0), DEADLINE).await;
    assert_eq!(end, RunEnd::Done);
}

/// Queues its payload and another row, and reads from 50 on.
struct Queues;

impl Handler<Sqlite> for Queues {
    type Event = i64;

    async fn handle(&self, event: &Event<i64>, tx: &mut Tx<'_, Sqlite>) -> HandlerResult {
        let n = event.payload;
        if n == 99 {
            tx.queue(statement("PRAGMA synchronous = 0"))?;
        }
        for n in [n, n + 1000] {
            tx.queue(statement("INSERT INTO effects VALUES (?)").bind(n))?;
        }
        if n >= 50 {
            let rows = sqlx::query_scalar("SELECT count(*) FROM effects");
            let rows: i64 = rows.fetch_one(&mut *tx).await?;
            assert_eq!(2 * (n - 49), rows, "what was queued is seen");
        }
        Ok(())
    }
}

#[tokio::test]
async fn what_is_queued_is_there_when_the_run_has_ended() {
    let ran = run_each(Queues, &["1", "2"]).await;
    assert_eq!((ran.end, ran.rows), (RunEnd::Done, vec![1, 2, 1001, 1002]));
    let ran = run_each(Queues, &["50", "51", "1"]).await;
    assert_eq!((ran.end, ran.rows.len()), (RunEnd::Done, 6));
}

#[tokio::test]
async fn a_queued_statement_names_its_event_whoever_waited_for_it() {
    let cases: [&[&str]; 2] = [&["1", "2", "2", "3"], &["1", "2", "2", "50"]];
    for payloads in cases {
        let (at, fault, error, _) = failed(run_each(Queues, payloads).await.end);
        assert_eq!((at, fault), (Some(2), Fault::Retry));
        assert!(error.contains("UNIQUE") && error.ends_with("(code 2067)"), "{error}");
    }
}

#[tokio::test]
async fn a_verb_cannot_be_queued() {
    let ran = run_each(Queues, &["1", "99"]).await;
    let (at, _, error, _) = failed(ran.end);
    assert_eq!((at, ran.rows.len()), (Some(1), 0));
    assert!(error.contains("a handler may not run PRAGMA"), "{error}");
}
