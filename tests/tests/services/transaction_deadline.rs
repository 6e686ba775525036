//! Handlers that take too long, and transactions that must not stay open behind them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use inbox_consumer::{Ended, Event, Handler, HandlerError, HandlerResult, Routes, Tx};
use serde_json::json;
use sqlx::{Acquire as _, Postgres};
use tests::{Count, Proxy, SOON, Services, Stage, effect, eventually};
use tokio::task::JoinHandle;

use super::acting::{acting, told};

/// Short times: an attempt may take 700 ms, a statement 500 ms.
fn hurry(stage: &mut Stage) {
    stage.config.database.lock_timeout = Duration::from_millis(200);
    stage.config.database.statement_timeout = Duration::from_millis(500);
    stage.config.retry.attempt_deadline = Duration::from_millis(700);
    stage.config.database.idle_timeout = Duration::from_secs(2);
    stage.config.retry.attempts_max = 2;
}

/// Looks all the time for a transaction of the consumer in which nobody has said anything for a second.
struct Watch {
    found: Arc<AtomicBool>,
    task: JoinHandle<()>,
}

impl Watch {
    fn start(stage: &Stage) -> Self {
        let found = Arc::new(AtomicBool::new(false));
        let (pool, saw) = (stage.schema.pool().clone(), Arc::clone(&found));
        let application = application(stage);
        let task = tokio::spawn(async move {
            loop {
                let sql = "SELECT count(*) FROM pg_stat_activity WHERE application_name = $1 \
                           AND state LIKE 'idle in transaction%' \
                           AND now() - state_change > interval '1 second'";
                let idle = sqlx::query_scalar::<_, i64>(sql).bind(&application).fetch_one(&pool);
                if idle.await.is_ok_and(|idle| idle > 0) {
                    saw.store(true, Ordering::SeqCst);
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        });
        Self { found, task }
    }

    fn assert_quiet(self) {
        self.task.abort();
        assert!(!self.found.load(Ordering::SeqCst), "a session was idle in a transaction for 1 s");
    }
}

fn application(stage: &Stage) -> String {
    format!("inbox/{}", stage.config.consumer.name)
}

async fn sessions(stage: &Stage) -> i64 {
    sqlx::query_scalar("SELECT count(*) FROM pg_stat_activity WHERE application_name = $1")
        .bind(application(stage))
        .fetch_one(stage.schema.pool())
        .await
        .unwrap()
}

/// A6: the deadline passes in the middle of a statement. The session is closed, its locks go, and the
/// next attempts do not wait for them.
#[tokio::test]
async fn a_deadline_in_the_middle_of_a_statement_leaves_no_transaction_behind() {
    let mut stage = Stage::set("deadline", 1).await;
    hurry(&mut stage);
    let bad = json!({"sql": "SELECT pg_sleep(0.3)", "repeat": 100});
    stage.send(&[told("bad", 1, bad), told("good", 1, json!({}))]).await;
    let watch = Watch::start(&stage);
    let running = stage.start(acting()).await;
    eventually(SOON, "parked", async || stage.parked("exhausted").await == 1).await;
    eventually(SOON, "the other one", async || stage.of("good").await == [1]).await;
    assert_eq!(running.counters.read().failures, 2);
    assert_eq!(running.stop().await, Ended::Shutdown);
    eventually(SOON, "no session stays", async || sessions(&stage).await == 0).await;
    watch.assert_quiet();
    assert_eq!((stage.effects().await, stage.parked("").await), (1, 1));
}

/// A statement that the consumer's own limit ends counts against its event, and is told as what it is.
#[tokio::test]
async fn a_statement_that_meets_its_limit_counts_against_its_event() {
    let mut stage = Stage::set("limit", 1).await;
    hurry(&mut stage);
    stage.send(&[told("bad", 1, json!({"sql": "SELECT pg_sleep(30)"}))]).await;
    let running = stage.start(acting()).await;
    eventually(SOON, "parked", async || stage.parked("exhausted").await == 1).await;
    assert_eq!(running.counters.read().failures, 2);
    let named = "SELECT count(*) FROM inbox_parked WHERE errors LIKE '%database.statement_timeout% (500ms)%'";
    assert_eq!(stage.schema.number(named).await, 1);
    assert_eq!(running.stop().await, Ended::Shutdown);
}

/// A statement that somebody else cancels is no failure of its event.
#[tokio::test]
async fn a_statement_that_a_person_cancels_is_run_again() {
    let mut stage = Stage::set("cancel", 1).await;
    stage.config.retry.attempts_max = 1;
    let slow = json!({"sql": "SELECT pg_sleep(15)", "times": 1});
    stage.send(&[told("a", 1, slow)]).await;
    let running = stage.start(acting()).await;
    let cancel = format!(
        "SELECT count(pg_cancel_backend(pid)) FROM pg_stat_activity WHERE application_name = '{}' \
         AND query LIKE '%pg_sleep%' AND state = 'active'",
        application(&stage)
    );
    eventually(SOON, "it runs", async || stage.schema.number(&cancel).await == 1).await;
    eventually(SOON, "handled", async || stage.of("a").await == [1]).await;
    assert_eq!((stage.parked("").await, running.counters.read().failures), (0, 0));
    assert_eq!(running.stop().await, Ended::Shutdown);
}

/// A6: a shutdown does not wait for a slow handler for ever, nothing of it stays open, and the event is
/// handled by the next process.
#[tokio::test]
async fn a_shutdown_in_the_middle_of_a_statement_leaves_no_transaction_behind() {
    let mut stage = Stage::set("shutdown", 1).await;
    hurry(&mut stage);
    stage.config.retry.attempt_deadline = Duration::from_millis(1800);
    stage.config.limits.drain_deadline = Duration::from_millis(500);
    stage.config.retry.attempts_max = 100;
    let slow = json!({"sql": "SELECT pg_sleep(0.3)", "repeat": 100});
    stage.send(&[told("a", 1, slow), told("a", 2, json!({}))]).await;
    let watch = Watch::start(&stage);
    let running = stage.start(acting()).await;
    let busy = format!(
        "SELECT count(*) FROM pg_stat_activity WHERE application_name = '{}' \
         AND query LIKE '%pg_sleep%' AND state = 'active'",
        application(&stage)
    );
    eventually(SOON, "it runs", async || stage.schema.number(&busy).await == 1).await;
    running.stop().await;
    eventually(SOON, "no session stays", async || sessions(&stage).await == 0).await;
    watch.assert_quiet();
    assert_eq!((stage.effects().await, stage.parked("").await), (0, 0));
    let running = stage.start(Routes::default().on(super::acting::TOLD, tests::Counter)).await;
    eventually(SOON, "handled", async || stage.of("a").await == [1, 2]).await;
    assert_eq!(running.stop().await, Ended::Shutdown);
}

/// A14: a handler waits ten times its deadline for something. Its attempts end and are counted, its
/// event is parked, and meanwhile the other aggregates go on.
#[tokio::test]
async fn a_handler_that_waits_holds_nobody_up_beyond_its_deadline() {
    let mut stage = Stage::set("slow", 2).await;
    hurry(&mut stage);
    let slow = told("slow", 1, json!({"sleep": 7000})).partition(0);
    stage.send(&[slow, told("slow", 2, json!({})).partition(0)]).await;
    let running = stage.start(acting()).await;
    eventually(SOON, "it has begun", async || sessions(&stage).await > 0).await;
    let good = |n| told("good", n, json!({})).partition(1);
    stage.send(&(1..=20).map(good).collect::<Vec<_>>()).await;
    let what = "the other partition goes on";
    eventually(SOON, what, async || stage.of("good").await.len() == 20).await;
    eventually(SOON, "parked", async || stage.parked("").await == 2).await;
    assert_eq!((stage.parked("exhausted").await, stage.parked("follower").await), (1, 1));
    let text = "SELECT count(*) FROM inbox_parked WHERE record LIKE '%did not finish within%'";
    assert_eq!(stage.schema.number(text).await, 1);
    assert_eq!(running.counters.read().failures, 2);
    assert_eq!(running.stop().await, Ended::Shutdown);
}

/// Drops a nested `begin()` of the driver after a time that grows from call to call.
#[derive(Default)]
struct DropsBegin(AtomicU32);

impl Handler<Postgres> for DropsBegin {
    type Event = Count;

    async fn handle(&self, event: &Event<Count>, tx: &mut Tx<'_, Postgres>) -> HandlerResult {
        effect(event, &mut *tx).await?;
        let call = self.0.fetch_add(1, Ordering::SeqCst);
        if event.payload.n == 1 {
            let after = Duration::from_millis(u64::from(call % 25) * 3);
            drop(tokio::time::timeout(after, tx.unguarded().await?.begin()).await);
        }
        Ok(())
    }
}

/// A5: a `begin()` that is dropped at any moment, on a slow connection. The driver may roll everything
/// back for it; then the event is parked with what follows it. Nothing is lost, nothing runs twice, and
/// no connection comes back in a state that nobody knows.
#[tokio::test]
async fn a_begin_that_is_dropped_half_way_spoils_no_connection() {
    let services = Services::from_env();
    let mut stage = Stage::set("begin", 1).await;
    let server = services.postgres.rsplit(['@', '/']).nth(1).unwrap();
    let proxy = Proxy::start(server).await;
    proxy.delay(Duration::from_millis(15));
    stage.config.database.url = stage.schema.url_at(&proxy.url(&services.postgres)).into();
    stage.config.batch.events_max = 4;
    let names: Vec<String> = (0..20).map(|a| a.to_string()).collect();
    for aggregate in &names {
        stage.count(aggregate, 1, 2).await;
    }
    let running = stage.start(Routes::default().on("Counted", DropsBegin::default())).await;
    eventually(SOON, "all events", async || stage.effects().await + stage.parked("").await >= 40)
        .await;
    assert_eq!(running.stop().await, Ended::Shutdown);
    for aggregate in &names {
        let handled = stage.of(aggregate).await;
        assert!(handled.is_empty() || handled == [1, 2], "{aggregate}: {handled:?}");
    }
    assert_eq!(stage.effects().await + stage.parked("").await, 40);
    eventually(SOON, "no session stays", async || sessions(&stage).await == 0).await;
}

/// Drops a nested `begin()` half-way, at its first call, and fails.
#[derive(Default)]
struct DropsBeginAndFails(AtomicU32);

impl Handler<Postgres> for DropsBeginAndFails {
    type Event = Count;

    async fn handle(&self, event: &Event<Count>, tx: &mut Tx<'_, Postgres>) -> HandlerResult {
        effect(event, &mut *tx).await?;
        if self.0.fetch_add(1, Ordering::SeqCst) > 0 {
            return Ok(());
        }
        drop(tokio::time::timeout(Duration::from_millis(5), tx.unguarded().await?.begin()).await);
        Err(HandlerError::retry("told to fail"))
    }
}

/// A5, A6: the driver has put a ROLLBACK into its queue and believes the transaction over, but nobody
/// has sent it. Such a session is closed, not kept for later with its locks.
#[tokio::test]
async fn a_rollback_that_is_only_queued_leaves_no_transaction_behind() {
    let services = Services::from_env();
    let mut stage = Stage::set("queued", 1).await;
    let server = services.postgres.rsplit(['@', '/']).nth(1).unwrap();
    let proxy = Proxy::start(server).await;
    proxy.delay(Duration::from_millis(20));
    stage.config.database.url = stage.schema.url_at(&proxy.url(&services.postgres)).into();
    stage.config.retry.delay_min = Duration::from_millis(2500);
    stage.config.retry.delay_max = Duration::from_millis(2500);
    stage.count("a", 1, 1).await;
    let watch = Watch::start(&stage);
    let running = stage.start(Routes::default().on("Counted", DropsBeginAndFails::default())).await;
    eventually(SOON, "handled", async || stage.of("a").await == [1]).await;
    assert_eq!(running.stop().await, Ended::Shutdown);
    watch.assert_quiet();
}
