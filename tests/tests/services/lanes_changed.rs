//! Lanes that a deploy changes while events are settled ahead of the watermark: on real services.

use std::time::Duration;

use inbox_consumer::Ended;
use serde_json::json;
use tests::{Record, SOON, Stage, counted, eventually};

use super::acting::{acting, told};
use super::runtime_support::{Apart, Gate, up_to, watermark};

/// Aggregates of which most are in other lanes than any other name.
const NAMES: [&str; 6] = ["b", "c", "d", "e", "f", "g"];

/// A record of each name with this number.
fn each(n: i64) -> Vec<Record> {
    NAMES.iter().map(|name| counted(name, n)).collect()
}

async fn lane_count(stage: &Stage) -> i64 {
    stage.schema.number("SELECT lane_count::bigint FROM inbox_partitions").await
}

/// The furthest offset that a lane has settled.
async fn furthest(stage: &Stage) -> i64 {
    stage.schema.number("SELECT max(last_offset) FROM inbox_lanes").await
}

/// Finding 24: a handler ends the transaction of five events, and a deploy changes the lanes. What the
/// torn transaction never handled is parked for a person, not taken for a duplicate.
#[tokio::test(flavor = "multi_thread")]
async fn a_torn_transaction_is_seen_though_the_lanes_are_to_change() {
    let mut stage = Stage::set("torn-remap", 1).await;
    stage.config.limits.drain_deadline = Duration::from_secs(2);
    stage.config.lanes.count = 16;
    let how = |n| match n {
        5 => json!({"sql": "COMMIT; SELECT pg_sleep(20)", "unguarded": true, "times": 1}),
        _ => json!({}),
    };
    let crashed = Apart::start(&stage.config, acting()).await;
    // Two that are alone: then the lane is known to be quick, and has the others in one transaction.
    for n in 1..=2 {
        stage.send(&[told("a", n, how(n))]).await;
        eventually(SOON, "one alone", async || watermark(&stage, 0).await == n).await;
    }
    stage.send(&(3..=7).map(|n| told("a", n, how(n))).collect::<Vec<_>>()).await;
    eventually(SOON, "the stray COMMIT", async || stage.of("a").await == up_to(5)).await;
    let others: Vec<Record> = NAMES.iter().map(|name| told(name, 1, json!({}))).collect();
    stage.send(&others).await;
    eventually(SOON, "a lane is ahead", async || furthest(&stage).await >= 9).await;
    crashed.crash();
    assert_eq!(watermark(&stage, 0).await, 2);

    stage.config.lanes.count = 5;
    let running = stage.start(acting()).await;
    eventually(SOON, "all settled", async || watermark(&stage, 0).await == 13).await;
    assert_eq!(stage.of("a").await, up_to(5));
    // Where the machine is slow, the torn transaction has fewer of them, and the others wait behind it.
    assert_eq!(stage.parked("").await, 5, "events 6 and 7 were taken for duplicates");
    assert!(stage.parked("torn").await >= 1);
    eventually(SOON, "the remap", async || lane_count(&stage).await == 5).await;
    assert_eq!(running.stop().await, Ended::Shutdown);
}

/// Finding 24: a copy that was settled ahead of the watermark has no inbox row of its own. When the
/// row of its original is pruned, only its lane knows that it is settled.
#[tokio::test]
async fn a_copy_is_not_handled_again_though_the_lanes_are_to_change() {
    let mut stage = Stage::set("copy-remap", 1).await;
    stage.config.lanes.count = 16;
    let gate = Gate::closed();
    stage.send(&each(1)).await;
    let running = stage.start(gate.routes()).await;
    eventually(SOON, "the originals", async || watermark(&stage, 0).await == 6).await;
    stage.count("slow", 1, 1).await;
    gate.reached(1).await;
    stage.send(&each(2)).await;
    let past = "SELECT count(*) FROM effects WHERE n = 2";
    eventually(SOON, "some go past", async || stage.schema.number(past).await >= 3).await;
    let name: String = sqlx::query_scalar("SELECT max(aggregate) FROM effects WHERE n = 2")
        .fetch_one(stage.schema.pool())
        .await
        .unwrap();
    let copy = stage.send(&[counted(&name, 1)]).await[0].1;
    eventually(SOON, "the copy", async || furthest(&stage).await == copy).await;
    assert_eq!(running.stop().await, Ended::Shutdown);
    // As the pruner does when they are old.
    stage.schema.run("DELETE FROM inbox_events WHERE \"offset\" < 6").await;

    stage.config.lanes.count = 5;
    gate.open();
    let running = stage.start(gate.routes()).await;
    eventually(SOON, "all settled", async || watermark(&stage, 0).await == copy + 1).await;
    assert_eq!(stage.of(&name).await, [1, 2], "the copy was handled again");
    assert_eq!(stage.effects().await, 13);
    eventually(SOON, "the remap", async || lane_count(&stage).await == 5).await;
    assert_eq!(running.stop().await, Ended::Shutdown);
}

/// Finding 24: a change of the lanes waits until what is ahead is settled, and comes about within
/// seconds while events go on arriving.
#[tokio::test(flavor = "multi_thread")]
async fn lanes_change_under_load() {
    let mut stage = Stage::set("load-remap", 1).await;
    stage.config.lanes.count = 16;
    let gate = Gate::closed();
    stage.count("slow", 1, 1).await;
    let running = stage.start(gate.routes()).await;
    gate.reached(1).await;
    stage.send(&each(1)).await;
    eventually(SOON, "others go past", async || stage.effects().await >= 3).await;
    assert_eq!(running.stop().await, Ended::Shutdown);
    assert!(furthest(&stage).await > watermark(&stage, 0).await, "nothing is ahead");

    stage.config.lanes.count = 5;
    gate.open();
    let running = stage.start(gate.routes()).await;
    let mut last = 1;
    let mut changed = false;
    for _ in 0..400 {
        last += 1;
        stage.send(&each(last)).await;
        tokio::time::sleep(Duration::from_millis(20)).await;
        changed = lane_count(&stage).await == 5;
        if changed && last > 100 {
            break;
        }
    }
    assert!(changed, "the lanes have not changed under load");
    let all = 1 + last * 6;
    eventually(SOON, "all settled", async || watermark(&stage, 0).await == all).await;
    for name in NAMES {
        assert_eq!(stage.of(name).await, up_to(last), "aggregate {name}");
    }
    let waits = "SELECT count(*) FROM inbox_partitions WHERE next_lane_count IS NOT NULL";
    assert_eq!(stage.schema.number(waits).await, 0);
    assert_eq!(running.stop().await, Ended::Shutdown);
}
