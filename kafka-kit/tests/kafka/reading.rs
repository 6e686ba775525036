//! Seeks, and what arrives.

use std::time::Duration;

use inbox_engine::internal::{Generation, LeaderEpoch, NextOffset, Offset};
use kafka_kit::internal::{Broker as _, BrokerEvent, Protocol};
use outbox_core::Record;

use crate::{
    member::Member,
    world::{World, numbered, topic_partition},
};

/// What was written arrives whole, in order, from the offset that was sought, and nothing before.
#[tokio::test]
async fn nothing_arrives_before_a_seek_and_everything_after_it() {
    for world in World::all() {
        let topic = world.topic(2).await;
        let first = topic_partition(&topic, 0);
        world.write(&topic, 0, 0..50).await;
        let mut member = Member::join(world.settings(&[&topic]));
        assert_eq!(
            member.assigned(2).await,
            [first.clone(), topic_partition(&topic, 1)],
            "{}",
            world.told()
        );
        world.write(&topic, 0, 50..60).await;
        assert!(member.within(Duration::from_millis(300)).await.is_none(), "{}", world.told());

        let generation = member.seek(&first, 10).await;
        assert!(member.within(Duration::from_millis(300)).await.is_none(), "paused until resumed");
        member.broker.pause(&first, false);
        let arrivals = member.arrivals(&first, generation, 50).await;
        for (arrival, number) in arrivals.iter().zip(10..) {
            assert_eq!(arrival.offset, Offset(i64::from(number)), "{}", world.told());
            assert_eq!(arrival.record, numbered(number));
            assert!(arrival.leader_epoch.known() || world.mock.is_some());
        }
        member.close().await;
    }
}

/// Null and empty are not the same, large records arrive, and the key may be missing (E8, E9).
#[tokio::test]
async fn null_empty_and_large_records_arrive_as_they_are() {
    for world in World::all() {
        let topic = world.topic(1).await;
        let topic_partition = topic_partition(&topic, 0);
        let mut records = vec![numbered(0); 4];
        records[0].payload = None;
        records[1].payload = Some(bytes::Bytes::new());
        records[1].key = None;
        records[2].payload = Some(vec![7; 700_000].into());
        records[3].headers.clear();
        for record in &records {
            world.producer.send_to(&topic, 0, record).await.unwrap();
        }
        let mut member = Member::join(world.settings(&[&topic]));
        member.assigned(1).await;
        let generation = member.read_from(&topic_partition, 0).await;
        let arrivals = member.arrivals(&topic_partition, generation, 4).await;
        let arrived: Vec<_> = arrivals.into_iter().map(|arrival| arrival.record).collect();
        assert_eq!(arrived, records, "{}", world.told());
        member.close().await;
    }
}

/// A pipeline that does not take what arrives, and so cannot pause either, is not flooded; what it then
/// takes is whole (C14).
#[tokio::test]
async fn what_nobody_takes_is_not_fetched_without_end() {
    const RECORDS: u32 = 60;
    const BYTES: usize = 500_000;
    // The mock keeps a few MB of a log only.
    for world in World::all().into_iter().filter(|world| world.mock.is_none()) {
        let topic = world.topic(1).await;
        let topic_partition = topic_partition(&topic, 0);
        for number in 0..RECORDS {
            let record = Record { payload: Some(vec![7; BYTES].into()), ..numbered(number) };
            world.producer.send_to(&topic, 0, &record).await.unwrap();
        }
        let mut member = Member::join(world.settings(&[&topic]));
        member.assigned(1).await;
        let generation = member.read_from(&topic_partition, 0).await;
        tokio::time::sleep(Duration::from_secs(2)).await;
        let ahead = member.waiting();
        assert!((1..=20).contains(&ahead), "{ahead} of {RECORDS} messages wait: {}", world.told());
        let arrivals = member.arrivals(&topic_partition, generation, RECORDS as usize).await;
        let offsets: Vec<i64> = arrivals.iter().map(|arrival| arrival.offset.0).collect();
        assert_eq!(offsets, (0..i64::from(RECORDS)).collect::<Vec<_>>(), "{}", world.told());
        member.close().await;
    }
}

/// After a seek the first arrival of its generation is the one that was asked for, whatever was
/// fetched before it (C10). Without `SeekConfirmed` older records arrive under the new generation.
#[tokio::test]
async fn a_seek_while_records_flow_begins_exactly_there() {
    for world in World::all() {
        let (mut member, topic_partition) = Member::of_one_partition(&world, 20_000).await;
        let generation = member.read_from(&topic_partition, 0).await;
        member.arrivals(&topic_partition, generation, 1).await;
        for from in [0, 7_000, 3, 15_000, 1] {
            let generation = member.read_from(&topic_partition, from).await;
            let arrivals = member.arrivals(&topic_partition, generation, 1).await;
            assert_eq!(arrivals[0].offset, Offset(from), "{}", world.told());
        }
        member.close().await;
    }
}

/// Asking for what the log does not hold is told and resets nothing (D3); a later seek reads again.
#[tokio::test]
async fn an_offset_beyond_the_log_is_gone_and_a_later_seek_reads_again() {
    for world in World::all() {
        let (mut member, topic_partition) = Member::of_one_partition(&world, 10).await;
        for _ in 0..2 {
            member.read_from(&topic_partition, 5_000).await;
            member
                .until("the offset being gone", |event| match event {
                    BrokerEvent::OffsetGone { partition, .. } => {
                        assert_eq!(partition, topic_partition);
                        Some(())
                    }
                    BrokerEvent::Arrived { .. } => panic!("reset to some other offset"),
                    _ => None,
                })
                .await;
            let generation = member.read_from(&topic_partition, 3).await;
            let arrivals = member.arrivals(&topic_partition, generation, 7).await;
            assert_eq!(arrivals[0].offset, Offset(3), "{}", world.told());
        }
        member.close().await;
    }
}

/// The end of a partition is told once it is reached, under the generation of the seek.
#[tokio::test]
async fn the_end_of_a_partition_is_told() {
    for world in World::all() {
        let (one, two) = (world.topic(1).await, world.topic(1).await);
        world.write(&one, 0, 0..10).await;
        world.write(&two, 0, 0..3).await;
        let mut member = Member::join(world.settings(&[&one, &two]));
        member.assigned(2).await;
        let first = member.read_from(&topic_partition(&one, 0), 0).await;
        let second = member.read_from(&topic_partition(&two, 0), 3).await;
        let mut ends = Vec::new();
        member
            .until("both ends", |event| {
                if let BrokerEvent::Position { partition, generation, position } = event {
                    ends.push((partition.topic.to_string(), generation, position));
                }
                (ends.len() == 2).then_some(())
            })
            .await;
        ends.sort_by_key(|(_, generation, _)| generation.0);
        let wanted = [(one, first, NextOffset(10)), (two, second, NextOffset(3))];
        assert_eq!(ends, wanted, "{}", world.told());
        member.close().await;
    }
}

/// A partition that is not ours cannot be sought, committed or confirmed (D5). Nor is its log asked for: where librdkafka
/// does not know a topic yet, two of its threads look for the leader at once, and the process may end.
#[tokio::test]
async fn a_foreign_partition_is_refused() {
    let world = World::mock(Protocol::Classic);
    let topic = world.topic(1).await;
    let mut member = Member::join(world.settings(&[&topic]));
    member.assigned(1).await;
    let foreign = topic_partition("elsewhere", 0);
    let (broker, unknown) = (&member.broker, LeaderEpoch::UNKNOWN);
    assert!(broker.seek(&foreign, Generation(1), NextOffset(0), unknown).await.is_err());
    assert!(broker.commit(vec![(foreign.clone(), NextOffset(3), unknown)]).await.is_err());
    let error = broker.log_range(&foreign).await.unwrap_err();
    assert!(error.0.contains("elsewhere/0 is not assigned"), "{error}");
    assert!(!broker.confirm(&foreign).await);
    assert!(broker.confirm(&topic_partition(&topic, 0)).await);
    member.close().await;
}

/// One partition that is not ours any more keeps no other from being committed.
#[tokio::test]
async fn a_foreign_partition_keeps_no_other_from_being_committed() {
    for world in World::all() {
        let topic = world.topic(1).await;
        let (own, foreign) = (topic_partition(&topic, 0), topic_partition("elsewhere", 0));
        let mut member = Member::join(world.settings(&[&topic]));
        member.assigned(1).await;
        member.read_from(&own, 0).await;
        let offsets = vec![
            (foreign.clone(), NextOffset(3), LeaderEpoch::UNKNOWN),
            (own.clone(), NextOffset(7), LeaderEpoch::UNKNOWN),
        ];
        let _ = member.broker.commit(offsets).await;
        let committed = member.broker.committed(&own).await.unwrap();
        assert_eq!(committed.map(|it| it.next), Some(NextOffset(7)), "{}", world.told());
        member.close().await;
    }
}
