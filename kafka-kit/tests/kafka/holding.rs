//! Holding a partition back, for a moment and for longer.

use std::time::{Duration, Instant};

use inbox_engine::internal::Offset;
use kafka_kit::internal::{Broker as _, BrokerEvent, Protocol};
use outbox_core::TopicPartition;

use crate::{
    member::Member,
    world::{World, topic_partition},
};

/// A hold that lasts longer becomes a pause (`hold::HOLD_MAX`).
const HOLD_MAX: Duration = Duration::from_secs(1);
/// Nothing more arrives when nothing has for so long.
const QUIET: Duration = Duration::from_millis(700);

/// What was fetched of a partition that is held for a moment is still there when it goes on, though the
/// broker is not. A pause would have thrown it away.
#[tokio::test]
async fn a_short_hold_keeps_what_was_fetched() {
    const TRIES: u32 = 6;
    for protocol in [Protocol::Classic, Protocol::Consumer] {
        let world = World::mock(protocol);
        let mock = world.mock.as_ref().unwrap();
        let (mut member, topic_partition) = Member::of_one_partition(&world, 0).await;
        let mut kept = false;
        for number in 0..TRIES {
            let from = number * 100;
            let generation = member.read_from(&topic_partition, i64::from(from)).await;
            // Until the end was told the partition may not be fetched yet.
            member
                .until("the end", |e| {
                    matches!(e, BrokerEvent::Position { generation: of, .. } if of == generation)
                        .then_some(())
                })
                .await;
            hold(&member, &topic_partition).await;
            world.write(&topic_partition.topic, 0, from..from + 100).await;
            tokio::time::sleep(Duration::from_millis(300)).await;
            mock.down(1).unwrap();
            member.broker.pause(&topic_partition, false);
            let mut arrived = 0;
            // Trouble with the broker goes on meanwhile.
            let mut end = Instant::now() + QUIET;
            while let Some(event) = member.within(end - Instant::now().min(end)).await {
                if let BrokerEvent::Arrived { arrivals, .. } = event {
                    arrived += arrivals.len();
                    end = Instant::now() + QUIET;
                }
            }
            mock.up(1).unwrap();
            kept = arrived == 100;
            // A machine that was busy elsewhere says nothing about us.
            if kept {
                break;
            }
        }
        assert!(kept, "nothing that was fetched was kept");
        member.close().await;
    }
}

/// A partition that was held is read again after it was given away and came back: librdkafka itself leads
/// a queue nowhere that was once forwarded by hand.
#[tokio::test]
async fn a_held_partition_that_was_given_away_is_read_again() {
    for world in World::all() {
        let topic = world.topic(2).await;
        let partitions = [topic_partition(&topic, 0), topic_partition(&topic, 1)];
        for partition in [0, 1] {
            world.write(&topic, partition, 0..5_000).await;
        }
        let mut first = Member::join(world.settings(&[&topic]));
        first.assigned(2).await;
        for topic_partition in &partitions {
            let generation = first.read_from(topic_partition, 0).await;
            first.arrivals(topic_partition, generation, 1).await;
        }
        let mut second = Member::join(world.settings(&[&topic]));
        let away = loop {
            // Not for so long that it becomes a pause.
            for topic_partition in &partitions {
                first.broker.pause(topic_partition, false);
                first.broker.pause(topic_partition, true);
            }
            let end = Instant::now() + HOLD_MAX / 3;
            let mut revoked = None;
            while let Some(event) =
                first.within(end.saturating_duration_since(Instant::now())).await
            {
                if let BrokerEvent::Revoked(partitions) = event {
                    revoked = Some(partitions);
                    break;
                }
            }
            if let Some(partitions) = revoked {
                first.broker.ack_revocation(partitions.clone());
                break partitions;
            }
        };
        second.assigned(away.len()).await;
        second.close().await;
        assert_eq!(first.assigned(away.len()).await, away, "{}", world.told());
        for topic_partition in &partitions {
            let generation = first.read_from(topic_partition, 7).await;
            let arrivals = first.arrivals(topic_partition, generation, 2_000).await;
            assert_eq!(arrivals[0].offset, Offset(7), "{}", world.told());
        }
        first.close().await;
    }
}

/// A seek in a partition that is held begins exactly where it was asked to, and what had been fetched
/// before does not arrive.
#[tokio::test]
async fn a_seek_in_a_held_partition_begins_exactly_there() {
    for world in World::all() {
        let (mut member, topic_partition) = Member::of_one_partition(&world, 20_000).await;
        let generation = member.read_from(&topic_partition, 0).await;
        member.arrivals(&topic_partition, generation, 1).await;
        for from in [0, 7_000, 3, 15_000, 1] {
            hold(&member, &topic_partition).await;
            let generation = member.read_from(&topic_partition, from).await;
            let arrivals = member.arrivals(&topic_partition, generation, 1).await;
            assert_eq!(arrivals[0].offset, Offset(from), "{}", world.told());
        }
        // librdkafka stops a partition whose offset is gone, and starts it anew.
        hold(&member, &topic_partition).await;
        member.read_from(&topic_partition, 500_000).await;
        let gone = |event| matches!(event, BrokerEvent::OffsetGone { .. }).then_some(());
        member.until("the offset being gone", gone).await;
        let generation = member.read_from(&topic_partition, 5).await;
        assert_eq!(member.arrivals(&topic_partition, generation, 1).await[0].offset, Offset(5));
        // What waits in a held partition does not keep the client from ending.
        hold(&member, &topic_partition).await;
        tokio::time::sleep(Duration::from_millis(300)).await;
        member.close().await;
    }
}

/// More partitions than are held back without a pause: each goes on where it was.
#[tokio::test]
async fn many_held_partitions_go_on_without_a_gap() {
    const PARTITIONS: u16 = 40;
    let world = World::mock(Protocol::Classic);
    let topic = world.topic(PARTITIONS).await;
    for partition in 0..i32::from(PARTITIONS) {
        world.write(&topic, partition, 0..200).await;
    }
    let mut member = Member::join(world.settings(&[&topic]));
    let partitions = member.assigned(usize::from(PARTITIONS)).await;
    for topic_partition in &partitions {
        member.read_from(topic_partition, 0).await;
        member.broker.pause(topic_partition, true);
    }
    let mut next = vec![0; usize::from(PARTITIONS)];
    for topic_partition in &partitions {
        member.broker.pause(topic_partition, false);
    }
    member
        .until("all records", |event| {
            if let BrokerEvent::Arrived { partition, arrivals, .. } = event {
                let next = &mut next[usize::try_from(partition.partition).unwrap()];
                for arrival in arrivals {
                    assert_eq!(arrival.offset.0, *next, "partition {}", partition.partition);
                    *next += 1;
                }
            }
            next.iter().all(|next| *next == 200).then_some(())
        })
        .await;
    member.close().await;
}

/// Whether what was fetched is kept or thrown away: nothing is left out or given twice (C14).
#[tokio::test]
async fn pauses_leave_no_gap_and_repeat_nothing() {
    for world in World::all() {
        let (mut member, topic_partition) = Member::of_one_partition(&world, 20_000).await;
        let generation = member.read_from(&topic_partition, 0).await;
        let mut next = 0;
        let mut rounds = 0;
        while next < 20_000 {
            for arrival in member.arrivals(&topic_partition, generation, 1).await {
                assert_eq!(arrival.offset.0, next, "{}", world.told());
                next += 1;
            }
            rounds += 1;
            if rounds % 3 == 0 {
                member.broker.pause(&topic_partition, true);
                // Going on twice, or while it goes on, changes nothing.
                member.broker.pause(&topic_partition, false);
                member.broker.pause(&topic_partition, false);
            }
        }
        member.close().await;
    }
}

/// What goes on after a pause is read at once. While nothing else is fetched, the client's thread of the broker
/// would look for it once a second only: a consumer with a backlog read 45,000 events a second for that.
#[tokio::test]
async fn what_goes_on_is_read_at_once() {
    const CYCLES: u32 = 3;
    for world in World::all() {
        let (mut member, topic_partition) = Member::of_one_partition(&world, 60_000).await;
        let generation = member.read_from(&topic_partition, 0).await;
        let mut waited = Duration::ZERO;
        for _ in 0..CYCLES {
            member.arrivals(&topic_partition, generation, 1).await;
            member.broker.pause(&topic_partition, true);
            // What is under way arrives, the hold becomes a pause, and the client has nothing more to do.
            while member.within(HOLD_MAX + Duration::from_millis(300)).await.is_some() {}
            member.broker.pause(&topic_partition, false);
            let began = Instant::now();
            member.arrivals(&topic_partition, generation, 1).await;
            waited += began.elapsed();
        }
        // Half a second each without it, on the average; thousandths with it.
        assert!(waited < CYCLES * Duration::from_millis(250), "{waited:?}, {}", world.told());
        member.close().await;
    }
}

/// Nothing arrives while a partition is paused, but for what was under way.
#[tokio::test]
async fn a_paused_partition_is_silent_and_the_others_are_not() {
    for world in World::all() {
        let topic = world.topic(2).await;
        let (held, other) = (topic_partition(&topic, 0), topic_partition(&topic, 1));
        let mut member = Member::join(world.settings(&[&topic]));
        member.assigned(2).await;
        member.read_from(&held, 0).await;
        let generation = member.read_from(&other, 0).await;
        hold(&member, &held).await;
        world.write(&topic, 0, 0..100).await;
        world.write(&topic, 1, 0..100).await;
        let arrivals = member.until("the other's records", |event| match event {
            BrokerEvent::Arrived { partition, .. } if partition == held => {
                panic!("the paused partition is not silent")
            }
            BrokerEvent::Arrived { generation: of, arrivals, .. } if of == generation => {
                Some(arrivals)
            }
            _ => None,
        });
        assert_eq!(arrivals.await[0].offset, Offset(0));
        member.close().await;
    }
}

/// Held when this returns.
async fn hold(member: &Member, topic_partition: &TopicPartition) {
    member.broker.pause(topic_partition, true);
    assert!(member.broker.confirm(topic_partition).await);
}

/// A pause that the client refuses is tried again: the pipeline believes that nothing arrives any more.
#[tokio::test]
async fn a_refused_pause_is_tried_again() {
    for world in World::all() {
        let (mut member, topic_partition) = Member::of_one_partition(&world, 10).await;
        let generation = member.read_from(&topic_partition, 0).await;
        member.arrivals(&topic_partition, generation, 10).await;
        hold(&member, &topic_partition).await;
        // The hold becomes a pause, which is refused at first.
        member.broker.refuse_pauses(3);
        tokio::time::sleep(HOLD_MAX + Duration::from_millis(500)).await;
        world.write(&topic_partition.topic, 0, 10..20).await;
        let mut arrived = 0;
        while let Some(event) = member.within(Duration::from_secs(2)).await {
            if let BrokerEvent::Arrived { arrivals, .. } = event {
                arrived += arrivals.len();
            }
        }
        assert_eq!(arrived, 0, "{}: it was to be held", world.told());
        member.broker.pause(&topic_partition, false);
        member.arrivals(&topic_partition, generation, 10).await;
        // A seek waits for its pause: what arrived before its confirmation was heard would be lost.
        member.broker.refuse_pauses(3);
        let generation = member.read_from(&topic_partition, 0).await;
        let all = member.arrivals(&topic_partition, generation, 20).await;
        assert_eq!(all[0].offset, Offset(0), "{}", world.told());
        member.close().await;
    }
}
