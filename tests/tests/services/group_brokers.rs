//! Brokers that fall silent or are not there for a while: what is asked of them is asked side by side,
//! and asked again.

use std::time::Duration;

use inbox_consumer::{
    Consumer, Ended, Routes,
    config::Config,
    migrate,
    testing::broker::{Failure, MockBroker, Request},
};
use kafka_kit::internal::{Broker as _, Excerpts, KafkaBroker, KafkaSettings, Protocol};
use sqlx::Postgres;
use tests::{
    Counter, OwnKafka, Running, SOON, Services, eventually, soak::checker::EFFECTS, unique,
};
use tokio::{sync::mpsc, time::timeout};

fn routes() -> Routes<Postgres> {
    Routes::default().on("Counted", Counter)
}

fn settings(bootstrap: &str, topics: &[&str]) -> KafkaSettings {
    KafkaSettings {
        bootstrap: bootstrap.to_owned(),
        group: unique("group"),
        topics: topics.iter().map(|topic| (*topic).to_owned()).collect(),
        instance_id: None,
        protocol: Protocol::Classic,
        session_timeout: Duration::from_secs(6),
        max_poll_interval: Duration::from_secs(30),
        excerpts: Excerpts::default(),
        properties: vec![("reconnect.backoff.max.ms".into(), "200".into())].into(),
    }
}

/// The id, or why it is not known. The room asks once.
async fn id_of(broker: &KafkaBroker, topic: &str) -> Result<[u8; 16], String> {
    let asked = timeout(SOON, broker.topic(topic)).await.expect("a question ends");
    asked.map(|state| state.map_or([0; 16], |state| state.id)).map_err(|error| error.0)
}

/// A question that came while the broker was gone is asked again: a topic that is deleted and created anew is
/// recognised after it (point 7).
#[tokio::test(flavor = "multi_thread")]
async fn a_failed_question_for_a_topic_s_id_is_asked_again() {
    let (kafka, proxy) = OwnKafka::start_behind_proxy().await;
    let topic = kafka.topic("ids", 1).await;
    let (events, _told) = mpsc::unbounded_channel();
    let broker =
        kafka_kit::internal::connect(settings(&kafka.address(), &[topic.name()]), events).unwrap();
    let mut id = [0; 16];
    eventually(SOON, "the id", async || {
        id = id_of(&broker, topic.name()).await.unwrap_or_default();
        id != [0; 16]
    })
    .await;

    proxy.cut();
    let answered = id_of(&broker, topic.name()).await;
    assert!(answered.is_err(), "without a broker nobody knows the id: {answered:?}");
    proxy.heal();
    eventually(SOON, "the id again", async || id_of(&broker, topic.name()).await == Ok(id)).await;

    topic.delete().await;
    topic.create_again().await;
    let other =
        async || id_of(&broker, topic.name()).await.is_ok_and(|new| new != id && new != [0; 16]);
    eventually(SOON, "the id of the topic that was created again", other).await;
    broker.close(Duration::from_secs(10)).await.unwrap();
}

/// Partitions 0, 2, … of the topic are led by broker 1, where the group is, too; the others by broker 2.
async fn two_brokers(partitions: u16) -> (MockBroker, Config, tests::Schema) {
    let broker = MockBroker::start_with(2, &[("events", partitions)]).unwrap();
    for partition in 0..partitions {
        broker.lead("events", partition, Some(1 + partition % 2)).unwrap();
    }
    let schema = Services::from_env().schema().await;
    let mut config = Config::new(unique("c"), broker.bootstrap(), ["events"], schema.url());
    config.http = inbox_consumer::config::Http::off();
    config.kafka.session_timeout = Duration::from_secs(3);
    config.limits.drain_deadline = Duration::from_secs(1);
    config.limits.outage_delay_max = Duration::from_millis(500);
    broker.coordinate(config.group(), 1).unwrap();
    migrate::<Postgres>(&config).await.unwrap();
    schema.run(EFFECTS).await;
    (broker, config, schema)
}

/// What one broker does not answer holds up no partition of another one (point 16).
#[tokio::test(flavor = "multi_thread")]
async fn a_silent_broker_delays_no_partition_of_the_others() {
    const BOUND: Duration = Duration::from_secs(15);
    let (broker, config, schema) = two_brokers(64).await;
    broker.round_trip(2, Duration::from_mins(10)).unwrap();
    let running = Running::of(Consumer::builder(config, routes()).build().await.unwrap());
    let moving = || {
        let partitions = running.readings.partitions();
        partitions.iter().filter(|one| one.partition % 2 == 0 && one.standstill.is_none()).count()
    };
    eventually(SOON, "the assignment", async || running.readings.partitions().len() == 64).await;
    eventually(BOUND, "all partitions of the broker that answers", async || moving() == 32).await;
    let taken =
        "SELECT count(*) FROM inbox_partitions WHERE owner IS NOT NULL AND partition % 2 = 0";
    assert_eq!(schema.number(taken).await, 32);

    broker.round_trip(2, Duration::ZERO).unwrap();
    let all = async || running.readings.readiness().ready;
    eventually(Duration::from_mins(1), "the others, once it answers", all).await;
    assert_eq!(running.stop().await, Ended::Shutdown);
}

/// A member that the group has expelled, and cannot come back, is not ready (point 17).
#[tokio::test(flavor = "multi_thread")]
async fn an_expelled_member_is_not_ready() {
    let (broker, config, _schema) = two_brokers(1).await;
    let running = Running::of(Consumer::builder(config, routes()).build().await.unwrap());
    eventually(SOON, "ready", async || running.readings.readiness().ready).await;
    broker.fail_next(Request::JoinGroup, &[Failure::CoordinatorLoading; 20]).unwrap();
    broker.fail_next(Request::Heartbeat, &[Failure::UnknownMember]).unwrap();
    eventually(SOON, "no partition", async || running.readings.partitions().is_empty()).await;
    let ready = running.readings.readiness();
    assert_eq!(ready.reasons.iter().map(|one| one.reason).collect::<Vec<_>>(), ["joining"]);
    eventually(Duration::from_mins(1), "back", async || {
        running.readings.readiness().ready && running.readings.partitions().len() == 1
    })
    .await;
    assert_eq!(running.stop().await, Ended::Shutdown);
}
