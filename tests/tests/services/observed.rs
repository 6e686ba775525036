//! What a scraper sees of a consumer at work: every metric of the table and no other, with the numbers
//! that the database has, too (I8).

use std::{
    collections::{BTreeMap, BTreeSet},
    io::Write as _,
    net::SocketAddr,
    process::{Command, Stdio},
};

use inbox_consumer::{
    Routes,
    telemetry::{METRICS, Readings},
};
use serde_json::json;
use sqlx::Postgres;
use tests::{Counter, Record, Running, SOON, Stage, counted, eventually, skip};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use super::acting::{Acting, TOLD, told};

/// Status and body of a GET.
pub(super) async fn get(readings: &Readings, path: &str) -> (u16, String) {
    let listens = async || readings.http_address().is_some();
    eventually(SOON, "the HTTP port listens", listens).await;
    asked(readings.http_address().unwrap(), path).await
}

/// The same of any port.
pub(super) async fn asked(address: SocketAddr, path: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
}

/// The samples of a scrape by name and labels, without the label that all have.
pub(super) async fn scraped(running: &Running) -> BTreeMap<String, f64> {
    let (status, text) = get(&running.readings, "/metrics").await;
    assert_eq!(status, 200, "{text}");
    let common = format!("{{consumer=\"{}\"", running.readings.consumer());
    let samples = text.lines().filter(|line| !line.starts_with('#'));
    let samples = samples.map(|line| {
        let (name, value) = line.rsplit_once(' ').unwrap();
        let name = name.replacen(&format!("{common},"), "{", 1);
        (name.replacen(&format!("{common}}}"), "", 1), value.parse().unwrap())
    });
    samples.collect()
}

/// Waits until a scrape shows these values.
pub(super) async fn shows(running: &Running, wanted: &[(&str, f64)]) {
    let mut seen = BTreeMap::new();
    let missing = |seen: &BTreeMap<String, f64>| -> Vec<String> {
        let wrong = wanted.iter().filter(|(name, value)| seen.get(*name) != Some(value));
        wrong.map(|(name, value)| format!("{name} {value}, found {:?}", seen.get(*name))).collect()
    };
    let start = std::time::Instant::now();
    loop {
        seen.extend(scraped(running).await);
        if missing(&seen).is_empty() {
            return;
        }
        assert!(start.elapsed() < SOON, "{:#?}", missing(&seen));
        seen.clear();
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
}

/// A stage whose consumer has an HTTP port.
pub(super) async fn stage(partitions: i32) -> Stage {
    let mut stage = Stage::set("observed", partitions).await;
    stage.config.http.listen = "127.0.0.1:0".into();
    stage
}

fn routes() -> Routes<Postgres> {
    Routes::default().on("Counted", Counter).on(TOLD, Acting::default()).ignore("Noise")
}

#[tokio::test]
async fn a_scrape_tells_what_the_consumer_has_done() {
    let stage = stage(1).await;
    let records: Vec<Record> = (1..=20).map(|n| counted("a", n)).collect();
    stage.send(&records).await;
    let running = stage.start(routes()).await;
    eventually(SOON, "all effects", async || stage.effects().await == 20).await;
    stage.send(&records).await;
    stage.send(&[Record::event("n-1", "Noise", "c", "{}")]).await;
    // Same id, other content; no event at all; a type that nobody takes; and a handler that refuses.
    stage.send(&[Record::event("a-1", "Counted", "x", r#"{"n":9}"#)]).await;
    stage.send(&[Record::default().key("y").payload("nonsense")]).await;
    stage.send(&[Record::event("z-1", "Unheard", "z", "{}")]).await;
    stage.send(&[told("r", 1, json!({ "reject": true })), told("r", 2, json!({}))]).await;

    let place = format!("{{topic=\"{}\",partition=\"0\"", stage.topic.name());
    let of = |name: &str| format!("{name}{place}}}");
    let parked = |reason: &str| format!("inbox_events_parked_total{{reason=\"{reason}\"}}");
    shows(
        &running,
        &[
            ("inbox_events_applied_total", 20.0),
            ("inbox_events_duplicate_total", 20.0),
            ("inbox_events_ignored_total", 1.0),
            (&parked("mismatch"), 1.0),
            (&parked("undecodable"), 1.0),
            (&parked("unknown_type"), 1.0),
            (&parked("rejected"), 1.0),
            (&parked("follower"), 1.0),
            (&parked("torn"), 0.0),
            ("inbox_attempts_failed_total", 1.0),
            ("inbox_handler_failures_total{event_type=\"Told\"}", 1.0),
            ("inbox_handler_events_total{event_type=\"Counted\"}", 20.0),
            ("inbox_transactions_total{outcome=\"failed\"}", 1.0),
            ("inbox_rebalances_total{change=\"assigned\"}", 1.0),
            ("inbox_ready", 1.0),
            ("inbox_group_joined", 1.0),
            ("inbox_partitions", 1.0),
            ("inbox_connections_limit", 8.0),
            (&of("inbox_watermark_offset"), 46.0),
            (&of("inbox_kafka_committed_offset"), 46.0),
            (&of("inbox_position_offset"), 46.0),
            (&of("inbox_log_end_offset"), 46.0),
            (&of("inbox_lag_offsets"), 0.0),
            (&of("inbox_waiting_events"), 0.0),
            (&of("inbox_waiting_bytes"), 0.0),
            (&of("inbox_transactions_open"), 0.0),
            (&of("inbox_fetching_paused"), 0.0),
            // Hardly anything begins, so it has come back to what the configuration allows.
            ("inbox_transactions_limit", 8.0),
        ],
    )
    .await;
    let scrape = scraped(&running).await;
    let batches = scrape["inbox_transactions_total{outcome=\"committed\"}"];
    assert!(batches >= 1.0, "{scrape:#?}");
    for histogram in ["transaction_seconds", "transaction_events", "event_age_seconds"] {
        assert_eq!(scrape[&format!("inbox_{histogram}_count")], batches, "{histogram}");
    }
    assert_eq!(scrape["inbox_transaction_events_sum"], 46.0);
    assert!(scrape[&of("inbox_watermark_age_seconds")] < 10.0);
    assert!(scrape["inbox_kafka_poll_age_seconds"] < 5.0);
    assert!(!scrape.keys().any(|name| name.starts_with("inbox_standstill")), "{scrape:#?}");
    running.stop().await;
}

#[tokio::test]
async fn what_is_parked_in_the_database_is_a_gauge() {
    let stage = stage(1).await;
    let reject = || json!({ "reject": true });
    stage.send(&[told("a", 1, reject()), told("a", 2, json!({})), told("b", 1, reject())]).await;
    // Parked before this consumer's first look.
    let first = stage.start(routes()).await;
    eventually(SOON, "all are parked", async || stage.parked("").await == 3).await;
    first.stop().await;
    let running = stage.start(routes()).await;
    let place = format!("{{topic=\"{}\",partition=\"0\"}}", stage.topic.name());
    let (events, aggregates) =
        (format!("inbox_parked_events{place}"), format!("inbox_parked_aggregates{place}"));
    shows(&running, &[(&events, 3.0), (&aggregates, 2.0)]).await;
    running.stop().await;
}

#[tokio::test]
async fn every_metric_of_the_table_is_scraped_and_promtool_is_content() {
    let stage = stage(1).await;
    stage.count("a", 1, 5).await;
    let running = stage.start(routes()).await;
    let place = format!("{{topic=\"{}\",partition=\"0\"}}", stage.topic.name());
    let committed = format!("inbox_kafka_committed_offset{place}");
    shows(&running, &[("inbox_events_applied_total", 5.0), (&committed, 5.0)]).await;
    let parked = format!("inbox_parked_events{place}");
    shows(&running, &[(&parked, 0.0)]).await;

    let (_, text) = get(&running.readings, "/metrics").await;
    let told: BTreeSet<&str> = text
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE "))
        .map(|line| line.split(' ').next().unwrap())
        .collect();
    assert_eq!(told, METRICS.iter().map(|metric| metric.name).collect());
    let sampled: BTreeSet<&str> = text
        .lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| line.split('{').next().unwrap())
        .collect();
    // These are there only while something stands still or is missing, or once events have come by HTTP.
    let now_and_then = [
        "inbox_standstill",
        "inbox_topic_missing",
        "inbox_topic_unassigned",
        "inbox_forbidden",
        "inbox_intake_requests_total",
    ];
    for metric in METRICS.iter().filter(|metric| !now_and_then.contains(&metric.name)) {
        let count = format!("{}_count", metric.name);
        let there = sampled.contains(metric.name) || sampled.contains(count.as_str());
        assert!(there, "{} has no sample:\n{text}", metric.name);
    }
    running.stop().await;
    promtool(&text);
}

/// `promtool check metrics`, if it is there.
pub(super) fn promtool(text: &str) {
    let mut command = Command::new("promtool");
    let command = command.args(["check", "metrics"]).stdin(Stdio::piped()).stderr(Stdio::piped());
    let Ok(mut child) = command.stdout(Stdio::piped()).spawn() else {
        return skip(
            "services::observed::every_metric_of_the_table_is_scraped_and_promtool_is_content (promtool)",
            "promtool is not there: install Debian's package prometheus",
        );
    };
    child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.trim().is_empty(), "{said}\n{text}");
}

#[tokio::test]
async fn an_aggregate_on_two_partitions_is_counted() {
    let mut stage = stage(1).await;
    stage.config.kafka.raw.set("topic.metadata.refresh.interval.ms", "300");
    let records = |from: i64| -> Vec<Record> {
        (0..200).map(|aggregate| counted(&format!("stray-{aggregate}"), from)).collect()
    };
    let running = stage.start(routes()).await;
    stage.send(&records(1)).await;
    eventually(SOON, "all effects", async || stage.effects().await == 200).await;
    stage.send(&records(2)).await;
    // Records without a key have no aggregate that could be on two partitions.
    eventually(SOON, "all effects", async || stage.effects().await == 400).await;
    assert_eq!(running.counters.read().aggregate_moves, 0, "each aggregate is where it was");

    // A producer of its own, which learns of the new partition when it begins.
    stage.topic.grow(2).await;
    let producer = tests::Producer::new(stage.topic.bootstrap());
    producer.send(stage.topic.name(), &records(3)).await;
    eventually(SOON, "all effects", async || stage.effects().await == 600).await;
    let moves = running.counters.read().aggregate_moves;
    // One in 16 of some 100 aggregates that have moved.
    assert!((1..=40).contains(&moves), "{moves}");
    shows(
        &running,
        &[("inbox_aggregates_strayed_total", f64::from(u32::try_from(moves).unwrap()))],
    )
    .await;
    running.stop().await;
}
