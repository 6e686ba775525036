//! What a probe is told: ready while everything moves, and why not.

use std::time::Duration;

use inbox_consumer::{Routes, config::Start, telemetry::Readings};
use serde_json::{Value, json};
use sqlx::Postgres;
use tests::{Counter, OwnKafka, OwnPostgres, SOON, Services, Stage, StopMode, eventually};

use super::{
    acting::{TOLD, acting, told},
    commands::{ran, worker},
    observed::{get, scraped, shows, stage},
};

fn routes() -> Routes<Postgres> {
    Routes::default().on("Counted", Counter)
}

/// Status and document of `/health/ready`.
async fn readiness(readings: &Readings) -> (u16, Value) {
    let (status, body) = get(readings, "/health/ready").await;
    (status, serde_json::from_str(&body).unwrap())
}

/// Waits until the consumer is not ready for this reason alone; answers its sentence.
async fn unready(readings: &Readings, reason: &str) -> String {
    let mut sentence = String::new();
    eventually(SOON, reason, async || {
        let (status, body) = readiness(readings).await;
        let reasons = body["reasons"].as_array().unwrap();
        let named = !reasons.is_empty() && reasons.iter().all(|one| one["reason"] == reason);
        sentence = reasons.first().map_or("", |one| one["sentence"].as_str().unwrap()).to_owned();
        assert_eq!(status == 200, reasons.is_empty(), "{body}");
        status == 503 && named && body["ready"] == false
    })
    .await;
    assert_eq!(get(readings, "/health/live").await.0, 200, "nothing is to be started anew");
    sentence
}

async fn ready(readings: &Readings, partitions: usize) {
    eventually(SOON, "ready", async || {
        let (status, body) = readiness(readings).await;
        status == 200 && body["partitions"] == partitions && body["ready"] == true
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn readiness_goes_with_the_database_and_comes_back_with_it() {
    let own = OwnPostgres::start().await;
    let topic = Services::from_env().topic("observed", 2).await;
    let mut stage = Stage::with(topic, own.schema().await).await;
    stage.config.http.listen = "127.0.0.1:0".into();
    let running = stage.start(routes()).await;
    ready(&running.readings, 2).await;
    stage.count("a", 1, 3).await;
    eventually(SOON, "the effects", async || stage.effects().await == 3).await;

    own.stop(StopMode::Immediate);
    let sentence = unready(&running.readings, "outage").await;
    assert!(!sentence.is_empty());
    shows(&running, &[("inbox_ready", 0.0), ("inbox_group_joined", 1.0)]).await;
    stage.count("a", 4, 6).await;
    own.start_again();
    ready(&running.readings, 2).await;
    eventually(SOON, "the effects", async || stage.effects().await == 6).await;
    assert_eq!(stage.of("a").await, [1, 2, 3, 4, 5, 6]);
    running.stop().await;
}

#[tokio::test]
async fn a_standstill_is_told_by_name_with_its_sentence() {
    let mut stage = stage(1).await;
    stage.config.kafka.start = Start::Error;
    let running = stage.start(routes()).await;
    let sentence = unready(&running.readings, "start_undecided").await;
    assert!(sentence.contains("start"), "{sentence}");
    let standstill = format!(
        "inbox_standstill{{topic=\"{}\",partition=\"0\",reason=\"start_undecided\"}}",
        stage.topic.name()
    );
    shows(&running, &[(&standstill, 1.0), ("inbox_ready", 0.0)]).await;
    running.stop().await;
}

#[tokio::test]
async fn a_member_without_a_partition_is_ready() {
    let stage = stage(1).await;
    let (one, two) = (stage.start(routes()).await, stage.start(routes()).await);
    eventually(SOON, "one has the partition, the other is ready without", async || {
        let (first, second) = (one.readings.readiness(), two.readings.readiness());
        first.ready && second.ready && first.partitions + second.partitions == 1
    })
    .await;
    one.stop().await;
    two.stop().await;
}

/// Somebody else has raised the epoch: the consumer has to take the partition over again.
async fn fenced(stage: &Stage) {
    stage.schema.run("UPDATE inbox_partitions SET epoch = epoch + (1 << 20)").await;
}

#[tokio::test]
async fn tables_that_a_build_does_not_know_stop_it_at_the_next_take_over() {
    let stage = stage(1).await;
    let running = stage.start(routes()).await;
    ready(&running.readings, 1).await;
    let newest = stage.schema.number("SELECT max(version) FROM inbox_schema_versions").await;
    let insert =
        |version| format!("INSERT INTO inbox_schema_versions (version) VALUES ({version})");

    // One version newer is how every deployment of a new version looks like to the old build.
    stage.schema.run(&insert(newest + 1)).await;
    fenced(&stage).await;
    stage.count("a", 1, 3).await;
    eventually(SOON, "the effects", async || stage.effects().await == 3).await;

    stage.schema.run(&insert(newest + 2)).await;
    fenced(&stage).await;
    let sentence = unready(&running.readings, "schema").await;
    assert!(sentence.contains(&format!("this build supports up to {newest}")), "{sentence}");
    stage.count("a", 4, 6).await;
    let back = format!("DELETE FROM inbox_schema_versions WHERE version > {newest}");
    stage.schema.run(&back).await;
    ready(&running.readings, 1).await;
    eventually(SOON, "the effects", async || stage.effects().await == 6).await;
    assert_eq!(stage.of("a").await, [1, 2, 3, 4, 5, 6]);
    running.stop().await;
}

/// An event holds its lane: ready, metrics and `status` name it, and what keeps it, while other lanes go on.
#[tokio::test]
async fn an_event_that_holds_its_lane_is_named_everywhere() {
    let mut stage = Stage::set("held", 1).await;
    stage.config.http.listen = "127.0.0.1:0".into();
    stage.config.retry.attempts_max = 100;
    stage.config.retry.delay_max = Duration::from_secs(2);
    stage
        .send(&[told("bad", 1, json!({"sql": "SELECT nothing"})), told("bad", 2, json!({}))])
        .await;
    let running = stage.start(acting()).await;
    let sql = "SELECT count(*) FROM inbox_partitions WHERE held_lanes LIKE '%\"offset\":0%'";
    eventually(SOON, "written down", async || stage.schema.number(sql).await == 1).await;
    let readiness = running.readings.readiness();
    assert!(readiness.ready, "the other lanes go on: {readiness:?}");
    let held = &readiness.held[0];
    assert_eq!((held.lane.offset, &*held.lane.event_type), (0, TOLD));
    assert!(held.lane.aggregate.ends_with("bad") && held.lane.attempt > 1, "{held:?}");
    assert!(held.sentence.contains("\"nothing\" does not exist"), "{held:?}");
    let place = format!("{{topic=\"{}\",partition=\"0\"}}", stage.topic.name());
    let samples = scraped(&running).await;
    assert_eq!(samples[&format!("inbox_lanes_held{place}")], 1.0);
    assert!(samples[&format!("inbox_oldest_unsettled_seconds{place}")] >= 5.0);
    for command in ["status", "status --lanes", "status --json"] {
        let (code, out, err) = ran(worker(&stage), command).await;
        assert_eq!(code, Some(0), "{err}");
        for word in [TOLD, "attempt", "\\\"nothing\\\" does not exist"] {
            let word =
                if command.ends_with("json") { word.to_owned() } else { word.replace('\\', "") };
            assert!(out.contains(&word), "{command} does not say {word}: {out}");
        }
    }
    stage.send(&[told("good", 1, json!({}))]).await;
    eventually(SOON, "another lane", async || stage.of("good").await == [1]).await;
    running.stop().await;
}

/// A Kafka that does not answer any more: not ready, by name, and no member of the group any more.
#[tokio::test(flavor = "multi_thread")]
async fn readiness_goes_with_kafka_and_comes_back_with_it() {
    let kafka = OwnKafka::start().await;
    let topic = kafka.topic("silent", 2).await;
    let mut stage = Stage::with(topic, Services::from_env().schema().await).await;
    stage.config.http.listen = "127.0.0.1:0".into();
    stage.config.kafka.session_timeout = Duration::from_mins(2);
    let running = stage.start(routes()).await;
    ready(&running.readings, 2).await;
    kafka.pause();
    let sentence = unready(&running.readings, "no_broker").await;
    assert!(sentence.contains("no broker has answered"), "{sentence}");
    shows(&running, &[("inbox_ready", 0.0), ("inbox_group_joined", 0.0)]).await;
    kafka.resume();
    ready(&running.readings, 2).await;
    shows(&running, &[("inbox_ready", 1.0), ("inbox_group_joined", 1.0)]).await;
    running.stop().await;
}
