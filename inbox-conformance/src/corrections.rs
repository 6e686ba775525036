//! Partitions that a person skips or retires.

use inbox_engine::internal::{NextOffset, ParkReason, Start};
use outbox_core::internal::CommitMark;
use uuid::Uuid;

use super::{
    Probe,
    scene::{Scene, claim_of, moved, parking, step, watermark},
};
use inbox_store::internal::port::{
    AuditFilter, Beginning, Corrected, Correction, PartitionRecord, Scope,
};

fn correction(scope: &Scope, force: bool) -> Correction {
    let (who, why) = ("anna".to_owned(), "the records are gone".to_owned());
    Correction { partition_ref: scope.partition_ref, who, why, force }
}

impl<DB: Probe> Scene<DB> {
    async fn skip(&mut self, scope: &Scope, to: i64, force: bool) -> Corrected {
        let correction = correction(scope, force);
        let done = DB::skip(&mut self.session, &correction, NextOffset(to)).await;
        assert!(!DB::in_transaction(&self.session), "a skip left its transaction open");
        done.expect("the skip failed")
    }

    async fn retire(&mut self, scope: &Scope, discard_parked: bool, force: bool) -> Corrected {
        let correction = correction(scope, force);
        let done = DB::retire(&mut self.session, &correction, discard_parked).await;
        assert!(!DB::in_transaction(&self.session), "a retirement left its transaction open");
        done.expect("the retirement failed")
    }

    async fn disown(&mut self, scope: &Scope) {
        DB::disown(&mut self.session, &[*scope]).await.expect("disown");
    }

    async fn held(&mut self) -> Vec<PartitionRecord> {
        let consumer = self.request.consumer.clone();
        DB::rows(&mut self.session, &consumer, &consumer).await.expect("the rows")
    }

    /// What was done, why, and at which offset, the oldest first.
    async fn said(&mut self) -> Vec<(String, String, Option<i64>)> {
        let (consumer, filter) = (self.request.consumer.clone(), AuditFilter::default());
        let acts = DB::acts(&mut self.session, &consumer, &filter, 100).await.expect("the audit");
        acts.into_iter().rev().map(|act| (act.what, act.why, act.offset)).collect()
    }
}

/// Lanes below the offset are raised, without a leader epoch: they know nothing of what was given up.
/// A lane that is further stays (rules `SkipOnlyRaises`, `SkipForgetsLeaderEpoch`).
pub async fn a_skip_raises_lanes_and_watermark<DB: Probe>(settings: DB::Settings) {
    let mut scene = Scene::<DB>::new(settings, "skip").await;
    let scope = scene.take_over().await.scope;
    let lanes = [step(0, -1, 41), step(1, -1, 5)];
    scene.settle(&scope, &claim_of(&[(1, 5), (2, 41)], &lanes)).await;
    scene.disown(&scope).await;
    assert_eq!(scene.skip(&scope, 20, false).await, Corrected::Done);
    scene.request.log.start = NextOffset(20);
    let taken = scene.take_over().await;
    assert_eq!((taken.ownership.watermark.0, taken.ownership.resume.0), (20, 20));
    assert_eq!(taken.ownership.watermark_leader_epoch.0, -1);
    let lanes: Vec<_> =
        taken.ownership.lanes.iter().map(|lane| (lane.last.0, lane.leader_epoch.0)).collect();
    assert_eq!(lanes, [(41, 3), (19, -1), (19, -1), (19, -1)]);
    let why = "from 0 to 20: the records are gone".to_owned();
    assert_eq!(scene.said().await, [("skip".to_owned(), why, Some(20))]);
}

/// A correction takes the epoch over: what an owner has under way cannot commit beside it (rule
/// `CorrectionRaisesEpoch`).
pub async fn a_correction_fences_the_owner<DB: Probe>(settings: DB::Settings) {
    let mut scene = Scene::<DB>::new(settings, "skip-fence").await;
    for retired in [false, true] {
        let taken = scene.take_over().await;
        let (scope, last) = (taken.scope, taken.ownership.lanes[3].last.0);
        let done = if retired {
            scene.retire(&scope, false, true).await
        } else {
            scene.skip(&scope, 10, true).await
        };
        assert_eq!(done, Corrected::Done);
        // A lane that the correction did not move: the epoch alone tells.
        let lane = [step(3, scene.last(&scope, 3).await, 50)];
        assert!(last <= lane[0].prev.0);
        let claimed = scene.claim(&scope, &claim_of(&[], &lane)).await;
        let moved = moved(DB::advance(&mut scene.session, &scope, &claimed.tx, &lane, None).await);
        assert_eq!(moved, 0, "an owner committed beside a correction");
        scene.rollback().await;
        let w = scene.held().await[0].watermark;
        assert!(!scene.watermark(&scope, &watermark(w, w + 1, &[-1; 4])).await);
    }
}

/// An owner that was seen a moment ago still works: only by force.
pub async fn a_correction_spares_a_live_owner<DB: Probe>(settings: DB::Settings) {
    let mut scene = Scene::<DB>::new(settings, "skip-owned").await;
    let scope = scene.take_over().await.scope;
    assert!(matches!(scene.skip(&scope, 20, false).await, Corrected::Owned { .. }));
    assert!(matches!(scene.retire(&scope, false, false).await, Corrected::Owned { .. }));
    let rows = scene.held().await;
    assert_eq!((rows[0].watermark, rows[0].retired, rows[0].owner.is_some()), (0, false, true));
    assert_eq!(scene.said().await, []);
    let (partition, long_ago) = (scope.partition_ref, DB::LONG_AGO);
    let silent = format!(
        "UPDATE inbox_partitions SET owner_seen = {long_ago} WHERE partition_ref = {partition}"
    );
    scene.run(&silent).await;
    assert_eq!(scene.skip(&scope, 20, false).await, Corrected::Done);
    let rows = scene.held().await;
    assert_eq!((rows[0].watermark, rows[0].owner.as_deref()), (20, None));
}

/// What is settled stays settled.
pub async fn a_skip_goes_forward_only<DB: Probe>(settings: DB::Settings) {
    let mut scene = Scene::<DB>::new(settings, "skip-back").await;
    let scope = scene.take_over().await.scope;
    scene.disown(&scope).await;
    assert_eq!(scene.skip(&scope, 20, false).await, Corrected::Done);
    for to in [0, 19] {
        assert_eq!(scene.skip(&scope, to, false).await, Corrected::Changed, "{to}");
    }
    let nowhere = Scope { partition_ref: -1, ..scope };
    assert_eq!(scene.skip(&nowhere, 90, false).await, Corrected::Changed);
    assert_eq!(scene.held().await[0].watermark, 20);
}

/// Where a partition begins that the database does not know: the row is there once, with its audit, and the
/// take-over goes on with it (finding 26).
pub async fn a_beginning_is_decided_once<DB: Probe>(settings: DB::Settings) {
    let mut scene = Scene::<DB>::new(settings, "begin").await;
    let request = scene.request.clone();
    let beginning = Beginning {
        consumer: request.consumer.clone(),
        partition: request.partition.clone(),
        topic_id: request.topic_id,
        partitions: 2,
        lane_count: request.lanes.count,
        lane_rule: request.lanes.placement.lane_rule().to_owned(),
        id_scope: request.id_scope,
        at: NextOffset(40),
        who: "anna".into(),
        why: "seen".into(),
    };
    for wanted in [Corrected::Done, Corrected::Changed] {
        let done = DB::begin_partition(&mut scene.session, &beginning).await;
        assert!(!DB::in_transaction(&scene.session), "a decision left its transaction open");
        assert_eq!(done.expect("the decision failed"), wanted);
    }
    assert_eq!(scene.said().await, [("skip".into(), "starts at 40: seen".into(), Some(40))]);
    let taken = scene.take_over().await.ownership;
    assert_eq!((taken.watermark.0, taken.resume.0), (40, 40));
    assert!(taken.lanes.iter().all(|lane| lane.last.0 == 39));
}

/// After a retirement the new topic of that name is read from its beginning, whatever the group's old
/// offset and `start` say.
pub async fn a_retired_topic_begins_anew<DB: Probe>(settings: DB::Settings) {
    let mut scene = Scene::<DB>::new(settings, "retired").await;
    let scope = scene.take_over().await.scope;
    scene.settle(&scope, &claim_of(&[(1, 41)], &[step(0, -1, 41)])).await;
    scene.disown(&scope).await;
    scene.request.topic_id = [8; 16];
    scene.request.committed = Some(NextOffset(42));
    // The group's offset of the old topic may be there for a while: it is nobody's loss.
    scene.request.mark = Some(CommitMark { inbox_id: Uuid::nil(), consumer: "retired".into() });
    scene.request.start = Start::Latest;
    scene.stand_still().await;
    assert_eq!(scene.retire(&scope, false, false).await, Corrected::Done);
    let fresh = scene.take_over().await;
    assert_ne!(fresh.scope.partition_ref, scope.partition_ref);
    assert_eq!((fresh.ownership.watermark.0, fresh.ownership.resume.0), (0, 0));
    assert!(fresh.ownership.lanes.iter().all(|lane| lane.last.0 == -1));
    let rows = scene.held().await;
    let retired: Vec<_> = rows.iter().map(|row| (row.retired, row.topic_id)).collect();
    assert_eq!(retired, [(true, [7; 16]), (false, [8; 16])]);
    assert_eq!(scene.said().await, [("retire".into(), "the records are gone".into(), None)]);
    let skipped = scene.skip(&scope, 90, false).await;
    assert_eq!(skipped, Corrected::Changed, "a retired row was skipped");
}

/// Nobody can release what is parked in a retired partition: it is given up aloud, or nothing happens.
pub async fn a_retirement_gives_up_parked_events_aloud<DB: Probe>(settings: DB::Settings) {
    let mut scene = Scene::<DB>::new(settings, "retired-parked").await;
    let scope = scene.take_over().await.scope;
    let events = [(1, 0), (2, 1), (3, 2)];
    let rows: Vec<_> =
        events.iter().map(|&(number, at)| parking(number, at, ParkReason::Rejected)).collect();
    scene.park(&scope, &claim_of(&events, &[step(0, -1, 2)]), &rows).await;
    scene.disown(&scope).await;
    assert_eq!(scene.retire(&scope, false, false).await, Corrected::Parked(3));
    let correction = correction(&scope, false);
    let discard = DB::discard_parked(&mut scene.session, &correction, 2).await;
    assert_eq!(discard.expect("discard"), 0, "a partition that is not retired lost its events");
    assert_eq!(scene.retire(&scope, true, false).await, Corrected::Done);
    let mut steps = Vec::new();
    for _ in 0..3 {
        let step = DB::discard_parked(&mut scene.session, &correction, 2).await;
        steps.push(step.expect("discard"));
    }
    assert_eq!(steps, [2, 1, 0]);
    let (partition, consumer) = (scope.partition_ref, scope.consumer_ref);
    let left = format!(
        "SELECT (SELECT count(*) FROM inbox_parked WHERE partition_ref = {partition}) \
         + (SELECT count(*) FROM inbox_events WHERE consumer_ref = {consumer} AND parked)"
    );
    assert_eq!(scene.number(&left).await, 0);
    let offsets: Vec<_> = scene.said().await.into_iter().map(|(what, _, at)| (what, at)).collect();
    let discarded = |at| ("discard".to_owned(), Some(at));
    assert_eq!(offsets, [("retire".into(), None), discarded(0), discarded(1), discarded(2)]);
}
