//! The watermark: compare and set, checked against every lane.

use inbox_engine::internal::Epoch;

use super::{
    Probe,
    scene::{Scene, claim_of, step, watermark},
};
use inbox_store::internal::port::Scope;

/// It moves only from where it stood, forwards, under the epoch (rule `WatermarkCas`).
pub async fn the_watermark_moves_from_where_it_stood<DB: Probe>(settings: DB::Settings) {
    let mut scene = Scene::<DB>::new(settings, "watermark").await;
    let scope = scene.take_over().await.scope;
    scene.settle(&scope, &claim_of(&[(1, 4)], &[step(0, -1, 4)])).await;
    let lanes = [4, -1, -1, -1];
    assert!(scene.watermark(&scope, &watermark(0, 5, &lanes)).await);
    assert!(scene.watermark(&scope, &watermark(5, 5, &lanes)).await, "the idle check");
    assert!(!scene.watermark(&scope, &watermark(0, 6, &lanes)).await, "from another place");
    assert!(!scene.watermark(&scope, &watermark(5, 4, &lanes)).await, "backwards");
    let older = Scope { epoch: Epoch(scope.epoch.0 - 1), ..scope };
    assert!(!scene.watermark(&older, &watermark(5, 6, &lanes)).await, "under an older epoch");
    let taken = scene.take_over().await;
    assert_eq!(taken.ownership.watermark.0, 5);
    assert_eq!(taken.ownership.watermark_leader_epoch.0, 3);
}

/// B1: lanes that lost what memory relies on stop it (rule `WatermarkChecksLanes`).
pub async fn a_lane_that_went_back_stops_the_watermark<DB: Probe>(settings: DB::Settings) {
    let mut scene = Scene::<DB>::new(settings, "watermark-lanes").await;
    let scope = scene.take_over().await.scope;
    scene.settle(&scope, &claim_of(&[(1, 4)], &[step(0, -1, 4)])).await;
    let partition = scope.partition_ref;
    let back = format!(
        "UPDATE inbox_lanes SET last_offset = 2 WHERE partition_ref = {partition} AND lane = 0"
    );
    scene.run(&back).await;
    assert!(!scene.watermark(&scope, &watermark(0, 5, &[4, -1, -1, -1])).await);
    assert!(!scene.watermark(&scope, &watermark(0, 0, &[4, -1, -1, -1])).await, "finding 15: idle");
    assert!(scene.watermark(&scope, &watermark(0, 3, &[2, -1, -1, -1])).await);
    let missing = format!("DELETE FROM inbox_lanes WHERE partition_ref = {partition} AND lane = 3");
    scene.run(&missing).await;
    assert!(!scene.watermark(&scope, &watermark(3, 3, &[2, -1, -1, -1])).await, "a missing lane");
}

/// Lanes without events keep their old value and pass, however far the watermark is.
pub async fn an_untouched_lane_does_not_stop_the_watermark<DB: Probe>(settings: DB::Settings) {
    let mut scene = Scene::<DB>::new(settings, "watermark-sparse").await;
    let scope = scene.take_over().await.scope;
    scene.settle(&scope, &claim_of(&[(1, 400)], &[step(2, -1, 400)])).await;
    assert!(scene.watermark(&scope, &watermark(0, 401, &[-1, -1, 400, -1])).await);
}

/// Finding 15: an idle owner finds out that another has taken over (rule `IdleCheck`).
pub async fn an_idle_check_notices_another_owner<DB: Probe>(settings: DB::Settings) {
    let mut scene = Scene::<DB>::new(settings, "watermark-idle").await;
    let mine = scene.take_over().await.scope;
    let idle = watermark(0, 0, &[-1, -1, -1, -1]);
    assert!(scene.watermark(&mine, &idle).await);
    scene.request.owner.incarnation = uuid::Uuid::now_v7();
    let theirs = scene.take_over().await.scope;
    assert!(!scene.watermark(&mine, &idle).await);
    assert!(scene.watermark(&theirs, &idle).await);
}

/// Several in one transaction: one that is fenced keeps no other back, and each is checked against its own
/// lanes.
pub async fn several_watermarks_are_written_each_by_its_own_right<DB: Probe>(
    settings: DB::Settings,
) {
    let mut scene = Scene::<DB>::new(settings, "watermark-several").await;
    let mut scopes = Vec::new();
    for partition in 0..4 {
        scene.request.partition.partition = partition;
        scopes.push(scene.take_over().await.scope);
    }
    let settled = |partition: u8| claim_of(&[(partition, 4)], &[step(0, -1, 4)]);
    for (partition, scope) in (1..).zip(&scopes) {
        scene.settle(scope, &settled(partition)).await;
    }
    let lanes = [4, -1, -1, -1];
    let older = Scope { epoch: Epoch(scopes[1].epoch.0 - 1), ..scopes[1] };
    let changes = [
        (scopes[3], watermark(0, 5, &lanes)),
        (older, watermark(0, 5, &lanes)),
        (scopes[2], watermark(0, 5, &[4, 7, -1, -1])),
        (scopes[0], watermark(0, 5, &lanes)),
    ];
    assert_eq!(scene.watermarks(&changes).await, [true, false, false, true]);
    let changes = [
        (scopes[0], watermark(5, 5, &lanes)),
        (scopes[1], watermark(0, 5, &lanes)),
        (scopes[2], watermark(0, 5, &lanes)),
        (scopes[3], watermark(0, 6, &lanes)),
    ];
    assert_eq!(scene.watermarks(&changes).await, [true, true, true, false]);
    let watermarks =
        "SELECT count(*) FROM inbox_partitions WHERE watermark = 5 AND watermark_leader_epoch = 3";
    let all =
        scopes.iter().map(|scope| scope.partition_ref.to_string()).collect::<Vec<_>>().join(", ");
    assert_eq!(scene.number(&format!("{watermarks} AND partition_ref IN ({all})")).await, 4);
}
