//! Handlers that block their thread: nobody can drop them, but they are named.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use inbox_consumer::telemetry::Unready;
use inbox_consumer::{Consumer, Ended, Event, Handler, HandlerResult, Routes, Tx};
use serde_json::json;
use sqlx::Postgres;
use tests::{Count, Record, SOON, Stage, Worker, effect, eventually};
use tokio::sync::oneshot;

use super::commands::worker;

/// Longer than the consumer's loop may be silent.
const LONG: Duration = Duration::from_mins(1);

/// Blocks its thread for as long as it is told to.
#[derive(Clone, Default)]
struct Blocks(Arc<AtomicBool>);

impl Handler<Postgres> for Blocks {
    type Event = Count;

    async fn handle(&self, event: &Event<Count>, tx: &mut Tx<'_, Postgres>) -> HandlerResult {
        effect(event, &mut *tx).await?;
        // Not for ever: a test that has failed ends, too.
        let begun = Instant::now();
        while self.0.load(Ordering::SeqCst) && begun.elapsed() < LONG * 2 {
            thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }
}

/// One event; a call may take two seconds.
async fn set() -> Stage {
    let mut stage = Stage::set("blocks", 1).await;
    stage.config.database.lock_timeout = Duration::from_millis(500);
    stage.config.database.statement_timeout = Duration::from_secs(1);
    stage.config.retry.attempt_deadline = Duration::from_secs(2);
    stage.count("a", 1, 1).await;
    stage
}

/// What of a sentence says where the handler hangs.
fn names_it(stage: &Stage, reason: &Unready) -> bool {
    reason.sentence.contains("the handler of `Counted`")
        && reason.sentence.contains(&format!("{}/0@0", stage.topic.name()))
}

/// Point 15: a handler that does not come back is named while the loop goes on, and the name goes when it does.
#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn a_handler_that_blocks_its_thread_is_named() {
    let stage = set().await;
    let blocks = Blocks(Arc::new(AtomicBool::new(true)));
    let running = stage.start(Routes::default().on("Counted", blocks.clone())).await;
    let named = async || {
        let reasons = running.readings.readiness().reasons;
        matches!(&reasons[..], [one] if one.reason == "handler_blocks" && names_it(&stage, one))
    };
    eventually(SOON, "the handler is named", named).await;
    let told = "SELECT count(*) FROM inbox_partitions WHERE standstill LIKE 'handler_blocks: %'";
    eventually(SOON, "status tells", async || stage.schema.number(told).await == 1).await;
    blocks.0.store(false, Ordering::SeqCst);
    eventually(SOON, "ready", async || running.readings.readiness().ready).await;
    eventually(SOON, "the effect", async || stage.of("a").await == [1]).await;
    assert_eq!(running.stop().await, Ended::Shutdown);
}

/// Point 15: when it blocks every thread of the runtime, who asks from another one is told whose fault it is.
#[tokio::test]
async fn a_handler_that_blocks_the_whole_runtime_is_named() {
    let stage = set().await;
    let blocks = Blocks(Arc::new(AtomicBool::new(true)));
    let routes = Routes::default().on("Counted", blocks.clone());
    let consumer = Consumer::builder(stage.config.clone(), routes).build().await.unwrap();
    let readings = consumer.readings();
    let (shutdown, asked) = oneshot::channel::<()>();
    let thread = thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(consumer.run(async move { _ = asked.await }))
    });
    let named = async || {
        let reasons = readings.readiness().reasons;
        matches!(&reasons[..], [one] if one.reason == "stuck" && names_it(&stage, one))
    };
    eventually(LONG, "the handler is named", named).await;
    assert!(!readings.live());
    blocks.0.store(false, Ordering::SeqCst);
    eventually(SOON, "the effect", async || stage.of("a").await == [1]).await;
    shutdown.send(()).unwrap();
    let ended = tokio::task::spawn_blocking(move || thread.join().unwrap()).await.unwrap();
    assert_eq!(ended, Ended::Shutdown);
}

/// A worker that is given an event whose handler never comes back, and has one thread to do so.
async fn blocked_worker(stage: &Stage, threads: &str) -> Worker {
    let blocks =
        Record::event("block-1", "Counted", "a", &json!({"n": 1, "act": "block"}).to_string());
    stage.send(&[blocks]).await;
    let mut command = worker(stage);
    command
        .env("TOKIO_WORKER_THREADS", threads)
        .env("INBOX_DATABASE__LOCK_TIMEOUT", "300ms")
        .env("INBOX_DATABASE__STATEMENT_TIMEOUT", "500ms")
        .env("INBOX_RETRY__ATTEMPT_DEADLINE", "1s");
    let running = Worker::spawn(command.arg("run"));
    let busy = format!(
        "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'inbox/{}' \
         AND state = 'idle in transaction' AND query LIKE 'INSERT INTO effects%'",
        stage.config.consumer.name
    );
    eventually(SOON, "the handler is called", async || stage.schema.number(&busy).await == 1).await;
    running
}

/// A handler that never comes back ends its process, with a code and a sentence of its own.
#[tokio::test]
async fn a_handler_that_blocks_for_good_ends_the_process() {
    let stage = Stage::set("blocks", 1).await;
    let mut running = blocked_worker(&stage, "2").await;
    assert_eq!(running.ended(LONG).await.code(), Some(8), "{}", running.log());
    let place = format!("{}/0@0 (event block-1)", stage.topic.name());
    assert!(running.log().contains("\"signal\":\"blocked\""), "{}", running.log());
    assert!(running.log().contains(&place), "{}", running.log());
    assert_eq!(stage.effects().await, 0);
}

/// A process whose only thread is blocked ends after a signal all the same: within its deadlines after the first, and
/// at once after the second.
#[tokio::test]
async fn a_signal_ends_a_process_whose_threads_are_blocked() {
    let stage = Stage::set("blocks", 1).await;
    for signals in [1, 2] {
        let mut running = blocked_worker(&stage, "1").await;
        let begun = Instant::now();
        for _ in 0..signals {
            running.terminate();
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        assert_eq!(running.ended(SOON).await.code(), Some(1), "{}", running.log());
        assert!(running.log().contains("something blocks its threads"), "{}", running.log());
        // The handler's own end would come much later.
        assert!(begun.elapsed() < LONG / 2);
        eventually(SOON, "its session is gone", async || sessions(&stage).await == 0).await;
    }
}

async fn sessions(stage: &Stage) -> i64 {
    let name = &stage.config.consumer.name;
    let sql =
        format!("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'inbox/{name}'");
    stage.schema.number(&sql).await
}
