//! What is seen from outside of partitions that say of themselves that they move.

use std::time::Duration;

use inbox_consumer::{
    Consumer, Ended, Routes,
    config::{Config, Http},
    migrate,
    telemetry::Readings,
    testing::broker::{Failure, MockBroker, Producer, Request},
};
use rdkafka::{
    ClientConfig,
    producer::{BaseProducer, BaseRecord, Producer as _},
};
use sqlx::Postgres;
use tests::{
    Counter, OwnPostgres, Proxy, Running, SOON, Services, Stage, eventually,
    soak::checker::EFFECTS, unique,
};

/// Longer than a limit of the watch and what comes on top.
const LONG: Duration = Duration::from_secs(100);

fn routes() -> Routes<Postgres> {
    Routes::default().on("Counted", Counter)
}

fn reasons(readings: &Readings) -> Vec<&'static str> {
    readings.readiness().reasons.iter().map(|one| one.reason).collect()
}

/// A producer whose transaction is open; it has written one record that no reader sees yet.
async fn open_transaction(bootstrap: &str, topic: &str) -> BaseProducer {
    let mut settings = ClientConfig::new();
    settings.set("bootstrap.servers", bootstrap).set("transactional.id", unique("watch"));
    settings.set("transaction.timeout.ms", "180000");
    let topic = topic.to_owned();
    let begun = tokio::task::spawn_blocking(move || {
        let producer: BaseProducer = settings.create().unwrap();
        producer.init_transactions(SOON).unwrap();
        producer.begin_transaction().unwrap();
        producer.send(BaseRecord::<str, str>::to(&topic).partition(0).payload("x")).unwrap();
        producer.flush(SOON).unwrap();
        producer
    });
    begun.await.unwrap()
}

/// A producer's transaction that stays open holds its partition by name, and lets it go without a take-over
/// (point 14).
#[tokio::test(flavor = "multi_thread")]
async fn an_open_transaction_of_a_producer_holds_its_partition_by_name() {
    let stage = Stage::set("upstream", 1).await;
    let running = stage.start(routes()).await;
    stage.count("a", 1, 5).await;
    eventually(SOON, "the effects", async || stage.effects().await == 5).await;
    let epoch = stage.schema.number("SELECT epoch FROM inbox_partitions").await;
    let producer = open_transaction(stage.topic.bootstrap(), stage.topic.name()).await;
    stage.count("a", 6, 8).await;
    let named = async || reasons(&running.readings) == ["upstream_transaction"];
    eventually(LONG, "the partition is held by name", named).await;
    let told = "SELECT count(*) FROM inbox_partitions WHERE standstill LIKE 'upstream_transaction: %offset 5%'";
    eventually(SOON, "status tells", async || stage.schema.number(told).await == 1).await;
    assert_eq!(stage.effects().await, 5);
    tokio::task::spawn_blocking(move || producer.abort_transaction(SOON)).await.unwrap().unwrap();
    eventually(SOON, "the effects behind it", async || stage.effects().await == 8).await;
    eventually(SOON, "ready", async || running.readings.readiness().ready).await;
    let moves = "SELECT count(*) FROM inbox_partitions WHERE standstill IS NULL";
    eventually(SOON, "status tells", async || stage.schema.number(moves).await == 1).await;
    assert_eq!(stage.schema.number("SELECT epoch FROM inbox_partitions").await, epoch);
    assert_eq!(stage.of("a").await, (1..=8).collect::<Vec<_>>());
    assert_eq!(running.stop().await, Ended::Shutdown);
}

/// A database that has fallen silent is seen: nobody is ready whose watermark nobody confirms (point 10).
#[tokio::test(flavor = "multi_thread")]
async fn a_watermark_that_nobody_confirms_is_seen() {
    let own = OwnPostgres::start().await;
    let topic = Services::from_env().topic("silent", 1).await;
    let mut stage = Stage::with(topic, own.schema().await).await;
    let proxy = Proxy::start(&own.address()).await;
    stage.config.database.url = proxy.url(stage.config.database.url.expose()).into();
    let running = stage.start(routes()).await;
    stage.count("a", 1, 5).await;
    eventually(SOON, "ready", async || running.readings.readiness().ready).await;
    eventually(SOON, "the effects", async || stage.effects().await == 5).await;
    proxy.lose_everything();
    // Whoever notices first: the call itself by its deadline, or the one who watches.
    let seen = async || matches!(reasons(&running.readings)[..], ["unconfirmed"] | ["outage"]);
    eventually(LONG, "somebody notices", seen).await;
    running.abort();
}

/// Records that are not fetched, for whatever reason, are seen by the broker's own word of where its log ends
/// (point 10).
#[tokio::test(flavor = "multi_thread")]
async fn records_that_are_not_read_are_seen() {
    let broker = MockBroker::start(&[("events", 1)]).unwrap();
    let schema = Services::from_env().schema().await;
    let mut config = Config::new(unique("c"), broker.bootstrap(), ["events"], schema.url());
    config.http = Http::off();
    config.kafka.session_timeout = Duration::from_secs(3);
    config.limits.drain_deadline = Duration::from_secs(1);
    config.retry.attempt_deadline = Duration::from_secs(2);
    config.database.statement_timeout = Duration::from_secs(1);
    config.database.lock_timeout = Duration::from_millis(500);
    migrate::<Postgres>(&config).await.unwrap();
    schema.run(EFFECTS).await;
    let running = Running::of(Consumer::builder(config, routes()).build().await.unwrap());
    eventually(SOON, "ready", async || running.readings.readiness().ready).await;
    // The client asks again, each time after half a second.
    broker.fail_next(Request::Fetch, &vec![Failure::NotLeader; 100_000]).unwrap();
    let record = outbox_core::Record {
        key: Some("a".into()),
        headers: Vec::new(),
        payload: Some("{}".into()),
        timestamp_ms: None,
    };
    let producer = Producer::new(&broker.bootstrap()).unwrap();
    producer.send("events", &record).await.unwrap();
    let seen = async || reasons(&running.readings) == ["no_progress"];
    eventually(LONG, "nothing is read, and that is seen", seen).await;
    running.abort();
}
