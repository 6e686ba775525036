//! Parked events: in order, marked, found again.

use std::time::Duration;

use inbox_engine::internal::{LeaderEpoch, NextOffset, Offset, ParkReason};

use super::{
    Probe,
    scene::{Scene, aggregate, claim_of, claim_on, fingerprint, id, parking, step},
};
use inbox_store::internal::port::{ParkedLoad, Parking, Scope};

const THREE: [(u8, i64); 3] = [(1, 0), (2, 1), (3, 2)];

/// Events 1, 2 and 3 of one aggregate: the head and its followers.
fn queue() -> Vec<Parking> {
    let follower = |number, offset| Parking {
        aggregate: aggregate(1),
        ..parking(number, offset, ParkReason::Follower)
    };
    vec![parking(1, 0, ParkReason::Exhausted), follower(2, 1), follower(3, 2)]
}

async fn parked<DB: Probe>(settings: DB::Settings, name: &str) -> (Scene<DB>, Scope) {
    let mut scene = Scene::<DB>::new(settings, name).await;
    let scope = scene.take_over().await.scope;
    scene.park(&scope, &claim_of(&THREE, &[step(0, -1, 2)]), &queue()).await;
    (scene, scope)
}

/// The order of the rows is the order of the queue, and their inbox rows are marked.
pub async fn parked_events_keep_their_order<DB: Probe>(settings: DB::Settings) {
    let (mut scene, scope) = parked::<DB>(settings, "parking").await;
    let partition = scope.partition_ref;
    for (place, offset) in [(0, 0), (1, 1), (2, 2)] {
        let sql = format!(
            "SELECT \"offset\" FROM inbox_parked WHERE partition_ref = {partition} \
             ORDER BY parked_seq LIMIT 1 OFFSET {place}"
        );
        assert_eq!(scene.number(&sql).await, offset);
    }
    let ids = [id(1), id(2), id(3)];
    scene.claim(&scope, &claim_of(&[], &[])).await;
    let look = DB::recheck(&mut scene.session, &scope, &ids, &[]).await.expect("recheck");
    assert_eq!(look.known.iter().filter(|known| known.parked).count(), 3);
    scene.rollback().await;
    let rows = DB::partitions(&mut scene.session, "parking").await.expect("partitions");
    assert_eq!((rows[0].parked_aggregates, rows[0].parked_events), (1, 3));
}

/// Only the head waits for a person or a time; its followers wait for it.
pub async fn a_follower_has_no_due_time<DB: Probe>(settings: DB::Settings) {
    let (mut scene, scope) = parked::<DB>(settings, "parking-due").await;
    let partition = scope.partition_ref;
    let sql = format!(
        "SELECT count(*) FROM inbox_parked WHERE partition_ref = {partition} AND \
         ((due_at IS NULL AND reason = 'follower') OR (due_at IS NOT NULL AND reason = 'exhausted'))"
    );
    assert_eq!(scene.number(&sql).await, 3);
}

/// A redelivery that is parked again (rows may have been lost from memory) does not fail.
pub async fn parking_the_same_delivery_again_changes_nothing<DB: Probe>(settings: DB::Settings) {
    let (mut scene, scope) = parked::<DB>(settings, "parking-again").await;
    scene.park(&scope, &claim_of(&THREE, &[step(0, 2, 2)]), &queue()).await;
    let partition = scope.partition_ref;
    let sql = format!("SELECT count(*) FROM inbox_parked WHERE partition_ref = {partition}");
    assert_eq!(scene.number(&sql).await, 3);
}

/// No loss: a parked row of an older record must not stand for a new one.
pub async fn another_record_at_a_parked_place_is_not_swallowed<DB: Probe>(settings: DB::Settings) {
    let (mut scene, scope) = parked::<DB>(settings, "parking-place").await;
    let other =
        Parking { id: id(9), fingerprint: fingerprint(9), ..parking(9, 0, ParkReason::Rejected) };
    scene.claim(&scope, &claim_of(&[(9, 0)], &[step(0, 2, 2)])).await;
    let parked = DB::park(&mut scene.session, &scope, &[other]).await;
    assert!(parked.is_err(), "the record at a parked place was lost");
    scene.rollback().await;
}

/// Finding 3e: a redelivery of a parked delivery is known by its place, whatever it decodes to now.
pub async fn a_parked_place_is_found_again<DB: Probe>(settings: DB::Settings) {
    let (mut scene, scope) = parked::<DB>(settings, "parking-found").await;
    scene.claim(&scope, &claim_of(&[], &[])).await;
    let asked = [
        (Offset(2), LeaderEpoch(3)),
        (Offset(1), LeaderEpoch(4)),
        (Offset(0), LeaderEpoch(3)),
        (Offset(7), LeaderEpoch(3)),
    ];
    let mut found = DB::parked_at(&mut scene.session, &scope, &asked).await.expect("parked_at");
    found.sort_unstable();
    assert_eq!(found, [Offset(0), Offset(2)]);
    scene.rollback().await;
}

/// A scheduled event is due when its delay has passed, by the database's clock.
pub async fn a_schedule_counts_by_the_databases_clock<DB: Probe>(settings: DB::Settings) {
    let mut scene = Scene::<DB>::new(settings, "parking-schedule").await;
    let scope = scene.take_over().await.scope;
    let after =
        |number, offset, delay| Parking { delay, ..parking(number, offset, ParkReason::Exhausted) };
    let (now, later) = (Some(Duration::ZERO), Some(Duration::from_hours(1)));
    let rows = [after(1, 0, now), after(2, 1, later), after(3, 2, None)];
    scene.park(&scope, &claim_of(&THREE, &[step(0, -1, 2)]), &rows).await;
    let found = DB::find_due(&mut scene.session, &[(scope, NextOffset(0))], 10).await;
    let found: Vec<_> = found.expect("find_due")[0].iter().map(|queue| queue.aggregate).collect();
    assert_eq!(found, [aggregate(1)]);
}

/// Aggregates and events are counted apart, each up to one more than its limit.
pub async fn the_load_is_counted_up_to_its_limit<DB: Probe>(settings: DB::Settings) {
    let (mut scene, scope) = parked::<DB>(settings, "parking-load").await;
    let claim = claim_of(&[(4, 3), (5, 4)], &[step(0, 2, 4)]);
    let rows = [parking(4, 3, ParkReason::Rejected), parking(5, 4, ParkReason::Rejected)];
    scene.park(&scope, &claim, &rows).await;
    let each = parking(4, 3, ParkReason::Rejected).record.len() as u64;
    let load = |aggregates, events| ParkedLoad { aggregates, events, bytes: events * each };
    for (limit, counted) in [
        (load(100, 100), load(3, 5)),
        (load(3, 5), load(3, 5)),
        (load(2, 4), load(3, 5)),
        (load(1, 1), load(2, 2)),
    ] {
        scene.claim(&scope, &claim_of(&[], &[])).await;
        let found = DB::parked_load(&mut scene.session, &scope, limit).await;
        assert_eq!(found.expect("the count failed"), counted, "up to {limit:?}");
        scene.rollback().await;
    }
    let other = Scope { partition_ref: scope.partition_ref + 1_000, ..scope };
    scene.claim(&scope, &claim_of(&[], &[])).await;
    let none = DB::parked_load(&mut scene.session, &other, load(9, 9)).await;
    assert_eq!(none.expect("the count failed"), load(0, 0));
    scene.rollback().await;
}

/// What was counted stays true until COMMIT: whoever else parks in the partition waits (rule
/// `ParkedLimitLocked`).
pub async fn transactions_that_park_count_one_after_the_other<DB: Probe>(settings: DB::Settings) {
    let mut scene = Scene::<DB>::new(settings, "parking-turns").await;
    let scope = scene.take_over().await.scope;
    let mut session = scene.session().await;
    // The first one to park in a partition writes that down: a lock of its own.
    scene.claim(&scope, &claim_of(&[], &[])).await;
    DB::park_alone(&mut scene.session, &scope).await.expect("the lock");
    DB::commit(&mut scene.session).await.expect("the commit failed");
    let first = claim_of(&[(1, 0)], &[step(0, -1, 0)]);
    let claimed = scene.claim(&scope, &first).await;
    DB::park_alone(&mut scene.session, &scope).await.expect("the lock");
    let rows = [parking(1, 0, ParkReason::Rejected)];
    DB::park(&mut scene.session, &scope, &rows).await.expect("parking failed");
    let limit = ParkedLoad { aggregates: 9, events: 9, bytes: 9_000 };
    let second = async {
        let second = claim_of(&[(2, 1)], &[step(1, -1, 1)]);
        claim_on::<DB>(&mut session, &scope, &second).await;
        DB::park_alone(&mut session, &scope).await.expect("the lock");
        let load = DB::parked_load(&mut session, &scope, limit).await.expect("the count failed");
        DB::rollback(&mut session).await.expect("the rollback failed");
        load.events
    };
    let mut second = std::pin::pin!(second);
    let waits = tokio::time::timeout(Duration::from_millis(300), &mut second).await;
    assert!(waits.is_err(), "two transactions parked at once");
    let moved = DB::advance(&mut scene.session, &scope, &claimed.tx, &first.lanes, None).await;
    assert_eq!(moved.expect("the advance failed"), 1);
    DB::commit(&mut scene.session).await.expect("the commit failed");
    assert_eq!(second.await, 1, "what the first one parked was not seen");
}
