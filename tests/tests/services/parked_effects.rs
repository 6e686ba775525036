//! What becomes of effects when events fail, are parked, and succeed later.

use std::time::Duration;

use inbox_consumer::Ended;
use serde_json::json;
use tests::{
    SOON, Stage, counted,
    deploy::{Deploy, charged},
    eventually,
};

use super::acting::{acting, told};
use super::parked_support::{parked, said, seq};

/// A11: an event that failed k times, in quick attempts and in rounds of release, and then succeeds has
/// the effect of one that succeeded at once.
#[tokio::test]
async fn failed_attempts_leave_nothing_behind() {
    let mut stage = Stage::set("attempts", 2).await;
    stage.config.park.releases_max = 20;
    stage.config.park.delay_min = Duration::from_millis(50);
    stage.config.park.delay_max = Duration::from_millis(200);
    let failures = 0..=7;
    let events: Vec<_> = failures
        .clone()
        .flat_map(|k| {
            let fails = json!({ "sql": "SELECT 1 / 0", "times": k });
            [told(&format!("a{k}"), 1, fails), told(&format!("a{k}"), 2, json!({}))]
        })
        .collect();
    stage.send(&events).await;
    let running = stage.start(acting()).await;
    eventually(SOON, "all have succeeded", async || stage.effects().await == 16).await;
    assert_eq!(running.stop().await, Ended::Shutdown);
    for k in failures {
        assert_eq!(stage.of(&format!("a{k}")).await, [1, 2], "after {k} failures");
    }
    assert_eq!(stage.parked("").await, 0);
}

/// B16: copies of a parked event come to nothing, before its release and after it, and it is applied once.
#[tokio::test]
async fn copies_of_a_parked_event_come_to_nothing() {
    let stage = Stage::set("copies", 1).await;
    let deploy = Deploy::bad();
    stage.send(&[charged("a", 1), counted("a", 2)]).await;
    let running = parked(&stage, &deploy, 2).await;
    stage.send(&[charged("a", 1), counted("a", 2), counted("b", 1)]).await;
    eventually(SOON, "what came after the copies", async || stage.of("b").await == [1]).await;
    assert_eq!(stage.parked("").await, 2, "a copy was parked, too");
    deploy.mend();
    said(&stage, &["parked", "release", &seq(&stage, 0).await, "--wait", "20s"]).await;
    stage.send(&[charged("a", 1), counted("a", 2), counted("b", 2)]).await;
    eventually(SOON, "what came after the copies", async || stage.of("b").await == [1, 2]).await;
    assert_eq!(running.stop().await, Ended::Shutdown);
    assert_eq!(stage.of("a").await, [1, 2]);
}
