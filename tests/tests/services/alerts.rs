//! Each alert of the operations page holds in the situation it is for, and not before: real scrapes, which
//! promtool judges by the rules that come with the project.

use std::{
    collections::BTreeMap,
    process::Command,
    time::{Duration, Instant},
};

use inbox_consumer::{Routes, config::Start};
use serde_json::json;
use tests::{
    Counter, OwnKafka, OwnPostgres, Record, Running, SOON, Scrapes, Services, Stage, StopMode,
    counted, eventually, skip, unique,
};

use super::{
    acting::{acting, told},
    observed::{get, scraped, stage},
    runtime_support::worker,
};

/// A watermark that is not confirmed is told after a minute.
const MINUTE: Duration = Duration::from_secs(100);

/// Waits until samples are as they should be, and adds the scrape.
async fn scrape(
    scrapes: &mut Scrapes,
    running: &Running,
    what: &str,
    is: impl Fn(&BTreeMap<String, f64>) -> bool,
) {
    eventually(MINUTE, what, async || is(&scraped(running).await)).await;
    scrapes.add(get(&running.readings, "/metrics").await.1);
}

/// Whether a metric has a value like this under some labels.
fn any(samples: &BTreeMap<String, f64>, name: &str, is: impl Fn(f64) -> bool) -> bool {
    let of = |key: &str| key.split('{').next() == Some(name);
    samples.iter().any(|(key, value)| of(key) && is(*value))
}

/// A consumer that has all its partitions and works.
async fn healthy(scrapes: &mut Scrapes, running: &Running) {
    scrape(scrapes, running, "it works", |samples| {
        any(samples, "inbox_ready", |ready| ready == 1.0)
            && any(samples, "inbox_partitions", |count| count > 0.0)
            && any(samples, "inbox_watermark_age_seconds", |_| true)
            && any(samples, "inbox_parked_events", |_| true)
    })
    .await;
    holds(scrapes, &[]);
}

/// These rules hold at the last scrape, and no other.
fn holds(scrapes: &Scrapes, wanted: &[&str]) {
    match scrapes.hold() {
        Some(names) => assert_eq!(names, wanted),
        None => skip(
            "services::alerts (promtool)",
            "promtool is not there: install Debian's package prometheus",
        ),
    }
}

/// promtool takes both files for rules, and each rule fires and does not fire as the file beside it says.
#[test]
fn the_rules_are_rules() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../deploy/alerts");
    for (verb, file) in [
        ("check", "inbox.yml"),
        ("check", "outbox.yml"),
        ("test", "inbox.test.yaml"),
        ("test", "outbox.test.yaml"),
    ] {
        let mut promtool = Command::new("promtool");
        let Ok(output) = promtool.args([verb, "rules", file]).current_dir(folder).output() else {
            return skip(
                "services::alerts (promtool)",
                "promtool is not there: install Debian's package prometheus",
            );
        };
        let said =
            String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{said}");
    }
}

/// The database is away, and more arrives than is normal: `InboxOutage`, `InboxLag`, `InboxWatermarkOld`,
/// `InboxNotReady`.
#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_is_away_is_told_by_four_alerts() {
    let own = OwnPostgres::start().await;
    let topic = Services::from_env().topic("alerts", 1).await;
    let mut stage = Stage::with(topic, own.schema().await).await;
    stage.config.http.listen = "127.0.0.1:0".into();
    let running = stage.start(Routes::default().on("Counted", Counter)).await;
    let mut scrapes = Scrapes::default();
    healthy(&mut scrapes, &running).await;
    tokio::task::block_in_place(|| own.stop(StopMode::Fast));
    let records: Vec<Record> = (1..=10_001).map(|n| counted("a", n)).collect();
    stage.send(&records).await;
    let began = Instant::now();
    scrape(&mut scrapes, &running, "it is away", |samples| {
        any(samples, "inbox_watermark_age_seconds", |age| age > 60.0)
            && any(samples, "inbox_lag_offsets", |lag| lag > 10_000.0)
            && any(samples, "inbox_standstill", |stands| stands == 1.0)
    })
    .await;
    println!("after {:?}", began.elapsed());
    holds(&scrapes, &["InboxOutage", "InboxNotReady", "InboxWatermarkOld", "InboxLag"]);
    running.stop().await;
}

/// A partition waits for a person: `InboxStandstill`, and its process is not ready.
#[tokio::test]
async fn a_partition_that_waits_for_a_person_is_told() {
    let mut stage = stage(1).await;
    let running = stage.start(Routes::default().on("Counted", Counter)).await;
    let mut scrapes = Scrapes::default();
    healthy(&mut scrapes, &running).await;
    running.stop().await;
    // The next deploy has another name, and so no history.
    stage.config.consumer.name = unique("renamed");
    stage.config.kafka.group = Some(unique("renamed"));
    stage.config.kafka.start = Start::Error;
    let running = stage.start(Routes::default().on("Counted", Counter)).await;
    scrape(&mut scrapes, &running, "it stands still", |samples| {
        any(samples, "inbox_standstill", |stands| stands == 1.0)
            && samples.keys().any(|key| key.contains("start_undecided"))
    })
    .await;
    // The consumer of the old name was scraped a moment ago, and has no member any more.
    holds(&scrapes, &["InboxStandstill", "InboxNoMember", "InboxNotReady"]);
    running.stop().await;
}

/// A deploy whose handler refuses everything: `InboxParked`, `InboxManyAggregatesParked`.
#[tokio::test]
async fn a_bad_deploy_is_told() {
    let stage = stage(1).await;
    let running = stage.start(acting()).await;
    let mut scrapes = Scrapes::default();
    healthy(&mut scrapes, &running).await;
    let reject = |n: i64| told(&format!("a{n}"), 1, json!({ "reject": true }));
    stage.send(&[reject(0)]).await;
    scrape(&mut scrapes, &running, "one is parked", |samples| {
        any(samples, "inbox_parked_events", |count| count == 1.0)
    })
    .await;
    holds(&scrapes, &["InboxParked"]);
    stage.send(&(1..=500).map(reject).collect::<Vec<_>>()).await;
    scrape(&mut scrapes, &running, "half of the limit is parked", |samples| {
        any(samples, "inbox_parked_aggregates", |count| count > 500.0)
    })
    .await;
    holds(&scrapes, &["InboxParked", "InboxManyAggregatesParked"]);
    running.stop().await;
}

/// Partitions are added under a running topic: `InboxAggregatesStrayed`.
#[tokio::test]
async fn an_aggregate_on_two_partitions_is_told() {
    let mut stage = stage(1).await;
    stage.config.kafka.raw.set("topic.metadata.refresh.interval.ms", "300");
    let records =
        |n: i64| -> Vec<Record> { (0..200).map(|of| counted(&format!("stray-{of}"), n)).collect() };
    let running = stage.start(Routes::default().on("Counted", Counter)).await;
    stage.send(&records(1)).await;
    eventually(SOON, "all effects", async || stage.effects().await == 200).await;
    let mut scrapes = Scrapes::default();
    healthy(&mut scrapes, &running).await;
    stage.topic.grow(2).await;
    // A producer of its own, which learns of the new partition when it begins.
    let producer = tests::Producer::new(stage.topic.bootstrap());
    producer.send(stage.topic.name(), &records(2)).await;
    eventually(SOON, "all effects", async || stage.effects().await == 400).await;
    scrape(&mut scrapes, &running, "some have moved", |samples| {
        any(samples, "inbox_aggregates_strayed_total", |count| count > 0.0)
    })
    .await;
    holds(&scrapes, &["InboxAggregatesStrayed"]);
    running.stop().await;
}

/// Kafka is dead: `InboxKafkaOut`, `InboxNotReady`, and as no member is left `InboxNoMember`; that alone when no process is.
#[tokio::test(flavor = "multi_thread")]
async fn a_group_without_a_member_is_told() {
    let mut kafka = OwnKafka::start().await;
    let topic = kafka.topic("alerts", 1).await;
    let mut stage = Stage::with(topic, Services::from_env().schema().await).await;
    stage.config.http.listen = "127.0.0.1:0".into();
    let running = stage.start(Routes::default().on("Counted", Counter)).await;
    let mut scrapes = Scrapes::default();
    healthy(&mut scrapes, &running).await;
    kafka.kill();
    scrape(&mut scrapes, &running, "no broker answers", |samples| {
        any(samples, "inbox_group_joined", |joined| joined == 0.0)
            && any(samples, "inbox_ready", |ready| ready == 0.0)
    })
    .await;
    holds(&scrapes, &["InboxKafkaOut", "InboxNoMember", "InboxNotReady"]);
    running.abort();
    scrapes.add(String::new());
    holds(&scrapes, &["InboxNoMember"]);
}

/// Two ids that are not what they seem, and a handler that ends a transaction that is not its own: the signals
/// that have no metric of a state.
#[tokio::test]
async fn bugs_of_producers_and_handlers_are_in_the_log() {
    let stage = Stage::set("alerts", 1).await;
    let running = worker(&stage, &unique("alerts"), &[("INBOX_LOG__FORMAT", "json")]);
    let other = Record::event("a-1", "Counted", "b", "{\"n\":9}");
    stage.send(&[counted("a", 1), other]).await;
    running.printed(SOON, "\"signal\":\"mismatch\"").await;
    let torn = Record::event("c-1", "Counted", "c", "{\"n\":1,\"act\":\"commit\"}");
    stage.send(&[torn]).await;
    running.printed(SOON, "\"signal\":\"torn\"").await;
}
