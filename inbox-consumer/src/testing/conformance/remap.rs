//! Remaps: when lanes mean something else, claims decide from the watermark on.

use super::{
    Probe,
    scene::{Scene, claim_of, id, moved, step, watermark},
};
use crate::pipeline::port::Taken;

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

/// Finding 3c: new lanes begin at the watermark; what was settled above it is known by its inbox rows,
/// and the torn check begins above it (rule `LaneRuleStored`).
pub async fn another_lane_count_begins_at_the_watermark<DB: Probe>(settings: DB::Settings) {
    let mut scene = Scene::<DB>::new(settings, "remap-count").await;
    let old = uneven(&mut scene).await;
    for lane_count in [6, 2] {
        scene.request.lane_count = lane_count;
        let taken = scene.take_over().await;
        assert_eq!(taken.lane_count, lane_count);
        assert_eq!(taken.scope.partition_ref, old.scope.partition_ref);
        assert_eq!(taken.ownership.remapped_below.0, 10);
        assert_eq!(taken.ownership.watermark.0, 5);
        assert_eq!(lasts(&taken), vec![4; usize::from(lane_count)]);
        let claim = claim_of(&[(1, 9)], &[step(1, 4, 9)]);
        assert!(scene.claim(&taken.scope, &claim).await.fresh.is_empty(), "{:?}", id(1));
        scene.rollback().await;
    }
    let lanes = [step(0, 9, 12)];
    let claimed = scene.claim(&old.scope, &claim_of(&[], &lanes)).await;
    assert_eq!(moved(DB::advance(&mut scene.session, &old.scope, &claimed.tx, &lanes).await), 0);
    scene.rollback().await;
}

/// Finding 3: another hash or source of the aggregate is a remap too; the same one is none.
pub async fn another_lane_rule_is_a_remap<DB: Probe>(settings: DB::Settings) {
    let mut scene = Scene::<DB>::new(settings, "remap-rule").await;
    uneven(&mut scene).await;
    let same = scene.take_over().await;
    assert_eq!((lasts(&same), same.ownership.remapped_below.0), (vec![9, 6, -1, -1], 0));
    scene.request.lane_rule = "xxh3-64/1 header:tenant".into();
    let taken = scene.take_over().await;
    assert_eq!((lasts(&taken), taken.ownership.remapped_below.0), (vec![4; 4], 10));
    let again = scene.take_over().await;
    assert_eq!((lasts(&again), again.ownership.remapped_below.0), (vec![4; 4], 10));
}

/// A second remap, with lanes that stand lower, keeps the first one's mark.
pub async fn a_remap_never_lowers_its_mark<DB: Probe>(settings: DB::Settings) {
    let mut scene = Scene::<DB>::new(settings, "remap-mark").await;
    uneven(&mut scene).await;
    scene.request.lane_count = 6;
    scene.take_over().await;
    scene.request.lane_count = 4;
    assert_eq!(scene.take_over().await.ownership.remapped_below.0, 10);
}
