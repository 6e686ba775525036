//! Take-over: the epoch, the start, the resume, and why a partition may stand still.

use std::{collections::HashSet, time::Duration};

use inbox_engine::internal::{LeaderEpoch, LogPoint, LogRange, NextOffset, Standstill, Start};
use outbox_core::internal::CommitMark;
use uuid::Uuid;

use super::{
    Probe,
    scene::{Scene, claim_of, claim_on, moved, request, step, watermark},
};
use inbox_store::internal::port::{Corrected, Correction, Note, StoreFault, TakeOverError};

/// The new epoch stands in every lane and in the partition; its generation is one more.
pub async fn a_take_over_raises_every_epoch<DB: Probe>(settings: DB::Settings) {
    let mut scene = Scene::<DB>::new(settings, "take-over").await;
    let first = scene.take_over().await;
    assert_eq!(first.lanes.count, super::scene::LANES);
    assert_eq!(first.ownership.lanes.len(), usize::from(first.lanes.count));
    scene.request.owner.incarnation = Uuid::now_v7();
    let second = scene.take_over().await;
    assert_eq!(second.scope.partition_ref, first.scope.partition_ref);
    assert_eq!(second.scope.epoch.0 >> 20, (first.scope.epoch.0 >> 20) + 1);
    let (partition, epoch) = (second.scope.partition_ref, second.scope.epoch.0);
    let sql = format!(
        "SELECT (SELECT count(*) FROM inbox_lanes WHERE partition_ref = {partition} AND epoch = {epoch}) \
         + (SELECT count(*) FROM inbox_partitions WHERE partition_ref = {partition} AND epoch = {epoch})"
    );
    assert_eq!(scene.number(&sql).await, i64::from(second.lanes.count) + 1);
}

/// Finding 16: a resync is a take-over of one's own partition (rule `ResyncRaisesEpoch`).
pub async fn a_resync_raises_the_epoch_too<DB: Probe>(settings: DB::Settings) {
    let mut scene = Scene::<DB>::new(settings, "take-over-resync").await;
    let before = scene.take_over().await.scope;
    let after = scene.take_over().await.scope;
    assert!(after.epoch > before.epoch);
    let lanes = [step(0, -1, 4)];
    let claimed = scene.claim(&before, &claim_of(&[(1, 4)], &lanes)).await;
    assert_eq!(moved(DB::advance(&mut scene.session, &before, &claimed.tx, &lanes, None).await), 0);
    scene.rollback().await;
}

/// Finding 17: after a failover the same generation is taken again, under another epoch (rule
/// `UniqueEpochs`).
pub async fn an_epoch_is_never_issued_twice<DB: Probe>(settings: DB::Settings) {
    let mut scene = Scene::<DB>::new(settings, "take-over-unique").await;
    let first = scene.take_over().await.scope;
    let mut epochs = HashSet::new();
    for _ in 0..5 {
        let (partition, epoch) = (first.partition_ref, first.epoch.0);
        let back = format!(
            "UPDATE inbox_partitions SET epoch = {epoch} WHERE partition_ref = {partition}"
        );
        scene.run(&back).await;
        epochs.insert(scene.take_over().await.scope.epoch.0);
    }
    // Five random numbers of 20 bits: all equal once in 10^24 times.
    assert!(epochs.len() > 1, "every take-over after the failover issued the same epoch");
}

/// Finding 11: where a consumer without history starts.
pub async fn the_first_start_follows_the_configuration<DB: Probe>(settings: DB::Settings) {
    let mut scene = Scene::<DB>::new(settings, "first-start").await;
    scene.request.log = LogRange { start: NextOffset(10), end: NextOffset(90) };
    let table = [
        (Start::Earliest, None, Some(10)),
        (Start::Latest, None, Some(90)),
        (Start::Error, None, None),
        (Start::Error, Some(50), Some(50)),
        (Start::Latest, Some(50), Some(50)),
        (Start::Earliest, Some(5), Some(10)),
    ];
    for (place, (start, committed, expected)) in table.into_iter().enumerate() {
        scene.request.consumer = format!("first-start-{place}");
        scene.request.start = start;
        scene.request.committed = committed.map(NextOffset);
        let Some(expected) = expected else {
            assert!(matches!(scene.stand_still().await, Standstill::StartUndecided(_)));
            continue;
        };
        let ownership = scene.take_over().await.ownership;
        assert_eq!((ownership.watermark.0, ownership.resume.0), (expected, expected), "{start:?}");
        assert!(ownership.lanes.iter().all(|lane| lane.last.0 == expected - 1));
    }
}

/// Finding 11: `start = "latest"` is for the first start only. Partitions are taken over one after the other, and
/// those that the topic had then all start at the end, however late; one that was added since does not, however soon.
pub async fn a_partition_added_later_begins_at_its_beginning<DB: Probe>(settings: DB::Settings) {
    let mut scene = Scene::<DB>::new(settings, "first-start-later").await;
    scene.request.start = Start::Latest;
    scene.request.log = LogRange { start: NextOffset(10), end: NextOffset(90) };
    scene.request.partitions = Some(2);
    let first = scene.take_over().await;
    assert_eq!(first.ownership.watermark.0, 90);
    scene.request.partitions = Some(5);
    scene.request.partition.partition = 2;
    assert_eq!(scene.take_over().await.ownership.watermark.0, 10);
    let (consumer, long_ago) = (first.scope.consumer_ref, DB::LONG_AGO);
    let set =
        |what: &str| format!("UPDATE inbox_partitions SET {what} WHERE consumer_ref = {consumer}");
    scene.run(&set(&format!("created_at = {long_ago}"))).await;
    scene.request.partition.partition = 1;
    assert_eq!(scene.take_over().await.ownership.watermark.0, 90);
    // As a build before the column left them: the highest number tells what the topic had at least.
    scene.run(&set("partitions_at_start = NULL")).await;
    for later in [3, 4] {
        scene.request.partition.partition = later;
        assert_eq!(scene.take_over().await.ownership.watermark.0, 10, "partition {later}");
    }
}

/// Finding 11: a crash before the first event does not move the start (rule `StartIsWritten`).
pub async fn a_start_is_written_before_the_first_delivery<DB: Probe>(settings: DB::Settings) {
    let mut scene = Scene::<DB>::new(settings, "first-start-written").await;
    scene.request.start = Start::Latest;
    assert_eq!(scene.take_over().await.ownership.resume.0, 1_000);
    scene.request.log.end = NextOffset(2_000);
    scene.request.owner.incarnation = Uuid::now_v7();
    assert_eq!(scene.take_over().await.ownership.resume.0, 1_000);
}

/// Resume at the smaller of Kafka's offset and the watermark, with the last record's leader epoch.
pub async fn reading_goes_on_at_the_smaller_offset<DB: Probe>(settings: DB::Settings) {
    let mut scene = Scene::<DB>::new(settings, "resume").await;
    let scope = scene.take_over().await.scope;
    scene.settle(&scope, &claim_of(&[(1, 41)], &[step(0, -1, 41)])).await;
    assert!(scene.watermark(&scope, &watermark(0, 42, &[41, -1, -1, -1])).await);
    for (committed, resume, leader_epoch) in [(None, 42, 3), (Some(90), 42, 3), (Some(20), 20, 3)] {
        scene.request.committed = committed.map(NextOffset);
        let ownership = scene.take_over().await.ownership;
        assert_eq!(ownership.watermark.0, 42);
        assert_eq!(ownership.resume.0, resume, "{committed:?}");
        assert_eq!(ownership.resume_leader_epoch.0, leader_epoch, "{committed:?}");
    }
}

/// Finding 23: behind a transaction marker the watermark has no leader epoch; the last record below it has
/// one, and both are given back. A skip forgets it. A build before the columns writes only the watermark's.
pub async fn the_last_record_is_kept_beside_the_watermark<DB: Probe>(settings: DB::Settings) {
    let mut scene = Scene::<DB>::new(settings, "last-record").await;
    let taken = scene.take_over().await;
    assert_eq!(taken.ownership.record, LogPoint::UNKNOWN);
    let scope = taken.scope;
    scene.settle(&scope, &claim_of(&[(1, 41)], &[step(0, -1, 41)])).await;
    let mut change = watermark(0, 50, &[41, -1, -1, -1]);
    let record = LogPoint { next: NextOffset(42), leader_epoch: LeaderEpoch(3) };
    (change.leader_epoch, change.record) = (LeaderEpoch::UNKNOWN, record);
    assert!(scene.watermark(&scope, &change).await);
    let taken = scene.take_over().await.ownership;
    assert_eq!((taken.watermark.0, taken.record), (50, record));
    assert_eq!((taken.resume.0, taken.resume_leader_epoch.0), (42, 3));
    let partition = scope.partition_ref;
    let older = format!(
        "UPDATE inbox_partitions SET watermark = 60, watermark_leader_epoch = 4 WHERE partition_ref = {partition}"
    );
    scene.run(&older).await;
    let taken = scene.take_over().await;
    assert_eq!((taken.ownership.resume.0, taken.ownership.resume_leader_epoch.0), (60, 4));
    let (who, why) = ("anna".to_owned(), "gone".to_owned());
    let skip = Correction { partition_ref: partition, who, why, force: true };
    let done = DB::skip(&mut scene.session, &skip, NextOffset(70)).await;
    assert_eq!(done.expect("the skip failed"), Corrected::Done);
    let taken = scene.take_over().await.ownership;
    assert_eq!((taken.resume.0, taken.record), (70, LogPoint::UNKNOWN));
}

/// Finding 23: a log that was seen to end below the watermark, and of which no record is known, stays
/// suspect however far it grows; a skip to where it stands ends that. Where a record is known, the client
/// validates it, and the next step of the watermark says that it did.
pub async fn a_log_that_ended_below_the_watermark_is_remembered<DB: Probe>(settings: DB::Settings) {
    let mut scene = Scene::<DB>::new(settings, "log-ended").await;
    let scope = scene.take_over().await.scope;
    scene.settle(&scope, &claim_of(&[(1, 41)], &[step(0, -1, 41)])).await;
    let mut change = watermark(0, 42, &[41, -1, -1, -1]);
    assert!(scene.watermark(&scope, &change).await);
    let partition = scope.partition_ref;
    let seen = format!(
        "SELECT coalesce(log_end_seen, -1) FROM inbox_partitions WHERE partition_ref = {partition}"
    );
    for (end, lowest) in [(30, 30), (20, 20), (25, 20)] {
        scene.request.log.end = NextOffset(end);
        assert!(matches!(scene.stand_still().await, Standstill::LogEndsBelow(_)));
        assert_eq!(scene.number(&seen).await, lowest);
    }
    scene.request.log.end = NextOffset(90);
    let scope = scene.take_over().await.scope;
    change.old = NextOffset(42);
    assert!(scene.watermark(&scope, &change).await, "the idle check");
    assert_eq!(scene.number(&seen).await, 20, "nothing was read yet");
    let forget = "SET watermark_leader_epoch = -1, record_next = -1, record_leader_epoch = -1";
    scene.run(&format!("UPDATE inbox_partitions {forget} WHERE partition_ref = {partition}")).await;
    assert!(matches!(scene.stand_still().await, Standstill::LogEndedBelow(_)));
    let (who, why) = ("anna".to_owned(), "looked".to_owned());
    let skip = Correction { partition_ref: partition, who, why, force: true };
    let done = DB::skip(&mut scene.session, &skip, NextOffset(42)).await;
    assert_eq!(done.expect("the skip failed"), Corrected::Done);
    assert_eq!(scene.number(&seen).await, -1);
    let scope = scene.take_over().await.scope;
    scene
        .run(&format!(
            "UPDATE inbox_partitions SET log_end_seen = 7 WHERE partition_ref = {partition}"
        ))
        .await;
    change.new = NextOffset(43);
    assert!(scene.watermark(&scope, &change).await);
    assert_eq!(scene.number(&seen).await, -1, "what was read behind it was validated");
}

/// Finding 26: an offset that this consumer itself has committed, and no row: the database has lost its
/// history. Somebody else's offset is where it begins.
pub async fn an_own_offset_without_a_row_stands_still<DB: Probe>(settings: DB::Settings) {
    let mut scene = Scene::<DB>::new(settings, "own-offset").await;
    let inbox_id = scene.take_over().await.inbox_id;
    scene.request.committed = Some(NextOffset(40));
    for (number, inbox_id, part) in
        [(1, inbox_id, "its rows are lost"), (2, Uuid::from_bytes([9; 16]), "a different one")]
    {
        scene.request.partition.partition = number;
        scene.request.mark = Some(CommitMark { inbox_id, consumer: "own-offset".into() });
        let text = match scene.stand_still().await {
            Standstill::HistoryLost(text) => text,
            other => panic!("{other}"),
        };
        assert!(text.contains(part), "{text}");
    }
    assert_eq!(scene.take_over_of(0).await.inbox_id, inbox_id, "a row that is there counts");
    for (number, mark) in [(3, None), (4, Some(CommitMark { inbox_id, consumer: "other".into() }))]
    {
        scene.request.mark = mark;
        assert_eq!(scene.take_over_of(number).await.ownership.watermark.0, 40, "{number}");
    }
}

/// E4: records between the watermark and the log's beginning are gone: a person decides.
pub async fn a_log_that_begins_above_the_watermark_stands_still<DB: Probe>(settings: DB::Settings) {
    let mut scene = Scene::<DB>::new(settings, "log-above").await;
    let scope = scene.take_over().await.scope;
    scene.request.log.start = NextOffset(7);
    assert!(matches!(scene.stand_still().await, Standstill::LogStartsAbove(_)));
    let rows = DB::partitions(&mut scene.session, "log-above").await.expect("partitions");
    assert_eq!(rows[0].epoch, scope.epoch.0, "a partition that stands still keeps its epoch");
    let said = rows[0].standstill.clone().unwrap_or_default();
    assert!(said.starts_with("log_starts_above"), "{said}");
    scene.request.log.start = NextOffset(0);
    let scope = scene.take_over().await.scope;
    let rows = DB::partitions(&mut scene.session, "log-above").await.expect("partitions");
    assert_eq!(rows[0].standstill, None, "it moves again");
    DB::write_notes(&mut scene.session, Note::Standstill, &[(scope, Some("rewritten: x".into()))])
        .await
        .expect("write");
    let rows = DB::partitions(&mut scene.session, "log-above").await.expect("partitions");
    assert_eq!(rows[0].standstill.as_deref(), Some("rewritten: x"));
}

/// E4: a log that ends below the watermark has lost what was handled: it is asked again, by name, and
/// nothing changes until it has caught up.
pub async fn a_log_that_ends_below_the_watermark_stands_still<DB: Probe>(settings: DB::Settings) {
    let mut scene = Scene::<DB>::new(settings, "log-below").await;
    let scope = scene.take_over().await.scope;
    scene.settle(&scope, &claim_of(&[(1, 41)], &[step(0, -1, 41)])).await;
    assert!(scene.watermark(&scope, &watermark(0, 42, &[41, -1, -1, -1])).await);
    scene.request.log.end = NextOffset(41);
    assert!(matches!(scene.stand_still().await, Standstill::LogEndsBelow(_)));
    let rows = DB::partitions(&mut scene.session, "log-below").await.expect("partitions");
    assert_eq!(rows[0].epoch, scope.epoch.0, "a partition that stands still keeps its epoch");
    scene.request.log.end = NextOffset(42);
    assert_eq!(scene.take_over().await.ownership.resume.0, 42);
}

/// E3: a topic under another id has other records at the same offsets.
pub async fn a_recreated_topic_stands_still<DB: Probe>(settings: DB::Settings) {
    let mut scene = Scene::<DB>::new(settings, "recreated").await;
    let scope = scene.take_over().await.scope;
    scene.settle(&scope, &claim_of(&[(1, 41)], &[step(0, -1, 41)])).await;
    scene.request.topic_id = [8; 16];
    assert!(matches!(scene.stand_still().await, Standstill::TopicRecreated(_)));
    let (partition, now) = (scope.partition_ref, DB::LONG_AGO);
    scene
        .run(&format!(
            "UPDATE inbox_partitions SET retired_at = {now} WHERE partition_ref = {partition}"
        ))
        .await;
    let fresh = scene.take_over().await;
    assert_ne!(fresh.scope.partition_ref, scope.partition_ref);
    assert_eq!(fresh.ownership.watermark.0, 0);
}

/// A topic that was stored without an id is the same topic once the broker tells it, and a broker
/// that does not tell it any more changes nothing.
pub async fn a_topic_id_is_adopted_once_known<DB: Probe>(settings: DB::Settings) {
    let mut scene = Scene::<DB>::new(settings, "topic-id").await;
    scene.request.topic_id = [0; 16];
    let unknown = scene.take_over().await.scope.partition_ref;
    for topic_id in [[7; 16], [0; 16], [7; 16]] {
        scene.request.topic_id = topic_id;
        assert_eq!(scene.take_over().await.scope.partition_ref, unknown);
    }
    scene.request.topic_id = [8; 16];
    assert!(matches!(scene.stand_still().await, Standstill::TopicRecreated(_)));
}

/// Finding 17: two live processes with one static instance id are named, not raced.
pub async fn another_live_process_with_my_instance_id_stands_still<DB: Probe>(
    settings: DB::Settings,
) {
    let mut scene = Scene::<DB>::new(settings, "foreign-owner").await;
    scene.request.owner.instance_id = Some("shop-1".into());
    let scope = scene.take_over().await.scope;
    scene.take_over().await;
    scene.request.owner.incarnation = Uuid::now_v7();
    assert!(matches!(scene.stand_still().await, Standstill::ForeignOwner(_)));
    scene.request.owner.instance_id = Some("shop-2".into());
    scene.take_over().await;
    scene.request.owner.instance_id = None;
    scene.request.owner.incarnation = Uuid::now_v7();
    scene.take_over().await;
    scene.request.owner.instance_id = Some("shop-1".into());
    scene.take_over().await;
    let (partition, long_ago) = (scope.partition_ref, DB::LONG_AGO);
    scene
        .run(&format!(
            "UPDATE inbox_partitions SET owner_seen = {long_ago} WHERE partition_ref = {partition}"
        ))
        .await;
    scene.request.owner.incarnation = Uuid::now_v7();
    scene.take_over().await;
}

/// C9: a take-over waits for the old owner's advance, or the old owner's advance fails: the new one
/// reads every lane as it will stay.
pub async fn a_paused_owner_cannot_commit<DB: Probe>(settings: DB::Settings) {
    let mut scene = Scene::<DB>::new(settings, "zombie").await;
    for advanced_before in [false, true] {
        let taken = scene.take_over().await;
        let old = taken.scope;
        let [prev_0, prev_1] = [0, 1].map(|lane| taken.ownership.lanes[lane].last.0);
        let lanes = [step(0, prev_0, prev_0 + 5), step(1, prev_1, prev_1 + 5)];
        let mut zombie = scene.session().await;
        let claimed = claim_on::<DB>(&mut zombie, &old, &claim_of(&[], &lanes)).await;
        let mut moved_by_zombie = 0;
        if advanced_before {
            moved_by_zombie =
                moved(DB::advance(&mut zombie, &old, &claimed.tx, &lanes, None).await);
        }
        let zombie = tokio::spawn(async move {
            tokio::time::sleep(Duration::from_millis(300)).await;
            if !advanced_before {
                moved_by_zombie =
                    moved(DB::advance(&mut zombie, &old, &claimed.tx, &lanes, None).await);
            }
            if moved_by_zombie == 2 {
                DB::commit(&mut zombie).await.expect("commit");
            } else {
                DB::rollback(&mut zombie).await.expect("rollback");
            }
            moved_by_zombie == 2
        });
        let taken = scene.take_over().await;
        let committed = zombie.await.expect("the zombie panicked");
        let read: Vec<_> = taken.ownership.lanes.iter().map(|lane| lane.last.0).collect();
        let there = [scene.last(&old, 0).await, scene.last(&old, 1).await];
        assert_eq!(read[..2], there, "a lane moved after it was taken over");
        assert_eq!(committed, there == [prev_0 + 5, prev_1 + 5]);
    }
}

/// B15: a lock that another session holds makes the take-over a conflict, soon.
pub async fn a_take_over_waits_for_no_lock_for_long<DB: Probe>(settings: DB::Settings) {
    let mut scene = Scene::<DB>::new(settings, "take-over-lock").await;
    let partition = scene.take_over().await.scope.partition_ref;
    scene.run("BEGIN").await;
    scene
        .run(&format!("UPDATE inbox_partitions SET owner = 'x' WHERE partition_ref = {partition}"))
        .await;
    let answer = DB::take_over(&mut scene.session, &scene.request).await;
    let Err(TakeOverError::Database(error)) = answer else { panic!("{answer:?}") };
    assert_eq!(DB::fault(&error), StoreFault::Locked, "{error}");
    assert!(!DB::in_transaction(&scene.session), "a failed take-over left its transaction open");
    scene.run("ROLLBACK").await;
    scene.take_over().await;
}

/// A clean let-go removes the owner and nothing else; that of an older epoch removes nothing.
pub async fn an_owner_lets_go<DB: Probe>(settings: DB::Settings) {
    let mut scene = Scene::<DB>::new(settings, "let-go").await;
    let older = scene.take_over().await.scope;
    let scope = scene.take_over().await.scope;
    DB::disown(&mut scene.session, &[older]).await.expect("disown");
    let rows = DB::partitions(&mut scene.session, "let-go").await.expect("partitions");
    assert_eq!(rows[0].owner.as_deref(), Some(&*request("x").owner.name));
    assert!(rows[0].owner_seen_seconds.is_some_and(|seconds| seconds < 60.0));
    DB::disown(&mut scene.session, &[scope]).await.expect("disown");
    let rows = DB::partitions(&mut scene.session, "let-go").await.expect("partitions");
    assert_eq!((rows[0].owner.as_deref(), rows[0].epoch), (None, scope.epoch.0));
    assert_eq!(rows[0].owner_seen_seconds, None);
}
