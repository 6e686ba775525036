//! Handlers that end the transaction of a release, hang in it, or fill the partition's parking.

use std::time::Duration;

use inbox_consumer::{Ended, Event, Handler, HandlerError, HandlerResult, Routes, Tx};
use sqlx::{AssertSqlSafe, Postgres};
use tests::{Count, SOON, Stage, counted, effect, eventually};

use super::{
    release_support::{
        audited, break_at, intend, mend, mendable, never, nothing_is_parked, set, soon,
    },
    runtime_support::up_to,
};

/// Fails on the first event of an aggregate once. On the second, as the first thing that it is called
/// for, ends the transaction behind the runtime's back.
struct Ending(&'static str);

impl Handler<Postgres> for Ending {
    type Event = Count;

    async fn handle(&self, event: &Event<Count>, tx: &mut Tx<'_, Postgres>) -> HandlerResult {
        effect(event, &mut *tx).await?;
        match (event.payload.n, event.attempt()) {
            (1, 1) => Err(HandlerError::retry("once")),
            (2, 1) => {
                let sql = AssertSqlSafe(self.0.to_owned());
                sqlx::raw_sql(sql).execute(&mut *tx.unguarded().await?).await?;
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

async fn ended_by(verb: &'static str) -> (Stage, tests::Running) {
    let mut stage = set("torn", 1, never()).await;
    // Time for all three in one release, once a commit has told how long a handler takes.
    stage.lengthen_drain();
    let running = stage.start(Routes::default().on("Counted", Ending(verb))).await;
    stage.send(&[counted("quick", 3)]).await;
    eventually(SOON, "a commit", async || stage.of("quick").await == [3]).await;
    stage.send(&[counted("a", 1), counted("a", 2), counted("a", 3)]).await;
    eventually(SOON, "parked", async || stage.parked("").await == 3).await;
    intend(&stage, "release", "anna", "reason = 'exhausted'").await;
    (stage, running)
}

/// Finding 4, the mark: what ran before the COMMIT is durable and must not be due again. Nothing of it is
/// settled; what may have had its effect waits for a person, what is behind waits for that.
#[tokio::test]
async fn a_handler_that_commits_a_release_leaves_nothing_due() {
    for verb in ["COMMIT", "COMMIT; BEGIN READ WRITE"] {
        let (stage, running) = ended_by(verb).await;
        eventually(SOON, "torn", async || stage.parked("torn").await == 2).await;
        stage.send(&[counted("a", 4), counted("b", 4)]).await;
        eventually(SOON, "others go on", async || stage.of("b").await == [4]).await;
        eventually(SOON, "it follows", async || stage.parked("follower").await == 2).await;
        assert_eq!(stage.of("a").await, [1, 2], "{verb}");
        let due = "SELECT count(*) FROM inbox_parked WHERE due_at < 'infinity'";
        assert_eq!(stage.schema.number(due).await, 0);
        assert_eq!(audited(&stage, "release_failed").await, 1);
        // A person has seen that the effects are there.
        assert_eq!(intend(&stage, "discard", "anna", "reason = 'torn'").await, 2);
        eventually(SOON, "the rest", async || stage.of("a").await == up_to(4)).await;
        nothing_is_parked(&stage).await;
        assert_eq!(running.stop().await, Ended::Shutdown);
    }
}

/// Nothing was kept, so what was well runs again; the culprit waits for a person.
#[tokio::test]
async fn a_handler_that_rolls_a_release_back_waits_for_a_person() {
    for verb in ["ROLLBACK", "ROLLBACK; BEGIN READ WRITE"] {
        let (stage, running) = ended_by(verb).await;
        eventually(SOON, "torn", async || stage.parked("torn").await == 1).await;
        eventually(SOON, "the first", async || stage.of("a").await.contains(&1)).await;
        eventually(SOON, "it leaves", async || stage.parked("").await == 2).await;
        let stray = "DELETE FROM effects WHERE n = 2";
        stage.schema.run(stray).await;
        intend(&stage, "release", "anna", "reason = 'torn'").await;
        eventually(SOON, "all", async || stage.of("a").await == up_to(3)).await;
        nothing_is_parked(&stage).await;
        assert_eq!(running.stop().await, Ended::Shutdown);
    }
}

/// Hangs on the second event of an aggregate, the first time.
struct Hanging;

impl Handler<Postgres> for Hanging {
    type Event = Count;

    async fn handle(&self, event: &Event<Count>, tx: &mut Tx<'_, Postgres>) -> HandlerResult {
        effect(event, &mut *tx).await?;
        match (event.payload.n, event.attempt()) {
            (1, 1) => Err(HandlerError::retry("once")),
            (2, 1) => std::future::pending().await,
            _ => Ok(()),
        }
    }
}

/// The deadline of an attempt holds in a release: its transaction is lost, and the failure is written
/// down in another one; what was before it runs again, once.
#[tokio::test]
async fn a_handler_that_hangs_in_a_release_is_given_a_new_time() {
    let mut stage = set("hangs", 1, soon()).await;
    stage.config.retry.attempt_deadline = Duration::from_secs(1);
    stage.config.database.statement_timeout = Duration::from_millis(800);
    stage.config.database.lock_timeout = Duration::from_millis(400);
    let running = stage.start(Routes::default().on("Counted", Hanging)).await;
    stage.send(&[counted("a", 1), counted("a", 2), counted("a", 3)]).await;
    eventually(SOON, "a", async || stage.of("a").await == up_to(3)).await;
    nothing_is_parked(&stage).await;
    assert!(running.counters.read().release_failures >= 1);
    assert_eq!(running.stop().await, Ended::Shutdown);
}

/// The limits are exact under many transactions at once: the partition says why it stands still, parks
/// no more, goes on by itself when there is room, and nothing is lost or reordered.
#[tokio::test]
async fn a_full_partition_parks_no_more_and_says_so() {
    let mut stage = set("full", 1, soon()).await;
    stage.config.limits.parked_aggregates_max = 5;
    stage.config.limits.parked_events_max = 12;
    stage.config.batch.events_max = 3;
    let names: Vec<String> = (0..12).map(|a| format!("k{a}")).collect();
    for name in &names {
        stage.schema.run(&format!("INSERT INTO broken VALUES ('{name}', NULL)")).await;
    }
    for n in 1..=4 {
        let each = names.iter().map(|name| counted(name, n));
        stage.send(&each.collect::<Vec<_>>()).await;
    }
    let running = stage.start(mendable()).await;
    let said = "SELECT count(*) FROM inbox_partitions WHERE standstill LIKE '%limits.parked_%'";
    let over = "SELECT count(*) FROM (SELECT count(*) AS events, count(DISTINCT aggregate_key) AS aggregates \
                FROM inbox_parked) p WHERE events > 12 OR aggregates > 5";
    let mut told = 0;
    for _ in 0..150 {
        assert_eq!(stage.schema.number(over).await, 0, "more is parked than may be");
        told += stage.schema.number(said).await;
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(told > 0, "the partition did not say why it stands still");
    assert!(stage.parked("").await >= 5);
    mend(&stage).await;
    eventually(SOON * 2, "all", async || stage.effects().await >= 48).await;
    for name in &names {
        assert_eq!(stage.of(name).await, up_to(4), "{name}");
    }
    nothing_is_parked(&stage).await;
    let silent = "SELECT count(*) FROM inbox_partitions WHERE standstill IS NULL";
    eventually(SOON, "it moves", async || stage.schema.number(silent).await == 1).await;
    assert_eq!(running.stop().await, Ended::Shutdown);
}

/// The queue is run in its order although the schedule of its head is late, and a second event that
/// fails ends the run: nothing behind it is touched.
#[tokio::test]
async fn the_first_failure_ends_a_release() {
    let stage = set("stops", 1, never()).await;
    break_at(&stage, "a", 1).await;
    break_at(&stage, "a", 3).await;
    let running = stage.start(mendable()).await;
    stage.count("a", 1, 5).await;
    eventually(SOON, "parked", async || stage.parked("").await == 5).await;
    stage.schema.run("DELETE FROM broken WHERE n = 1").await;
    intend(&stage, "release", "anna", "reason = 'exhausted'").await;
    eventually(SOON, "up to the third", async || stage.of("a").await == [1, 2]).await;
    eventually(SOON, "the third failed", async || stage.parked("exhausted").await == 1).await;
    stage.count("b", 1, 1).await;
    eventually(SOON, "others", async || stage.of("b").await == [1]).await;
    assert_eq!((stage.of("a").await, stage.parked("follower").await), (vec![1, 2], 2));
    mend(&stage).await;
    intend(&stage, "release", "anna", "reason = 'exhausted'").await;
    eventually(SOON, "all", async || stage.of("a").await == up_to(5)).await;
    nothing_is_parked(&stage).await;
    assert_eq!(running.stop().await, Ended::Shutdown);
}
