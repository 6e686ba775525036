//! Batches that Kafka's client cannot read: bombs that are larger than it takes once they are decompressed, and
//! batches that were damaged.

use std::time::{Duration, Instant};

use inbox_consumer::{Ended, Routes};
use rdkafka::types::RDKafkaErrorCode;
use sqlx::Postgres;
use tests::{
    Counter, OwnKafka, Producer, Record, Running, SOON, Services, Stage, Topic, counted, eventually,
};

use super::parked_support::{said, told, typed};
use super::runtime_support::{on, up_to};

/// What is wrong has a name within this time.
const NAMED_MAX: Duration = Duration::from_secs(30);
/// More than the client takes of one batch, once it is decompressed.
const BOMB: usize = 130 << 20;

fn routes() -> Routes<Postgres> {
    Routes::default().on("Counted", Counter)
}

/// The reasons for which it is not ready.
fn reasons(running: &Running) -> Vec<&'static str> {
    running.readings.readiness().reasons.iter().map(|why| why.reason).collect()
}

/// Waits until the partition has the name, in readiness, metrics and the database.
async fn named(stage: &Stage, running: &Running) {
    let begun = Instant::now();
    let unready = async || reasons(running) == ["unreadable_batch"];
    eventually(SOON, "it has a name", unready).await;
    println!("unreadable_batch after {:.1?}", begun.elapsed());
    assert!(begun.elapsed() < NAMED_MAX, "after {:?}", begun.elapsed());
    let metrics = running.readings.prometheus();
    assert!(metrics.contains("reason=\"unreadable_batch\"} 1"), "{metrics}");
    let written = "SELECT count(*) FROM inbox_partitions WHERE standstill LIKE 'unreadable_batch: %offset 3%'";
    eventually(SOON, "it is told", async || stage.schema.number(written).await == 1).await;
}

/// A few kilobytes of zstd, from whoever may write to the topic.
#[tokio::test(flavor = "multi_thread")]
async fn a_batch_that_is_too_large_once_decompressed_has_a_name_and_is_skipped_without_a_restart() {
    let stage = Stage::set("unreadable", 2).await;
    stage.send(&on(0, "before", 1, 3)).await;
    let bomb = Record::event("bomb", "Counted", "bomb", "").payload(vec![0; BOMB]).partition(0);
    let producer = Producer::compressing(stage.topic.bootstrap(), "zstd");
    assert_eq!(producer.send(stage.topic.name(), &[bomb]).await, [(0, 3)]);
    stage.send(&on(0, "behind", 1, 3)).await;
    let running = stage.start(routes()).await;
    named(&stage, &running).await;
    assert_eq!(stage.of("before").await, up_to(3));
    assert_eq!(stage.of("behind").await, [] as [i64; 0], "the batch was passed over");
    stage.send(&on(1, "beside", 1, 3)).await;
    let beside = async || stage.of("beside").await == up_to(3);
    eventually(SOON, "the other partition goes on", beside).await;
    let lines = told(&stage, &["status", "--json"]).await;
    let standstill = lines[0]["standstill"].as_str().unwrap_or_default();
    assert!(standstill.starts_with("unreadable_batch: "), "{lines}");
    let (_, out, err) = typed(&stage, &["check"]).await;
    assert!(out.contains("/0 is stalled: unreadable_batch: "), "{out}{err}");
    let skip = ["skip", "--topic", stage.topic.name(), "--partition", "0", "--to", "4"];
    let out = said(&stage, &[&skip[..], &["--why", "a bomb", "--yes", "--force"]].concat()).await;
    assert!(out.contains("continues at 4"), "{out}");
    let behind = async || stage.of("behind").await == up_to(3);
    eventually(SOON, "it goes on behind the batch", behind).await;
    eventually(SOON, "ready", async || running.readings.readiness().ready).await;
    assert_eq!(running.stop().await, Ended::Shutdown);
}

/// What `docs/maintenance.md` tells to set: the broker then counts what a batch is once it is decompressed.
#[tokio::test]
async fn a_topic_that_keeps_records_uncompressed_takes_no_bomb() {
    let services = Services::from_env();
    let settings = [("compression.type", "uncompressed"), ("max.message.bytes", "1048588")];
    let topic = Topic::create(&services.kafka, "uncompressed", 1, &settings).await;
    for codec in ["gzip", "snappy", "lz4", "zstd"] {
        let bomb = Record::event("bomb", "Counted", "bomb", "").payload(vec![0; 8 << 20]);
        let producer = Producer::compressing(topic.bootstrap(), codec);
        let error = producer.refused(topic.name(), &bomb).await;
        let too_large = error.rdkafka_error_code() == Some(RDKafkaErrorCode::MessageSizeTooLarge);
        assert!(too_large, "{codec}: {error}");
    }
}

/// A batch that was damaged on the broker's disk, and is whole again when its replica takes over.
#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_batch_has_a_name_and_is_read_when_it_is_whole_again() {
    let kafka = OwnKafka::start().await;
    let stage =
        Stage::with(kafka.topic("damaged", 1).await, Services::from_env().schema().await).await;
    // A batch each.
    for n in 1..=6 {
        stage.send(&[counted("one", n)]).await;
    }
    kafka.damage(&stage.topic, 0, 3);
    let running = stage.start(routes()).await;
    named(&stage, &running).await;
    assert_eq!(stage.of("one").await, up_to(3), "what lies behind the batch was handled");
    kafka.damage(&stage.topic, 0, 3);
    eventually(SOON, "the rest", async || stage.of("one").await == up_to(6)).await;
    eventually(SOON, "ready", async || running.readings.readiness().ready).await;
    assert_eq!(running.stop().await, Ended::Shutdown);
}
