//! The users' test kit on PostgreSQL: batch handlers, handlers that end the transaction, declared handlers, and
//! what the kit says when it cannot go on.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering::SeqCst},
};

use inbox_consumer::{
    BatchHandler, Event, Handler, HandlerResult, Routes, Tx,
    config::{Declared, DeclaredMode},
    testing::{Aggregate, EventId, HandlerTest, Header, OutboxEvent, Outcome, Record, TestError},
};
use sqlx::{AssertSqlSafe, Connection as _, Postgres};
use tests::Services;

const TABLES: &str = "CREATE TABLE effects (at bigint GENERATED ALWAYS AS IDENTITY, n bigint NOT NULL CHECK (n <> 13))";

async fn bench() -> HandlerTest<Postgres> {
    let mut bench = HandlerTest::postgres(&Services::from_env().postgres).await.unwrap();
    bench.execute(TABLES).await.unwrap();
    bench
}

fn event(aggregate: &str, n: i64) -> OutboxEvent {
    OutboxEvent::new("Counted", &Aggregate::new("Counter", aggregate).unwrap(), &n).unwrap()
}

async fn effects(bench: &mut HandlerTest<Postgres>) -> String {
    let sql = "SELECT coalesce(string_agg(n::text, ' ' ORDER BY at), '') FROM effects";
    sqlx::query_scalar(sql).fetch_one(bench.connection()).await.unwrap()
}

struct Count;

impl Handler<Postgres> for Count {
    type Event = i64;

    async fn handle(&self, event: &Event<i64>, tx: &mut Tx<'_, Postgres>) -> HandlerResult {
        let insert = "INSERT INTO effects (n) VALUES ($1)";
        sqlx::query(insert).bind(event.payload).execute(&mut *tx).await?;
        Ok(())
    }
}

/// A whole run in one statement; counts its calls.
struct CountAll {
    calls: Arc<AtomicUsize>,
}

impl BatchHandler<Postgres> for CountAll {
    type Event = i64;

    async fn handle(&self, events: &[Event<i64>], tx: &mut Tx<'_, Postgres>) -> HandlerResult {
        self.calls.fetch_add(1, SeqCst);
        let all: Vec<i64> = events.iter().map(|event| event.payload).collect();
        let insert = "INSERT INTO effects (n) SELECT * FROM unnest($1::bigint[])";
        sqlx::query(insert).bind(all).execute(&mut *tx).await?;
        Ok(())
    }
}

#[tokio::test]
async fn a_batch_handler_gets_what_arrives_together() -> Result<(), TestError> {
    let mut bench = bench().await;
    let calls = Arc::new(AtomicUsize::new(0));
    let handler = CountAll { calls: Arc::clone(&calls) };
    bench.handle(Routes::default().on_batch("Counted", handler)).await?;
    // The partition is taken over before.
    bench.deliver(&event("a", 0)).await?;
    let events = [event("a", 1), event("b", 2), event("a", 3)];
    assert_eq!(bench.run(&events).await?, vec![Outcome::Applied; 3]);
    assert_eq!((effects(&mut bench).await.as_str(), calls.load(SeqCst)), ("0 1 2 3", 2));
    let [first, second] = [event("a", 4), event("b", 13)];
    let outcomes = bench.run(&[first.clone(), second, event("b", 5), first]).await?;
    let reasons: Vec<&str> = outcomes.iter().map(Outcome::reason).collect();
    assert_eq!(reasons, ["", "exhausted", "follower", ""]);
    assert!(outcomes[1].error().contains("violates check constraint"), "{outcomes:?}");
    assert_eq!((&outcomes[0], &outcomes[3]), (&Outcome::Applied, &Outcome::Duplicate));
    assert_eq!(effects(&mut bench).await, "0 1 2 3 4");
    bench.close().await
}

#[tokio::test]
async fn crashes_and_the_retention_double_nothing() -> Result<(), TestError> {
    let mut bench = bench().await;
    bench.handle(Routes::default().on("Counted", Count)).await?;
    assert_eq!(bench.crashed_before_commit(&event("a", 1)).await?, Outcome::Applied);
    assert_eq!(bench.crashed_after_commit(&event("a", 2)).await?, Outcome::Applied);
    let twice = [Outcome::Applied, Outcome::Duplicate];
    assert_eq!(bench.delivered_twice(&event("a", 3)).await?, twice);
    assert_eq!(bench.redelivered_after_retention(&event("a", 4)).await?, twice);
    assert_eq!(
        bench.number("SELECT count(*) FROM inbox_events").await?,
        0,
        "the retention has passed"
    );
    assert_eq!(effects(&mut bench).await, "1 2 3 4");
    // Later than the retention a producer's copy is a new event: this handler does nothing about it.
    let again = bench.sent_again_after_retention(&event("a", 5)).await?;
    assert_eq!(again, [Outcome::Applied, Outcome::Applied]);
    assert_eq!(effects(&mut bench).await, "1 2 3 4 5 5");
    bench.close().await
}

/// Runs its statement, past the guard if it begins with a space, and does as if nothing had happened.
struct Careless(&'static str);

impl Handler<Postgres> for Careless {
    type Event = i64;

    async fn handle(&self, event: &Event<i64>, tx: &mut Tx<'_, Postgres>) -> HandlerResult {
        Count.handle(event, tx).await?;
        let sql = AssertSqlSafe(self.0);
        let _ = match self.0.starts_with(' ') {
            true => sqlx::raw_sql(sql).execute(tx.unguarded().await?).await,
            false => sqlx::raw_sql(sql).execute(&mut *tx).await,
        };
        Ok(())
    }
}

/// A2, A3: errors that are swallowed, transactions that are ended openly and behind the guard's back.
#[tokio::test]
async fn handlers_that_go_wrong_are_shown() {
    let table = [
        ("SELECT 1 / 0", "exhausted", "the handler swallowed an error of its transaction", ""),
        ("COMMIT", "exhausted", "a handler may not run COMMIT", ""),
        ("DO $$ BEGIN COMMIT; END $$", "exhausted", "invalid transaction termination", ""),
        (" ROLLBACK", "rejected", "a handler ended the transaction", ""),
        // The effect is there, and nobody knows whether that is all of it: a person has to look.
        (" COMMIT", "torn", "its lane was never moved", "7"),
    ];
    for (sql, reason, error, left) in table {
        let mut bench = bench().await;
        bench.handle(Routes::default().on("Counted", Careless(sql))).await.unwrap();
        let outcome = bench.deliver(&event("a", 7)).await.unwrap();
        assert_eq!(outcome.reason(), reason, "{sql}: {outcome:?}");
        assert!(outcome.error().contains(error), "{sql}: {outcome:?}");
        assert_eq!(effects(&mut bench).await, left, "{sql}");
        bench.close().await.unwrap();
    }
}

#[tokio::test]
async fn an_id_that_is_used_twice_and_a_strange_record_are_parked() -> Result<(), TestError> {
    let mut bench = bench().await;
    bench.handle(Routes::default().on("Counted", Count).ignore("Noise")).await?;
    let id = EventId::new();
    assert_eq!(bench.deliver(&event("a", 1).with_id(id)).await?, Outcome::Applied);
    assert_eq!(bench.deliver(&event("b", 2).with_id(id)).await?.reason(), "mismatch");
    let aggregate = Aggregate::new("Counter", "c").map_err(|error| panic!("{error}"))?;
    let noise = OutboxEvent::new("Noise", &aggregate, &1).map_err(|error| panic!("{error}"))?;
    assert_eq!(bench.deliver(&noise).await?, Outcome::Ignored);
    let strange = OutboxEvent::new("Strange", &aggregate, &1).map_err(|error| panic!("{error}"))?;
    assert_eq!(bench.deliver(&strange).await?.reason(), "unknown_type");
    let header = |name: &str, value: &'static str| Header {
        name: name.into(),
        value: Some(value.as_bytes().into()),
    };
    let record = Record {
        key: Some("d".into()),
        headers: vec![header("event_id", "e-1"), header("event_type", "Counted")],
        payload: Some("\"s3cret\"".into()),
        timestamp_ms: None,
    };
    let outcome = bench.deliver_record(&record).await?;
    assert_eq!(outcome.reason(), "undecodable");
    assert!(outcome.error().contains("expected i64"), "{outcome:?}");
    bench.close().await
}

/// Declared handlers are tested without Kafka, too.
#[tokio::test]
async fn declared_handlers_are_tested_the_same_way() -> Result<(), TestError> {
    for mode in [DeclaredMode::Each, DeclaredMode::Run] {
        let mut bench = bench().await;
        bench.configure(|config| {
            config.handlers = vec![Declared {
                event_type: "Counted".into(),
                mode,
                columns: [("n".to_owned(), "int8 from payload".to_owned())].into(),
                sql: "INSERT INTO effects (n) SELECT n FROM events ORDER BY ord".into(),
                ..Declared::default()
            }];
        });
        bench.handle(Routes::default()).await?;
        let outcomes = bench.run(&[event("a", 1), event("a", 2), event("b", 13)]).await?;
        assert_eq!(outcomes[..2], [Outcome::Applied, Outcome::Applied], "{mode:?}");
        assert_eq!(outcomes[2].reason(), "exhausted", "{mode:?}");
        assert_eq!(bench.crashed_before_commit(&event("a", 3)).await?, Outcome::Applied);
        assert_eq!(effects(&mut bench).await, "1 2 3", "{mode:?}");
        bench.close().await?;
    }
    Ok(())
}

/// Each test has a schema of its own, which goes: with `close`, and when a test forgets that or fails.
#[tokio::test]
async fn a_test_leaves_nothing_behind() -> Result<(), TestError> {
    let server = Services::from_env().postgres;
    let schemas = async |name: &str| -> i64 {
        let mut conn = sqlx::PgConnection::connect(&server).await.unwrap();
        let sql = "SELECT count(*) FROM pg_namespace WHERE nspname = $1";
        sqlx::query_scalar(sql).bind(name).fetch_one(&mut conn).await.unwrap()
    };
    for closed in [true, false] {
        let mut bench = bench().await;
        bench.handle(Routes::default().on("Counted", Count)).await?;
        bench.deliver(&event("a", 1)).await?;
        let name: String = sqlx::query_scalar("SELECT current_schema()::text")
            .fetch_one(bench.connection())
            .await
            .unwrap();
        assert_eq!(schemas(&name).await, 1);
        if closed {
            bench.close().await?
        } else {
            drop(bench)
        }
        assert_eq!(schemas(&name).await, 0, "closed: {closed}");
    }
    Ok(())
}

/// What keeps the kit from going on is a sentence.
#[tokio::test]
async fn what_the_kit_cannot_do_it_says() {
    let dead =
        HandlerTest::postgres("postgres://u:c4n4ry@127.0.0.1:1/x").await.unwrap_err().to_string();
    assert!(
        dead.starts_with("the database cannot be reached: ") && !dead.contains("c4n4ry"),
        "{dead}"
    );
    let mut bench = bench().await;
    let early = bench.deliver(&event("a", 1)).await.unwrap_err().to_string();
    assert!(early.contains("call `handle(routes)` first"), "{early}");
    let wrong = bench.execute("CREATE TABEL x ()").await.unwrap_err().to_string();
    assert!(
        wrong.starts_with("the test's statement failed: ") && wrong.contains("TABEL"),
        "{wrong}"
    );
    let twice = Routes::default().on("Counted", Count).on("Counted", Count);
    let twice = bench.handle(twice).await.unwrap_err().to_string();
    assert!(twice.contains("registered twice"), "{twice}");
    bench.handle(Routes::default().on("Counted", Count)).await.unwrap();
    let again = bench.handle(Routes::default()).await.unwrap_err().to_string();
    assert!(again.contains("runs already"), "{again}");
    bench.deliver(&event("a", 1)).await.unwrap();
    bench.execute("DROP TABLE inbox_lanes").await.unwrap();
    let lost = bench.deliver(&event("a", 1)).await.unwrap_err().to_string();
    assert!(lost.starts_with("looking at the lanes failed: "), "{lost}");
}
