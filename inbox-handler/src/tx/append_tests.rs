//! Appending to the outbox through the guard, on SQLite in memory.

#![expect(clippy::unwrap_used, reason = "what cannot fail here ends the test")]

use std::sync::Arc;

use inbox_engine::internal::Offset;
use outbox_core::{
    Aggregate, AppendError, Envelope, EventId, Header, Outbox, OutboxEvent, Record, TopicPartition,
    header_names,
};
use sqlx::{Connection, Sqlite, SqliteConnection};

use super::Tx;
use crate::{Delivery, router::RunEvent};

const TRACEPARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

/// An open transaction on a database with an outbox.
async fn opened() -> SqliteConnection {
    let mut conn = SqliteConnection::connect("sqlite::memory:").await.unwrap();
    outbox_core::migrate(&mut conn).await.unwrap();
    sqlx::raw_sql("BEGIN IMMEDIATE").execute(&mut conn).await.unwrap();
    conn
}

fn event(payload: &str) -> OutboxEvent {
    OutboxEvent::new("Credited", &Aggregate::new("Account", "7").unwrap(), payload).unwrap()
}

async fn rows(conn: &mut SqliteConnection) -> Vec<(Vec<u8>, String)> {
    let all = "SELECT event_id, headers FROM outbox_events ORDER BY seq";
    sqlx::query_as(all).fetch_all(conn).await.unwrap()
}

/// An event that is handled, with these headers.
fn handled(headers: &[(&'static str, &'static str)]) -> Arc<Delivery> {
    let header = |(name, value): &(&'static str, &'static str)| Header {
        name: (*name).into(),
        value: Some((*value).into()),
    };
    let envelope = Envelope {
        event_id: EventId::from([5; 16]),
        source_id: None,
        event_type: "OrderPaid".into(),
        aggregate: Aggregate::new("Order", "1").unwrap(),
        aggregate_version: None,
        occurred_at_ms: None,
        schema_version: None,
        payload: None,
    };
    Arc::new(Delivery {
        read_as: outbox_core::internal::ReadAs::default(),
        partition: TopicPartition { topic: "orders".into(), partition: 0 },
        offset: Offset(0),
        record: Record { headers: headers.iter().map(header).collect(), ..Record::default() },
        excerpt: None,
        event: Ok(envelope),
    })
}

#[tokio::test]
async fn an_appended_event_keeps_its_id_and_says_what_it_follows_from() {
    let mut conn = opened().await;
    let mut tx = Tx::<Sqlite>::new(&mut conn, 0);
    tx.begin_event(
        0,
        &handled(&[
            (header_names::CORRELATION_ID, "checkout-7"),
            (header_names::TRACEPARENT, TRACEPARENT),
            (header_names::TRACESTATE, "a=1"),
            ("tenant", "secret"),
        ]),
    );
    let (one, two) = (event("a"), event("b").with_correlation("own").unwrap());
    tx.append_all(&[one.clone(), two.clone()]).await.unwrap();
    assert_eq!(tx.first_fault(), None);
    let rows = rows(&mut conn).await;
    let ids: Vec<_> = rows.iter().map(|(id, _)| id.as_slice()).collect();
    assert_eq!(ids, [one.id().as_bytes(), two.id().as_bytes()]);
    let cause = EventId::from([5; 16]);
    let trace = format!(r#"["traceparent","{TRACEPARENT}"],["tracestate","a=1"]"#);
    assert_eq!(
        rows[0].1,
        format!(r#"[["correlation_id","checkout-7"],["causation_id","{cause}"],{trace}]"#)
    );
    assert_eq!(
        rows[1].1,
        format!(r#"[["correlation_id","own"],["causation_id","{cause}"],{trace}]"#)
    );
}

#[tokio::test]
async fn without_a_single_event_that_is_handled_nothing_is_said() {
    let mut conn = opened().await;
    Tx::<Sqlite>::new(&mut conn, 0).append(&event("a")).await.unwrap();
    assert_eq!(rows(&mut conn).await[0].1, "[]");
}

#[tokio::test]
async fn none_at_all_is_no_statement() {
    let mut conn = SqliteConnection::connect("sqlite::memory:").await.unwrap();
    let mut tx = Tx::<Sqlite>::new(&mut conn, 0);
    tx.append_all(&[]).await.expect("there is no table, and none is needed");
    assert_eq!(tx.first_fault(), None);
}

#[tokio::test]
async fn an_event_that_is_too_large_spoils_the_transaction_even_if_it_is_swallowed() {
    let mut conn = opened().await;
    let (small, large) = (event("a"), event(&"a".repeat(1000)));
    let mut tx = Tx::<Sqlite>::new(&mut conn, 0);
    tx = tx.with_outbox(Outbox::default().bytes_max(1000));
    let error = tx.append_all(&[small.clone(), large]).await.unwrap_err();
    assert!(matches!(error, AppendError::TooLarge { max: 1000, .. }), "{error}");
    let seen = tx.first_fault().unwrap().error;
    assert!(seen.contains("the event Credited of Account/7 is "), "{seen}");
    let refused = tx.append(&small).await.unwrap_err().to_string();
    assert!(refused.contains("this transaction can only be rolled back"), "{refused}");
    assert_eq!(rows(&mut conn).await, []);
}

#[tokio::test]
async fn a_missing_table_is_told_and_spoils_the_transaction() {
    let mut conn = opened().await;
    sqlx::raw_sql("DROP TABLE outbox_events").execute(&mut conn).await.unwrap();
    let mut tx = Tx::<Sqlite>::new(&mut conn, 0);
    let error = tx.append(&event("a")).await.unwrap_err();
    assert!(matches!(error, AppendError::NoTable(_)), "{error}");
    assert!(tx.first_fault().unwrap().error.contains("outbox_events"));
}

#[tokio::test]
async fn an_append_in_a_part_that_is_undone_is_undone() {
    let mut conn = opened().await;
    let mut tx = Tx::<Sqlite>::new(&mut conn, 0);
    let kept = event("kept");
    tx.append(&kept).await.unwrap();
    let mut part = tx.savepoint().await.unwrap();
    part.append(&event("undone")).await.unwrap();
    part.rollback().await.unwrap();
    assert_eq!(tx.first_fault(), None);
    let rows = rows(&mut conn).await;
    assert_eq!(rows.len(), 1);
    assert_eq!(rows[0].0, kept.id().as_bytes());
}

/// Finding 28: the same call gives the same ids, whatever the events were made with; one that was given stays.
#[tokio::test]
async fn appended_events_have_ids_that_follow_from_the_handled_one() {
    let delivery = handled(&[]);
    let run = [RunEvent { delivery: &delivery, attempt: 1 }];
    let given = EventId::from([9; 16]);
    let mut seen = Vec::new();
    for _ in 0..2 {
        let mut conn = opened().await;
        let mut tx = Tx::<Sqlite>::new(&mut conn, 0).with_origin("billing", &run);
        tx.begin_event(0, &delivery);
        let first = event("a");
        let second = event("b").caused_by(&first);
        let ids = tx.append_all(&[first.clone(), event("c").with_id(given)]).await.unwrap();
        let last = tx.append(&second).await.unwrap();
        assert_ne!(ids[0], first.id());
        assert_eq!(ids[1], given);
        let rows = rows(&mut conn).await;
        assert!(rows[2].1.contains(&format!(r#"["causation_id","{}"]"#, ids[0])), "{}", rows[2].1);
        let bytes = |id: EventId| id.as_bytes().to_vec();
        let stored: Vec<Vec<u8>> = rows.into_iter().map(|(id, _)| id).collect();
        assert_eq!(stored, [bytes(ids[0]), bytes(given), bytes(last)]);
        seen.push(stored);
    }
    assert_eq!(seen[0], seen[1]);
}

#[tokio::test]
async fn an_event_whose_key_is_there_is_left_out_and_its_id_is_that_of_a_run_without_it() {
    let delivery = handled(&[]);
    let run = [RunEvent { delivery: &delivery, attempt: 1 }];
    let mut seen = Vec::new();
    for is_there in [false, true] {
        let mut conn = opened().await;
        if is_there {
            let other = event("other").with_dedup_key("k").unwrap();
            outbox_core::append(&mut conn, &other).await.unwrap();
        }
        let mut tx = Tx::<Sqlite>::new(&mut conn, 0).with_origin("billing", &run);
        tx.begin_event(0, &delivery);
        let keyed = event("a").with_dedup_key("k").unwrap();
        let new = tx.append_if_new(&keyed).await.unwrap();
        assert_eq!(new.is_none(), is_there);
        let left_out = tx.append(&keyed).await.unwrap();
        let last = tx.append_if_new(&event("b")).await.unwrap();
        assert_eq!(tx.first_fault(), None);
        assert_eq!(rows(&mut conn).await.len(), 2);
        seen.push((left_out, last));
    }
    assert_eq!(seen[0], seen[1]);
}
