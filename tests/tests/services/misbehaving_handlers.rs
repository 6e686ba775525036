//! Handlers that misbehave in Rust, and in SQL that ends with the transaction, case by case: what becomes of the
//! event, what is told, and what is left of it.

use std::collections::HashMap;
use std::sync::Mutex;
use std::task::Poll;
use std::time::{Duration, Instant};

use futures::StreamExt as _;
use inbox_consumer::{Ended, Event, Handler, HandlerError, HandlerResult, Routes, Tx, statement};
use outbox_core::OutboxEvent;
use serde::{Deserialize, Serialize};
use serde_json::json;
use sqlx::{Acquire as _, AssertSqlSafe, PgConnection, PgPool, Postgres};
use tests::{Record, SOON, Stage, eventually};

use super::misbehaving::Fate::{self, Done, Parked};
use super::misbehaving::{parked_as, refused};

/// What a handler does beside its effect, which it writes first.
#[derive(Clone, Copy, Serialize, Deserialize, Debug)]
#[serde(rename_all = "snake_case")]
enum Act {
    /// Nothing: what a later event sees of the session is kept.
    Look,
    AppendsLarge,
    AppendsNul,
    CopiesIn,
    CopiesInHalfWay,
    DecodesWrongly,
    Fails,
    FailsByOwnError,
    FindsNoRow,
    ForgetsBegin,
    LeavesStream,
    LeavesSavepoint,
    NeverAwaits,
    Panics,
    PanicsInStatement,
    PanicsWithoutText,
    QueuesTooMuch,
    QueuesWrongly,
    ReadsMuch,
    ReleasesFailed,
    Rejects,
    RejectsAtLength,
    RejectsOddly,
    Sleeps,
    SpawnsAndRejects,
    SpawnsPanic,
    Spins,
    Swaps,
    TakesSavepoints,
    WaitsForItself,
    WaitsIdly,
    WritesElsewhere,
}
use Act::{
    AppendsLarge, AppendsNul, CopiesIn, CopiesInHalfWay, DecodesWrongly, Fails, FailsByOwnError,
    FindsNoRow, ForgetsBegin, LeavesSavepoint, LeavesStream, Look, NeverAwaits, Panics,
    PanicsInStatement, PanicsWithoutText, QueuesTooMuch, QueuesWrongly, ReadsMuch, Rejects,
    RejectsAtLength, RejectsOddly, ReleasesFailed, Sleeps, SpawnsAndRejects, SpawnsPanic, Spins,
    Swaps, TakesSavepoints, WaitsForItself, WaitsIdly, WritesElsewhere,
};

#[derive(Serialize, Deserialize)]
struct Told {
    n: i64,
    #[serde(default)]
    act: Option<Act>,
    #[serde(default)]
    sql: Option<String>,
}

struct Misbehaves {
    /// Connections of its own.
    own: PgPool,
    url: String,
    calls: Mutex<HashMap<String, u32>>,
}

/// What of a session would change what later events do.
const SESSION: &str = "INSERT INTO seen SELECT concat_ws('|', pg_backend_pid() > 0, current_user, \
    current_setting('search_path'), current_setting('TimeZone'), current_setting('transaction_read_only'), \
    current_setting('session_replication_role'), current_setting('statement_timeout'), \
    current_setting('idle_in_transaction_session_timeout'), \
    (SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()), \
    (SELECT count(*) FROM pg_cursors WHERE is_holdable), \
    (SELECT count(*) FROM pg_prepared_statements WHERE from_sql), \
    (SELECT count(*) FROM pg_listening_channels()))";

const TABLES: &str = "CREATE TABLE seen (what text); CREATE TABLE copied (n bigint); \
    CREATE TABLE elsewhere (who text); CREATE TABLE counters (id bigint PRIMARY KEY, n bigint); \
    INSERT INTO counters VALUES (1, 0); \
    CREATE FUNCTION endless() RETURNS bigint LANGUAGE plpgsql AS 'BEGIN RETURN endless(); END'; \
    CREATE PROCEDURE commits() LANGUAGE plpgsql AS 'BEGIN COMMIT; END'; \
    CREATE FUNCTION move_lanes() RETURNS void LANGUAGE sql AS \
        'UPDATE inbox_lanes SET last_offset = last_offset + 1000';";

impl Misbehaves {
    fn first(&self, event: &Event<Told>) -> bool {
        let mut calls = self.calls.lock().unwrap();
        let count = calls.entry(event.id().to_string()).or_default();
        *count += 1;
        *count == 1
    }

    /// Leaves a row by a connection of its own.
    async fn elsewhere(own: PgPool, who: String) -> Result<(), sqlx::Error> {
        let row = sqlx::query("INSERT INTO elsewhere VALUES ($1)").bind(who).execute(&own);
        row.await.map(drop)
    }
}

impl Handler<Postgres> for Misbehaves {
    type Event = Told;

    async fn handle(&self, event: &Event<Told>, tx: &mut Tx<'_, Postgres>) -> HandlerResult {
        let first = self.first(event);
        let who = event.aggregate().aggregate_id().to_owned();
        sqlx::query("INSERT INTO effects (aggregate, n, event_id, pid) VALUES ($1, $2, $3, 0)")
            .bind(&who)
            .bind(event.payload.n)
            .bind(event.id().to_string())
            .execute(&mut *tx)
            .await?;
        if let Some(sql) = &event.payload.sql {
            sqlx::raw_sql(AssertSqlSafe(sql.clone())).execute(&mut *tx).await?;
        }
        let Some(act) = event.payload.act else { return Ok(()) };
        match act {
            Fails | FailsByOwnError | Rejects | RejectsAtLength | RejectsOddly => answers(act),
            Panics | PanicsInStatement | PanicsWithoutText => panics(act, tx).await,
            SpawnsAndRejects | SpawnsPanic | Swaps | WaitsForItself | WritesElsewhere => {
                self.elsewhere_too(act, first, who, tx).await
            }
            AppendsLarge | AppendsNul => appends(act, event, tx).await,
            Sleeps | Spins | WaitsIdly => waits(act, tx).await,
            _ => asks(act, tx).await,
        }
    }
}

#[derive(Debug)]
struct OwnError(std::num::ParseIntError);

impl std::fmt::Display for OwnError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the amount is odd")
    }
}

impl std::error::Error for OwnError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.0)
    }
}

fn answers(act: Act) -> HandlerResult {
    match act {
        Fails => Err(HandlerError::retry("not today")),
        FailsByOwnError => Err(OwnError("x".parse::<i64>().unwrap_err()).into()),
        RejectsAtLength => Err(HandlerError::reject("long ".repeat(1 << 18))),
        RejectsOddly => Err(HandlerError::reject("a\0b\u{1b}[31m\r\n\u{202e}end")),
        _ => Err(HandlerError::reject("told to reject")),
    }
}

async fn panics(act: Act, tx: &mut Tx<'_, Postgres>) -> HandlerResult {
    match act {
        PanicsWithoutText => std::panic::panic_any(42),
        PanicsInStatement => {
            let mut slow = Box::pin(sqlx::query("SELECT pg_sleep(0.2)").execute(&mut *tx));
            std::future::poll_fn(|cx| {
                let _ = slow.as_mut().poll(cx);
                Poll::Ready(())
            })
            .await;
            panic!("told to panic half-way");
        }
        _ => panic!("told to panic"),
    }
}

async fn waits(act: Act, tx: &mut Tx<'_, Postgres>) -> HandlerResult {
    match act {
        Spins => loop {
            tokio::task::yield_now().await;
        },
        WaitsIdly => {
            let limit = "SET LOCAL idle_in_transaction_session_timeout = '20ms'";
            sqlx::raw_sql(limit).execute(&mut *tx).await?;
            tokio::time::sleep(Duration::from_millis(200)).await;
            sqlx::query("SELECT 1").execute(&mut *tx).await?;
            Ok(())
        }
        _ => {
            tokio::time::sleep(SOON).await;
            Ok(())
        }
    }
}

async fn appends(act: Act, event: &Event<Told>, tx: &mut Tx<'_, Postgres>) -> HandlerResult {
    let made = OutboxEvent::new("Told", event.aggregate(), &event.payload.n)?;
    if matches!(act, AppendsNul) {
        let _ = tx.append(&made.with_header("note", "a\0b")?).await?;
        return Ok(());
    }
    let large = OutboxEvent::new("Told", event.aggregate(), &"x".repeat(2 << 20))?;
    let _ = tx.append(&large).await;
    Ok(())
}

impl Misbehaves {
    async fn elsewhere_too(
        &self,
        act: Act,
        first: bool,
        who: String,
        tx: &mut Tx<'_, Postgres>,
    ) -> HandlerResult {
        match act {
            SpawnsPanic => drop(tokio::spawn(async { panic!("a task that nobody waits for") })),
            SpawnsAndRejects => {
                let own = self.own.clone();
                drop(tokio::spawn(async move {
                    tokio::time::sleep(Duration::from_millis(100)).await;
                    Self::elsewhere(own, who).await
                }));
                return Err(HandlerError::reject("told to reject"));
            }
            WritesElsewhere => {
                Self::elsewhere(self.own.clone(), who).await?;
                if first {
                    return Err(HandlerError::retry("the first time"));
                }
            }
            Swaps => {
                let mut own = <PgConnection as sqlx::Connection>::connect(&self.url).await?;
                std::mem::swap(tx.unguarded().await?, &mut own);
            }
            _ => {
                let change = "UPDATE counters SET n = n + 1 WHERE id = 1";
                sqlx::query(change).execute(&mut *tx).await?;
                sqlx::query(change).execute(&self.own).await?;
            }
        }
        Ok(())
    }
}

async fn asks(act: Act, tx: &mut Tx<'_, Postgres>) -> HandlerResult {
    let broken = "INSERT INTO counters VALUES (1, 0)";
    match act {
        Look => {
            sqlx::query(SESSION).execute(&mut *tx).await?;
        }
        CopiesIn | CopiesInHalfWay => {
            let mut copy = tx.unguarded().await?.copy_in_raw("COPY copied FROM STDIN").await?;
            copy.send(&b"1\n2\n"[..]).await?;
            if matches!(act, CopiesIn) {
                copy.finish().await?;
            }
        }
        DecodesWrongly => {
            let _: i64 = sqlx::query_scalar("SELECT 'x'::text").fetch_one(&mut *tx).await?;
        }
        FindsNoRow => drop(sqlx::query("SELECT 1 WHERE false").fetch_one(&mut *tx).await?),
        #[expect(clippy::mem_forget, reason = "what a handler must not do")]
        ForgetsBegin => std::mem::forget(tx.unguarded().await?.begin().await?),
        LeavesStream => {
            let mut rows = sqlx::query("SELECT generate_series(1, 9)").fetch(&mut *tx);
            assert!(rows.next().await.is_some());
        }
        LeavesSavepoint => drop(tx.savepoint().await?),
        NeverAwaits => drop(sqlx::query(broken).execute(&mut *tx)),
        QueuesTooMuch => {
            for _ in 0..=Tx::<Postgres>::QUEUED_MAX {
                tx.queue(statement("DELETE FROM copied"))?;
            }
        }
        QueuesWrongly => tx.queue(statement(broken))?,
        ReadsMuch => {
            let rows = "SELECT repeat('x', 1000) FROM generate_series(1, 50000)";
            assert_eq!(sqlx::query(rows).fetch_all(&mut *tx).await?.len(), 50_000);
        }
        ReleasesFailed => {
            let mut part = tx.savepoint().await?;
            let _ = sqlx::query(broken).execute(&mut *part).await;
            let _ = part.release().await;
        }
        _ => {
            for _ in 0..40 {
                tx.savepoint().await?.release().await?;
            }
        }
    }
    Ok(())
}

/// What is done, what becomes of the event, and what a query says when all is over.
struct Case {
    act: Option<Act>,
    sql: Option<&'static str>,
    fate: Fate,
    left: (&'static str, i64),
}

const NOTHING: (&str, i64) = ("SELECT 0::bigint", 0);

const fn act(act: Act, fate: Fate) -> Case {
    Case { act: Some(act), sql: None, fate, left: NOTHING }
}

const fn left(act: Act, fate: Fate, left: (&'static str, i64)) -> Case {
    Case { act: Some(act), sql: None, fate, left }
}

const fn sql(sql: &'static str, fate: Fate) -> Case {
    Case { act: None, sql: Some(sql), fate, left: NOTHING }
}

fn record(aggregate: &str, n: i64, act: Option<Act>, sql: Option<&str>) -> Record {
    let told = Told { n, act, sql: sql.map(str::to_owned) };
    Record::event(&format!("{aggregate}-{n}"), "Told", aggregate, &json!(told).to_string())
}

/// What became of an event; nothing within the time that anything takes.
async fn became(stage: &Stage, aggregate: &str) -> Option<Result<Vec<i64>, (String, String)>> {
    let begun = Instant::now();
    while begun.elapsed() < SOON {
        if let Some(parked) = parked_as(stage, aggregate).await {
            return Some(Err(parked));
        }
        let effects = stage.of(aggregate).await;
        if !effects.is_empty() {
            return Some(Ok(effects));
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    None
}

/// What is wrong with a case.
async fn wrong(stage: &Stage, at: usize, case: &Case) -> Option<String> {
    let (bad, name) = (format!("bad-{at}"), format!("{:?} {:?}", case.act, case.sql));
    // A neighbour in its transaction, and one that comes when it is over.
    let near = record(&format!("near-{at}"), 1, None, None);
    stage.send(&[near, record(&bad, 1, case.act, case.sql)]).await;
    match (case.fate, became(stage, &bad).await) {
        (Done, Some(Ok(effects))) if effects == [1] => {}
        (Parked(reason, words), Some(Err((found, error))))
            if found == reason && error.contains(words) && stage.of(&bad).await.is_empty() => {}
        (expected, found) => return Some(format!("{name}: {found:?} instead of {expected:?}")),
    }
    let later = format!("later-{at}");
    stage.send(&[record(&later, 1, Some(Look), None)]).await;
    for other in [format!("near-{at}"), later] {
        if became(stage, &other).await != Some(Ok(vec![1])) {
            return Some(format!("{name}: {other} is not applied"));
        }
    }
    None
}

async fn stage() -> Stage {
    let mut stage = Stage::set("misbehaves", 1).await;
    stage.config.lanes.count = 1;
    stage.config.retry.attempts_max = 2;
    stage.schema.run(TABLES).await;
    stage
}

async fn check(stage: &Stage, cases: &[Case]) {
    let misbehaves = Misbehaves {
        own: stage.schema.pool().clone(),
        url: stage.schema.url(),
        calls: Mutex::default(),
    };
    let running = stage.start(Routes::default().on("Told", misbehaves)).await;
    stage.send(&[record("first", 1, Some(Look), None)]).await;
    let mut all = Vec::new();
    for (at, case) in cases.iter().enumerate() {
        all.extend(wrong(stage, at, case).await);
    }
    assert!(all.is_empty(), "\n{}\n", all.join("\n"));
    for Case { left: (query, expected), act, .. } in cases {
        let found = async || stage.schema.number(query).await == *expected;
        eventually(SOON, &format!("what is left of {act:?}"), found).await;
    }
    let sessions = "SELECT count(DISTINCT what) FROM seen";
    assert_eq!(stage.schema.number(sessions).await, 1, "later events see a session like the first");
    assert_eq!(running.counters.read().outages, 0);
    assert_eq!(running.stop().await, Ended::Shutdown);
}

/// What a handler answers, and how it ends.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_handler_answers_is_told() {
    let cases = [
        act(Fails, Parked("exhausted", "not today")),
        act(FailsByOwnError, Parked("exhausted", "the amount is odd: invalid digit found")),
        act(Rejects, Parked("rejected", "told to reject")),
        left(
            RejectsAtLength,
            Parked("rejected", "[…]"),
            ("SELECT count(*) FROM inbox_parked WHERE length(record) > 10000", 0),
        ),
        act(RejectsOddly, Parked("rejected", "end")),
        act(Panics, Parked("exhausted", "the handler panicked: told to panic")),
        act(PanicsWithoutText, Parked("exhausted", "a panic without a text")),
        act(PanicsInStatement, Parked("exhausted", "told to panic half-way")),
        act(DecodesWrongly, Parked("exhausted", "mismatched types")),
        act(FindsNoRow, Parked("exhausted", "no rows returned")),
        act(NeverAwaits, Done),
        act(ReadsMuch, Done),
    ];
    check(&stage().await, &cases).await;
}

/// Statements, savepoints and the lent connection.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_handler_leaves_half_done_is_an_attempt_that_failed() {
    let cases = [
        act(LeavesStream, Parked("exhausted", "dropped before it finished")),
        act(LeavesSavepoint, Parked("exhausted", "dropped unfinished")),
        act(ReleasesFailed, Parked("exhausted", "duplicate key value")),
        act(TakesSavepoints, Parked("exhausted", "31 savepoints")),
        act(QueuesWrongly, Parked("exhausted", "a queued statement failed: duplicate key")),
        act(QueuesTooMuch, Parked("exhausted", "queued more than 50000")),
        act(AppendsLarge, Parked("exhausted", "more than the allowed 1048576")),
        left(
            AppendsNul,
            Done,
            ("SELECT count(*) FROM outbox_events WHERE headers LIKE '%a\\\\u0000b%'", 1),
        ),
        left(CopiesIn, Done, ("SELECT count(*) FROM copied", 2)),
        act(CopiesInHalfWay, Parked("exhausted", "COPY")),
        act(ForgetsBegin, Parked("exhausted", "left a nested begin() of the driver open")),
        act(Swaps, Parked("rejected", "a handler ended the transaction")),
    ];
    check(&stage().await, &cases).await;
}

/// Connections and tasks of its own are its own affair: what they do happens with each attempt, and stays.
#[tokio::test(flavor = "multi_thread")]
async fn what_goes_past_the_transaction_happens_with_each_attempt() {
    let cases = [
        left(WritesElsewhere, Done, ("SELECT count(*) FROM elsewhere WHERE who = 'bad-0'", 2)),
        left(
            SpawnsAndRejects,
            Parked("rejected", "told to reject"),
            ("SELECT count(*) FROM elsewhere WHERE who = 'bad-1'", 1),
        ),
        act(SpawnsPanic, Done),
    ];
    check(&stage().await, &cases).await;
}

/// The deadline of an attempt ends what awaits, whatever it waits for.
#[tokio::test(flavor = "multi_thread")]
async fn what_waits_is_ended_by_its_deadline() {
    let late = Parked("exhausted", "did not finish within 1.5s");
    let cases = [
        act(Sleeps, late),
        act(Spins, late),
        act(WaitsForItself, late),
        act(WaitsIdly, Parked("exhausted", "conflicted 5 times alone")),
    ];
    let mut stage = stage().await;
    stage.config.database.lock_timeout = Duration::from_millis(500);
    stage.config.database.statement_timeout = Duration::from_secs(1);
    stage.config.retry.attempt_deadline = Duration::from_millis(1500);
    check(&stage, &cases).await;
}

/// SQL whose work ends with the transaction, or that the server refuses.
#[tokio::test(flavor = "multi_thread")]
async fn what_the_server_refuses_is_told_by_its_words() {
    let cases = [
        sql("VACUUM", Parked("exhausted", "cannot run inside a transaction block")),
        sql("CREATE INDEX CONCURRENTLY i ON copied (n)", Parked("exhausted", "cannot run inside")),
        sql("CALL commits()", Parked("exhausted", "invalid transaction termination")),
        sql("SELECT endless()", Parked("exhausted", "stack depth limit exceeded")),
        sql("SELECT repeat('x', 2000000000)", Parked("exhausted", "requested length too large")),
        sql(
            "SELECT pg_notify('x', repeat('x', 9000))",
            Parked("exhausted", "payload string too long"),
        ),
        sql("NOTIFY news, 'x'", Done),
        sql("SELECT 'x' FROM nowhere", Parked("exhausted", "\"nowhere\" does not exist")),
        sql(
            "SET LOCAL statement_timeout = '1ms'; SELECT pg_sleep(1)",
            Parked("exhausted", "statement timeout"),
        ),
        sql("ALTER TABLE copied DISABLE TRIGGER ALL; ALTER TABLE copied ADD COLUMN m bigint", Done),
        sql("LOCK TABLE inbox_lanes IN EXCLUSIVE MODE", refused("belongs to the inbox")),
        sql("DROP TABLE inbox_parked", refused("belongs to the inbox")),
        sql("ALTER TABLE inbox_events ADD COLUMN x bigint", refused("belongs to the inbox")),
        sql("EXPLAIN ANALYZE DELETE FROM inbox_events", refused("belongs to the inbox")),
        sql("SELECT * FROM inbox_lanes FOR UPDATE", Done),
        sql(
            "SELECT move_lanes()",
            Parked("rejected", "changed rows of inbox_events or inbox_lanes"),
        ),
        sql("SELECT set_config('timezone', 'Asia/Tokyo', true)", Done),
    ];
    check(&stage().await, &cases).await;
}

/// The runtime's last statement runs in the handler's transaction. (In the savepoint of a careful run the handler's
/// settings end with it.)
#[tokio::test(flavor = "multi_thread")]
async fn what_would_change_the_runtime_s_last_statement_is_the_failure_of_its_event() {
    let unknown =
        Parked("exhausted", "the advance failed: relation \"inbox_lanes\" does not exist");
    let cases = [
        sql("SELECT set_config('search_path', 'pg_catalog', true)", unknown),
        sql("SELECT set_config('role', 'pg_monitor', true)", unknown),
        sql(
            "SELECT set_config('transaction_read_only', 'on', true)",
            Parked("rejected", "a handler ended the transaction"),
        ),
    ];
    let mut stage = stage().await;
    stage.config.batch.events_max = 1;
    check(&stage, &cases).await;
}
