//! Versions of aggregates: read in the claim, written in the advance, over what was read.

use std::time::Duration;

use inbox_engine::internal::{Epoch, LeaderEpoch, NextOffset, Offset, ParkReason};
use inbox_store::internal::port::{
    Advanced, AsideEvent, ClaimRequest, LastVersion, Parking, Scope, VersionMove, WaitingEvent,
};

use super::{
    Probe,
    scene::{LIMITS, Scene, aggregate, claim_of, id, parking, step},
};

/// From `prev` to `new`.
fn change(number: u8, prev: Option<i64>, new: i64) -> VersionMove {
    VersionMove { key: aggregate(number), prev, new, awaits: Vec::new() }
}

/// All aggregates that a scenario has.
fn keys() -> Vec<[u8; 16]> {
    (1..=5).map(aggregate).collect()
}

impl<DB: Probe> Scene<DB> {
    async fn claim_versions(&mut self, scope: &Scope, claim: &ClaimRequest) -> Vec<LastVersion> {
        DB::begin(&mut self.session, &LIMITS).await.expect("BEGIN failed");
        let claimed = DB::claim_versions(&mut self.session, scope, claim, &keys()).await;
        let (claimed, mut last) = claimed.expect("the claim failed");
        assert_eq!(claimed.fresh.len(), claim.ids.len(), "all are fresh");
        self.tx = claimed.tx;
        last.sort_unstable();
        last
    }

    async fn advance_versions(
        &mut self,
        scope: &Scope,
        claim: &ClaimRequest,
        versions: &[VersionMove],
    ) -> Advanced {
        let (session, tx) = (&mut self.session, &self.tx);
        let moved = DB::advance_versions(session, scope, tx, &claim.lanes, None, versions).await;
        moved.expect("the advance failed")
    }

    /// What another session sees.
    async fn versions(&mut self, scope: &Scope) -> Vec<LastVersion> {
        let mut other = self.session().await;
        let last = DB::last_versions(&mut other, scope, &keys()).await;
        let mut last = last.expect("the versions cannot be read");
        last.sort_unstable();
        last
    }
}

/// What a transaction wrote, and nothing else, is what the next claim reads, alone and among others.
pub async fn a_version_is_read_by_the_next_claim<DB: Probe>(settings: DB::Settings) {
    let mut scene = Scene::<DB>::new(settings, "versions").await;
    let scope = scene.take_over().await.scope;
    let claim = claim_of(&[(1, 0), (2, 1)], &[step(0, -1, 1)]);
    assert!(scene.claim_versions(&scope, &claim).await.is_empty());
    let changes = [change(1, None, 7), change(2, None, i64::MIN)];
    let advanced = scene.advance_versions(&scope, &claim, &changes).await;
    assert_eq!(advanced, Advanced { lanes: 1, versions: 2, woken: 0 });
    assert!(scene.versions(&scope).await.is_empty(), "nobody sees what is not committed");
    DB::commit(&mut scene.session).await.expect("commit");
    let written = [(aggregate(1), 7), (aggregate(2), i64::MIN)];
    assert_eq!(scene.versions(&scope).await, written);

    let claim = claim_of(&[(3, 2), (4, 3)], &[step(0, 1, 3)]);
    assert_eq!(scene.claim_versions(&scope, &claim).await, written);
    let changes = [change(1, Some(7), i64::MAX), change(2, Some(i64::MIN), 0)];
    assert_eq!(scene.advance_versions(&scope, &claim, &changes).await.versions, 2);
    DB::commit(&mut scene.session).await.expect("commit");
    let single = claim_of(&[(5, 4)], &[step(0, 3, 4)]);
    DB::begin(&mut scene.session, &LIMITS).await.expect("BEGIN failed");
    for (number, wanted) in [(1, Some((aggregate(1), i64::MAX))), (5, None)] {
        let keys = [aggregate(number)];
        let last = DB::claim_versions(&mut scene.session, &scope, &single, &keys).await;
        let (claimed, last) = last.expect("the claim failed");
        assert_eq!(last.first().copied(), wanted, "alone");
        scene.rollback().await;
        assert_eq!((claimed.fresh, claimed.lanes_mine), (vec![id(5)], 1));
        DB::begin(&mut scene.session, &LIMITS).await.expect("BEGIN failed");
    }
    scene.rollback().await;
}

/// A claim with versions answers everything that one without answers.
pub async fn a_claim_with_versions_is_a_claim<DB: Probe>(settings: DB::Settings) {
    let mut scene = Scene::<DB>::new(settings, "versions-claim").await;
    let scope = scene.take_over().await.scope;
    let claim = claim_of(&[(1, 0), (2, 1)], &[step(0, -1, 1)]);
    scene.park(&scope, &claim, &[parking(1, 0, ParkReason::Exhausted)]).await;
    let older = Scope { epoch: Epoch(scope.epoch.0 - 1), ..scope };
    for scope in [scope, older] {
        for events in [&[(1, 0), (3, 2)][..], &[(1, 2)], &[(3, 2)]] {
            let claim = claim_of(events, &[step(0, 1, 2)]);
            let mut without = scene.claim(&scope, &claim).await;
            scene.rollback().await;
            DB::begin(&mut scene.session, &LIMITS).await.expect("BEGIN failed");
            let keys = &keys()[..events.len()];
            let with = DB::claim_versions(&mut scene.session, &scope, &claim, keys).await;
            let (with, _) = with.expect("the claim failed");
            scene.rollback().await;
            (without.tx, without.changed) = (with.tx.clone(), with.changed);
            assert_eq!(with, without, "{events:?}");
        }
    }
}

/// A version that another transaction has changed since the claim is not written over, nor one that it has made
/// (rule `VersionsCompared`).
pub async fn a_version_that_another_wrote_is_kept<DB: Probe>(settings: DB::Settings) {
    let mut scene = Scene::<DB>::new(settings, "versions-compared").await;
    let scope = scene.take_over().await.scope;
    let claim = claim_of(&[(1, 0)], &[step(0, -1, 0)]);
    scene.claim_versions(&scope, &claim).await;
    scene.advance_versions(&scope, &claim, &[change(1, None, 7)]).await;
    DB::commit(&mut scene.session).await.expect("commit");
    // As another partition would have it.
    for stale in [change(1, None, 8), change(1, Some(6), 8), change(1, Some(8), 9)] {
        let claim = claim_of(&[(2, 1)], &[step(0, 0, 1)]);
        scene.claim_versions(&scope, &claim).await;
        let changes = [stale.clone(), change(3, None, 1)];
        let advanced = scene.advance_versions(&scope, &claim, &changes).await;
        assert_eq!(advanced, Advanced { lanes: 1, versions: 1, woken: 0 }, "{stale:?}");
        scene.rollback().await;
    }
    assert_eq!(scene.versions(&scope).await, [(aggregate(1), 7)]);
}

/// Versions belong to a consumer (rule `ConsumerScope`).
pub async fn versions_belong_to_their_consumer<DB: Probe>(settings: DB::Settings) {
    let mut one = Scene::<DB>::new(settings.clone(), "versions-one").await;
    let mut two = Scene::<DB>::new(settings, "versions-two").await;
    let (mine, theirs) = (one.take_over().await.scope, two.take_over().await.scope);
    let claim = claim_of(&[(1, 0)], &[step(0, -1, 0)]);
    one.claim_versions(&mine, &claim).await;
    one.advance_versions(&mine, &claim, &[change(1, None, 7)]).await;
    DB::commit(&mut one.session).await.expect("commit");
    assert!(two.claim_versions(&theirs, &claim).await.is_empty());
    let advanced = two.advance_versions(&theirs, &claim, &[change(1, None, 3)]).await;
    assert_eq!(advanced.versions, 1);
    DB::commit(&mut two.session).await.expect("commit");
    assert_eq!(one.versions(&mine).await, [(aggregate(1), 7)]);
    assert_eq!(two.versions(&theirs).await, [(aggregate(1), 3)]);
}

/// C9: whoever is fenced has moved no lane, and its transaction is rolled back with what it wrote.
pub async fn a_fenced_transaction_writes_no_version<DB: Probe>(settings: DB::Settings) {
    let mut scene = Scene::<DB>::new(settings, "versions-fenced").await;
    let scope = scene.take_over().await.scope;
    let claim = claim_of(&[(1, 0)], &[step(0, -1, 0)]);
    let older = Scope { epoch: Epoch(scope.epoch.0 - 1), ..scope };
    scene.claim_versions(&older, &claim).await;
    let advanced = scene.advance_versions(&older, &claim, &[change(1, None, 7)]).await;
    assert_eq!(advanced.lanes, 0);
    scene.rollback().await;
    assert!(scene.versions(&scope).await.is_empty());
}

/// Event 1 waits in queue 9 for a version of aggregate 1, for an hour.
async fn waiting<DB: Probe>(settings: DB::Settings, name: &str) -> (Scene<DB>, Scope) {
    let mut scene = Scene::<DB>::new(settings, name).await;
    let scope = scene.take_over().await.scope;
    let claim = claim_of(&[(1, 0)], &[step(0, -1, 0)]);
    scene.claim_versions(&scope, &claim).await;
    let delay = Some(Duration::from_hours(1));
    let row = Parking { aggregate: aggregate(9), delay, ..parking(1, 0, ParkReason::Gap) };
    DB::park_alone(&mut scene.session, &scope).await.expect("the lock");
    DB::park(&mut scene.session, &scope, &[row]).await.expect("parking failed");
    let event = WaitingEvent {
        offset: Offset(0),
        leader_epoch: LeaderEpoch(3),
        version: 6,
        joins: aggregate(1),
    };
    let set = DB::set_joins(&mut scene.session, &scope, &[event]).await;
    assert_eq!(set.expect("setting the queue failed"), 1);
    scene.advance_versions(&scope, &claim, &[change(1, None, 5)]).await;
    DB::commit(&mut scene.session).await.expect("commit");
    (scene, scope)
}

impl<DB: Probe> Scene<DB> {
    /// The queues among 1 and 9 that have parked events.
    async fn queues(&mut self, scope: &Scope) -> Vec<u8> {
        let mut claim = claim_of(&[(7, 9)], &[step(0, 0, 0)]);
        claim.aggregates = vec![aggregate(1), aggregate(9)];
        let held = self.claim(scope, &claim).await.held;
        self.rollback().await;
        held.iter().map(|key| key[0]).collect()
    }

    async fn queues_due(&mut self, scope: &Scope) -> Vec<u8> {
        let found = DB::find_due(&mut self.session, &[(*scope, NextOffset(0))], 9).await;
        found.expect("find_due failed")[0].iter().map(|queue| queue.aggregate[0]).collect()
    }

    async fn waits_as(&mut self, scope: &Scope) -> i64 {
        let partition = scope.partition_ref;
        self.number(&format!(
            "SELECT parked_seq FROM inbox_parked WHERE partition_ref = {partition}"
        ))
        .await
    }
}

/// With the version that it waits for an event is in the queue of its aggregate, and due: in the same transaction, by
/// whoever has the lanes, or not at all (rule `GapsWoken`).
pub async fn what_waits_is_woken_by_its_version<DB: Probe>(settings: DB::Settings) {
    let (mut scene, scope) = waiting::<DB>(settings, "versions-woken").await;
    assert_eq!((scene.queues(&scope).await, scene.queues_due(&scope).await), (vec![9], vec![]));
    let claim = claim_of(&[(2, 1)], &[step(0, 0, 1)]);
    let wakes = |queue| VersionMove { awaits: vec![aggregate(queue)], ..change(1, Some(5), 6) };
    let older = Scope { epoch: Epoch(scope.epoch.0 - 1), ..scope };
    for (scope, queue, lanes) in [(scope, 8, 1), (older, 9, 0)] {
        scene.claim_versions(&scope, &claim).await;
        let advanced = scene.advance_versions(&scope, &claim, &[wakes(queue)]).await;
        assert_eq!(advanced.lanes, lanes);
        assert_eq!(advanced.woken, u64::from(lanes == 0 && DB::WRITERS_MAX == 1));
        scene.rollback().await;
    }
    scene.claim_versions(&scope, &claim).await;
    assert_eq!(scene.advance_versions(&scope, &claim, &[wakes(9)]).await.woken, 1);
    DB::commit(&mut scene.session).await.expect("commit");
    assert_eq!(scene.queues_due(&scope).await, [1]);
    scene.claim(&scope, &claim_of(&[], &[step(0, 0, 0)])).await;
    let queue = DB::queue(&mut scene.session, &scope, &aggregate(1), 9).await;
    let queue = queue.expect("reading the queue failed");
    scene.rollback().await;
    assert_eq!((queue.len(), &*queue[0].reason), (1, "follower"));
}

/// An event leaves the queue of its aggregate to wait, and joins it again.
pub async fn an_event_is_set_aside_and_joins_again<DB: Probe>(settings: DB::Settings) {
    let (mut scene, scope) = waiting::<DB>(settings, "versions-aside").await;
    let seq = scene.waits_as(&scope).await;
    let claim = claim_of(&[], &[step(0, 0, 0)]);
    scene.claim(&scope, &claim).await;
    let session = &mut scene.session;
    assert_eq!(DB::joins_others(session, &scope, seq).await.expect("a look"), Some(false));
    assert_eq!(DB::joins_others(session, &scope, seq + 1).await.expect("a look"), None);
    assert_eq!(DB::first_waiting(session, &scope, seq, 5).await.expect("a look"), seq);
    assert_eq!(DB::join(session, &scope, seq, ParkReason::GapOver).await.expect("joining"), 1);
    assert_eq!(DB::joins_others(session, &scope, seq).await.expect("a look"), None);
    assert_eq!(DB::join(session, &scope, seq, ParkReason::GapOver).await.expect("joining"), 0);
    DB::commit(session).await.expect("commit");
    assert_eq!((scene.queues(&scope).await, scene.queues_due(&scope).await), (vec![1], vec![1]));

    scene.claim(&scope, &claim).await;
    let hour = Duration::from_hours(1);
    let aside = AsideEvent { seq, queue: aggregate(9), version: 6, wait: hour };
    let set = DB::set_aside(&mut scene.session, &scope, &[aside]).await;
    assert_eq!(set.expect("setting it aside failed"), 1);
    DB::commit(&mut scene.session).await.expect("commit");
    assert_eq!((scene.queues(&scope).await, scene.queues_due(&scope).await), (vec![9], vec![]));
    let rows = DB::partitions(&mut scene.session, "versions-aside").await.expect("status");
    assert_eq!((rows[0].parked_events, rows[0].gaps), (1, 1));

    // As where an older build has run it out of the queue in which it waits.
    scene.claim(&scope, &claim).await;
    let session = &mut scene.session;
    let set = DB::set_aside(session, &scope, &[aside]).await;
    assert_eq!(set.expect("setting it aside failed"), 1);
    assert_eq!(DB::joins_others(session, &scope, seq).await.expect("a look"), Some(false));
    assert_eq!(DB::join(session, &scope, seq, ParkReason::GapOver).await.expect("joining"), 1);
    DB::commit(session).await.expect("commit");
    assert_eq!(scene.queues(&scope).await, [1]);
}
