//! Queued statements on a real PostgreSQL (`INBOX_TEST_POSTGRES`, set by `cargo xtask test`): each by
//! itself, and by the function of a session that knows them.

#![expect(clippy::unwrap_used, reason = "what cannot fail here ends the test")]

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use inbox_engine::internal::Offset;
use inbox_store::internal::port::{
    Address, Queues as _, RegistrySnapshot, Sessions as _, StatementRegistry,
};
use outbox_core::{Aggregate, Envelope, EventId, Record, TopicPartition};
use sqlx::{AssertSqlSafe, PgConnection, Postgres, SqlSafeStr as _};

use super::{CallFailure, DecodedRun, RouteTable, Routes, RunEnd, RunEvent};
use crate::{Delivery, Event, Fault, Handler, HandlerError, HandlerResult, Tx, statement};

const TABLES: &str = "CREATE TABLE effects (
        at bigint GENERATED ALWAYS AS IDENTITY, kind text, n bigint CHECK (n <> 13));
    CREATE TABLE totals (id bigint PRIMARY KEY, n bigint NOT NULL);
    INSERT INTO totals VALUES (1, 0);
    CREATE TABLE every (b bool, i2 int2, i4 int4, i8 int8, f4 float4, f8 float8, t text, y bytea, u uuid,
        j jsonb, a bigint[])";

/// Of two texts whose order by letters is not the one in which they are queued.
const B: &str = "INSERT INTO effects (kind, n) VALUES ('b', $1)";
const A: &str = "INSERT INTO effects (n, kind) VALUES ($1, 'a') -- $2";
const ADD: &str = "UPDATE totals SET n = n + $1 WHERE id = $2";

/// A session with a schema of its own, which goes with its transaction.
async fn opened() -> PgConnection {
    let url = std::env::var("INBOX_TEST_POSTGRES")
        .expect("INBOX_TEST_POSTGRES names no server; run the tests with `cargo xtask test`");
    let address =
        Address { url: &url, tls: None, schema: None, application: "test", statement_cache: 100 };
    let mut conn = Postgres::open(&Postgres::settings(&address).unwrap()).await.unwrap();
    let schema = format!("queue_{}", uuid::Uuid::now_v7().simple());
    let begin = format!("CREATE SCHEMA {schema}; SET LOCAL search_path = {schema}; {TABLES}");
    run(&mut conn, "BEGIN READ WRITE").await;
    run(&mut conn, &begin).await;
    conn
}

async fn run(conn: &mut PgConnection, sql: &str) {
    sqlx::raw_sql(AssertSqlSafe(sql.to_owned())).execute(conn).await.unwrap();
}

/// A session in its transaction, with what it knows of texts.
struct Bench {
    conn: PgConnection,
    registry: Arc<StatementRegistry>,
    snapshot: Option<Arc<RegistrySnapshot>>,
    table: RouteTable<Postgres>,
}

impl Bench {
    async fn new() -> Self {
        let table = Routes::default().on("script", Script).freeze().unwrap();
        Self {
            conn: opened().await,
            registry: Arc::new(StatementRegistry::new(true)),
            snapshot: None,
            table,
        }
    }

    /// Each line is an event, and its words what is done for it.
    async fn run(&mut self, events: &[&str]) -> RunEnd {
        let deliveries: Vec<_> = events.iter().map(|script| delivery(script)).collect();
        let run: Vec<_> =
            deliveries.iter().map(|delivery| RunEvent { delivery, attempt: 1 }).collect();
        let tx = Tx::new(&mut self.conn, 0);
        let mut tx = tx.with_registry(&self.registry, self.snapshot.as_ref(), 0);
        self.table.run(0, &run, DecodedRun::none(), &mut tx, Duration::from_secs(20)).await
    }

    /// The texts that were sent by themselves are known from now on.
    async fn prepare_session(&mut self) {
        let snapshot = self.registry.newer_snapshot(self.snapshot.as_ref()).expect("something new");
        // In the test's own transaction, so that the function goes with it: like `Postgres::prepare_session`, which
        // the pipeline calls before BEGIN.
        prepare_within(&mut self.conn, &snapshot).await;
        self.snapshot = Some(snapshot);
    }

    /// A session that knows the texts of `script`, and has forgotten what it did.
    async fn knowing(events: &[&str]) -> Self {
        let mut bench = Self::new().await;
        run(&mut bench.conn, "SAVEPOINT fresh").await;
        assert_eq!(bench.run(events).await, RunEnd::Done);
        run(&mut bench.conn, "ROLLBACK TO fresh; RELEASE fresh").await;
        bench.prepare_session().await;
        bench
    }

    async fn effects(&mut self) -> String {
        let sql = "SELECT coalesce(string_agg(kind || n, ' ' ORDER BY at), '') FROM effects";
        sqlx::query_scalar(sql).fetch_one(&mut self.conn).await.unwrap()
    }

    /// How many effects came by the function: its block is a subtransaction.
    async fn looped(&mut self) -> i64 {
        let sql = "SELECT count(*) FROM effects \
                   WHERE xmin::text <> (pg_current_xact_id()::text::bigint % 4294967296)::text";
        sqlx::query_scalar(sql).fetch_one(&mut self.conn).await.unwrap()
    }
}

async fn prepare_within(conn: &mut PgConnection, snapshot: &RegistrySnapshot) {
    let text = inbox_store::internal::inside::functions_of_queued(snapshot);
    sqlx::raw_sql(AssertSqlSafe(text)).execute(conn).await.unwrap();
}

fn delivery(script: &str) -> Arc<Delivery> {
    make_delivery("script", serde_json::to_vec(script).unwrap().into())
}

pub(super) fn make_delivery(event_type: &str, payload: Bytes) -> Arc<Delivery> {
    let payload = Some(payload);
    let event = Envelope {
        event_id: EventId::new(),
        source_id: None,
        event_type: event_type.into(),
        aggregate: Aggregate::new("Test", "1").unwrap(),
        aggregate_version: None,
        occurred_at_ms: None,
        schema_version: None,
        payload: payload.clone(),
    };
    Arc::new(Delivery {
        read_as: outbox_core::internal::ReadAs::default(),
        partition: TopicPartition { topic: "topic".into(), partition: 0 },
        offset: Offset(0),
        record: Record { payload, ..Record::default() },
        excerpt: None,
        event: Ok(event),
    })
}

/// Does what the words of its payload say, one after the other.
struct Script;

impl Handler<Postgres> for Script {
    type Event = String;

    async fn handle(&self, event: &Event<String>, tx: &mut Tx<'_, Postgres>) -> HandlerResult {
        for word in event.payload.split(' ') {
            let (what, n) = word.split_at(1);
            let n: i64 = n.parse().unwrap_or_default();
            match what {
                "a" => tx.queue(statement(A).bind(n))?,
                "b" => tx.queue(statement(B).bind(n))?,
                "+" => tx.queue(statement(ADD).bind(n).bind(1_i64))?,
                "n" => tx.queue(statement("INSERT INTO nowhere VALUES ($1)").bind(n))?,
                "r" => tx.queue(statement(RETURNING).bind(n))?,
                "l" => tx.queue(statement(OF_ARRAYS).bind(vec![n, n]))?,
                "c" => assert!(tx.queue(statement("COMMIT")).is_err()),
                "?" => assert_eq!(count(tx).await?, n, "what is read"),
                "f" => return Err(HandlerError::retry("the handler fails")),
                "s" => savepoints(n, tx).await?,
                "u" => _ = sqlx::query("SELECT 1").execute(tx.unguarded().await?).await?,
                "x" => (0..n).try_for_each(|n| tx.queue(statement(B).bind(n + 100)))?,
                word => panic!("{word}"),
            }
        }
        Ok(())
    }
}

const RETURNING: &str = "INSERT INTO effects (kind, n) VALUES ('r', $1) RETURNING n";
const OF_ARRAYS: &str = "INSERT INTO effects (kind, n) SELECT 'l', m FROM unnest($1) WITH ORDINALITY u(m, o) ORDER BY o";

async fn count(tx: &mut Tx<'_, Postgres>) -> Result<i64, sqlx::Error> {
    sqlx::query_scalar("SELECT count(*) FROM effects").fetch_one(&mut *tx).await
}

/// Parts that are kept and undone.
async fn savepoints(n: i64, tx: &mut Tx<'_, Postgres>) -> HandlerResult {
    let mut part = tx.savepoint().await?;
    part.queue(statement(A).bind(n))?;
    part.rollback().await?;
    let mut part = tx.savepoint().await?;
    part.queue(statement(A).bind(13_i64))?;
    assert!(part.flush().await.is_err());
    part.rollback().await?;
    let mut part = tx.savepoint().await?;
    part.queue(statement(B).bind(n))?;
    part.release().await?;
    Ok(())
}

#[track_caller]
fn failed(end: RunEnd) -> (Option<usize>, Fault, String) {
    match end {
        RunEnd::Failed(CallFailure { at, fault, error, hung: false }) => (at, fault, error),
        end => panic!("{end:?}"),
    }
}

#[tokio::test]
async fn queued_statements_keep_their_order_over_events() {
    let events = ["b1 a2 b3", "a4 b5", "b6"];
    let mut bench = Bench::new().await;
    assert_eq!(bench.run(&events).await, RunEnd::Done);
    assert_eq!(bench.effects().await, "b1 a2 b3 a4 b5 b6");
    assert_eq!(bench.looped().await, 0, "nothing is known yet");
    let mut bench = Bench::knowing(&["b1 a2"]).await;
    assert_eq!(bench.run(&events).await, RunEnd::Done);
    assert_eq!(bench.effects().await, "b1 a2 b3 a4 b5 b6");
    assert_eq!(bench.looped().await, 6, "one function ran them all");
}

#[tokio::test]
async fn several_statements_for_one_row_are_all_run() {
    let mut bench = Bench::knowing(&["+1"]).await;
    assert_eq!(bench.run(&["+1 +2", "+4", "+8 +16"]).await, RunEnd::Done);
    let total = "SELECT n FROM totals WHERE id = 1";
    let total: i64 = sqlx::query_scalar(total).fetch_one(&mut bench.conn).await.unwrap();
    assert_eq!(total, 31);
}

#[tokio::test]
async fn what_is_awaited_sees_what_was_queued_before() {
    for mut bench in [Bench::new().await, Bench::knowing(&["b1 a2"]).await] {
        let events = ["b1 a2 ?2 b3", "?3 s4 ?4", "a5 u", "?5"];
        assert_eq!(bench.run(&events).await, RunEnd::Done);
        assert_eq!(bench.effects().await, "b1 a2 b3 b4 a5");
    }
}

#[tokio::test]
async fn nothing_that_was_queued_is_lost() {
    for mut bench in [Bench::new().await, Bench::knowing(&["b1 a2"]).await] {
        let events = ["b1", "x2500", "a2 b3", "x999 ?3502 x1"];
        assert_eq!(bench.run(&events).await, RunEnd::Done);
        let total = "SELECT count(*) FROM effects";
        let total: i64 = sqlx::query_scalar(total).fetch_one(&mut bench.conn).await.unwrap();
        assert_eq!(total, 3503);
    }
}

#[tokio::test]
async fn an_undecodable_event_loses_nothing_of_those_before() {
    let mut bench = Bench::new().await;
    let deliveries =
        [delivery("b1"), delivery("a2"), make_delivery("script", Bytes::from_static(b"{"))];
    let run = deliveries.each_ref().map(|delivery| RunEvent { delivery, attempt: 1 });
    let mut tx = Tx::new(&mut bench.conn, 0);
    let end = bench.table.run(0, &run, DecodedRun::none(), &mut tx, Duration::from_secs(20)).await;
    assert!(matches!(end, RunEnd::Undecodable { at: 2, ran: 2, .. }), "{end:?}");
    assert_eq!(bench.effects().await, "b1 a2");
}

#[tokio::test]
async fn a_queued_statement_that_fails_fails_its_own_event() {
    for events in [["b1 a2", "b13", "a3"], ["b1 a2", "b13", "?9"]] {
        for mut bench in [Bench::new().await, Bench::knowing(&["b1 a2"]).await] {
            let (at, fault, error) = failed(bench.run(&events).await);
            assert_eq!((at, fault), (Some(1), Fault::Retry), "{events:?}: {error}");
            assert!(error.starts_with("a queued statement failed: "), "{error}");
            assert!(error.contains("violates check constraint"), "{error}");
            assert!(error.ends_with("(code 23514)"), "{error}");
        }
    }
}

/// Each round trip that can name a statement is a subtransaction, and they are limited.
#[tokio::test]
async fn a_transaction_has_few_subtransactions_however_often_it_sends() {
    let mut bench = Bench::knowing(&["b1 a2"]).await;
    let events: Vec<String> = (1..=40).map(|n| format!("b1 a2 ?{}", 2 * n)).collect();
    let mut events: Vec<&str> = events.iter().map(String::as_str).collect();
    assert_eq!(bench.run(&events).await, RunEnd::Done);
    assert_eq!(bench.looped().await, 64);
    run(&mut bench.conn, "TRUNCATE effects").await;
    events[39] = "b1 b13 ?0";
    let (at, _, error) = failed(bench.run(&events).await);
    assert_eq!(at, Some(39), "one event alone had queued: {error}");
}

#[tokio::test]
async fn a_statement_that_cannot_be_prepared_is_told_as_if_awaited() {
    for mut bench in [Bench::new().await, Bench::knowing(&["b1 a2"]).await] {
        let (at, fault, error) = failed(bench.run(&["b1", "n2", "a3"]).await);
        assert_eq!((at, fault), (Some(1), Fault::Retry));
        assert!(error.contains("relation \"nowhere\" does not exist"), "{error}");
    }
}

#[tokio::test]
async fn what_a_handler_queued_that_fails_is_not_sent() {
    let mut bench = Bench::new().await;
    let (at, fault, error) = failed(bench.run(&["b1 a2 f", "b3"]).await);
    assert_eq!((at, fault, error.as_str()), (Some(0), Fault::Retry, "the handler fails"));
    assert_eq!(bench.effects().await, "");
}

/// A3
#[tokio::test]
async fn a_verb_is_refused_when_it_is_queued() {
    let mut bench = Bench::new().await;
    let (at, fault, error) = failed(bench.run(&["b1", "c", "b2"]).await);
    assert_eq!((at, fault), (Some(1), Fault::Retry));
    assert!(error.contains("a handler may not run COMMIT"), "{error}");
    assert_eq!(bench.effects().await, "", "nothing was sent");
}

#[tokio::test]
async fn what_cannot_travel_is_sent_by_itself_in_its_turn() {
    let events = ["b1 r2 a3", "l4 b5 a6", "r7"];
    for mut bench in [Bench::new().await, Bench::knowing(&["b1 a2 r3 l4"]).await] {
        assert_eq!(bench.run(&events).await, RunEnd::Done);
        assert_eq!(bench.effects().await, "b1 r2 a3 l4 l4 b5 a6 r7");
    }
}

#[tokio::test]
async fn a_text_that_the_function_cannot_run_is_sent_by_itself_from_then_on() {
    let mut bench = Bench::knowing(&["b1 a2"]).await;
    run(&mut bench.conn, "SAVEPOINT fresh; ALTER TABLE effects RENAME kind TO kind_of").await;
    let (at, _, error) = failed(bench.run(&["a1 a2", "b3"]).await);
    assert_eq!(at, Some(0));
    assert!(error.ends_with("(code 42703)"), "{error}");
    run(&mut bench.conn, "ROLLBACK TO fresh; RELEASE fresh").await;
    let snapshot = bench.registry.newer_snapshot(bench.snapshot.as_ref()).expect("a text less");
    assert_eq!(snapshot.number_of(&A.into_sql_str(), &[20]), None);
    assert!(snapshot.number_of(&B.into_sql_str(), &[20]).is_some());
    bench.prepare_session().await;
    assert_eq!(bench.run(&["a1 a2", "b3 b4"]).await, RunEnd::Done);
    assert_eq!((bench.effects().await.as_str(), bench.looped().await), ("a1 a2 b3 b4", 2));
}

#[tokio::test]
async fn a_handler_that_queues_without_end_is_stopped() {
    let mut bench = Bench::new().await;
    let (at, fault, error) = failed(bench.run(&["x50001"]).await);
    assert_eq!((at, fault), (Some(0), Fault::Retry));
    assert!(error.contains("tx.flush() in between"), "{error}");
}

/// Every type that travels, and NULLs.
#[tokio::test]
async fn values_arrive_as_they_were_bound() {
    const INTO: &str = "INSERT INTO every (b, i2, i4, i8, f4, f8, t, y, u, j) \
                        VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)";
    let mut conn = opened().await;
    let registry = Arc::new(StatementRegistry::new(true));
    let mut snapshot: Option<Arc<RegistrySnapshot>> = None;
    for _ in 0..2 {
        let mut tx =
            Tx::<Postgres>::new(&mut conn, 0).with_registry(&registry, snapshot.as_ref(), 0);
        let id = uuid::Uuid::from_u128(7);
        let json = serde_json::json!({"a": [1, null, "x'\\"]});
        let full = statement(INTO).bind(true).bind(-2_i16).bind(i32::MIN).bind(i64::MAX);
        let full =
            full.bind(1.5_f32).bind(f64::MIN_POSITIVE).bind("it's $1 \\ ü").bind(vec![0_u8, 255]);
        tx.queue(full.bind(id).bind(&json)).unwrap();
        let none = statement(INTO).bind(None::<bool>).bind(None::<i16>).bind(None::<i32>);
        let none = none.bind(None::<i64>).bind(None::<f32>).bind(None::<f64>).bind(None::<String>);
        tx.queue(
            none.bind(None::<Vec<u8>>).bind(None::<uuid::Uuid>).bind(None::<serde_json::Value>),
        )
        .unwrap();
        let some = statement(INTO).bind(Some(false)).bind(Some(0_i16)).bind(Some(1_i32));
        let some = some.bind(Some(-1_i64)).bind(0_f32).bind(Some(-0.0_f64)).bind(String::new());
        tx.queue(some.bind(Some(&[][..] as &[u8])).bind(Some(id)).bind(serde_json::Value::Null))
            .unwrap();
        tx.flush().await.unwrap();
        if let Some(new) = registry.newer_snapshot(snapshot.as_ref()) {
            prepare_within(&mut conn, &new).await;
            snapshot = Some(new);
        }
    }
    let rows = "SELECT count(*) FROM every";
    let rows: i64 = sqlx::query_scalar(rows).fetch_one(&mut conn).await.unwrap();
    let kinds = "SELECT count(DISTINCT xmin::text), count(*) FROM (SELECT DISTINCT xmin, every::text FROM every) x";
    let (ways, kinds): (i64, i64) = sqlx::query_as(kinds).fetch_one(&mut conn).await.unwrap();
    let texts = "SELECT DISTINCT every::text FROM every ORDER BY 1";
    let texts: Vec<String> = sqlx::query_scalar(texts).fetch_all(&mut conn).await.unwrap();
    assert_eq!(
        (rows, ways, kinds, texts.len()),
        (6, 2, 6, 3),
        "both ways wrote the same: {texts:#?}"
    );
    assert_eq!(texts[0], "(,,,,,,,,,,)");
    assert!(
        texts[2].starts_with("(t,-2,-2147483648,9223372036854775807,1.5,2.2250738585072014e-308,"),
        "{texts:#?}"
    );
    assert!(texts[2].contains("\\\\x00ff"), "{texts:#?}");
}

/// Nothing of a session outlives its transaction there.
#[test]
fn behind_a_pooler_no_session_is_prepared() {
    let through = |statement_cache| {
        let address = Address {
            url: "postgres://shop@db/orders",
            tls: None,
            schema: None,
            application: "test",
            statement_cache,
        };
        Postgres::prepares(&Postgres::settings(&address).unwrap())
    };
    assert!(through(100) && !through(0));
}

/// The pipeline calls it before BEGIN, on a session that is read-only otherwise.
#[tokio::test]
async fn a_session_learns_outside_any_transaction() {
    let mut conn = opened().await;
    run(&mut conn, "ROLLBACK").await;
    let registry = StatementRegistry::new(true);
    let text =
        inbox_store::internal::port::StatementText { sql: ADD.into_sql_str(), types: vec![20, 20] };
    registry.add(vec![text]);
    let snapshot = registry.newer_snapshot(None).unwrap();
    Postgres::prepare_session(&mut conn, &snapshot).await.unwrap();
    assert!(!Postgres::in_transaction(&conn));
    let there = "SELECT count(*) FROM pg_proc WHERE proname LIKE 'inbox\\_queue%' AND pronamespace = pg_my_temp_schema()";
    let there: i64 = sqlx::query_scalar(there).fetch_one(&mut conn).await.unwrap();
    assert_eq!(there, 2);
}
