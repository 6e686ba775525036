//! Closing, and Kafka not being there.

use std::time::{Duration, Instant};

use futures::{FutureExt as _, StreamExt as _};
use inbox_engine::internal::{Generation, LeaderEpoch, NextOffset};
use kafka_kit::internal::{Broker as _, BrokerEvent, KafkaSettings, Protocol};

use crate::{
    member::Member,
    world::{World, topic_partition},
};

/// A member that closes leaves the group at once: the next one does not wait for its session (C13).
#[tokio::test]
async fn a_closed_member_leaves_the_group_at_once() {
    for world in World::all() {
        let topic = world.topic(2).await;
        let mut first = Member::join(world.settings(&[&topic]));
        for topic_partition in first.assigned(2).await {
            first.read_from(&topic_partition, 0).await;
        }
        let began = Instant::now();
        first.close().await;
        assert!(
            began.elapsed() < Duration::from_secs(3),
            "{}: {:?}",
            world.told(),
            began.elapsed()
        );
        let mut second = Member::join(world.settings(&[&topic]));
        second.assigned(2).await;
        assert!(
            began.elapsed() < Duration::from_secs(5),
            "{}: {:?}",
            world.told(),
            began.elapsed()
        );
        second.close().await;
    }
}

/// A revocation that nobody has answered does not keep a member from closing (C13).
#[tokio::test]
async fn a_member_closes_in_the_middle_of_a_rebalance() {
    for world in World::all() {
        let topic = world.topic(2).await;
        let mut first = Member::join(world.settings(&[&topic]));
        first.assigned(2).await;
        let mut second = Member::join(world.settings(&[&topic]));
        first
            .until("the revocation", |event| match event {
                BrokerEvent::Revoked(_) => Some(()),
                _ => None,
            })
            .await;
        first.close().await;
        second.assigned(2).await;
        second.close().await;
    }
}

/// With the brokers gone, closing ends within its deadline, and later calls answer (C13, C17).
#[tokio::test]
async fn a_member_closes_though_the_brokers_are_gone() {
    for protocol in [Protocol::Classic, Protocol::Consumer] {
        let world = World::mock(protocol);
        let topic = world.topic(1).await;
        let topic_partition = topic_partition(&topic, 0);
        let mut member = Member::join(world.settings(&[&topic]));
        member.assigned(1).await;
        member.read_from(&topic_partition, 0).await;
        world.mock.as_ref().unwrap().down(1).unwrap();
        let trouble = member
            .until("the trouble", |event| match event {
                BrokerEvent::Trouble(trouble) => Some(trouble.error),
                _ => None,
            })
            .await;
        assert!(trouble.contains(&world.bootstrap), "{trouble}");
        let committed = member.broker.committed(&topic_partition);
        let range = member.broker.log_range(&topic_partition);
        let began = Instant::now();
        member.broker.close(Duration::from_secs(10)).await.unwrap();
        assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
        assert!(committed.await.is_err());
        assert!(range.await.is_err());
        assert!(member.broker.log_range(&topic_partition).await.is_err());
        let seek = member.broker.seek(
            &topic_partition,
            Generation(9),
            NextOffset(0),
            LeaderEpoch::UNKNOWN,
        );
        assert!(seek.await.is_err());
        assert!(!member.broker.confirm(&topic_partition).await);
        while member.within(Duration::from_millis(100)).await.is_some() {}
    }
}

/// A broker that comes back is read from again, from where reading stood (D17).
#[tokio::test]
async fn reading_goes_on_when_a_broker_is_back() {
    let world = World::mock(Protocol::Classic);
    let topic = world.topic(1).await;
    let topic_partition = topic_partition(&topic, 0);
    let mock = world.mock.as_ref().unwrap();
    world.write(&topic, 0, 0..10).await;
    let mut settings = world.settings(&[&topic]);
    settings.session_timeout = Duration::from_secs(30);
    let mut member = Member::join(settings);
    member.assigned(1).await;
    let generation = member.read_from(&topic_partition, 0).await;
    member.arrivals(&topic_partition, generation, 10).await;
    mock.down(1).unwrap();
    tokio::time::sleep(Duration::from_millis(500)).await;
    mock.up(1).unwrap();
    world.write(&topic, 0, 10..20).await;
    let arrivals = member.arrivals(&topic_partition, generation, 10).await;
    assert_eq!(arrivals[0].offset.0, 10);
    member.close().await;
}

/// A topic that is not there is told, and found when it comes (E14).
#[tokio::test]
async fn a_missing_topic_is_told_and_waited_for() {
    if let Some(world) = World::real(Protocol::Classic) {
        let mut settings = world.settings(&["not-there"]);
        settings.topics = vec![format!("late-{}", uuid::Uuid::now_v7())];
        let mut member = Member::join(settings);
        let trouble = member
            .until("the trouble", |event| match event {
                BrokerEvent::Trouble(trouble) => Some(trouble.error),
                _ => None,
            })
            .await;
        assert!(trouble.contains("late-"), "{trouble}");
        member.close().await;
    }
}

/// A Kafka that is not there is told with its address; a wrong property by its name alone.
#[tokio::test]
async fn wrong_settings_are_refused_without_their_values() {
    let world = World::mock(Protocol::Classic);
    let topic = world.topic(1).await;
    let with = |name: &str, value: &str| {
        let mut settings = world.settings(&[&topic]);
        settings.properties = vec![(name.into(), value.into())].into();
        assert!(!format!("{settings:?}").contains(value), "Debug shows {value}");
        let (sender, _events) = tokio::sync::mpsc::unbounded_channel();
        kafka_kit::internal::connect(settings, sender).map(drop).unwrap_err().0
    };
    let refusals = [
        ("fetch.wait.max.ms", with("fetch.wait.max.ms", "s3cret")),
        ("no.such.setting", with("no.such.setting", "s3cret")),
        ("enable.auto.commit", with("enable.auto.commit", "s3cret")),
        ("group.id", with("group.id", "s3cret")),
    ];
    for (name, refusal) in refusals {
        assert!(refusal.contains(name) && !refusal.contains("s3cret"), "{refusal}");
    }
}

/// A member is dropped at any moment, whatever it has asked and holds: as a task that is aborted.
#[tokio::test]
async fn a_member_may_be_dropped_at_any_moment() {
    let drops = std::env::var("INBOX_DROPS").ok().and_then(|drops| drops.parse().ok());
    for world in World::all() {
        let topic = world.topic(4).await;
        for partition in 0..4 {
            world.write(&topic, partition, 0..50).await;
        }
        let ends = (0..drops.unwrap_or(8_u64)).map(|n| drop_at(&world, &topic, n));
        futures::stream::iter(ends).buffer_unordered(6).collect::<Vec<()>>().await;
    }
}

async fn drop_at(world: &World, topic: &str, n: u64) {
    let settings = KafkaSettings { group: format!("{topic}-{n}"), ..world.settings(&[topic]) };
    let mut member = Member::join(settings);
    let moment = |most: u64| Duration::from_micros(n.wrapping_mul(7_919_113) % most);
    if n.is_multiple_of(5) {
        tokio::time::sleep(moment(600_000)).await;
        return;
    }
    let all = member.assigned(4).await;
    let mut asked = Vec::new();
    for topic_partition in &all {
        asked.push(member.broker.log_range(topic_partition).map(drop).boxed());
        asked.push(member.broker.topic(topic).map(drop).boxed());
        asked.push(member.broker.committed(topic_partition).map(drop).boxed());
        if n % 5 > 1 {
            member.seek(topic_partition, 0).await;
        }
        if n % 5 > 2 {
            member.broker.pause(topic_partition, true);
        }
        let offsets = vec![(topic_partition.clone(), NextOffset(1), LeaderEpoch(0))];
        asked.push(member.broker.commit(offsets).map(drop).boxed());
    }
    if n % 5 == 4 {
        tokio::time::sleep(moment(5_000)).await;
        for topic_partition in &all {
            member.broker.pause(topic_partition, false);
        }
    }
    drop(tokio::time::timeout(moment(30_000), futures::future::join_all(asked)).await);
}
