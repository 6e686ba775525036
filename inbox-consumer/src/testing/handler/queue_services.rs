//! Queued statements through the whole pipeline on a real PostgreSQL (`INBOX_TEST_POSTGRES`, set by
//! `cargo xtask test`).

#![expect(clippy::unwrap_used, reason = "what cannot fail here ends the test")]

use sqlx::Postgres;

use super::{Aggregate, HandlerTest, OutboxEvent, Outcome};
use crate::{Event, Handler, HandlerResult, Routes, Tx, statement};

const TABLES: &str = "CREATE TABLE effects (
        at bigint GENERATED ALWAYS AS IDENTITY, n bigint NOT NULL CHECK (n <> 13));
    CREATE TABLE parents (id bigint PRIMARY KEY);
    CREATE TABLE children (parent bigint REFERENCES parents DEFERRABLE INITIALLY DEFERRED);
    INSERT INTO parents SELECT * FROM generate_series(0, 41)";

/// Queues three effects, in this order: minus its payload, its payload, and a child of it.
struct Queues;

impl Handler<Postgres> for Queues {
    type Event = i64;

    async fn handle(&self, event: &Event<i64>, tx: &mut Tx<'_, Postgres>) -> HandlerResult {
        let n = event.payload;
        tx.queue(statement("INSERT INTO effects (n) VALUES (-$1)").bind(n))?;
        tx.queue(statement("INSERT INTO effects (n) VALUES ($1)").bind(n))?;
        tx.queue(statement("INSERT INTO children VALUES ($1)").bind(n))?;
        Ok(())
    }
}

async fn bench(events: i64) -> HandlerTest<Postgres> {
    let server = std::env::var("INBOX_TEST_POSTGRES")
        .expect("INBOX_TEST_POSTGRES names no server; run the tests with `cargo xtask test`");
    let mut bench = HandlerTest::postgres(&server).await.unwrap();
    bench.execute(TABLES).await.unwrap();
    bench.handle(Routes::default().on("Counted", Queues)).await.unwrap();
    // The partition is taken over, and sessions learn the texts.
    for n in 0..events {
        assert_eq!(bench.deliver(&event("a", n)).await.unwrap(), Outcome::Applied);
    }
    bench
}

fn event(aggregate: &str, n: i64) -> OutboxEvent {
    OutboxEvent::new("Counted", &Aggregate::new("Counter", aggregate).unwrap(), &n).unwrap()
}

async fn effects(bench: &mut HandlerTest<Postgres>) -> String {
    let sql = "SELECT coalesce(string_agg(n::text, ' ' ORDER BY at), '') FROM effects WHERE n <> 0";
    sqlx::query_scalar(sql).fetch_one(bench.connection()).await.unwrap()
}

#[tokio::test]
async fn everything_queued_is_committed_once_and_in_its_order() {
    for known in [1, 3] {
        let mut bench = bench(known).await;
        bench.execute("TRUNCATE effects").await.unwrap();
        let events = [event("a", 5), event("b", 6), event("a", 7), event("c", 8)];
        let [first, ..] = events.clone();
        assert_eq!(bench.run(&events).await.unwrap(), vec![Outcome::Applied; 4]);
        assert_eq!(bench.deliver(&first).await.unwrap(), Outcome::Duplicate);
        assert_eq!(effects(&mut bench).await, "-5 5 -6 6 -7 7 -8 8");
        bench.close().await.unwrap();
    }
}

/// The check fails when it is sent, the constraint only at COMMIT: both fail their own event alone.
#[tokio::test]
async fn what_fails_parks_its_own_event_alone() {
    for (wrong, error) in
        [(13, "violates check constraint"), (99, "violates foreign key constraint")]
    {
        for known in [1, 3] {
            let mut bench = bench(known).await;
            bench.execute("TRUNCATE effects").await.unwrap();
            let events = [event("a", 5), event("b", wrong), event("c", 6), event("b", 7)];
            let outcomes = bench.run(&events).await.unwrap();
            let reasons: Vec<&str> = outcomes.iter().map(Outcome::reason).collect();
            assert_eq!(reasons, ["", "exhausted", "", "follower"], "{outcomes:?}");
            assert!(outcomes[1].error().contains(error), "{outcomes:?}");
            assert_eq!(effects(&mut bench).await, "-5 5 -6 6");
            bench.close().await.unwrap();
        }
    }
}

#[tokio::test]
async fn crashes_and_copies_double_nothing_that_is_queued() {
    let mut bench = bench(2).await;
    bench.execute("TRUNCATE effects").await.unwrap();
    assert_eq!(bench.crashed_before_commit(&event("a", 5)).await.unwrap(), Outcome::Applied);
    assert_eq!(bench.crashed_after_commit(&event("a", 6)).await.unwrap(), Outcome::Applied);
    let twice = [Outcome::Applied, Outcome::Duplicate];
    assert_eq!(bench.delivered_twice(&event("a", 7)).await.unwrap(), twice);
    assert_eq!(effects(&mut bench).await, "-5 5 -6 6 -7 7");
    bench.close().await.unwrap();
}
