//! Parked events: in order, marked, found again.

use inbox_engine::{LeaderEpoch, Offset, ParkReason};

use super::{
    Probe,
    scene::{Scene, aggregate, claim_of, fingerprint, id, parking, step},
};
use crate::pipeline::port::{Parking, Scope};

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
