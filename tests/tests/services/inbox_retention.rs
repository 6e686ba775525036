//! Retention: what is pruned, what is not, and that a replay is recognised without its rows. And the
//! rows of a frozen process.

use std::time::Duration;

use inbox_consumer::{Ended, Routes};
use serde_json::json;
use tests::{Counter, SOON, Stage, Worker, counted, eventually};

use super::acting::{TOLD, acting, told};
use crate::programs::WORKER;

/// Rows look a month old; the next sweeps find them.
async fn age(stage: &Stage) {
    stage.schema.run("UPDATE inbox_events SET processed_at = now() - interval '30 days'").await;
}

async fn rows(stage: &Stage) -> i64 {
    stage.schema.number("SELECT count(*) FROM inbox_events").await
}

/// B3: every row is pruned, and Kafka delivers everything again. The lanes know it for ever.
#[tokio::test]
async fn a_replay_of_what_was_pruned_has_no_effect() {
    let mut stage = Stage::set("replay", 1).await;
    stage.config.retention.prune_interval = Duration::from_secs(1);
    stage.count("a", 1, 10).await;
    stage.count("b", 1, 10).await;
    let running = stage.start(Routes::default().on("Counted", Counter)).await;
    eventually(SOON, "handled", async || stage.effects().await == 20).await;
    age(&stage).await;
    eventually(SOON, "pruned", async || rows(&stage).await == 0).await;
    assert_eq!(running.stop().await, Ended::Shutdown);
    stage.topic.commit(stage.config.group(), 0, 0).await;
    let running = stage.start(Routes::default().on("Counted", Counter)).await;
    stage.count("a", 11, 12).await;
    eventually(SOON, "new events", async || stage.of("a").await.len() >= 12).await;
    assert_eq!(stage.of("a").await, (1..=12).collect::<Vec<_>>());
    assert_eq!(stage.of("b").await, (1..=10).collect::<Vec<_>>());
    assert_eq!(running.stop().await, Ended::Shutdown);
}

/// B3, B16: a sweep spares what lies above the watermark and what is parked; the rest goes.
#[tokio::test]
async fn a_sweep_spares_the_parked_and_what_is_above_the_watermark() {
    let mut stage = Stage::set("sweep", 1).await;
    stage.config.retention.prune_interval = Duration::from_secs(1);
    stage.config.retry.attempts_max = 100;
    stage.config.retry.delay_min = Duration::from_millis(400);
    stage.config.retry.delay_max = Duration::from_millis(400);
    let step = |aggregate: &str| told(aggregate, 1, json!({}));
    let parked = told("parked", 1, json!({"reject": true}));
    let blocked = told("blocked", 1, json!({"sql": "SELECT 1 / 0"}));
    stage.send(&[step("below"), parked.clone()]).await;
    stage.send(&[blocked, step("above"), step("higher")]).await;
    let running = stage.start(acting()).await;
    eventually(SOON, "the watermark", async || {
        let watermark = "SELECT coalesce(max(watermark), 0) FROM inbox_partitions";
        stage.effects().await == 3 && stage.schema.number(watermark).await == 2
    })
    .await;
    assert_eq!(rows(&stage).await, 4);
    age(&stage).await;
    let offset = |n| format!("SELECT count(*) FROM inbox_events WHERE \"offset\" = {n}");
    eventually(SOON, "a sweep", async || stage.schema.number(&offset(0)).await == 0).await;
    assert_eq!(rows(&stage).await, 3, "the parked one and the two above the watermark stay");
    // The parked row owns its event: another copy settles.
    stage.send(&[parked]).await;
    eventually(SOON, "a copy", async || running.counters.read().duplicates == 1).await;
    assert_eq!(stage.parked("").await, 1);
    running.stop().await;
    let running = stage.start(Routes::default().on(TOLD, Counter)).await;
    eventually(SOON, "handled at last", async || stage.of("blocked").await == [1]).await;
    assert_eq!((stage.effects().await, stage.parked("").await), (4, 1));
    assert_eq!(running.stop().await, Ended::Shutdown);
}

/// B15: a worker freezes inside its transaction. The database ends it, the next owner takes over and
/// handles everything, and when the frozen one wakes it changes nothing.
#[tokio::test]
async fn the_rows_of_a_frozen_worker_do_not_hold_the_next_owner_up() {
    let mut stage = Stage::set("frozen", 1).await;
    stage.config.database.idle_timeout = Duration::from_secs(3);
    stage.config.database.lock_timeout = Duration::from_secs(1);
    stage.config.database.statement_timeout = Duration::from_millis(1500);
    stage.config.retry.attempt_deadline = Duration::from_secs(2);
    let slow = |n: i64| {
        let payload = format!("{{\"n\":{n},\"act\":\"sleep\"}}");
        tests::Record::event(&format!("a-{n}"), "Counted", "a", &payload)
    };
    stage.send(&(1..=10).map(slow).collect::<Vec<_>>()).await;
    let mut command = WORKER.command();
    command.arg("run").envs([
        ("INBOX_CONSUMER__NAME", stage.config.consumer.name.as_str()),
        ("INBOX_KAFKA__BOOTSTRAP", stage.topic.bootstrap()),
        ("INBOX_KAFKA__TOPICS", stage.topic.name()),
        ("INBOX_KAFKA__SESSION_TIMEOUT", "6s"),
        ("INBOX_LIMITS__DRAIN_DEADLINE", "1s"),
        ("INBOX_DATABASE__URL", stage.schema.url().as_str()),
        ("INBOX_DATABASE__IDLE_TIMEOUT", "3s"),
        ("INBOX_DATABASE__LOCK_TIMEOUT", "1s"),
        ("INBOX_DATABASE__STATEMENT_TIMEOUT", "1500ms"),
        ("INBOX_RETRY__ATTEMPT_DEADLINE", "2s"),
    ]);
    let worker = Worker::spawn(&mut command);
    let inside = format!(
        "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'inbox/{}' \
         AND state = 'idle in transaction' AND query LIKE 'INSERT INTO effects%'",
        stage.config.consumer.name
    );
    eventually(SOON, "it is inside", async || stage.schema.number(&inside).await > 0).await;
    worker.pause();
    let running = stage.start(Routes::default().on("Counted", Counter)).await;
    eventually(SOON, "the next owner", async || stage.of("a").await.len() >= 10).await;
    worker.resume();
    stage.send(&[counted("a", 11)]).await;
    eventually(SOON, "a later event", async || stage.of("a").await.contains(&11)).await;
    assert_eq!(stage.of("a").await, (1..=11).collect::<Vec<_>>());
    assert_eq!(stage.parked("").await, 0);
    assert_eq!(running.stop().await, Ended::Shutdown);
}
