//! Releases: found, read in order, marked, removed, promoted, given a new time, fenced.

use std::time::Duration;

use inbox_engine::internal::{NextOffset, Offset, ParkReason};

use super::{
    Probe,
    scene::{RECORD, Scene, aggregate, claim_of, fingerprint, id, literal, moved, parking, step},
};
use inbox_store::internal::port::{
    Parking, Scope,
    release::{Act, DueQueue, DueState, Intent, Queued, Requeued},
};

const ALL: usize = 100;

/// Queue 1 holds events 1, 2 and 3, queue 4 event 4; both heads wait for a person.
async fn queues<DB: Probe>(settings: DB::Settings, name: &str) -> (Scene<DB>, Scope) {
    let mut scene = Scene::<DB>::new(settings, name).await;
    let scope = scene.take_over().await.scope;
    let claim = claim_of(&[(1, 0), (2, 1), (3, 2), (4, 3)], &[step(0, -1, 3)]);
    let follower = |number, offset| Parking {
        aggregate: aggregate(1),
        ..parking(number, offset, ParkReason::Follower)
    };
    let rows = [
        parking(1, 0, ParkReason::Exhausted),
        follower(2, 1),
        follower(3, 2),
        parking(4, 3, ParkReason::Rejected),
    ];
    scene.park(&scope, &claim, &rows).await;
    (scene, scope)
}

/// Sets columns of the parked event at an offset.
async fn set<DB: Probe>(scene: &mut Scene<DB>, scope: &Scope, offset: i64, columns: &str) {
    let partition = scope.partition_ref;
    let sql = format!(
        "UPDATE inbox_parked SET {columns} WHERE partition_ref = {partition} AND \"offset\" = {offset}"
    );
    assert_eq!(scene.run(&sql).await, 1);
}

async fn due<DB: Probe>(scene: &mut Scene<DB>, scope: &Scope, max: usize) -> Vec<u8> {
    let found = DB::find_due(&mut scene.session, &[(*scope, NextOffset(0))], max).await;
    assert!(!DB::in_transaction(&scene.session), "a look left its transaction open");
    found.expect("find_due failed")[0].iter().map(|queue| queue.aggregate[0]).collect()
}

async fn begin<DB: Probe>(scene: &mut Scene<DB>, scope: &Scope) -> String {
    let claimed = scene.claim(scope, &claim_of(&[], &[step(0, 3, 3)])).await;
    assert_eq!(claimed.lanes_mine, 1);
    claimed.tx
}

async fn read<DB: Probe>(scene: &mut Scene<DB>, scope: &Scope, max: usize) -> Vec<Queued> {
    let rows = DB::queue(&mut scene.session, scope, &aggregate(1), max).await;
    rows.expect("reading the queue failed")
}

/// The fence at the end, and COMMIT.
async fn close<DB: Probe>(scene: &mut Scene<DB>, scope: &Scope, tx: &str) {
    let lanes = [step(0, 3, 3)];
    let moved = DB::advance(&mut scene.session, scope, tx, &lanes, None).await;
    assert_eq!(moved.expect("the advance failed"), 1);
    DB::commit(&mut scene.session).await.expect("the commit failed");
}

/// A queue is due when its head is, or when somebody asked for it; the oldest comes first.
pub async fn a_queue_is_due_by_its_head<DB: Probe>(settings: DB::Settings) {
    let (mut scene, scope) = queues::<DB>(settings, "release-due").await;
    assert!(due(&mut scene, &scope, ALL).await.is_empty());
    let long_ago = DB::LONG_AGO;
    set(&mut scene, &scope, 3, &format!("due_at = {long_ago}")).await;
    assert_eq!(due(&mut scene, &scope, ALL).await, [4]);
    set(&mut scene, &scope, 0, "intent = 'release', intent_by = 'anna'").await;
    assert_eq!(due(&mut scene, &scope, ALL).await, [1, 4]);
    assert_eq!(due(&mut scene, &scope, 1).await, [1]);
}

/// No order is broken by asking for an event behind the head; giving it up breaks none.
pub async fn only_a_head_is_released_but_anything_is_discarded<DB: Probe>(settings: DB::Settings) {
    let (mut scene, scope) = queues::<DB>(settings, "release-intent").await;
    set(&mut scene, &scope, 1, "intent = 'release', intent_by = 'anna'").await;
    assert!(due(&mut scene, &scope, ALL).await.is_empty());
    set(&mut scene, &scope, 2, "intent = 'discard', intent_by = 'anna'").await;
    assert_eq!(due(&mut scene, &scope, ALL).await, [1]);
}

/// What was parked before a remap comes with its record, so that its lane can be found anew.
pub async fn a_record_from_before_a_remap_comes_along<DB: Probe>(settings: DB::Settings) {
    let (mut scene, scope) = queues::<DB>(settings, "release-remap").await;
    for offset in [0, 3] {
        set(&mut scene, &scope, offset, &format!("due_at = {}", DB::LONG_AGO)).await;
    }
    let found = DB::find_due(&mut scene.session, &[(scope, NextOffset(3))], ALL).await;
    let found: Vec<DueQueue> = found.expect("find_due failed").remove(0);
    let told: Vec<_> = found.iter().map(|q| (q.offset, q.record.as_deref())).collect();
    assert_eq!(told, [(Offset(0), Some(RECORD)), (Offset(3), None)]);
}

/// The order of the queue is the order of parking (rule `ReleaseInOrder`).
pub async fn a_queue_is_read_in_its_order<DB: Probe>(settings: DB::Settings) {
    let (mut scene, scope) = queues::<DB>(settings, "release-order").await;
    set(&mut scene, &scope, 0, &format!("due_at = {}", DB::LONG_AGO)).await;
    set(&mut scene, &scope, 2, "intent = 'discard', intent_by = 'anna'").await;
    begin(&mut scene, &scope).await;
    let rows = read(&mut scene, &scope, ALL).await;
    let told: Vec<_> = rows.iter().map(|row| (row.offset.0, row.due_state)).collect();
    assert_eq!(told, [(0, DueState::Due), (1, DueState::Follows), (2, DueState::Follows)]);
    assert_eq!(rows[2].intent, Some((Intent::Discard, "anna".to_owned())));
    assert_eq!((rows[0].id, rows[0].attempts, &*rows[0].event_type), (id(1), 2, "Counted"));
    let first: Vec<_> = read(&mut scene, &scope, 1).await.iter().map(|row| row.offset.0).collect();
    assert_eq!(first, [0, 2], "what is given up comes along from wherever it is");
    scene.rollback().await;
}

/// A copy of the database without its sequences gives later events smaller numbers (rule `QueueByOffset`):
/// reading, promoting and looking go by offsets.
pub async fn a_queue_is_in_the_order_of_its_offsets<DB: Probe>(settings: DB::Settings) {
    let (mut scene, scope) = queues::<DB>(settings, "release-offsets").await;
    // The first event of the queue gets the largest offset.
    set(&mut scene, &scope, 0, "\"offset\" = 9").await;
    begin(&mut scene, &scope).await;
    let rows = read(&mut scene, &scope, ALL).await;
    assert_eq!(rows.iter().map(|row| row.offset.0).collect::<Vec<_>>(), [1, 2, 9]);
    let first: Vec<_> = read(&mut scene, &scope, 1).await.iter().map(|row| row.offset.0).collect();
    assert_eq!(first, [1]);
    scene.rollback().await;
    set(&mut scene, &scope, 9, "intent = 'release', intent_by = 'anna'").await;
    assert!(due(&mut scene, &scope, ALL).await.is_empty(), "it is not the head");
    set(&mut scene, &scope, 1, "intent = 'release', intent_by = 'anna'").await;
    assert_eq!(due(&mut scene, &scope, ALL).await, [1]);
}

/// Whoever ends the transaction: what was marked is not due (rule `ReleaseMarks`).
pub async fn a_marked_event_is_not_due<DB: Probe>(settings: DB::Settings) {
    let (mut scene, scope) = queues::<DB>(settings, "release-mark").await;
    set(&mut scene, &scope, 0, &format!("due_at = {}", DB::LONG_AGO)).await;
    let tx = begin(&mut scene, &scope).await;
    let rows = read(&mut scene, &scope, ALL).await;
    let seqs: Vec<i64> = rows.iter().map(|row| row.seq).collect();
    let marked = DB::mark(&mut scene.session, &scope, &seqs).await;
    assert_eq!(marked.expect("marking failed"), 3);
    DB::unmark(&mut scene.session, &scope, &seqs[1..]).await.expect("unmarking failed");
    close(&mut scene, &scope, &tx).await;
    assert!(due(&mut scene, &scope, ALL).await.is_empty());
    begin(&mut scene, &scope).await;
    let rows = read(&mut scene, &scope, ALL).await;
    let told: Vec<_> = rows.iter().map(|row| (&*row.reason, row.due_state)).collect();
    let follower = ("follower", DueState::Follows);
    assert_eq!(told, [("releasing", DueState::Later), follower, follower]);
    scene.rollback().await;
}

/// Finding 10a: a released event's retention counts from its effect, and only exactly what ran goes.
pub async fn a_removed_event_counts_as_settled_from_now<DB: Probe>(settings: DB::Settings) {
    let (mut scene, scope) = queues::<DB>(settings, "release-remove").await;
    let consumer = scope.consumer_ref;
    let long_ago = DB::LONG_AGO;
    let all = "UPDATE inbox_events SET processed_at =";
    scene.run(&format!("{all} {long_ago} WHERE consumer_ref = {consumer}")).await;
    let tx = begin(&mut scene, &scope).await;
    let rows = read(&mut scene, &scope, ALL).await;
    let done = [(rows[0].seq, rows[0].id), (rows[1].seq, rows[1].id)];
    let removed = DB::remove(&mut scene.session, &scope, &done).await;
    assert_eq!(removed.expect("removing failed"), 2);
    let again = DB::remove(&mut scene.session, &scope, &done).await;
    assert_eq!(again.expect("removing failed"), 0);
    close(&mut scene, &scope, &tx).await;
    let of = |what: &str| {
        format!("SELECT count(*) FROM inbox_events WHERE consumer_ref = {consumer} AND {what}")
    };
    assert_eq!(scene.number(&of("parked")).await, 2);
    let young = of(&format!("processed_at > {}", DB::older("processed_at", 1)));
    assert_eq!(scene.number(&young).await, 4);
    assert_eq!(scene.number(&of(&format!("processed_at <= {long_ago}"))).await, 2);
}

/// A mismatch shares its id with another event: while one of the two is parked, the id is spared.
pub async fn an_id_that_is_parked_twice_stays_marked<DB: Probe>(settings: DB::Settings) {
    let (mut scene, scope) = queues::<DB>(settings, "release-twice").await;
    let one = literal::<DB>(id(1));
    set(&mut scene, &scope, 3, &format!("event_id = {one}")).await;
    let consumer = scope.consumer_ref;
    let count = format!(
        "SELECT count(*) FROM inbox_events WHERE consumer_ref = {consumer} AND event_id = {one} AND parked"
    );
    for (number, expected) in [(1, 1), (4, 0)] {
        let tx = begin(&mut scene, &scope).await;
        let rows = DB::queue(&mut scene.session, &scope, &aggregate(number), 1).await;
        let rows = rows.expect("reading the queue failed");
        let done = [(rows[0].seq, rows[0].id)];
        DB::remove(&mut scene.session, &scope, &done).await.expect("removing failed");
        close(&mut scene, &scope, &tx).await;
        assert_eq!(scene.number(&count).await, expected);
    }
}

/// Copies of an event under another one's id, whichever build has parked them.
pub async fn copies_are_found_under_either_hash<DB: Probe>(settings: DB::Settings) {
    let (mut scene, scope) = queues::<DB>(settings, "release-copies").await;
    let of_one = format!("reason = 'mismatch', event_id = {}", literal::<DB>(id(1)));
    let (before, after) = DB::BYTES_HEX;
    let bytes = |print: [u8; 16]| format!("{before}{:032x}{after}", u128::from_be_bytes(print));
    let print = |number| bytes(fingerprint(number));
    let older = format!("{of_one}, sha256 = false, fingerprint = {}", print(9));
    set::<DB>(&mut scene, &scope, 1, &older).await;
    let newer = format!("{of_one}, fingerprint = {}", print(1));
    set::<DB>(&mut scene, &scope, 2, &newer).await;
    begin(&mut scene, &scope).await;
    let head = read(&mut scene, &scope, 1).await.remove(0);
    assert!(head.sha256);
    for (other, found) in [(9, &[1, 2][..]), (1, &[2]), (8, &[2])] {
        let other = fingerprint(other);
        let copies = DB::copies(&mut scene.session, &scope, &aggregate(1), &head, &other).await;
        let copies = copies.expect("looking for copies failed");
        assert_eq!(copies.iter().map(|copy| copy.offset.0).collect::<Vec<_>>(), found);
    }
    scene.rollback().await;
}

/// A queue always has a head with a turn of its own (rule `ReleasePromotes`).
pub async fn the_next_event_is_promoted<DB: Probe>(settings: DB::Settings) {
    let (mut scene, scope) = queues::<DB>(settings, "release-promote").await;
    let tx = begin(&mut scene, &scope).await;
    DB::promote(&mut scene.session, &scope, &aggregate(1)).await.expect("promoting failed");
    let rows = read(&mut scene, &scope, ALL).await;
    assert_eq!(rows[0].due_state, DueState::Later, "a head keeps its time");
    let done = [(rows[0].seq, rows[0].id)];
    DB::remove(&mut scene.session, &scope, &done).await.expect("removing failed");
    DB::promote(&mut scene.session, &scope, &aggregate(1)).await.expect("promoting failed");
    close(&mut scene, &scope, &tx).await;
    assert_eq!(due(&mut scene, &scope, ALL).await, [1]);
    begin(&mut scene, &scope).await;
    let turns: Vec<_> =
        read(&mut scene, &scope, ALL).await.iter().map(|row| row.due_state).collect();
    assert_eq!(turns, [DueState::Due, DueState::Follows]);
    scene.rollback().await;
}

/// By the database's clock; the intent is carried out with it.
pub async fn a_failed_event_gets_a_new_time<DB: Probe>(settings: DB::Settings) {
    let (mut scene, scope) = queues::<DB>(settings, "release-again").await;
    set(&mut scene, &scope, 0, "intent = 'release', intent_by = 'anna'").await;
    let zero = Some(Duration::ZERO);
    let hour = Some(Duration::from_hours(1));
    for (delay, turn) in [(None, DueState::Later), (zero, DueState::Due), (hour, DueState::Later)] {
        let tx = begin(&mut scene, &scope).await;
        let head = read(&mut scene, &scope, 1).await.remove(0);
        let requeued = Requeued {
            seq: head.seq,
            reason: ParkReason::Rejected,
            attempts: head.attempts + 1,
            releases: head.releases + 1,
            delay,
            errors: r#"[{"error":"no"}]"#.into(),
        };
        DB::requeue(&mut scene.session, &scope, &[requeued]).await.expect("requeueing failed");
        close(&mut scene, &scope, &tx).await;
        begin(&mut scene, &scope).await;
        let now = read(&mut scene, &scope, 1).await.remove(0);
        assert_eq!(
            (now.due_state, now.intent, &*now.reason),
            (turn, None, "rejected"),
            "{delay:?}"
        );
        assert_eq!((now.attempts, now.releases), (head.attempts + 1, head.releases + 1));
        assert_eq!(now.errors, r#"[{"error":"no"}]"#);
        scene.rollback().await;
    }
}

/// A release moves no lane: only the epoch separates it from what an older owner has under way.
pub async fn a_release_of_an_older_epoch_is_fenced<DB: Probe>(settings: DB::Settings) {
    let (mut scene, old) = queues::<DB>(settings, "release-fence").await;
    let lanes = [step(0, 3, 3)];
    let tx = begin(&mut scene, &old).await;
    close(&mut scene, &old, &tx).await;
    assert_eq!(scene.last(&old, 0).await, 3);
    let new = scene.take_over().await.scope;
    let claimed = scene.claim(&old, &claim_of(&[], &lanes)).await;
    assert_eq!(claimed.lanes_mine, 0);
    let advanced = DB::advance(&mut scene.session, &old, &claimed.tx, &lanes, None).await;
    assert_eq!(moved(advanced), 0);
    scene.rollback().await;
    let tx = begin(&mut scene, &new).await;
    close(&mut scene, &new, &tx).await;
}

/// One row for each thing that was done for somebody, with where it was done.
pub async fn an_act_is_written_down<DB: Probe>(settings: DB::Settings) {
    let (mut scene, scope) = queues::<DB>(settings, "release-audit").await;
    let tx = begin(&mut scene, &scope).await;
    let act = |what, number, offset| Act {
        who: "anna".into(),
        what,
        why: String::new(),
        offset: Offset(offset),
        id: id(number),
        aggregate: "counter/1".into(),
        event_type: "Counted".into(),
    };
    let acts = [act("released", 1, 0), act("discarded", 2, 1)];
    DB::audit(&mut scene.session, &scope, &acts).await.expect("the audit failed");
    close(&mut scene, &scope, &tx).await;
    let consumer = scope.consumer_ref;
    let two = literal::<DB>(id(2));
    let sql = format!(
        "SELECT count(*) FROM inbox_audit WHERE consumer_ref = {consumer} AND who = 'anna' AND \
         topic = 'release-audit' AND \"partition\" = 0 AND aggregate = 'counter/1' AND (\
         (what = 'released' AND \"offset\" = 0) OR (what = 'discarded' AND event_id = {two}))"
    );
    assert_eq!(scene.number(&sql).await, 2);
}
