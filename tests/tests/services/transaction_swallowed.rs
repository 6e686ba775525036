//! Handlers that swallow errors of their transaction: never an effect lost, never an event settled
//! without its effect.

use inbox_consumer::Ended;
use serde_json::json;
use tests::{SOON, Stage, eventually};

use super::acting::{acting, told};

/// Statements that fail, by their SQLSTATE; the last four are the infrastructure's, not the handler's.
const FAILURES: [(&str, &str); 10] = [
    ("22012", "SELECT 1 / 0"),
    ("23505", "INSERT INTO accounts VALUES (1, 0)"),
    ("23503", "INSERT INTO bookings VALUES (404)"),
    ("23514", "INSERT INTO accounts VALUES (2, -1)"),
    ("22P02", "SELECT 'x'::bigint"),
    ("42P01", "SELECT * FROM nowhere"),
    ("40001", "DO $$ BEGIN RAISE SQLSTATE '40001'; END $$"),
    ("40P01", "DO $$ BEGIN RAISE SQLSTATE '40P01'; END $$"),
    ("55P03", "LOCK TABLE locked IN ACCESS EXCLUSIVE MODE NOWAIT"),
    ("57014", "SELECT pg_sleep(5) FROM pg_cancel_backend(pg_backend_pid())"),
];

const TABLES: &str = "CREATE TABLE accounts (id bigint PRIMARY KEY, balance bigint CHECK (balance >= 0)); \
     CREATE TABLE bookings (account bigint REFERENCES accounts); CREATE TABLE locked (); \
     INSERT INTO accounts VALUES (1, 0)";

const EACH: std::ops::RangeInclusive<i64> = 1..=5;

/// Event 3 of each aggregate swallows the failure of that SQLSTATE, the first `times` times.
async fn send(stage: &Stage, failures: &[(&str, &str)], unguarded: bool, times: Option<u32>) {
    let mut records = Vec::new();
    for n in EACH {
        for (code, sql) in failures {
            let bad = json!({"sql": sql, "swallow": true, "unguarded": unguarded, "times": times});
            records.push(told(code, n, if n == 3 { bad } else { json!({}) }));
        }
    }
    stage.send(&records).await;
}

async fn all_there(stage: &Stage, failures: &[(&str, &str)]) {
    let all = i64::try_from(failures.len() * 5).unwrap();
    eventually(SOON, "all effects", async || stage.effects().await >= all).await;
    for (code, _) in failures {
        assert_eq!(stage.of(code).await, EACH.collect::<Vec<_>>(), "after a swallowed {code}");
    }
    assert_eq!(stage.parked("").await, 0);
}

/// A2: through the guarded executor. What is not the handler's fault spends no attempt though the
/// handler said nothing of it.
#[tokio::test]
async fn an_error_that_a_handler_swallows_is_an_attempt_that_failed() {
    let stage = Stage::set("swallowed", 1).await;
    stage.schema.run(TABLES).await;
    let mut lock = stage.schema.pool().begin().await.unwrap();
    sqlx::raw_sql("LOCK TABLE locked IN ACCESS SHARE MODE").execute(&mut *lock).await.unwrap();
    send(&stage, &FAILURES, false, Some(1)).await;
    let running = stage.start(acting()).await;
    all_there(&stage, &FAILURES).await;
    let counts = running.counters.read();
    assert_eq!((counts.failures, counts.conflicts, counts.outages), (6, 4, 0), "{counts:?}");
    assert_eq!(running.stop().await, Ended::Shutdown);
    let settled =
        stage.schema.number("SELECT coalesce(max(watermark), 0) FROM inbox_partitions").await;
    assert_eq!((settled, counts.applied), (50, 50));
}

/// A2: past the guard, where only the database's own state tells.
#[tokio::test]
async fn an_error_swallowed_past_the_guard_is_found_before_the_commit() {
    let stage = Stage::set("swallowed", 1).await;
    stage.schema.run(TABLES).await;
    let mut lock = stage.schema.pool().begin().await.unwrap();
    sqlx::raw_sql("LOCK TABLE locked IN ACCESS SHARE MODE").execute(&mut *lock).await.unwrap();
    for failure in FAILURES {
        send(&stage, &[failure], true, Some(1)).await;
    }
    let running = stage.start(acting()).await;
    all_there(&stage, &FAILURES).await;
    assert_eq!(running.stop().await, Ended::Shutdown);
    let settled =
        stage.schema.number("SELECT coalesce(max(watermark), 0) FROM inbox_partitions").await;
    assert_eq!(settled, 50);
}

/// A2: alone in its batch, so that nothing but the advance can see it.
#[tokio::test]
async fn an_error_that_the_last_handler_swallows_past_the_guard_is_seen_by_the_advance() {
    let mut stage = Stage::set("swallowed", 1).await;
    stage.schema.run(TABLES).await;
    stage.config.batch.events_max = 1;
    send(&stage, &FAILURES[..8], true, Some(2)).await;
    let running = stage.start(acting()).await;
    all_there(&stage, &FAILURES[..8]).await;
    eventually(SOON, "all counted", async || running.counters.read().applied == 40).await;
    assert_eq!(running.stop().await, Ended::Shutdown);
}

/// A2: a handler that always does so has its event parked, and its aggregate held; nobody else pays.
#[tokio::test]
async fn a_handler_that_always_swallows_parks_its_event_and_no_other() {
    for unguarded in [false, true] {
        let mut stage = Stage::set("swallowed", 1).await;
        stage.schema.run(TABLES).await;
        stage.config.retry.attempts_max = 2;
        send(&stage, &FAILURES[..2], unguarded, None).await;
        stage.send(&EACH.map(|n| told("good", n, json!({}))).collect::<Vec<_>>()).await;
        let running = stage.start(acting()).await;
        eventually(SOON, "all settled", async || {
            (stage.effects().await, stage.parked("").await) == (9, 6)
        })
        .await;
        assert_eq!(stage.of("good").await, [1, 2, 3, 4, 5]);
        assert_eq!(stage.of("22012").await, [1, 2]);
        assert_eq!(stage.of("23505").await, [1, 2]);
        assert_eq!((stage.parked("exhausted").await, stage.parked("follower").await), (2, 4));
        assert_eq!(running.stop().await, Ended::Shutdown);
    }
}

/// A2, A6: a statement that is dropped half-way, and an `Ok` after it. Its effect may be there or not,
/// so nothing of the transaction is kept.
#[tokio::test]
async fn a_statement_that_a_handler_drops_half_way_is_an_attempt_that_failed() {
    let mut stage = Stage::set("dropped", 1).await;
    stage.config.retry.attempts_max = 2;
    let sql = "INSERT INTO effects (aggregate, n, event_id, pid) \
               SELECT 'half', 1, 'half', 0 FROM pg_sleep(0.2)";
    let bad = json!({"sql": sql, "swallow": true, "drop_after": 50});
    stage.send(&[told("a", 1, bad), told("b", 1, json!({})), told("b", 2, json!({}))]).await;
    let running = stage.start(acting()).await;
    eventually(SOON, "one parked", async || stage.parked("").await == 1).await;
    eventually(SOON, "two handled", async || stage.of("b").await == [1, 2]).await;
    assert_eq!((stage.parked("exhausted").await, stage.effects().await), (1, 2));
    assert_eq!(running.stop().await, Ended::Shutdown);
}
