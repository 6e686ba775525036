//! Answers of the group's coordinator that a real one gives seldom: refused commits, lost assignments,
//! slow and overtaking answers. On the mock broker, with a real database.

use std::time::Duration;

use bytes::Bytes;
use inbox_consumer::{
    Consumer, Ended, Routes,
    config::Config,
    migrate,
    testing::broker::{Failure, MockBroker, Producer, Request},
};
use rdkafka::{
    ClientConfig, Offset, TopicPartitionList,
    consumer::{BaseConsumer, Consumer as _},
};
use sqlx::Postgres;
use tests::{
    Counter, Running, SOON, Schema, Services, eventually,
    soak::checker::{EFFECTS, Expected, check},
    unique,
};

use super::runtime_support::Gate;

const TOPIC: &str = "events";

struct Scene {
    broker: MockBroker,
    producer: Producer,
    schema: Schema,
    config: Config,
}

impl Scene {
    async fn set() -> Self {
        let broker = MockBroker::start(&[(TOPIC, 1)]).unwrap();
        let producer = Producer::new(&broker.bootstrap()).unwrap();
        let schema = Services::from_env().schema().await;
        let mut config = Config::new(unique("c"), broker.bootstrap(), [TOPIC], schema.url());
        config.kafka.session_timeout = Duration::from_secs(3);
        config.limits.drain_deadline = Duration::from_secs(1);
        config.limits.outage_delay_max = Duration::from_millis(500);
        migrate::<Postgres>(&config).await.unwrap();
        schema.run(EFFECTS).await;
        Self { broker, producer, schema, config }
    }

    async fn start(&self, routes: Routes<Postgres>) -> Running {
        Running::of(Consumer::builder(self.config.clone(), routes).build().await.unwrap())
    }

    async fn count(&self, aggregate: &str, from: i64, to: i64) {
        for n in from..=to {
            let header = |name: &'static str, value: String| outbox_core::Header {
                name: name.into(),
                value: Some(value.into()),
            };
            let record = outbox_core::Record {
                key: Some(Bytes::copy_from_slice(aggregate.as_bytes())),
                headers: vec![
                    header("event_id", format!("{aggregate}-{n}")),
                    header("event_type", "Counted".into()),
                ],
                payload: Some(format!("{{\"n\":{n}}}").into()),
                timestamp_ms: None,
            };
            self.producer.send(TOPIC, &record).await.unwrap();
        }
    }

    async fn effects(&self) -> i64 {
        self.schema.number("SELECT count(*) FROM effects").await
    }

    async fn is_right(&self, per_aggregate: u64) {
        let expected = Expected { aggregates: 1, per_aggregate };
        assert_eq!(check(self.schema.pool(), expected).await.unwrap(), []);
    }

    /// The group's committed offset.
    async fn committed(&self) -> Option<i64> {
        let (bootstrap, group) = (self.broker.bootstrap(), self.config.group().to_owned());
        let ask = move || {
            let mut settings = ClientConfig::new();
            settings.set("bootstrap.servers", bootstrap).set("group.id", group);
            let client: BaseConsumer = settings.create().unwrap();
            let mut list = TopicPartitionList::new();
            list.add_partition(TOPIC, 0);
            let list = client.committed_offsets(list, Duration::from_secs(10)).unwrap();
            match list.find_partition(TOPIC, 0).unwrap().offset() {
                Offset::Offset(offset) => Some(offset),
                _ => None,
            }
        };
        tokio::task::spawn_blocking(ask).await.unwrap()
    }
}

fn routes() -> Routes<Postgres> {
    Routes::default().on("Counted", Counter)
}

/// D7: commits that are refused as of an old generation, or while the group rebalances, are hints: the
/// consumer goes on, and the group's offset comes to the end.
#[tokio::test]
async fn refused_commits_are_made_up_for() {
    let scene = Scene::set().await;
    let refusals = [Failure::IllegalGeneration, Failure::RebalanceInProgress];
    let running = scene.start(routes()).await;
    scene.count("0", 1, 5).await;
    eventually(SOON, "five", async || scene.effects().await == 5).await;
    for (round, refused) in refusals.into_iter().enumerate() {
        scene.broker.fail_next(Request::OffsetCommit, &[refused; 2]).unwrap();
        let from = i64::try_from(round).unwrap() * 10 + 6;
        scene.count("0", from, from + 9).await;
        eventually(SOON, "ten more", async || scene.effects().await >= from + 9).await;
    }
    eventually(SOON, "the group's offset", async || scene.committed().await == Some(25)).await;
    assert_eq!(running.stop().await, Ended::Shutdown);
    scene.is_right(25).await;
}

/// D5: the group forgets the member while a transaction is open: the partition is lost, not revoked. The
/// member joins again, takes over anew, and the transaction of the time before writes nothing twice.
#[tokio::test]
async fn a_lost_partition_is_taken_over_anew() {
    let scene = Scene::set().await;
    let gate = Gate::closed();
    let running = scene.start(gate.routes()).await;
    scene.count("0", 1, 5).await;
    eventually(SOON, "five", async || scene.effects().await == 5).await;
    scene.count("slow", 1, 1).await;
    gate.reached(1).await;
    let epoch = "SELECT epoch FROM inbox_partitions";
    let before = scene.schema.number(epoch).await;
    scene.broker.fail_next(Request::Heartbeat, &[Failure::UnknownMember]).unwrap();
    eventually(SOON, "taken over", async || scene.schema.number(epoch).await > before).await;
    gate.open();
    scene.count("0", 6, 10).await;
    eventually(SOON, "all", async || scene.effects().await >= 11).await;
    assert_eq!(running.stop().await, Ended::Shutdown);
    scene
        .schema
        .run(
            "DELETE FROM effects WHERE aggregate = 'slow' AND n = 1 AND effect = \
        (SELECT min(effect) FROM effects WHERE aggregate = 'slow')",
        )
        .await;
    scene.is_right(10).await;
}

/// D14: answers to commits that take longer and longer, then shorter, never let the group's offset go
/// back.
#[tokio::test]
async fn the_group_s_offset_never_goes_back() {
    let scene = Scene::set().await;
    let running = scene.start(routes()).await;
    let mut seen = Vec::new();
    for (round, millis) in [0_u64, 700, 10, 400, 0].into_iter().enumerate() {
        scene.broker.round_trip(1, Duration::from_millis(millis)).unwrap();
        let from = i64::try_from(round).unwrap() * 4 + 1;
        scene.count("0", from, from + 3).await;
        eventually(SOON, "four more", async || scene.effects().await >= from + 3).await;
        seen.push(scene.committed().await);
    }
    eventually(SOON, "the group's offset", async || {
        seen.push(scene.committed().await);
        seen.last() == Some(&Some(20))
    })
    .await;
    assert!(seen.is_sorted(), "{seen:?}");
    assert_eq!(running.stop().await, Ended::Shutdown);
    assert_eq!(scene.committed().await, Some(20));
    scene.is_right(20).await;
}
