//! An outage is told once per cause, now and then while it lasts, and once when it is over: the logs of
//! processes whose database or whose Kafka is away for a while.

use std::time::{Duration, Instant};

use serde_json::Value;
use tests::{
    Outbox, OwnKafka, OwnPostgres, Record, SOON, Services, Stage, StopMode, Worker, counted,
    eventually, unique,
};

use super::runtime_support::worker;
use crate::programs::RELAY;

/// How long something is away.
const AWAY: Duration = Duration::from_secs(22);
/// Lines of the level `WARN` and above that half a minute of an outage may have: its causes, each once. A slow machine
/// meets all that a database has: it is shutting down, ends sessions, resets, refuses, is silent, is starting up; and two
/// that come with it, of pruning and of listening.
const LINES_MAX: usize = 8;

/// The lines of a log so far.
fn lines(worker: &Worker) -> Vec<Value> {
    let log = worker.log();
    log.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

fn loud(lines: &[Value]) -> Vec<&Value> {
    let loud = |line: &&Value| ["WARN", "ERROR"].iter().any(|level| line["level"] == *level);
    lines.iter().filter(loud).collect()
}

fn signals<'l>(lines: &'l [Value], name: &str) -> Vec<&'l Value> {
    lines.iter().filter(|line| line["signal"] == name).collect()
}

/// The lines that say that an outage is over.
fn ends<'l>(lines: &'l [Value], of: &str) -> Vec<&'l Value> {
    signals(lines, "outage_over").into_iter().filter(|line| line["of"] == of).collect()
}

fn shown(lines: &[&Value]) -> String {
    let text = |line: &&Value| format!("{} {} {}", line["signal"], line["target"], line["message"]);
    lines.iter().map(text).collect::<Vec<_>>().join("\n")
}

/// The most often that a line is there.
fn most_alike(lines: &[&Value]) -> usize {
    let same = |a: &Value, b: &Value| ["signal", "message"].iter().all(|name| a[name] == b[name]);
    let alike = |line: &&Value| lines.iter().filter(|other| same(line, other)).count();
    lines.iter().map(alike).max().unwrap_or_default()
}

/// An outage is told by few lines, each of them once in half a minute, and by one that it is over.
async fn told_once(running: &Worker, before: usize, of: &str) -> Value {
    let since = lines(running).split_off(before);
    let warned = loud(&since).len();
    println!("{warned} lines of {of} by now\n{}", shown(&loud(&since)));
    assert!(warned > 0);
    // The first half minute, and each further one.
    let most = |seconds: u64| LINES_MAX + 3 * usize::try_from(seconds / 30).unwrap();
    assert!(warned <= most(120), "{warned} lines");
    // The end of another outage may be told first: that of what is listened to, for one.
    eventually(SOON, "the end of the outage is told", async || {
        !ends(&lines(running).split_off(before), of).is_empty()
    })
    .await;
    let lines = lines(running).split_off(before);
    let over = ends(&lines, of);
    assert_eq!(over.len(), 1, "{over:?}");
    let (seconds, loud) = (number(over[0], "seconds"), loud(&lines));
    // A process without work meets the outage with its next question, some seconds later.
    assert!(seconds >= AWAY.as_secs() / 2, "{}", over[0]);
    assert!(number(over[0], "times") > 0, "{}", over[0]);
    assert!(loud.len() <= most(seconds), "{} lines in {seconds} s\n{}", loud.len(), shown(&loud));
    let repeats = usize::try_from(seconds / 30).unwrap();
    assert!(most_alike(&loud) <= 1 + repeats, "in {seconds} s\n{}", shown(&loud));
    over[0].clone()
}

/// A number of a line.
fn number(line: &Value, name: &str) -> u64 {
    line[name].as_u64().unwrap_or_default()
}

/// Events `from..=to` of four aggregates, one on each of four partitions.
fn batch(from: i64, to: i64) -> Vec<Record> {
    let of = |n: i64| (0..4).map(move |p| counted(&format!("a{p}"), n).partition(p));
    (from..=to).flat_map(of).collect()
}

const JSON: (&str, &str) = ("INBOX_LOG__FORMAT", "json");

#[tokio::test(flavor = "multi_thread")]
async fn a_consumer_tells_an_outage_of_its_database_once() {
    let postgres = OwnPostgres::start().await;
    let topic = Services::from_env().topic("told", 4).await;
    let stage = Stage::with(topic, postgres.schema().await).await;
    stage.send(&batch(1, 500)).await;
    let running = worker(&stage, &unique("told"), &[JSON]);
    eventually(SOON, "it has begun", async || stage.effects().await >= 40).await;
    let before = lines(&running).len();
    tokio::task::block_in_place(|| postgres.stop(StopMode::Fast));
    stage.send(&batch(501, 1_000)).await;
    tokio::time::sleep(AWAY).await;
    tokio::task::block_in_place(|| postgres.start_again());
    eventually(SOON, "all effects", async || stage.effects().await == 4_000).await;
    let over = told_once(&running, before, "outage").await;
    assert_eq!(over["partitions"], 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_consumer_tells_an_outage_of_kafka_once() {
    let services = Services::from_env();
    let mut kafka = OwnKafka::start().await;
    let stage = Stage::with(kafka.topic("told", 4).await, services.schema().await).await;
    stage.send(&batch(1, 50)).await;
    let running = worker(&stage, &unique("told"), &[JSON]);
    eventually(SOON, "all effects", async || stage.effects().await == 200).await;
    let before = lines(&running).len();
    kafka.kill();
    tokio::time::sleep(AWAY).await;
    kafka.start_again().await;
    stage.send(&batch(51, 100)).await;
    eventually(SOON, "all effects", async || stage.effects().await == 400).await;
    told_once(&running, before, "broker_trouble").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_relay_tells_an_outage_of_its_database_once() {
    let postgres = OwnPostgres::start().await;
    let topic = Services::from_env().topic("told", 1).await;
    let outbox = Outbox::with(topic, postgres.schema().await).await;
    let running = outbox.spawn(&RELAY);
    outbox.append("a", 1, 20).await;
    outbox.drained(SOON).await;
    let before = lines(&running).len();
    tokio::task::block_in_place(|| postgres.stop(StopMode::Fast));
    tokio::time::sleep(AWAY).await;
    tokio::task::block_in_place(|| postgres.start_again());
    eventually(SOON, "the database is back", async || {
        sqlx::query("SELECT 1").execute(outbox.schema.pool()).await.is_ok()
    })
    .await;
    outbox.append("a", 21, 40).await;
    outbox.drained(SOON).await;
    told_once(&running, before, "database_outage").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_relay_tells_an_outage_of_kafka_once() {
    let services = Services::from_env();
    let mut kafka = OwnKafka::start().await;
    let mut outbox = Outbox::with(kafka.topic("told", 1).await, services.schema().await).await;
    outbox.config.limits.outage_delay_max = Duration::from_secs(1);
    let running = outbox.spawn(&RELAY);
    outbox.append("a", 1, 20).await;
    outbox.drained(SOON).await;
    let before = lines(&running).len();
    kafka.kill();
    outbox.append("a", 21, 40).await;
    tokio::time::sleep(AWAY).await;
    kafka.start_again().await;
    outbox.drained(Duration::from_mins(2)).await;
    told_once(&running, before, "kafka_outage").await;
}

/// A hundred partitions are no reason for a hundred lines.
/// The last line of a relay about Kafka: its signal, and for how many seconds that lasted.
fn last_of_kafka(running: &Worker) -> (String, u64) {
    let kafka = ["broker_trouble", "kafka_outage", "unknown", "outage_over"];
    let lines = lines(running);
    let of_kafka = |line: &&Value| {
        let signal = line["signal"].as_str().unwrap_or_default();
        kafka.contains(&signal) && line["of"] != "listening_broken"
    };
    let last = lines.iter().rfind(of_kafka);
    last.map_or_else(Default::default, |line| {
        (line["signal"].as_str().unwrap_or_default().to_owned(), number(line, "seconds"))
    })
}

/// Two outages with a good half minute between them: the last word of each is that it is over, though the relay has no port
/// and nothing to send, and the second one is counted by itself.
#[tokio::test(flavor = "multi_thread")]
async fn two_outages_of_kafka_are_told_apart_and_each_as_over() {
    let mut kafka = OwnKafka::start().await;
    let topic = kafka.topic("apart", 1).await;
    let outbox = Outbox::with(topic, Services::from_env().schema().await).await;
    let running =
        Worker::spawn(outbox.command(&RELAY).arg("run").env("OUTBOX_LOG__FORMAT", "json"));
    outbox.append("a", 1, 1).await;
    outbox.drained(SOON).await;
    for outage in 2..=3 {
        let began = Instant::now();
        kafka.kill();
        outbox.append("a", outage, outage).await;
        eventually(SOON, "the outage is told", async || {
            !["", "outage_over"].contains(&last_of_kafka(&running).0.as_str())
        })
        .await;
        tokio::time::sleep(Duration::from_secs(8)).await;
        kafka.start_again().await;
        outbox.drained(Duration::from_mins(2)).await;
        let lasted = began.elapsed().as_secs();
        // An outage that returns within 30 s is the same one: its end is reported 30 s after it recovered.
        tokio::time::sleep(Duration::from_secs(42)).await;
        let (signal, seconds) = last_of_kafka(&running);
        assert_eq!(signal, "outage_over", "the last word of outage {}", outage - 1);
        assert!(seconds <= lasted + 3, "{seconds} s of an outage of {lasted} s");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_start_with_100_partitions_takes_a_handful_of_lines() {
    let stage = Stage::set("quiet", 100).await;
    let running = worker(&stage, &unique("quiet"), &[JSON]);
    let taken = || -> u64 {
        signals(&lines(&running), "taken_over").iter().map(|line| number(line, "partitions")).sum()
    };
    eventually(SOON, "all are taken over", async || taken() == 100).await;
    let lines = lines(&running);
    // A topic that was made a moment ago may have partitions without a leader, which is an outage.
    let of_outage =
        |line: &&Value| line["signal"].as_str().is_some_and(|it| it.starts_with("outage"));
    let of_start: Vec<&Value> = lines.iter().filter(|line| !of_outage(line)).collect();
    assert!(of_start.len() <= 8, "{}", shown(&of_start));
}
