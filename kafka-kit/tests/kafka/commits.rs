//! Offsets committed, and read back.

use std::time::Duration;

use inbox_engine::internal::{LeaderEpoch, LogRange, NextOffset};
use kafka_kit::{
    internal::{Broker as _, BrokerEvent, Committed, Protocol},
    testing::{Failure, Request},
};
use outbox_core::internal::CommitMark;

use crate::{
    member::Member,
    world::{World, topic_partition},
};

/// What is committed is what is read back: the next offset, neither one more nor one less (D1).
#[tokio::test]
async fn a_committed_offset_is_read_back_as_it_was() {
    for world in World::all() {
        let topic = world.topic(2).await;
        let (one, two) = (topic_partition(&topic, 0), topic_partition(&topic, 1));
        world.write(&topic, 0, 0..20).await;
        let mut member = Member::join(world.settings(&[&topic]));
        member.assigned(2).await;
        member.read_from(&one, 0).await;
        member.read_from(&two, 0).await;
        let broker = &member.broker;
        assert_eq!(member.committed(&one).await, None, "{}", world.told());
        for next in [0, 1, 13, 20] {
            let offsets = vec![
                (one.clone(), NextOffset(next), LeaderEpoch(0)),
                (two.clone(), NextOffset(0), LeaderEpoch::UNKNOWN),
            ];
            broker.commit(offsets).await.unwrap();
            let committed = member.committed(&one).await;
            assert_eq!(committed, Some(NextOffset(next)), "{}", world.told());
        }
        assert_eq!(member.committed(&two).await, Some(NextOffset(0)));
        let range = broker.log_range(&one).await.unwrap();
        assert_eq!(range, LogRange { start: NextOffset(0), end: NextOffset(20) });
        member.close().await;
    }
}

/// Finding 26: every commit says whose it is, and the mark comes back with the offset; what somebody else has
/// committed has none.
#[tokio::test]
async fn a_commit_says_whose_it_is() {
    for world in World::all() {
        let (mut member, topic_partition) = Member::of_one_partition(&world, 3).await;
        member.read_from(&topic_partition, 0).await;
        let mark =
            CommitMark { inbox_id: uuid::Uuid::from_bytes([7; 16]), consumer: "a name".into() };
        for (next, wanted) in [(1, None), (2, Some(mark.clone()))] {
            if wanted.is_some() {
                member.broker.mark(&mark);
            }
            let commit = vec![(topic_partition.clone(), NextOffset(next), LeaderEpoch::UNKNOWN)];
            member.broker.commit(commit).await.unwrap();
            let committed = member.broker.committed(&topic_partition).await.unwrap();
            let wanted = Committed { next: NextOffset(next), mark: wanted };
            assert_eq!(committed, Some(wanted), "{}", world.told());
        }
        member.close().await;
    }
}

/// A commit that fails is told, harms nothing, and can be repeated (D7, D14).
#[tokio::test]
async fn a_failed_commit_is_told_and_harms_nothing() {
    let world = World::mock(Protocol::Classic);
    let topic = world.topic(1).await;
    let topic_partition = topic_partition(&topic, 0);
    let mut member = Member::join(world.settings(&[&topic]));
    member.assigned(1).await;
    member.read_from(&topic_partition, 0).await;
    let commit = |next| {
        member.broker.commit(vec![(
            topic_partition.clone(),
            NextOffset(next),
            LeaderEpoch::UNKNOWN,
        )])
    };
    let mock = world.mock.as_ref().unwrap();
    mock.fail_next(Request::OffsetCommit, &[Failure::RebalanceInProgress]).unwrap();
    assert!(commit(1).await.is_err());
    assert!(member.broker.confirm(&topic_partition).await, "the partition stays");
    for passing in [Failure::CoordinatorLoading, Failure::NotCoordinator, Failure::Transport] {
        mock.fail_next(Request::OffsetCommit, &[passing]).unwrap();
        commit(2).await.unwrap();
    }
    assert_eq!(member.committed(&topic_partition).await, Some(NextOffset(2)));
    member.close().await;
}

/// A commit of an older generation loses the assignment, which comes back (D7).
#[tokio::test]
async fn an_illegal_generation_is_a_loss_that_heals() {
    let world = World::mock(Protocol::Classic);
    let topic = world.topic(1).await;
    let topic_partition = topic_partition(&topic, 0);
    let mut member = Member::join(world.settings(&[&topic]));
    member.assigned(1).await;
    member.read_from(&topic_partition, 0).await;
    let mock = world.mock.as_ref().unwrap();
    mock.fail_next(Request::OffsetCommit, &[Failure::IllegalGeneration]).unwrap();
    let offsets = vec![(topic_partition.clone(), NextOffset(1), LeaderEpoch::UNKNOWN)];
    assert!(member.broker.commit(offsets).await.is_err());
    member
        .until("the loss", |event| match event {
            BrokerEvent::Lost(partitions) => {
                assert_eq!(partitions, std::slice::from_ref(&topic_partition));
                Some(())
            }
            _ => None,
        })
        .await;
    member.assigned(1).await;
    member.close().await;
}

/// The other process with this instance id wins: the client is dead, and says why (D13).
#[tokio::test]
async fn a_fenced_member_is_dead_and_says_why() {
    let world = World::mock(Protocol::Classic);
    let topic = world.topic(1).await;
    let mut settings = world.settings(&[&topic]);
    settings.instance_id = Some("one".into());
    let mut member = Member::join(settings);
    member.assigned(1).await;
    let topic_partition = topic_partition(&topic, 0);
    member.read_from(&topic_partition, 0).await;
    let mock = world.mock.as_ref().unwrap();
    mock.fail_next(Request::OffsetCommit, &[Failure::FencedInstance]).unwrap();
    let offsets = vec![(topic_partition, NextOffset(1), LeaderEpoch::UNKNOWN)];
    assert!(member.broker.commit(offsets).await.is_err());
    let why = member
        .until("the end", |event| match event {
            BrokerEvent::Fatal(why) => Some(why),
            _ => None,
        })
        .await;
    assert!(why.contains("instance id"), "{why}");
    member.broker.close(Duration::from_secs(10)).await.unwrap();
}
