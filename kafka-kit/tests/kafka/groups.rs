//! What the group gives and takes.

use std::{collections::BTreeSet, time::Duration};

use inbox_engine::internal::{LeaderEpoch, NextOffset};
use kafka_kit::{
    internal::{Broker as _, BrokerEvent, Protocol},
    testing::{Failure, Request},
};
use outbox_core::TopicPartition;
use tokio::{sync::oneshot, time::sleep};

use crate::{
    member::{Deliveries, Member, PATIENCE, follow},
    world::{World, topic_partition},
};

const PARTITIONS: u16 = 4;
const RECORDS: u32 = 400;

/// A second member comes and goes while records flow: what one had let go, committed, the other goes
/// on with. Everything arrives, nothing twice (D5, D7, C16).
#[tokio::test]
async fn partitions_change_hands_without_loss_or_repetition() {
    for world in World::all() {
        let topic = world.topic(PARTITIONS).await;
        let deliveries = Deliveries::default();
        let member = |who, drain| {
            let (stop, stopped) = oneshot::channel();
            let joined = Member::join(world.settings(&[&topic]));
            let task = follow(
                who,
                joined,
                std::sync::Arc::clone(&deliveries),
                Duration::from_millis(drain),
                stopped,
            );
            (stop, tokio::spawn(task))
        };
        let (stop_first, first) = member("first", 300);
        wait_for(&deliveries, &world, &topic, 0).await;
        let (stop_second, second) = member("second", 0);
        let shared = || {
            distinct(&deliveries, |(who, topic_partition, _)| (*who, topic_partition.partition)) > 4
        };
        let mut round = 1;
        while !shared() {
            wait_for(&deliveries, &world, &topic, round).await;
            round += 1;
            sleep(Duration::from_millis(100)).await;
        }
        wait_for(&deliveries, &world, &topic, round).await;
        stop_first.send(()).unwrap();
        let mut failed = first.await.unwrap();
        stop_second.send(()).unwrap();
        failed.extend(second.await.unwrap());
        assert!(failed.is_empty() || world.mock.is_some(), "{}: {failed:?}", world.told());

        let all = deliveries.lock().unwrap().len();
        let unique = distinct(&deliveries, |(_, topic_partition, offset)| {
            (topic_partition.partition, *offset)
        });
        assert!(all == unique || !failed.is_empty(), "delivered twice: {}", world.told());
    }
}

/// Writes a round of records and waits until all of them, and those of earlier rounds, have arrived.
async fn wait_for(deliveries: &Deliveries, world: &World, topic: &str, round: u32) {
    for partition in 0..PARTITIONS {
        let numbers = round * RECORDS..(round + 1) * RECORDS;
        world.write(topic, i32::from(partition), numbers).await;
    }
    let wanted = usize::try_from((round + 1) * RECORDS).unwrap() * usize::from(PARTITIONS);
    let patience = tokio::time::Instant::now() + PATIENCE;
    while distinct(deliveries, |(_, topic_partition, offset)| (topic_partition.partition, *offset))
        < wanted
    {
        assert!(
            tokio::time::Instant::now() < patience,
            "not everything arrived: {}: {} of {wanted}",
            world.told(),
            deliveries.lock().unwrap().len()
        );
        sleep(Duration::from_millis(20)).await;
    }
}

type Delivery = (&'static str, TopicPartition, i64);

fn distinct<T: Ord>(deliveries: &Deliveries, of: impl Fn(&Delivery) -> T) -> usize {
    deliveries.lock().unwrap().iter().map(of).collect::<BTreeSet<_>>().len()
}

/// While the pipeline drains, nothing of a revoked partition arrives, and the group waits (C16).
#[tokio::test]
async fn a_revoked_partition_stays_until_it_is_let_go() {
    for world in World::all() {
        let topic = world.topic(2).await;
        let mut first = Member::join(world.settings(&[&topic]));
        for topic_partition in first.assigned(2).await {
            first.read_from(&topic_partition, 0).await;
        }
        let mut second = Member::join(world.settings(&[&topic]));
        let revoked = first
            .until("the revocation", |event| match event {
                BrokerEvent::Revoked(partitions) => Some(partitions),
                _ => None,
            })
            .await;
        assert_eq!(revoked.len(), 1, "{}", world.told());
        world.write(&topic, revoked[0].partition, 0..10).await;
        while let Some(event) = first.within(Duration::from_secs(1)).await {
            let arrived = matches!(&event, BrokerEvent::Arrived { partition, .. } if *partition == revoked[0]);
            assert!(!arrived, "{}", world.told());
        }
        assert!(!first.broker.confirm(&revoked[0]).await, "it is on its way out");
        assert!(second.within(Duration::ZERO).await.is_none(), "{}", world.told());
        let commit = vec![(revoked[0].clone(), NextOffset(7), LeaderEpoch(0))];
        let committed = first.broker.commit(commit).await;
        // The mock takes no commit while a member joins; a real broker does.
        assert!(committed.is_ok() || world.mock.is_some(), "{committed:?}");
        first.broker.ack_revocation(revoked.clone());
        assert_eq!(second.assigned(1).await, revoked, "{}", world.told());
        let expected = committed.is_ok().then_some(NextOffset(7));
        assert_eq!(second.committed(&revoked[0]).await, expected);
        let generation = second.read_from(&revoked[0], 7).await;
        assert_eq!(second.arrivals(&revoked[0], generation, 3).await.len(), 3);
        first.close().await;
        second.close().await;
    }
}

/// A partition that was paused, went away and came back is read again: a pause outlives both.
#[tokio::test]
async fn a_partition_that_comes_back_is_read_again() {
    for world in World::all() {
        let topic = world.topic(1).await;
        let topic_partition = topic_partition(&topic, 0);
        let mut member = Member::join(world.settings(&[&topic]));
        member.assigned(1).await;
        member.read_from(&topic_partition, 0).await;
        member.broker.pause(&topic_partition, true);
        world.write(&topic, 0, 0..10).await;
        // The coordinator forgets the member, which joins again.
        if let Some(mock) = &world.mock {
            if world.protocol == Protocol::Consumer {
                continue;
            }
            mock.fail_next(Request::Heartbeat, &[Failure::UnknownMember]).unwrap();
        } else {
            member.broker.stall(Duration::from_secs(8));
        }
        if world.mock.is_none() {
            // Nothing is lost by a stall below `max.poll.interval`.
            let generation = member.read_from(&topic_partition, 2).await;
            assert_eq!(member.arrivals(&topic_partition, generation, 8).await.len(), 8);
            member.close().await;
            continue;
        }
        member
            .until("the loss", |event| match event {
                BrokerEvent::Lost(partitions) => {
                    assert_eq!(partitions, std::slice::from_ref(&topic_partition));
                    Some(())
                }
                BrokerEvent::Revoked(_) => panic!("a loss that waits to be let go"),
                _ => None,
            })
            .await;
        member.assigned(1).await;
        let generation = member.read_from(&topic_partition, 2).await;
        assert_eq!(member.arrivals(&topic_partition, generation, 8).await.len(), 8);
        member.close().await;
    }
}

/// A member that does not poll in time has lost everything, is told so first, and commits nothing
/// (C18, D5).
#[tokio::test]
async fn a_lost_partition_commits_nothing() {
    for world in World::all() {
        let topic = world.topic(1).await;
        let topic_partition = topic_partition(&topic, 0);
        world.write(&topic, 0, 0..10).await;
        let mut settings = world.settings(&[&topic]);
        settings.max_poll_interval = settings.session_timeout;
        let mut member = Member::join(settings.clone());
        member.assigned(1).await;
        member.read_from(&topic_partition, 0).await;
        member.broker.stall(settings.max_poll_interval + Duration::from_millis(1500));
        member
            .until("the loss", |event| match event {
                BrokerEvent::Lost(partitions) => {
                    assert_eq!(partitions, std::slice::from_ref(&topic_partition));
                    Some(())
                }
                BrokerEvent::Revoked(_) => panic!("a loss that waits to be let go"),
                _ => None,
            })
            .await;
        let commit = vec![(topic_partition.clone(), NextOffset(9), LeaderEpoch::UNKNOWN)];
        assert!(member.broker.commit(commit.clone()).await.is_err(), "{}", world.told());
        member.assigned(1).await;
        // It may have come back before the commit of the time before does.
        assert!(member.broker.commit(commit).await.is_err(), "{}", world.told());
        assert_eq!(member.committed(&topic_partition).await, None, "{}", world.told());
        let generation = member.read_from(&topic_partition, 0).await;
        assert_eq!(member.arrivals(&topic_partition, generation, 10).await.len(), 10);
        member.close().await;
    }
}

/// A member that the group forgets while it drains is not told (librdkafka 2.12.1 drops the word when a
/// rebalance is under way): it lets go as if nothing had happened, and joins again (D5, C16).
#[tokio::test]
async fn a_member_that_is_forgotten_while_it_drains_joins_again() {
    let world = World::mock(Protocol::Classic);
    let topic = world.topic(2).await;
    let mut first = Member::join(world.settings(&[&topic]));
    for topic_partition in first.assigned(2).await {
        first.read_from(&topic_partition, 0).await;
    }
    let mut second = Member::join(world.settings(&[&topic]));
    let revoked = first
        .until("the revocation", |event| match event {
            BrokerEvent::Revoked(partitions) => Some(partitions),
            _ => None,
        })
        .await;
    let mock = world.mock.as_ref().unwrap();
    mock.fail_next(Request::Heartbeat, &[Failure::UnknownMember; 2]).unwrap();
    sleep(Duration::from_secs(3)).await;
    first.broker.ack_revocation(revoked);
    second.assigned(1).await;
    first.close().await;
    second.assigned(1).await;
    second.close().await;
}
