//! Pruning: old, settled, not parked, by the database's clock, in bounded steps.

use std::time::Duration;

use inbox_engine::internal::ParkReason;

use super::{
    Probe,
    scene::{Scene, claim_of, literal, parking, step, watermark},
};
use inbox_store::internal::port::{PruneCursor, PruneStep, Scope};

const DAY: Duration = Duration::from_hours(24);

/// Prunes the consumer's rows older than a day, to the end; answers how many went in how many steps.
async fn prune<DB: Probe>(scene: &mut Scene<DB>) -> (u64, u32) {
    let consumer = scene.request.consumer.clone();
    let (mut removed, mut steps, mut cursor) = (0, 0, PruneCursor::default());
    loop {
        let step = DB::prune_step(&mut scene.session, &consumer, DAY, cursor).await;
        let PruneStep { removed: some, next, busy, .. } = step.expect("a prune step failed");
        assert!(!busy, "nobody else prunes");
        removed += some;
        steps += 1;
        match next {
            Some(next) => cursor = next,
            None => return (removed, steps),
        }
    }
}

/// Five events at 0 to 4, all a month old, the watermark at 5.
async fn aged<DB: Probe>(settings: DB::Settings, name: &str) -> (Scene<DB>, Scope) {
    let mut scene = Scene::<DB>::new(settings, name).await;
    let scope = scene.take_over().await.scope;
    let events = [(1, 0), (2, 1), (3, 2), (4, 3), (5, 4)];
    scene.settle(&scope, &claim_of(&events, &[step(0, -1, 4)])).await;
    age(&mut scene, &scope).await;
    assert!(scene.watermark(&scope, &watermark(0, 5, &[4, -1, -1, -1])).await);
    (scene, scope)
}

async fn age<DB: Probe>(scene: &mut Scene<DB>, scope: &Scope) {
    let (consumer, long_ago) = (scope.consumer_ref, DB::LONG_AGO);
    let sql = format!(
        "UPDATE inbox_events SET processed_at = {long_ago} WHERE consumer_ref = {consumer}"
    );
    scene.run(&sql).await;
}

/// What is old and below the watermark goes.
pub async fn old_settled_events_are_pruned<DB: Probe>(settings: DB::Settings) {
    let (mut scene, scope) = aged::<DB>(settings, "prune").await;
    assert_eq!(prune(&mut scene).await.0, 5);
    assert_eq!(scene.events(&scope).await, 0);
}

/// Finding 10a: the id of a parked event stays (rule `PruneSparesParked`).
pub async fn a_parked_event_is_spared<DB: Probe>(settings: DB::Settings) {
    let (mut scene, scope) = aged::<DB>(settings, "prune-parked").await;
    let claim = claim_of(&[(9, 5)], &[step(0, 4, 5)]);
    scene.park(&scope, &claim, &[parking(9, 5, ParkReason::Exhausted)]).await;
    age(&mut scene, &scope).await;
    assert!(scene.watermark(&scope, &watermark(5, 6, &[5, -1, -1, -1])).await);
    assert_eq!(prune(&mut scene).await.0, 5);
    assert_eq!(scene.events(&scope).await, 1);
}

/// Everything at or above the watermark stays (rule `PruneBelowWatermark`).
pub async fn an_event_at_the_watermark_is_spared<DB: Probe>(settings: DB::Settings) {
    let (mut scene, scope) = aged::<DB>(settings, "prune-watermark").await;
    scene.settle(&scope, &claim_of(&[(9, 5), (10, 6)], &[step(0, 4, 6)])).await;
    age(&mut scene, &scope).await;
    assert_eq!(prune(&mut scene).await.0, 5);
    assert_eq!(scene.events(&scope).await, 2);
}

/// Age counts by the database's clock (rule `PruneByDatabaseClock`).
pub async fn a_young_event_is_spared<DB: Probe>(settings: DB::Settings) {
    let (mut scene, scope) = aged::<DB>(settings, "prune-young").await;
    scene.settle(&scope, &claim_of(&[(9, 5)], &[step(0, 4, 5)])).await;
    assert!(scene.watermark(&scope, &watermark(5, 6, &[5, -1, -1, -1])).await);
    assert_eq!(prune(&mut scene).await.0, 5);
    assert_eq!(scene.events(&scope).await, 1);
}

/// A consumer prunes its own rows: another may have another retention (rule `ConsumerScope`).
pub async fn another_consumers_events_are_spared<DB: Probe>(settings: DB::Settings) {
    let (mut scene, mine) = aged::<DB>(settings.clone(), "prune-mine").await;
    let (_, theirs) = aged::<DB>(settings, "prune-theirs").await;
    assert_eq!(prune(&mut scene).await.0, 5);
    assert_eq!((scene.events(&mine).await, scene.events(&theirs).await), (0, 5));
}

/// Finding 10c: rows of a retired topic never fall below a watermark; retiring frees them.
pub async fn a_retired_partition_is_freed<DB: Probe>(settings: DB::Settings) {
    let (mut scene, scope) = aged::<DB>(settings, "prune-retired").await;
    scene.settle(&scope, &claim_of(&[(9, 5), (10, 6)], &[step(0, 4, 6)])).await;
    age(&mut scene, &scope).await;
    let (partition, long_ago) = (scope.partition_ref, DB::LONG_AGO);
    scene
        .run(&format!(
            "UPDATE inbox_partitions SET retired_at = {long_ago} WHERE partition_ref = {partition}"
        ))
        .await;
    assert_eq!(prune(&mut scene).await.0, 7);
}

/// G3: no step removes more than a bounded number of rows (rule `PruneAlone`).
pub async fn a_step_is_bounded<DB: Probe>(settings: DB::Settings) {
    let (mut scene, scope) = aged::<DB>(settings, "prune-bounded").await;
    let rows = 20_000;
    fill(&mut scene, &scope, rows).await;
    let (removed, steps) = prune(&mut scene).await;
    assert_eq!(removed, u64::from(rows) + 5);
    assert!(steps >= 3, "{rows} rows went in {steps} steps");
    assert_eq!(prune(&mut scene).await.0, 0);
}

/// Rows below the watermark, each a little older than the one before.
async fn fill<DB: Probe>(scene: &mut Scene<DB>, scope: &Scope, rows: u32) {
    let Scope { consumer_ref, partition_ref, .. } = scope;
    let (long_ago, (before, after)) = (DB::LONG_AGO, DB::BYTES_HEX);
    let fingerprint = format!("{before}{:032}{after}", 1);
    scene.run("BEGIN").await;
    for chunk in 0..rows / 500 {
        let values: Vec<_> = (0..500)
            .map(|n| {
                let number = u128::from(chunk * 500 + n) << 8;
                let id = literal::<DB>(number.to_be_bytes());
                let time = DB::older(long_ago, chunk * 500 + n);
                format!("({consumer_ref}, {id}, {fingerprint}, {partition_ref}, 0, {time})")
            })
            .collect();
        scene
            .run(&format!(
                "INSERT INTO inbox_events (consumer_ref, event_id, fingerprint, partition_ref, \
                 \"offset\", processed_at) VALUES {}",
                values.join(", ")
            ))
            .await;
    }
    scene.run("COMMIT").await;
}

/// G3: a second pruner does nothing while the first one works (rule `PruneAlone`).
pub async fn one_pruner_at_a_time<DB: Probe>(settings: DB::Settings) {
    if DB::HOLD_PRUNER.is_empty() {
        return;
    }
    let (mut scene, scope) = aged::<DB>(settings, "prune-alone").await;
    scene.run(DB::HOLD_PRUNER).await;
    let consumer = scene.request.consumer.clone();
    let step = DB::prune_step(&mut scene.session, &consumer, DAY, PruneCursor::default()).await;
    let expected = PruneStep { removed: 0, next: None, steps_left: 0, busy: true };
    assert_eq!(step.expect("a prune step failed"), expected);
    scene.run("ROLLBACK").await;
    assert_eq!(prune(&mut scene).await.0, 5);
    assert_eq!(scene.events(&scope).await, 0);
}
