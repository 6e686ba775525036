//! Savepoints of the careful run.

use super::{
    Probe,
    scene::{Scene, claim_of, step},
};
use inbox_store::internal::port::StoreFault;

/// What a failed event wrote is gone; what the others wrote stays.
pub async fn a_failed_event_leaves_no_trace<DB: Probe>(settings: DB::Settings) {
    let mut scene = Scene::<DB>::new(settings, "savepoint").await;
    scene.run("CREATE TABLE careful (n integer)").await;
    let scope = scene.take_over().await.scope;
    let lanes = [step(0, -1, 2)];
    let claimed = scene.claim(&scope, &claim_of(&[(1, 0), (2, 1), (3, 2)], &lanes)).await;
    for n in [1, 2, 3] {
        DB::savepoint(&mut scene.session, 0).await.expect("SAVEPOINT");
        let insert = format!("INSERT INTO careful VALUES ({n})");
        DB::run(&mut scene.session, &insert).await.expect("the handler's insert");
        if n == 2 {
            let _ = DB::run(&mut scene.session, "SELECT * FROM no_such_table").await;
            DB::rollback_to(&mut scene.session, 0).await.expect("ROLLBACK TO");
            continue;
        }
        DB::constraints_immediate(&mut scene.session).await.expect("SET CONSTRAINTS");
        DB::release(&mut scene.session, 0).await.expect("RELEASE");
    }
    let answer = DB::advance(&mut scene.session, &scope, &claimed.tx, &lanes, None).await;
    assert_eq!(answer.expect("advance"), 1);
    DB::commit(&mut scene.session).await.expect("commit");
    assert_eq!(scene.number("SELECT sum(n) FROM careful").await, 4);
}

/// RELEASE fails when the handler rolled back to before the savepoint, or ended the transaction.
pub async fn a_handler_that_rolled_back_further_is_seen<DB: Probe>(settings: DB::Settings) {
    let mut scene = Scene::<DB>::new(settings, "savepoint-further").await;
    let scope = scene.take_over().await.scope;
    let claim = claim_of(&[(1, 0)], &[step(0, -1, 0)]);
    scene.claim(&scope, &claim).await;
    DB::run(&mut scene.session, "SAVEPOINT theirs").await.expect("SAVEPOINT");
    DB::savepoint(&mut scene.session, 0).await.expect("SAVEPOINT");
    DB::run(&mut scene.session, "ROLLBACK TO SAVEPOINT theirs").await.expect("ROLLBACK TO");
    let error = DB::release(&mut scene.session, 0).await.expect_err("the savepoint is gone");
    assert_eq!(DB::fault(&error), StoreFault::TransactionEnded);
    scene.rollback().await;

    scene.claim(&scope, &claim).await;
    DB::savepoint(&mut scene.session, 0).await.expect("SAVEPOINT");
    DB::run(&mut scene.session, "ROLLBACK").await.expect("ROLLBACK");
    let error = DB::release(&mut scene.session, 0).await.expect_err("the transaction is gone");
    assert_eq!(DB::fault(&error), StoreFault::TransactionEnded);
    scene.reopen().await;
}

/// Finding 14: a deferred violation is the failure of the event that made it, and the next event still
/// finds its constraints deferred (rule `ConstraintsImmediate`).
pub async fn a_deferred_violation_names_its_event<DB: Probe>(settings: DB::Settings) {
    let mut scene = Scene::<DB>::new(settings, "savepoint-deferred").await;
    scene.run("CREATE TABLE parent (n integer PRIMARY KEY)").await;
    scene
        .run("CREATE TABLE child (n integer REFERENCES parent (n) DEFERRABLE INITIALLY DEFERRED)")
        .await;
    let scope = scene.take_over().await.scope;
    let lanes = [step(0, -1, 2)];
    let claimed = scene.claim(&scope, &claim_of(&[(1, 0), (2, 1), (3, 2)], &lanes)).await;
    for (n, has_parent) in [(1, true), (2, false), (3, true)] {
        DB::savepoint(&mut scene.session, 0).await.expect("SAVEPOINT");
        let child = format!("INSERT INTO child VALUES ({n})");
        DB::run(&mut scene.session, &child).await.expect("the constraint is deferred");
        if has_parent {
            let parent = format!("INSERT INTO parent VALUES ({n})");
            DB::run(&mut scene.session, &parent).await.expect("the parent");
        }
        let checked = DB::constraints_immediate(&mut scene.session).await;
        if has_parent || !DB::CHECKS_CONSTRAINTS {
            checked.expect("nothing is violated");
        } else {
            let error = checked.expect_err("the violation has to be named before RELEASE");
            assert_eq!(DB::fault(&error), StoreFault::Statement);
        }
        if has_parent {
            DB::release(&mut scene.session, 0).await.expect("RELEASE");
        } else {
            DB::rollback_to(&mut scene.session, 0).await.expect("ROLLBACK TO");
        }
    }
    let answer = DB::advance(&mut scene.session, &scope, &claimed.tx, &lanes, None).await;
    assert_eq!(answer.expect("advance"), 1);
    DB::commit(&mut scene.session).await.expect("commit");
    assert_eq!(scene.number("SELECT count(*) FROM child").await, 2);
}
