//! The advance: exactly its lanes, in the transaction of the claim, or nothing.

use std::mem::ManuallyDrop;

use inbox_engine::internal::{Epoch, LaneMove};
use sqlx::Connection;

use super::{
    Probe,
    scene::{Scene, claim_of, moved, step},
};
use inbox_store::internal::port::{Scope, StoreFault};

/// One lane, and several: a store may have a statement for each.
const FORMS: [&[LaneMove]; 2] = [&[step(0, -1, 4)], &[step(0, -1, 4), step(1, -1, 7)]];

/// Each lane moves, and is counted, once.
pub async fn an_advance_moves_each_lane_once<DB: Probe>(settings: DB::Settings) {
    let mut scene = Scene::<DB>::new(settings, "advance").await;
    let scope = scene.take_over().await.scope;
    let lanes = [step(0, -1, 4), step(3, -1, 7)];
    let claimed = scene.claim(&scope, &claim_of(&[], &lanes)).await;
    let answer = DB::advance(&mut scene.session, &scope, &claimed.tx, &lanes, None).await;
    assert_eq!(answer.expect("advance"), 2);
    DB::commit(&mut scene.session).await.expect("commit");
    assert!(!DB::in_transaction(&scene.session));
    assert_eq!([scene.last(&scope, 0).await, scene.last(&scope, 1).await], [4, -1]);
    let again = scene.take_over().await;
    assert_eq!(again.ownership.lanes[3].last.0, 7);
    assert_eq!(again.ownership.lanes[3].leader_epoch.0, 3);
}

/// C9: work of an older epoch cannot commit (rule `EpochAtAdvance`).
pub async fn an_older_epoch_moves_nothing<DB: Probe>(settings: DB::Settings) {
    let mut scene = Scene::<DB>::new(settings, "advance-epoch").await;
    let old = scene.take_over().await.scope;
    scene.take_over().await;
    let made_up = Scope { epoch: Epoch(old.epoch.0 + (9 << 20)), ..old };
    for (scope, lanes) in [old, made_up].into_iter().flat_map(|scope| FORMS.map(|f| (scope, f))) {
        let claimed = scene.claim(&scope, &claim_of(&[(1, 4)], lanes)).await;
        assert_eq!(
            moved(DB::advance(&mut scene.session, &scope, &claimed.tx, lanes, None).await),
            0
        );
        scene.rollback().await;
    }
}

/// B1, B2: a database that went back in time is noticed (rule `PrevAtAdvance`).
pub async fn another_previous_offset_moves_nothing<DB: Probe>(settings: DB::Settings) {
    let mut scene = Scene::<DB>::new(settings, "advance-prev").await;
    let scope = scene.take_over().await.scope;
    scene.settle(&scope, &claim_of(&[(1, 4)], &[step(0, -1, 4)])).await;
    for prev in [-1, 3, 5] {
        for lanes in [&[step(0, prev, 9)][..], &[step(0, prev, 9), step(1, prev + 9, 19)]] {
            let claimed = scene.claim(&scope, &claim_of(&[(2, 9)], lanes)).await;
            assert_eq!(
                moved(DB::advance(&mut scene.session, &scope, &claimed.tx, lanes, None).await),
                0
            );
            scene.rollback().await;
        }
    }
    assert_eq!(scene.last(&scope, 0).await, 4);
}

/// The caller sees that one of several lanes was not where it should be.
pub async fn one_strange_lane_is_missing_from_the_count<DB: Probe>(settings: DB::Settings) {
    let mut scene = Scene::<DB>::new(settings, "advance-count").await;
    let scope = scene.take_over().await.scope;
    let lanes = [step(0, -1, 4), step(1, 2, 7)];
    let claimed = scene.claim(&scope, &claim_of(&[], &lanes)).await;
    assert_eq!(moved(DB::advance(&mut scene.session, &scope, &claimed.tx, &lanes, None).await), 1);
    scene.rollback().await;
    assert_eq!(scene.last(&scope, 0).await, -1);
}

/// An advance under the identity of an earlier transaction moves nothing (rule
/// `SameTransactionAtAdvance`).
pub async fn another_transaction_moves_nothing<DB: Probe>(settings: DB::Settings) {
    let mut scene = Scene::<DB>::new(settings, "advance-tx").await;
    let scope = scene.take_over().await.scope;
    for lanes in FORMS {
        let first = scene.claim(&scope, &claim_of(&[(1, 4)], lanes)).await;
        assert!(same::<DB>(&mut scene, &first.tx).await);
        scene.rollback().await;
        let second = scene.claim(&scope, &claim_of(&[(1, 4)], lanes)).await;
        assert_ne!(first.tx, second.tx);
        assert!(!same::<DB>(&mut scene, &first.tx).await);
        assert_eq!(moved(DB::advance(&mut scene.session, &scope, &first.tx, lanes, None).await), 0);
        scene.rollback().await;
    }
}

async fn same<DB: Probe>(scene: &mut Scene<DB>, tx: &str) -> bool {
    DB::same_transaction(&mut scene.session, tx).await.unwrap_or(false)
}

/// Finding 1: after a handler's COMMIT nothing more is written, and no lane moves.
pub async fn a_handlers_commit_is_seen<DB: Probe>(settings: DB::Settings) {
    ended_by::<DB>(settings, "ended-by-commit", &["COMMIT"]).await;
}

/// Finding 1: after a handler's ROLLBACK nothing more is written, and no lane moves.
pub async fn a_handlers_rollback_is_seen<DB: Probe>(settings: DB::Settings) {
    ended_by::<DB>(settings, "ended-by-rollback", &["ROLLBACK"]).await;
}

/// Finding 1: a transaction of the handler's own is not the runtime's.
pub async fn a_handlers_commit_and_begin_is_seen<DB: Probe>(settings: DB::Settings) {
    ended_by::<DB>(settings.clone(), "ended-by-both", &["COMMIT", "BEGIN"]).await;
    ended_by::<DB>(settings, "ended-by-both-2", &["ROLLBACK", "BEGIN"]).await;
}

async fn ended_by<DB: Probe>(settings: DB::Settings, name: &str, verbs: &[&str]) {
    let mut scene = Scene::<DB>::new(settings, name).await;
    let table = name.replace('-', "_");
    scene.run(&format!("CREATE TABLE {table} (n integer)")).await;
    let scope = scene.take_over().await.scope;
    let lanes = [step(0, -1, 4)];
    let claimed = scene.claim(&scope, &claim_of(&[(1, 4)], &lanes)).await;
    for verb in verbs {
        // Refused already (SQLite), or obeyed (PostgreSQL): the later writes decide.
        let _ = DB::run(&mut scene.session, verb).await;
    }
    assert!(!same::<DB>(&mut scene, &claimed.tx).await, "the end was not noticed");
    let write = DB::run(&mut scene.session, &format!("INSERT INTO {table} VALUES (1)")).await;
    let fault = write.err().map(|error| DB::fault(&error));
    assert!(
        matches!(fault, None | Some(StoreFault::TransactionEnded)),
        "a write after the end is not the handler's fault: {fault:?}"
    );
    assert_eq!(moved(DB::advance(&mut scene.session, &scope, &claimed.tx, &lanes, None).await), 0);
    scene.reopen().await;
    assert_eq!(scene.last(&scope, 0).await, -1, "a lane moved in a torn transaction");
    assert_eq!(
        scene.number(&format!("SELECT count(*) FROM {table}")).await,
        0,
        "a write got through"
    );
}

/// A2: an error that the handler swallowed makes the advance fail, where the database would turn
/// COMMIT into ROLLBACK.
pub async fn a_swallowed_error_is_seen<DB: Probe>(settings: DB::Settings) {
    let mut scene = Scene::<DB>::new(settings, "advance-swallowed").await;
    let scope = scene.take_over().await.scope;
    let lanes = [step(0, -1, 4)];
    let claimed = scene.claim(&scope, &claim_of(&[(1, 4)], &lanes)).await;
    let error =
        DB::run(&mut scene.session, "SELECT * FROM no_such_table").await.expect_err("no table");
    assert_eq!(DB::fault(&error), StoreFault::Statement);
    let answer = DB::advance(&mut scene.session, &scope, &claimed.tx, &lanes, None).await;
    if DB::POISONS {
        assert_eq!(DB::fault(&answer.expect_err("a poisoned advance")), StoreFault::Statement);
    } else {
        assert_eq!(answer.expect("the statement alone has failed"), 1);
    }
    scene.rollback().await;
}

/// A nested transaction that a handler left open: COMMIT ends only that one, and the session says so
/// (rule `CommitLeavesTransaction`).
pub async fn a_nested_transaction_left_open_is_seen<DB: Probe>(settings: DB::Settings) {
    let mut scene = Scene::<DB>::new(settings, "advance-nested").await;
    let scope = scene.take_over().await.scope;
    let lanes = [step(0, -1, 4)];
    let claimed = scene.claim(&scope, &claim_of(&[], &lanes)).await;
    let _ = ManuallyDrop::new(scene.session.begin().await.expect("a nested begin"));
    let answer = DB::advance(&mut scene.session, &scope, &claimed.tx, &lanes, None).await;
    let committed = DB::commit(&mut scene.session).await;
    assert!(
        answer.is_err() || committed.is_err() || DB::in_transaction(&scene.session),
        "the commit of a nested transaction was taken for the commit"
    );
    scene.reopen().await;
    assert_eq!(scene.last(&scope, 0).await, -1);
}

/// Rule `ReadOnlySession`: a session writes only within the runtime's own BEGIN.
pub async fn nothing_is_written_outside_the_runtimes_transaction<DB: Probe>(
    settings: DB::Settings,
) {
    let mut scene = Scene::<DB>::new(settings, "read-only").await;
    scene.run("CREATE TABLE outside (n integer)").await;
    let plain = DB::run(&mut scene.session, "INSERT INTO outside VALUES (1)").await;
    assert_eq!(plain.map_err(|error| DB::fault(&error)), Err(StoreFault::TransactionEnded));
    for verb in ["BEGIN", "INSERT INTO outside VALUES (2)", "COMMIT"] {
        let _ = DB::run(&mut scene.session, verb).await;
    }
    scene.reopen().await;
    assert_eq!(scene.number("SELECT count(*) FROM outside").await, 0);
}
