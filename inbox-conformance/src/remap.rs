//! Remaps: lanes mean something else only where nothing is settled ahead of the watermark; and what is
//! parked keeps its place when aggregates are found by another rule.

use inbox_engine::internal::{ParkReason, Standstill};
use outbox_core::{IdScope, TopicPartition};

use super::{
    Probe,
    scene::{LANES, Scene, aggregate, claim_of, id, lanes, moved, parking, step, watermark},
};
use inbox_store::internal::port::{Parking, Taken};

/// What a person types so that the ids of the consumer `billing` may be all its topics' again, when no
/// event of it is parked. `docs/operations.md` says it.
#[doc(hidden)]
pub const IDS_TAKEN_BACK: &str = "\
UPDATE inbox_partitions SET id_scope_epoch = epoch
WHERE consumer_ref = (SELECT consumer_ref FROM inbox_consumers WHERE consumer = 'billing')
AND NOT EXISTS (SELECT 1 FROM inbox_parked q WHERE q.consumer_ref = inbox_partitions.consumer_ref);
";

/// Lane 0 at 9, lane 1 at 6, the watermark at 5.
async fn uneven<DB: Probe>(scene: &mut Scene<DB>) -> Taken {
    let taken = scene.take_over().await;
    let claim = claim_of(&[(1, 9), (2, 6)], &[step(0, -1, 9), step(1, -1, 6)]);
    scene.settle(&taken.scope, &claim).await;
    assert!(scene.watermark(&taken.scope, &watermark(0, 5, &[9, 6, -1, -1])).await);
    taken
}

fn lasts(taken: &Taken) -> Vec<i64> {
    taken.ownership.lanes.iter().map(|lane| lane.last.0).collect()
}

/// The lanes that wait for their change, as `status` tells it.
async fn waiting<DB: Probe>(scene: &mut Scene<DB>) -> Option<(i32, String)> {
    let consumer = scene.request.consumer.clone();
    let rows = DB::partitions(&mut scene.session, &consumer).await.expect("the partitions");
    rows.into_iter().next().expect("the partition").next_lanes
}

/// Finding 24: while a lane is ahead of the watermark the stored lanes hold, and what is wanted is told;
/// once none is, new lanes begin at the watermark (rules `LaneRuleStored`, `RemapOnlyDrained`).
pub async fn another_lane_count_waits_for_the_watermark<DB: Probe>(settings: DB::Settings) {
    let mut scene = Scene::<DB>::new(settings, "remap-count").await;
    let old = uneven(&mut scene).await;
    scene.request.lanes.count = 6;
    let held = scene.take_over().await;
    assert_eq!((held.lanes.count, lasts(&held)), (LANES, vec![9, 6, -1, -1]));
    assert!(held.ownership.remap_waits && held.ownership.remapped_below.0 == 0);
    let wanted = (6, "xxh3-64/1:key".to_owned());
    assert_eq!(waiting(&mut scene).await, Some(wanted));

    assert!(scene.watermark(&held.scope, &watermark(5, 10, &[9, 6, -1, -1])).await);
    let taken = scene.take_over().await;
    assert_eq!((taken.lanes.count, lasts(&taken)), (6, vec![9; 6]));
    assert_eq!(taken.scope.partition_ref, old.scope.partition_ref);
    assert!(!taken.ownership.remap_waits);
    assert_eq!(taken.ownership.remapped_below.0, 10);
    assert_eq!(waiting(&mut scene).await, None);
    let claim = claim_of(&[(1, 9)], &[step(1, 9, 9)]);
    assert!(scene.claim(&taken.scope, &claim).await.fresh.is_empty(), "{:?}", id(1));
    scene.rollback().await;
    let lanes = [step(0, 9, 12)];
    let claimed = scene.claim(&old.scope, &claim_of(&[], &lanes)).await;
    assert_eq!(
        moved(DB::advance(&mut scene.session, &old.scope, &claimed.tx, &lanes, None).await),
        0
    );
    scene.rollback().await;
}

/// A change that is taken back while it waits is forgotten; the watermark may be far beyond all lanes.
pub async fn a_change_of_lanes_may_be_taken_back<DB: Probe>(settings: DB::Settings) {
    let mut scene = Scene::<DB>::new(settings, "remap-back").await;
    uneven(&mut scene).await;
    scene.request.lanes.count = 6;
    assert!(scene.take_over().await.ownership.remap_waits);
    scene.request.lanes.count = LANES;
    let same = scene.take_over().await;
    assert!(!same.ownership.remap_waits && waiting(&mut scene).await.is_none());
    assert_eq!(lasts(&same), [9, 6, -1, -1]);
    assert!(scene.watermark(&same.scope, &watermark(5, 20, &[9, 6, -1, -1])).await);
    scene.request.lanes.count = 2;
    let taken = scene.take_over().await;
    assert_eq!((lasts(&taken), taken.ownership.remapped_below.0), (vec![19; 2], 20));
    scene.request.lanes.count = LANES;
    assert_eq!(scene.take_over().await.ownership.remapped_below.0, 20);
}

/// Finding 3: another hash or source of the aggregate is a remap too; until it comes about, records are in
/// the lanes of the stored rule. One that this build does not know stands still.
pub async fn another_lane_rule_is_a_remap<DB: Probe>(settings: DB::Settings) {
    let mut scene = Scene::<DB>::new(settings, "remap-rule").await;
    uneven(&mut scene).await;
    scene.request.lanes = lanes(LANES, "header:tenant");
    let held = scene.take_over().await;
    assert_eq!((lasts(&held), held.lanes.clone()), (vec![9, 6, -1, -1], lanes(LANES, "key")));
    assert!(held.ownership.remap_waits);
    scene
        .run("UPDATE inbox_partitions SET lane_rule = 'xxh3-64/9:key' WHERE topic = 'remap-rule'")
        .await;
    let reason = scene.stand_still().await;
    assert!(matches!(&reason, Standstill::LaneRule(text) if text.contains("xxh3-64/9:key")));
    assert!(reason.may_pass());
    assert!(scene.watermark(&held.scope, &watermark(5, 10, &[9, 6, -1, -1])).await);
    let taken = scene.take_over().await;
    assert_eq!((lasts(&taken), taken.lanes.clone()), (vec![9; 4], lanes(LANES, "header:tenant")));
}

/// Finding 25: with the source of the aggregate the keys of parked rows change, in that take-over; a head
/// that was a follower is due (rule `ParkedKeysFollowRule`).
pub async fn parked_events_keep_their_place<DB: Probe>(settings: DB::Settings) {
    let mut scene = Scene::<DB>::new(settings, "remap-parked").await;
    let scope = scene.take_over().await.scope;
    let claim = claim_of(&[(1, 0), (2, 1), (3, 2)], &[step(0, -1, 2)]);
    let of = |number, offset, reason, tenant: &str| {
        let row = parking(number, offset, reason);
        let record = row.record.replace("\"t\"", &format!("\"{tenant}\""));
        Parking { aggregate: aggregate(1), record, ..row }
    };
    let rows = [
        of(1, 0, ParkReason::Rejected, "t"),
        of(2, 1, ParkReason::Follower, "u"),
        of(3, 2, ParkReason::Follower, "t"),
    ];
    scene.park(&scope, &claim, &rows).await;
    scene.take_over().await;
    let queues = format!(
        "SELECT count(DISTINCT aggregate_key) FROM inbox_parked WHERE partition_ref = {}",
        scope.partition_ref
    );
    let due = format!("{} AND due_at IS NOT NULL", queues.replace("DISTINCT aggregate_key", "*"));
    assert_eq!((scene.number(&queues).await, scene.number(&due).await), (1, 1));

    scene.request.lanes = lanes(LANES, "header:tenant");
    assert!(scene.take_over().await.ownership.remap_waits);
    assert_eq!(scene.number(&queues).await, 1, "the stored rule holds still");
    let held = scene.take_over().await.scope;
    assert!(scene.watermark(&held, &watermark(0, 3, &[2, -1, -1, -1])).await);
    let taken = scene.take_over().await;
    assert_eq!(scene.number(&queues).await, 2);
    assert_eq!(scene.number(&due).await, 2, "the queue of the second tenant has a head");
    let looks = [(taken.scope, taken.ownership.remapped_below)];
    let due = DB::find_due(&mut scene.session, &looks, 9).await.expect("find_due failed");
    assert_eq!(due[0].iter().map(|queue| queue.offset.0).collect::<Vec<_>>(), [1]);

    scene.run("UPDATE inbox_parked SET record = '{}' WHERE \"offset\" = 2 AND consumer_ref = (SELECT consumer_ref FROM inbox_consumers WHERE consumer = 'remap-parked')").await;
    scene.request.lanes = lanes(LANES, "key");
    let reason = scene.stand_still().await;
    assert!(matches!(&reason, Standstill::LaneRule(text) if text.contains("parked at offset 2")));
    assert_eq!(scene.number(&queues).await, 2, "a standstill changes nothing");
    assert_eq!(scene.number("SELECT count(*) FROM inbox_partitions WHERE topic = 'remap-parked' AND standstill LIKE 'lane_rule: %'").await, 1);
}

/// A build that does not know of keys does not take a partition over while rows are parked under keys that
/// it would not find; nothing keeps it from one where nothing is parked. A correction keeps that.
pub async fn an_older_build_waits_for_parked_events<DB: Probe>(settings: DB::Settings) {
    let mut scene = Scene::<DB>::new(settings, "remap-older").await;
    let scope = scene.take_over().await.scope;
    let older = format!(
        "UPDATE inbox_partitions SET epoch = epoch + 1 WHERE partition_ref = {}",
        scope.partition_ref
    );
    assert_eq!(scene.run(&older).await, 1);
    let scope = scene.take_over().await.scope;
    let rows = [parking(1, 0, ParkReason::Rejected)];
    scene.park(&scope, &claim_of(&[(1, 0)], &[step(0, -1, 0)]), &rows).await;
    let refused =
        DB::run(&mut scene.admin, &older).await.expect_err("an older build takes it over");
    let text = refused.to_string();
    assert!(text.contains("inbox_parked_keys_need_a_newer_build"), "{text}");
    let taken = scene.take_over().await;
    DB::run(&mut scene.admin, &older).await.expect_err("an older build takes it over");
    let gone =
        format!("DELETE FROM inbox_parked WHERE partition_ref = {}", taken.scope.partition_ref);
    scene.run(&gone).await;
    scene.take_over().await;
    assert_eq!(scene.run(&older).await, 1);
}

/// A consumer keeps the scope of its ids: another one is refused for what it has and for what is added to it, and
/// an older build, which knows of none, cannot own a partition whose ids hold within their topic. The statement of
/// the operations page changes it (rule `IdScopeStored`).
pub async fn ids_of_another_scope_stand_still<DB: Probe>(settings: DB::Settings) {
    let mut scene = Scene::<DB>::new(settings, "id-scope").await;
    scene.request.id_scope = IdScope::Topic;
    let taken = scene.take_over().await;
    let older = format!(
        "UPDATE inbox_partitions SET epoch = epoch + 1 WHERE partition_ref = {}",
        taken.scope.partition_ref
    );
    let refused = DB::run(&mut scene.admin, &older).await.expect_err("an older build owns it");
    assert!(
        refused.to_string().contains("inbox_ids_within_topics_need_a_newer_build"),
        "{refused}"
    );

    scene.request.id_scope = IdScope::Consumer;
    let added = TopicPartition { partition: 1, ..scene.request.partition.clone() };
    let had = std::mem::replace(&mut scene.request.partition, added);
    let reason = scene.stand_still().await;
    assert!(matches!(&reason, Standstill::IdScope(text) if text.contains("\"topic\"")), "{reason}");
    scene.request.partition = had;
    let reason = scene.stand_still().await;
    assert!(matches!(&reason, Standstill::IdScope(_)) && reason.may_pass(), "{reason}");
    let standing = "SELECT count(*) FROM inbox_partitions WHERE topic = 'id-scope' AND standstill LIKE 'id_scope: %'";
    assert_eq!(scene.number(standing).await, 1);

    let statement = IDS_TAKEN_BACK.replace("'billing'", "'id-scope'");
    scene.run(&statement.replace("= epoch", "= NULL")).await;
    scene.take_over().await;
    assert_eq!(scene.run(&older).await, 1);
    scene.run(&statement).await;
    scene.request.id_scope = IdScope::Topic;
    scene.take_over().await;
}
