//! The claim: what is fresh, what is known, what is held, whose the lanes are.

use std::time::Duration;

use inbox_engine::internal::{Epoch, Offset, ParkReason};

use super::{
    Probe,
    scene::{Scene, aggregate, claim_of, claim_on, fingerprint, id, parking, step, try_claim_on},
};
use inbox_store::internal::port::{ClaimRequest, InboxRow, Scope, StoreFault};

/// A1, A2: a recorded id is not fresh again (rule `Inbox`).
pub async fn a_fresh_id_is_claimed_once<DB: Probe>(settings: DB::Settings) {
    let mut scene = Scene::<DB>::new(settings, "claim-once").await;
    let scope = scene.take_over().await.scope;
    let claim = claim_of(&[(1, 0), (2, 1)], &[step(0, -1, 1)]);
    let first = scene.claim(&scope, &claim).await;
    let mut fresh = first.fresh.clone();
    fresh.sort_unstable();
    assert_eq!(fresh, [id(1), id(2)]);
    assert_eq!(first.lanes_mine, 1);
    DB::advance(&mut scene.session, &scope, &first.tx, &claim.lanes, None).await.expect("advance");
    DB::commit(&mut scene.session).await.expect("commit");

    let again = claim_of(&[(1, 0), (2, 1), (3, 2)], &[step(0, 1, 2)]);
    let second = scene.claim(&scope, &again).await;
    assert_eq!(second.fresh, [id(3)]);
    let look = DB::recheck(&mut scene.session, &scope, &[id(1), id(2)], &again.lanes).await;
    let mut look = look.expect("recheck");
    look.known.sort_unstable_by_key(|known| known.id);
    let known = |number, offset| InboxRow {
        id: id(number),
        fingerprint: fingerprint(number),
        sha256: true,
        partition_ref: scope.partition_ref,
        offset: Offset(offset),
        parked: false,
    };
    assert_eq!(look.known, [known(1, 0), known(2, 1)]);
    // A claim may tell some of them already.
    assert!(second.known.iter().all(|told| look.known.contains(told)), "{:?}", second.known);
    assert_eq!(look.lanes_mine, 1);
    scene.rollback().await;
}

/// Ids that are thought to be new are claimed as all others are; or the claim is a conflict, where one is there already,
/// and the next one tells it (rules `Inbox`, `LanesAtClaim`, `HeldReadInClaim`). A database may look them up all the same.
pub async fn ids_that_are_thought_new_are_claimed_once<DB: Probe>(settings: DB::Settings) {
    let mut scene = Scene::<DB>::new(settings, "claim-new").await;
    let scope = scene.take_over().await.scope;
    let claim = claim_of(&[(1, 0), (2, 1)], &[step(0, -1, 1)]);
    scene.park(&scope, &claim, &[parking(1, 0, ParkReason::Exhausted)]).await;

    let new = ClaimRequest {
        expects_new: true,
        aggregates: vec![aggregate(1), aggregate(4)],
        ..claim_of(&[(3, 2), (4, 3)], &[step(0, 1, 3)])
    };
    let older = Scope { epoch: Epoch(scope.epoch.0 - 1), ..scope };
    assert_eq!(scene.claim(&older, &new).await.lanes_mine, 0);
    scene.rollback().await;
    let mut claimed = scene.claim(&scope, &new).await;
    claimed.fresh.sort_unstable();
    assert_eq!((claimed.fresh, claimed.lanes_mine), (vec![id(3), id(4)], 1));
    assert_eq!((claimed.held, claimed.known), (vec![aggregate(1)], vec![]));
    let moved =
        DB::advance(&mut scene.session, &scope, &claimed.tx, &new.lanes, claimed.changed).await;
    assert_eq!(moved.expect("advance"), 1);
    DB::commit(&mut scene.session).await.expect("commit");

    let lanes = [step(0, 3, 5)];
    let again = claim_of(&[(4, 4), (5, 5)], &lanes);
    let expecting = ClaimRequest { expects_new: true, ..again.clone() };
    match try_claim_on::<DB>(&mut scene.session, &scope, &expecting).await {
        Ok(claimed) => assert_eq!(claimed.fresh, [id(5)]),
        Err(error) => assert_eq!(DB::fault(&error), StoreFault::Conflict, "{error}"),
    }
    scene.rollback().await;
    assert_eq!(scene.claim(&scope, &again).await.fresh, [id(5)]);
    scene.rollback().await;
}

/// A known id with other content is told by its fingerprint, and that by its hash.
pub async fn another_content_under_a_known_id_is_seen<DB: Probe>(settings: DB::Settings) {
    let mut scene = Scene::<DB>::new(settings, "claim-content").await;
    let scope = scene.take_over().await.scope;
    scene.settle(&scope, &claim_of(&[(1, 0)], &[step(0, -1, 0)])).await;
    let mut other = claim_of(&[(1, 1)], &[step(0, 0, 1)]);
    other.fingerprints = vec![fingerprint(9)];
    assert!(scene.claim(&scope, &other).await.fresh.is_empty());
    let look = DB::recheck(&mut scene.session, &scope, &[id(1)], &other.lanes).await;
    let known = look.expect("recheck").known[0];
    assert_eq!((known.fingerprint, known.sha256), (fingerprint(1), true));
    scene.rollback().await;

    // As a build writes it that does not know the column.
    let older = "UPDATE inbox_events SET sha256 = false WHERE consumer_ref = ";
    assert_eq!(scene.run(&format!("{older}{}", scope.consumer_ref)).await, 1);
    let two = claim_of(&[(1, 1), (2, 2)], &[step(0, 0, 1)]);
    for claim in [&other, &two] {
        let told = scene.claim(&scope, claim).await.known;
        let look = DB::recheck(&mut scene.session, &scope, &[id(1)], &claim.lanes).await;
        let all = [told, look.expect("recheck").known].concat();
        assert!(all.iter().all(|known| !known.sha256), "{all:?}");
        scene.rollback().await;
    }
}

/// C9: before any handler runs, the claim tells whether the lanes are where memory has them (rule
/// `LanesAtClaim`).
pub async fn a_claim_counts_the_lanes_that_are_mine<DB: Probe>(settings: DB::Settings) {
    let mut scene = Scene::<DB>::new(settings, "claim-lanes").await;
    let scope = scene.take_over().await.scope;
    let mine = [step(0, -1, 0), step(2, -1, 1), step(3, 5, 6)];
    assert_eq!(scene.claim(&scope, &claim_of(&[(1, 0)], &mine)).await.lanes_mine, 2);
    scene.rollback().await;
    let older = Scope { epoch: Epoch(scope.epoch.0 - 1), ..scope };
    assert_eq!(scene.claim(&older, &claim_of(&[(1, 0)], &mine)).await.lanes_mine, 0);
    scene.rollback().await;
}

/// The claim itself tells which aggregates have parked events (rule `HeldReadInClaim`).
pub async fn a_held_aggregate_is_told<DB: Probe>(settings: DB::Settings) {
    let mut scene = Scene::<DB>::new(settings, "claim-held").await;
    let scope = scene.take_over().await.scope;
    let claim = claim_of(&[(1, 0), (2, 1)], &[step(0, -1, 1)]);
    scene.park(&scope, &claim, &[parking(1, 0, ParkReason::Exhausted)]).await;
    let mut later = claim_of(&[(3, 2), (4, 3)], &[step(0, 1, 3)]);
    later.aggregates = vec![aggregate(2), aggregate(1), aggregate(4)];
    assert_eq!(scene.claim(&scope, &later).await.held, [aggregate(1)]);
    scene.rollback().await;
}

/// An event is answered alone as it is among others: a store may have a statement for each (rules `Inbox`,
/// `LanesAtClaim`, `HeldReadInClaim`).
pub async fn an_event_alone_is_answered_as_among_others<DB: Probe>(settings: DB::Settings) {
    let mut scene = Scene::<DB>::new(settings, "claim-alone").await;
    let scope = scene.take_over().await.scope;
    let claim = claim_of(&[(1, 0), (2, 1)], &[step(0, -1, 1)]);
    scene.park(&scope, &claim, &[parking(1, 0, ParkReason::Exhausted)]).await;
    let older = Scope { epoch: Epoch(scope.epoch.0 - 1), ..scope };
    for scope in [scope, older] {
        for (number, prev) in [(1, 1), (2, 1), (3, 1), (3, 0)] {
            let lane = step(0, prev, 2);
            let alone = scene.claim(&scope, &claim_of(&[(number, 2)], &[lane])).await;
            scene.rollback().await;
            let both = claim_of(&[(number, 2), (7, 3)], &[lane, step(3, -1, 3)]);
            let among = scene.claim(&scope, &both).await;
            scene.rollback().await;
            let said = (number, prev, scope.epoch);
            assert_eq!(alone.fresh.contains(&id(number)), number == 3, "{said:?}");
            assert_eq!(among.fresh.contains(&id(number)), number == 3, "{said:?}");
            assert_eq!(
                (alone.held.len(), among.held.len()),
                if number == 1 { (1, 1) } else { (0, 0) }
            );
            assert_eq!(alone.held, among.held, "{said:?}");
            let mine = u64::from(prev == 1 && scope.epoch != older.epoch);
            let other = u64::from(scope.epoch != older.epoch);
            assert_eq!((alone.lanes_mine, among.lanes_mine), (mine, mine + other), "{said:?}");
        }
    }
}

/// Two consumers of one database claim the same id each (rule `ConsumerScope`).
pub async fn ids_belong_to_their_consumer<DB: Probe>(settings: DB::Settings) {
    let mut one = Scene::<DB>::new(settings.clone(), "claim-scope-1").await;
    let mut two = Scene::<DB>::new(settings, "claim-scope-2").await;
    let claim = claim_of(&[(1, 0)], &[step(0, -1, 0)]);
    let (mine, theirs) = (one.take_over().await.scope, two.take_over().await.scope);
    one.settle(&mine, &claim).await;
    assert_eq!(two.claim(&theirs, &claim).await.fresh, [id(1)]);
    two.rollback().await;
}

/// Finding 8: an id that comes twice in one statement is never fresh twice; the engine makes them distinct.
pub async fn the_same_id_twice_in_a_claim_is_not_fresh_twice<DB: Probe>(settings: DB::Settings) {
    let mut scene = Scene::<DB>::new(settings, "claim-twice").await;
    let scope = scene.take_over().await.scope;
    let twice = claim_of(&[(1, 0), (1, 1)], &[step(0, -1, 1)]);
    match try_claim_on::<DB>(&mut scene.session, &scope, &twice).await {
        Ok(claimed) => assert_eq!(claimed.fresh, [id(1)]),
        Err(error) => assert_eq!(DB::fault(&error), StoreFault::Conflict, "{error}"),
    }
    scene.rollback().await;
}

/// Finding 9, B13: the claim waits for another transaction with the same id; the second look then
/// knows its row, and that the lane has moved (rule `DuplicatesRereadLanes`).
pub async fn a_claim_that_waited_sees_the_other_ones_outcome<DB: Probe>(settings: DB::Settings) {
    let mut scene = Scene::<DB>::new(settings, "claim-waited").await;
    let scope = scene.take_over().await.scope;
    let claim = claim_of(&[(1, 0)], &[step(0, -1, 0)]);
    let first = scene.claim(&scope, &claim).await;

    let mut other = scene.session().await;
    let same = claim.clone();
    let waiting = tokio::spawn(async move {
        let claimed = claim_on::<DB>(&mut other, &scope, &same).await;
        let look = DB::recheck(&mut other, &scope, &same.ids, &same.lanes).await;
        DB::rollback(&mut other).await.expect("rollback");
        (claimed, look.expect("recheck"))
    });
    tokio::time::sleep(Duration::from_millis(300)).await;
    DB::advance(&mut scene.session, &scope, &first.tx, &claim.lanes, None).await.expect("advance");
    DB::commit(&mut scene.session).await.expect("commit");

    let (claimed, look) = waiting.await.expect("the waiting claim panicked");
    assert!(claimed.fresh.is_empty(), "an id that another transaction committed is not fresh");
    assert_eq!(look.known.len(), 1, "the second look has to know the other's row");
    assert_eq!(look.known[0].fingerprint, fingerprint(1));
    assert_eq!(look.lanes_mine, 0, "the lane has moved while the claim waited");
}

/// The same among others: the claim says that it met another one, and the next one knows its row; or it
/// knows at once (rule `Inbox`, B14).
pub async fn a_claim_of_several_that_waited_tells_nothing_as_fresh<DB: Probe>(
    settings: DB::Settings,
) {
    let mut scene = Scene::<DB>::new(settings, "claim-several-waited").await;
    let scope = scene.take_over().await.scope;
    let claim = claim_of(&[(1, 0), (2, 1)], &[step(0, -1, 1)]);
    let first = scene.claim(&scope, &claim).await;

    let mut other = scene.session().await;
    let same = claim.clone();
    let waiting = tokio::spawn(async move {
        let claimed = try_claim_on::<DB>(&mut other, &scope, &same).await;
        DB::rollback(&mut other).await.expect("rollback");
        claimed
    });
    tokio::time::sleep(Duration::from_millis(300)).await;
    DB::advance(&mut scene.session, &scope, &first.tx, &claim.lanes, None).await.expect("advance");
    DB::commit(&mut scene.session).await.expect("commit");

    match waiting.await.expect("the waiting claim panicked") {
        Ok(claimed) => assert!(claimed.fresh.is_empty(), "another transaction committed both"),
        Err(error) => assert_eq!(DB::fault(&error), StoreFault::Conflict, "{error}"),
    }
    let again = scene.claim(&scope, &claim_of(&[(1, 0), (2, 1)], &[step(0, 1, 1)])).await;
    assert!(again.fresh.is_empty(), "the next claim has to know both");
    scene.rollback().await;
}

/// A rollback takes the claim back.
pub async fn a_claim_that_was_rolled_back_leaves_nothing<DB: Probe>(settings: DB::Settings) {
    let mut scene = Scene::<DB>::new(settings, "claim-rolled-back").await;
    let scope = scene.take_over().await.scope;
    let claim = claim_of(&[(1, 0)], &[step(0, -1, 0)]);
    scene.claim(&scope, &claim).await;
    scene.rollback().await;
    assert_eq!(scene.events(&scope).await, 0);
    assert_eq!(scene.claim(&scope, &claim).await.fresh, [id(1)]);
    scene.reopen().await;
    assert_eq!(scene.claim(&scope, &claim).await.fresh, [id(1)], "a closed session kept its claim");
    scene.rollback().await;
}

/// B14: claims of the same ids, each sorted by bytes, wait for each other but never in a circle.
pub async fn sorted_claims_of_the_same_ids_never_deadlock<DB: Probe>(settings: DB::Settings) {
    let mut scene = Scene::<DB>::new(settings, "claim-sorted").await;
    let scope = scene.take_over().await.scope;
    let mut workers = Vec::new();
    for worker in 0..4_u8 {
        let mut conn = scene.session().await;
        workers.push(tokio::spawn(async move {
            for round in 0..20_u8 {
                let events: Vec<_> =
                    (0..20).map(|n| (n + (worker + round) % 5, i64::from(n))).collect();
                let claimed = try_claim_on::<DB>(&mut conn, &scope, &claim_of(&events, &[])).await;
                let fault = claimed.err().map(|error| (DB::fault(&error), error.to_string()));
                assert!(fault.is_none(), "{fault:?} in place of {:?}", StoreFault::Conflict);
                DB::rollback(&mut conn).await.expect("rollback");
            }
        }));
    }
    for worker in workers {
        worker.await.expect("a sorted claim failed");
    }
}
