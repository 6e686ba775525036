//! What only a real Kafka has: transactions, topic ids, deleted records, instance ids.

use std::time::Duration;

use inbox_engine::internal::{NextOffset, Offset as At};
use kafka_kit::internal::{Broker as _, BrokerEvent, Protocol};
use rdkafka::{
    ClientConfig, Offset, TopicPartitionList,
    admin::AdminOptions,
    consumer::{BaseConsumer, Consumer as _},
    producer::{BaseProducer, BaseRecord, Producer as _},
};

use crate::{
    member::Member,
    world::{World, topic_partition},
};

const WAIT: Duration = Duration::from_secs(10);

fn worlds() -> impl Iterator<Item = World> {
    [Protocol::Classic, Protocol::Consumer].into_iter().filter_map(World::real)
}

/// A topic has an id, its own; the mock does not tell one (E3).
#[tokio::test]
async fn a_topic_has_an_id() {
    for world in worlds() {
        let (one, two) = (world.topic(1).await, world.topic(1).await);
        let member = Member::join(world.settings(&[&one, &two]));
        let id = async |topic: &str| member.broker.topic(topic).await.unwrap().map(|it| it.id);
        let first = id(&one).await;
        assert!(first.is_some_and(|id| id != [0; 16]));
        assert_eq!(first, id(&one).await);
        assert_ne!(first, id(&two).await);
        assert_eq!(id("not-there-at-all").await, None);
        member.close().await;
    }
}

/// The group assigns in another way: who its members are is told, and what to change.
#[tokio::test]
async fn members_with_another_assignor_are_named() {
    let Some(world) = World::real(Protocol::Classic) else { return };
    let topic = world.topic(1).await;
    let settings = world.settings(&[&topic]);
    let other: BaseConsumer = ClientConfig::new()
        .set("bootstrap.servers", &world.bootstrap)
        .set("group.id", &settings.group)
        .set("client.id", "the-other")
        .set("partition.assignment.strategy", "range")
        .create()
        .unwrap();
    other.subscribe(&[&topic]).unwrap();
    let joined = move || {
        while other.assignment().unwrap().count() == 0 {
            drop(other.poll(Duration::from_millis(100)));
        }
        other
    };
    let _other = tokio::task::spawn_blocking(joined).await.unwrap();
    let mut member = Member::join(settings);
    let error = member
        .until("who the others are", |event| match event {
            BrokerEvent::Trouble(trouble) if trouble.error.contains("the-other") => {
                Some(trouble.error)
            }
            _ => None,
        })
        .await;
    for part in ["`range`", "the-other at 127.0.0.1", "cooperative-sticky"] {
        assert!(error.contains(part), "{error}");
    }
    member.close().await;
}

fn transactions(world: &World, topic: &str) -> BaseProducer {
    let producer: BaseProducer = ClientConfig::new()
        .set("bootstrap.servers", &world.bootstrap)
        .set("transactional.id", topic)
        .create()
        .unwrap();
    producer.init_transactions(WAIT).unwrap();
    producer
}

fn send(producer: &BaseProducer, topic: &str, count: u32) {
    producer.begin_transaction().unwrap();
    for number in 0..count {
        let payload = number.to_string();
        let record = BaseRecord::<str, str>::to(topic).partition(0).payload(&payload);
        producer.send(record).map_err(|(error, _)| error).unwrap();
    }
    producer.flush(WAIT).unwrap();
}

/// Aborted records never arrive, and the position passes over them and over the markers, though no
/// record follows (E1, E7).
#[tokio::test]
async fn the_position_passes_over_markers_and_aborted_records() {
    for world in worlds() {
        let topic = world.topic(1).await;
        let topic_partition = topic_partition(&topic, 0);
        let (name, far) = (topic.clone(), world.bootstrap.clone());
        let producer = transactions(&world, &topic);
        // Offsets 0-4 and a marker, 6-8 and a marker: the next one is 10.
        tokio::task::spawn_blocking(move || {
            send(&producer, &name, 5);
            producer.commit_transaction(WAIT).unwrap();
            send(&producer, &name, 3);
            producer.abort_transaction(WAIT).unwrap();
        })
        .await
        .unwrap();
        let mut member = Member::join(world.settings(&[&topic]));
        member.assigned(1).await;
        let wanted = member.read_from(&topic_partition, 0).await;
        let mut offsets = Vec::new();
        member
            .until("the position behind the markers", |event| match event {
                BrokerEvent::Arrived { arrivals, .. } => {
                    offsets.extend(arrivals.iter().map(|arrival| arrival.offset));
                    None
                }
                BrokerEvent::Position { generation, position, .. } => {
                    assert_eq!(generation, wanted);
                    (position == NextOffset(10)).then_some(())
                }
                _ => None,
            })
            .await;
        assert_eq!(offsets, (0..5).map(At).collect::<Vec<_>>(), "{far}");
        assert_eq!(member.broker.log_range(&topic_partition).await.unwrap().end, NextOffset(10));
        member.close().await;
    }
}

/// An open transaction keeps the end of the log, as far as it can be read, before its first record
/// (E7).
#[tokio::test]
async fn an_open_transaction_ends_what_can_be_read() {
    for world in worlds() {
        let topic = world.topic(1).await;
        let topic_partition = topic_partition(&topic, 0);
        world.write(&topic, 0, 0..4).await;
        let producer = transactions(&world, &topic);
        let name = topic.clone();
        let producer = tokio::task::spawn_blocking(move || {
            send(&producer, &name, 3);
            producer
        });
        let producer = producer.await.unwrap();
        let mut member = Member::join(world.settings(&[&topic]));
        member.assigned(1).await;
        assert_eq!(member.broker.log_range(&topic_partition).await.unwrap().end, NextOffset(4));
        let aborted = move || producer.abort_transaction(WAIT).unwrap();
        tokio::task::spawn_blocking(aborted).await.unwrap();
        member.close().await;
    }
}

/// Records that retention removed are missed, told, and not skipped (D3, E4).
#[tokio::test]
async fn deleted_records_are_told_and_not_skipped() {
    for world in worlds() {
        let topic = world.topic(1).await;
        let topic_partition = topic_partition(&topic, 0);
        world.write(&topic, 0, 0..20).await;
        let mut before = TopicPartitionList::new();
        before.add_partition_offset(&topic, 0, Offset::Offset(15)).unwrap();
        world.admin().delete_records(&before, &AdminOptions::new()).await.unwrap();
        let mut member = Member::join(world.settings(&[&topic]));
        member.assigned(1).await;
        assert_eq!(member.broker.log_range(&topic_partition).await.unwrap().start, NextOffset(15));
        member.read_from(&topic_partition, 10).await;
        member
            .until("the offset being gone", |event| match event {
                BrokerEvent::OffsetGone { partition, .. } => {
                    assert_eq!(partition, topic_partition);
                    Some(())
                }
                BrokerEvent::Arrived { .. } => panic!("records were skipped"),
                _ => None,
            })
            .await;
        let generation = member.read_from(&topic_partition, 15).await;
        let arrivals = member.arrivals(&topic_partition, generation, 5).await;
        assert!(arrivals.iter().all(|arrival| arrival.leader_epoch.known()));
        member.close().await;
    }
}

/// Two processes with one instance id: one of them is told to end (D13).
#[tokio::test]
async fn one_of_two_members_with_one_instance_id_dies() {
    for world in worlds() {
        let topic = world.topic(1).await;
        let mut settings = world.settings(&[&topic]);
        settings.instance_id = Some("one".into());
        let mut first = Member::join(settings.clone());
        first.assigned(1).await;
        let mut second = Member::join(settings);
        let dead = match world.protocol {
            // Classic groups fence the old member, the new protocol the new one.
            Protocol::Classic => &mut first,
            _ => &mut second,
        };
        let why = dead
            .until("the end", |event| match event {
                BrokerEvent::Fatal(why) => Some(why),
                _ => None,
            })
            .await;
        assert!(why.contains("instance id"), "{why}");
        first.close().await;
        second.close().await;
    }
}
