//! The watermark: compare and set, checked against every lane.

use inbox_engine::Epoch;

use super::{
    Probe,
    scene::{Scene, claim_of, step, watermark},
};
use crate::pipeline::port::Scope;

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
