//! The partition of an intake: nobody owns it, so its lanes are locked.

use std::time::Duration;

use inbox_engine::internal::{Lane, Offset};
use outbox_core::IdScope;
use uuid::Uuid;

use super::{
    Probe,
    scene::{LIMITS, Scene, claim_of, step},
};
use inbox_store::internal::port::{IntakePartition, LockedLane, Owner, Suspect};

/// How long somebody is seen to wait.
const WAITS: Duration = Duration::from_millis(200);

/// It is found under its consumer and its name, and by no other.
pub async fn an_intake_is_found_by_its_name<DB: Probe>(settings: DB::Settings) {
    let mut scene = Scene::<DB>::new(settings, "intake-name").await;
    let found = DB::intake_partition(&mut scene.session, &scene.request).await;
    assert_eq!(found.expect("the look"), None, "nobody has made it");
    let taken = scene.take_over().await;
    let found = DB::intake_partition(&mut scene.session, &scene.request).await;
    let found = found.expect("the look").expect("it was made");
    assert_eq!(found.scope(), taken.scope);
    assert_eq!(found.lane_count, scene.request.lanes.count);
    scene.request.consumer = "intake-other".into();
    let other = DB::intake_partition(&mut scene.session, &scene.request).await;
    assert_eq!(other.expect("the look"), None);
}

/// Parked rows with keys of another rule would not hold what comes behind them: they get theirs by a take-over (rule
/// `ParkedKeysFollowRule`).
pub async fn an_intake_with_keys_of_another_rule_is_taken_over<DB: Probe>(settings: DB::Settings) {
    let mut scene = Scene::<DB>::new(settings, "intake-keys").await;
    let taken = scene.take_over().await;
    let others = format!(
        "UPDATE inbox_partitions SET key_epoch = epoch, key_rule = 'another' WHERE partition_ref = {}",
        taken.scope.partition_ref
    );
    assert_eq!(scene.run(&others).await, 1);
    let found = DB::intake_partition(&mut scene.session, &scene.request).await;
    assert_eq!(found.expect("the look"), None);
    let taken = scene.take_over().await;
    let found = DB::intake_partition(&mut scene.session, &scene.request).await;
    assert_eq!(found.expect("the look").expect("it was taken over").scope(), taken.scope);
}

/// An intake that is opened with another id scope is refused: it would recognise none of the ids in the inbox (rule
/// `IdScopeStored`).
pub async fn an_intake_of_another_scope_is_refused<DB: Probe>(settings: DB::Settings) {
    let mut scene = Scene::<DB>::new(settings, "intake-scope").await;
    scene.take_over().await;
    scene.request.id_scope = IdScope::Topic;
    let found = DB::intake_partition(&mut scene.session, &scene.request).await;
    let refused = found.expect_err("it has another scope").to_string();
    assert!(refused.contains("`events.id_scope = \"topic\"`"), "{refused}");
}

/// Lanes come in their order, whatever order is asked for, and whoever wants one waits for the transaction that has it; what
/// that one has committed is seen then.
pub async fn a_locked_lane_is_waited_for<DB: Probe>(settings: DB::Settings) {
    let mut scene = Scene::<DB>::new(settings, "intake-lock").await;
    let scope = scene.take_over().await.scope;
    DB::begin(&mut scene.session, &LIMITS).await.expect("BEGIN");
    let lanes = [(Lane(2), Offset(-1)), (Lane(0), Offset(-1))];
    let locked = DB::lock_lanes(&mut scene.session, scope.partition_ref, &lanes).await;
    let lane = |lane, last| LockedLane { lane: Lane(lane), epoch: scope.epoch, last: Offset(last) };
    assert_eq!(locked.expect("the lock"), [lane(0, -1), lane(2, -1)]);

    let mut other = scene.session().await;
    let waiting = tokio::spawn(async move {
        DB::begin(&mut other, &LIMITS).await.expect("BEGIN");
        let locked =
            DB::lock_lanes(&mut other, scope.partition_ref, &[(Lane(0), Offset(-1))]).await;
        let locked = locked.expect("the lock");
        let look = DB::recheck(&mut other, &scope, &[super::scene::id(1)], &[]).await;
        DB::rollback(&mut other).await.expect("ROLLBACK");
        (locked, look.expect("the look").known.len())
    });
    tokio::time::sleep(WAITS).await;
    assert!(!waiting.is_finished(), "two transactions have one lane");

    let claim = claim_of(&[(1, 4)], &[step(0, -1, 4)]);
    let claimed = DB::claim(&mut scene.session, &scope, &claim).await.expect("the claim");
    let moved = DB::advance(&mut scene.session, &scope, &claimed.tx, &claim.lanes, None).await;
    assert_eq!(moved.expect("the advance"), 1);
    DB::commit(&mut scene.session).await.expect("COMMIT");
    let (locked, known) = waiting.await.expect("the other transaction");
    assert_eq!((locked, known), (vec![lane(0, 4)], 1));
}

/// Builds that found a lane by its number alone have moved it without saying in which slot it is: the next lock of an
/// intake puts it right, as there is no take-over between its processes (rule `LockPutsSlotRight`).
pub async fn a_lane_that_an_older_build_has_moved_goes_on<DB: Probe>(settings: DB::Settings) {
    let mut scene = Scene::<DB>::new(settings, "intake-older").await;
    let scope = scene.take_over().await.scope;
    let moved = format!(
        "UPDATE inbox_lanes SET last_offset = 1000 WHERE partition_ref = {} AND lane = 1",
        scope.partition_ref
    );
    assert_eq!(scene.run(&moved).await, 1);
    for (number, last, seen) in [(1, 1000, -1), (2, 1003, 1000)] {
        DB::begin(&mut scene.session, &LIMITS).await.expect("BEGIN");
        let lanes = [(Lane(0), Offset(-1)), (Lane(1), Offset(seen))];
        let locked = DB::lock_lanes(&mut scene.session, scope.partition_ref, &lanes).await;
        assert_eq!(locked.expect("the lock")[1].last, Offset(last));
        let claim = claim_of(&[(number, last + 3)], &[step(1, last, last + 3)]);
        let claimed = DB::claim(&mut scene.session, &scope, &claim).await.expect("the claim");
        assert_eq!(claimed.lanes_mine, 1);
        let moved = DB::advance(&mut scene.session, &scope, &claimed.tx, &claim.lanes, None).await;
        assert_eq!(moved.expect("the advance"), 1);
        DB::commit(&mut scene.session).await.expect("COMMIT");
    }
}

/// Everything that is committed is below it, and it never goes back.
pub async fn the_watermark_of_an_intake_follows_its_lanes<DB: Probe>(settings: DB::Settings) {
    let mut scene = Scene::<DB>::new(settings, "intake-watermark").await;
    let scope = scene.take_over().await.scope;
    let sql = format!(
        "SELECT watermark FROM inbox_partitions WHERE partition_ref = {}",
        scope.partition_ref
    );
    let owner = a_process();
    for (claim, watermark) in [
        (claim_of(&[(1, 6)], &[step(2, -1, 6)]), 7),
        (claim_of(&[(2, 4)], &[step(0, -1, 4)]), 7),
        (claim_of(&[(3, 9)], &[step(1, -1, 9)]), 10),
    ] {
        scene.settle(&scope, &claim).await;
        let settled = DB::settle_lanes(&mut scene.session, scope.partition_ref, &owner).await;
        settled.expect("the watermark");
        assert_eq!(scene.number(&sql).await, watermark);
    }
    let rows = DB::partitions(&mut scene.session, "intake-watermark").await.expect("partitions");
    assert_eq!(rows[0].owner.as_deref(), Some("a process"));
}

fn a_process() -> Owner {
    Owner { name: "a process".into(), instance_id: None, incarnation: Uuid::new_v4() }
}

/// Whoever comes after a process that ended without a word is told of it, and of what it had written down.
pub async fn what_a_process_of_an_intake_left_is_known<DB: Probe>(settings: DB::Settings) {
    let mut scene = Scene::<DB>::new(settings, "intake-left").await;
    let scope = scene.take_over().await.scope;
    let (dead, next) = (a_process(), a_process());
    let at = scope.partition_ref;
    DB::settle_lanes(&mut scene.session, at, &dead).await.expect("the watermark");
    let found = DB::intake_partition(&mut scene.session, &scene.request).await;
    let found = found.expect("the look").expect("it was made");
    assert_eq!(found.incarnation, Some(dead.incarnation));
    let places = [1, 2].map(|n| IntakePartition::place_of(&super::scene::id(n)));
    assert!(places[0] != places[1] && places.iter().all(|place| place.0 < 0), "{places:?}");
    let written = DB::suspect(&mut scene.session, &scope, dead.incarnation, &places).await;
    written.expect("what runs");
    let ended = DB::acquit(&mut scene.session, &scope, dead.incarnation, &places[1..]).await;
    ended.expect("what has ended");
    let left = DB::unfinished(&mut scene.session, at, next.incarnation).await.expect("the look");
    assert_eq!(left, [Suspect { offset: places[0], deaths: 1, doom: None }]);
    let own = DB::unfinished(&mut scene.session, at, dead.incarnation).await.expect("the look");
    assert_eq!(own, [], "it runs its own");
    DB::forget_unfinished(&mut scene.session, at).await.expect("it is forgotten");
    let left = DB::unfinished(&mut scene.session, at, next.incarnation).await.expect("the look");
    assert_eq!(left, []);
    DB::disown(&mut scene.session, &[scope]).await.expect("it ends");
    let found = DB::intake_partition(&mut scene.session, &scene.request).await;
    assert_eq!(found.expect("the look").expect("it was made").incarnation, None);
}
