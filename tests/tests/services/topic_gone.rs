//! A topic that is deleted and re-created under a running consumer, in every order.

use std::time::{Duration, Instant};

use inbox_consumer::{Ended, Routes};
use serde_json::Value;
use sqlx::Postgres;
use tests::{Counter, OwnKafka, Running, SOON, Services, Stage, Topic, Worker, eventually};

use super::commands::worker;
use super::parked_support::{said, typed};
use super::runtime_support::{on, up_to};

/// What is wrong has a name, and what is right works, within this time.
const NAMED_MAX: Duration = Duration::from_secs(30);

fn routes() -> Routes<Postgres> {
    Routes::default().on("Counted", Counter)
}

/// A consumer at work on four partitions, each with two events handled, on a broker of its own.
async fn at_work() -> (OwnKafka, Stage, Running) {
    let kafka = OwnKafka::start().await;
    let topic = kafka.topic("gone", 4).await;
    let stage = Stage::with(topic, Services::from_env().schema().await).await;
    for partition in 0..4 {
        stage.send(&on(partition, &format!("old-{partition}"), 1, 2)).await;
    }
    let running = stage.start(routes()).await;
    eventually(SOON, "the old events", async || stage.effects().await == 8).await;
    let written = "SELECT count(*) FROM inbox_partitions WHERE watermark = 2";
    eventually(SOON, "the watermarks", async || stage.schema.number(written).await == 4).await;
    (kafka, stage, running)
}

/// The reasons for which it is not ready.
fn reasons(running: &Running) -> Vec<&'static str> {
    running.readings.readiness().reasons.iter().map(|why| why.reason).collect()
}

/// Waits until it is not ready for this reason, and says so in metrics.
async fn named(running: &Running, reason: &str) {
    let begun = Instant::now();
    eventually(SOON, reason, async || reasons(running).contains(&reason)).await;
    let took = begun.elapsed();
    println!("{reason} after {took:.1?}");
    assert!(took < NAMED_MAX, "{reason} after {took:?}");
    let metrics = running.readings.prometheus();
    let in_metrics = format!("reason=\"{reason}\"}} 1");
    let of_topic = "inbox_topic_missing{";
    assert!(
        metrics.contains(&in_metrics) || (reason == "topic_missing" && metrics.contains(of_topic)),
        "{metrics}"
    );
}

/// `status` shows no partition as if it moved.
async fn status_names(stage: &Stage) {
    let (_, out, err) = typed(stage, &["status", "--json"]).await;
    let lines: Value = serde_json::from_str(&out).unwrap_or_else(|_| panic!("{out}{err}"));
    let lines = lines.as_array().expect("a list of partitions");
    assert!(!lines.is_empty(), "{err}");
    for line in lines {
        assert!(line["standstill"].is_string() && line["lag"].is_null(), "{line}");
    }
}

/// The old rows are given up, and the new topic is read from its beginning.
async fn recovers(stage: &Stage, running: Running, topic: &Topic) {
    let retire = ["retire", "--topic", topic.name(), "--why", "re-created", "--yes"];
    let out = said(stage, &[&retire[..], &["--force"]].concat()).await;
    assert!(out.starts_with("retired"), "{out}");
    let begun = Instant::now();
    eventually(SOON, "the new events", async || {
        stage.of("new-0").await == [1, 2, 3, 4, 5] && stage.of("new-1").await == [1, 2, 3, 4, 5]
    })
    .await;
    eventually(SOON, "ready", async || running.readings.readiness().ready).await;
    let took = begun.elapsed();
    println!("recovered after {took:.1?}");
    assert!(took < NAMED_MAX, "recovered after {took:?}");
    assert_eq!(running.stop().await, Ended::Shutdown);
}

async fn send_new(stage: &Stage) {
    for partition in 0..2 {
        stage.send(&on(partition, &format!("new-{partition}"), 1, 5)).await;
    }
}

/// Deleted and noticed, then created with fewer partitions.
#[tokio::test(flavor = "multi_thread")]
async fn a_topic_that_comes_back_smaller_after_it_was_missed_is_named() {
    let (_kafka, stage, running) = at_work().await;
    stage.topic.delete().await;
    named(&running, "topic_missing").await;
    status_names(&stage).await;
    stage.topic.create_again_with(2).await;
    send_new(&stage).await;
    named(&running, "topic_recreated").await;
    status_names(&stage).await;
    recovers(&stage, running, &stage.topic).await;
}

/// Deleted, and created with fewer partitions before anybody notices.
#[tokio::test(flavor = "multi_thread")]
async fn a_topic_that_comes_back_smaller_at_once_is_named() {
    let (_kafka, stage, running) = at_work().await;
    stage.topic.delete().await;
    stage.topic.create_again_with(2).await;
    send_new(&stage).await;
    named(&running, "topic_recreated").await;
    status_names(&stage).await;
    recovers(&stage, running, &stage.topic).await;
}

/// The same, with as many partitions and more records than before: an offset that was read is there again.
#[tokio::test(flavor = "multi_thread")]
async fn a_topic_that_comes_back_with_more_records_is_named() {
    let (_kafka, stage, running) = at_work().await;
    stage.topic.delete().await;
    stage.topic.create_again().await;
    send_new(&stage).await;
    named(&running, "topic_recreated").await;
    assert_eq!(
        stage.of("new-0").await,
        [0_i64; 0],
        "offsets of the new topic are not the old ones"
    );
    recovers(&stage, running, &stage.topic).await;
}

/// The broker is started anew between deleting and creating.
#[tokio::test(flavor = "multi_thread")]
async fn a_topic_that_comes_back_after_a_restart_of_the_broker_is_named() {
    let (mut kafka, stage, running) = at_work().await;
    stage.topic.delete().await;
    named(&running, "topic_missing").await;
    kafka.kill();
    kafka.start_again().await;
    stage.topic.create_again_with(2).await;
    send_new(&stage).await;
    named(&running, "topic_recreated").await;
    recovers(&stage, running, &stage.topic).await;
}

/// Noticed by nobody, since the broker is down when it happens: deleted right before it ends, created right after it
/// has begun.
#[tokio::test(flavor = "multi_thread")]
async fn a_topic_that_changes_around_a_restart_of_the_broker_is_named() {
    let (mut kafka, stage, running) = at_work().await;
    stage.topic.delete().await;
    kafka.kill();
    kafka.start_again().await;
    stage.topic.create_again_with(2).await;
    send_new(&stage).await;
    named(&running, "topic_recreated").await;
    recovers(&stage, running, &stage.topic).await;
}

/// The process sleeps meanwhile, and wakes to a topic with more records than it had read: it would go on at the offset
/// where it was.
#[tokio::test(flavor = "multi_thread")]
async fn a_topic_that_changes_while_the_process_sleeps_is_not_read_on() {
    let stage = Stage::set("gone", 2).await;
    for partition in 0..2 {
        stage.send(&on(partition, &format!("old-{partition}"), 1, 2)).await;
    }
    let mut command = worker(&stage);
    let mut running = Worker::spawn(command.env("INBOX_KAFKA__SESSION_TIMEOUT", "45s").arg("run"));
    let written = "SELECT count(*) FROM inbox_partitions WHERE watermark = 2";
    eventually(SOON, "the watermarks", async || stage.schema.number(written).await == 2).await;
    running.pause();
    stage.topic.delete().await;
    stage.topic.create_again().await;
    send_new(&stage).await;
    running.resume();
    let begun = Instant::now();
    let told = "SELECT count(*) FROM inbox_partitions WHERE standstill LIKE 'topic_recreated: %'";
    eventually(SOON, "it is told", async || stage.schema.number(told).await == 2).await;
    println!("topic_recreated after {:.1?}", begun.elapsed());
    assert_eq!(stage.effects().await, 4, "the new topic was read on: {}", running.log());
    let retire = ["retire", "--topic", stage.topic.name(), "--why", "re-created", "--yes"];
    said(&stage, &[&retire[..], &["--force"]].concat()).await;
    eventually(SOON, "the new events", async || stage.effects().await == 14).await;
    assert_eq!((stage.of("new-0").await, stage.of("new-1").await), (up_to(5), up_to(5)));
    running.terminate();
    assert!(running.ended(SOON).await.success());
}

/// The log does not fall silent over a topic without partitions, and says when it can be read.
#[tokio::test(flavor = "multi_thread")]
async fn a_topic_that_was_never_there_is_in_the_log_until_it_is() {
    let services = Services::from_env();
    let topic = Topic::planned(&services.kafka, "late-logged", 1, &[]);
    let stage = Stage::with(topic, services.schema().await).await;
    let mut running = Worker::spawn(worker(&stage).arg("run"));
    running.printed(SOON, "\"signal\":\"group_stalled\"").await;
    let line = running.log();
    let line = line.lines().find(|line| line.contains("group_stalled")).unwrap();
    let line: Value = serde_json::from_str(line).unwrap();
    assert_eq!((&line["level"], &line["topic"]), (&"WARN".into(), &stage.topic.name().into()));
    assert_eq!(line["reason"], "topic_missing");
    assert!(line["message"].as_str().unwrap().contains("create it"), "{line}");
    stage.topic.create_again().await;
    running.printed(SOON, "\"signal\":\"group_resumed\"").await;
    running.terminate();
    assert!(running.ended(SOON).await.success());
}

/// A topic that nobody has created yet: the consumer is not ready, and begins when it is there.
#[tokio::test(flavor = "multi_thread")]
async fn a_topic_that_was_never_there_is_named_and_read_when_it_is() {
    let services = Services::from_env();
    let topic = Topic::planned(&services.kafka, "late", 2, &[]);
    let stage = Stage::with(topic, services.schema().await).await;
    let running = stage.start(routes()).await;
    named(&running, "topic_missing").await;
    stage.topic.create_again().await;
    let begun = Instant::now();
    send_new(&stage).await;
    eventually(SOON, "the events", async || stage.effects().await == 10).await;
    eventually(SOON, "ready", async || running.readings.readiness().ready).await;
    println!("read after {:.1?}", begun.elapsed());
    assert!(begun.elapsed() < NAMED_MAX, "after {:?}", begun.elapsed());
    assert_eq!(running.stop().await, Ended::Shutdown);
}
