//! Findings of the protocol on real services: owners, failover, transactions left open.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use inbox_consumer::{Consumer, Ended, Event, Handler, HandlerError, HandlerResult, Routes, Tx};
use sqlx::{Connection as _, Postgres};
use tests::{
    Count, Counter, Failover, Record, Running, SOON, Services, Stage, counted, effect, eventually,
    in_rounds, unique,
};

fn routes() -> Routes<Postgres> {
    Routes::default().on("Counted", Counter)
}

/// Finding 15: the last effects of an idle partition are lost by a failover, and no event comes that
/// would notice: the idle check does, and they are applied again.
#[tokio::test(flavor = "multi_thread")]
async fn an_idle_partition_notices_what_a_failover_has_lost() {
    in_rounds(effects_lost_by_a_failover).await;
}

async fn effects_lost_by_a_failover() {
    let mut failover = Failover::start().await;
    let topic = Services::from_env().topic("failover", 1).await;
    let mut stage = Stage::with(topic, failover.schema().await).await;
    stage.config.database.url = failover.url(&stage.schema).into();
    let group = stage.config.group().to_owned();
    stage.count("a", 1, 10).await;
    let running = stage.start(routes()).await;
    eventually(SOON, "the first ten", async || stage.effects().await == 10).await;
    failover.lag().await;
    stage.count("a", 11, 20).await;
    eventually(SOON, "all twenty", async || stage.effects().await == 20).await;
    let committed = async || stage.topic.committed(&group).await == [Some(20)];
    eventually(SOON, "Kafka knows all", committed).await;

    let mut connection = failover.promote(&stage.schema).await;
    failover.lead_over();
    let mut applied = async || -> Vec<i64> {
        let sql = "SELECT n FROM effects ORDER BY effect";
        sqlx::query_scalar(sql).fetch_all(&mut connection).await.unwrap()
    };
    eventually(SOON * 2, "the lost ones are applied again", async || applied().await.len() >= 20)
        .await;
    assert_eq!(applied().await, (1..=20).collect::<Vec<_>>());
    assert_eq!(running.stop().await, Ended::Shutdown);
}

/// Finding 17: somebody raised the epoch: the live consumer takes over again and goes on.
#[tokio::test]
async fn an_epoch_raised_by_hand_is_taken_over_again() {
    let stage = Stage::set("epoch", 1).await;
    let running = stage.start(routes()).await;
    for round in 1..=3 {
        stage.send(&[counted("a", 2 * round - 1), counted("a", 2 * round)]).await;
        let so_far = async || stage.effects().await == 2 * round;
        eventually(SOON, "the effects of a round", so_far).await;
        let raise = "UPDATE inbox_lanes SET epoch = epoch + 1048576; \
                     UPDATE inbox_partitions SET epoch = epoch + 1048576";
        stage.schema.run(raise).await;
    }
    stage.count("a", 7, 9).await;
    eventually(SOON, "it goes on", async || stage.effects().await == 9).await;
    assert_eq!(stage.of("a").await, (1..=9).collect::<Vec<_>>());
    let resyncs = running.counters.read().resyncs;
    assert!(resyncs <= 6, "{resyncs} resyncs for three changes");
    assert_eq!(running.stop().await, Ended::Shutdown);
}

/// Finding 17, C9: two processes that both believe to own the partition fence each other, with growing
/// waits and not without end; each event has one effect, in order.
#[tokio::test]
async fn two_owners_fence_each_other_and_both_go_on() {
    let stage = Stage::set("two", 1).await;
    let mut running = Vec::new();
    for _ in 0..2 {
        let mut config = stage.config.clone();
        config.kafka.group = Some(unique("group"));
        let built = Consumer::builder(config, routes()).build().await;
        running.push(Running::of(built.expect("a sound consumer")));
    }
    for n in 1..=40 {
        stage.send(&[counted("a", n), counted("b", n), counted("c", n)]).await;
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    eventually(SOON, "all effects", async || stage.effects().await >= 120).await;
    for name in ["a", "b", "c"] {
        assert_eq!(stage.of(name).await, (1..=40).collect::<Vec<_>>());
    }
    let resyncs: u64 = running.iter().map(|one| one.counters.read().resyncs).sum();
    assert!(resyncs < 100, "{resyncs} resyncs are a storm");
    for one in running {
        assert_eq!(one.stop().await, Ended::Shutdown);
    }
    assert_eq!((stage.effects().await, stage.parked("").await), (120, 0));
}

/// Fails its first call.
struct FailsOnce(AtomicBool);

impl Handler<Postgres> for FailsOnce {
    type Event = Count;

    async fn handle(&self, event: &Event<Count>, tx: &mut Tx<'_, Postgres>) -> HandlerResult {
        effect(event, tx).await?;
        if self.0.swap(false, Ordering::SeqCst) {
            return Err(HandlerError::retry("told to fail"));
        }
        Ok(())
    }
}

/// Finding 18: while an event waits for its next attempt, no transaction is open and nothing of the
/// attempt before is there.
#[tokio::test]
async fn no_transaction_stays_open_between_two_attempts() {
    let mut stage = Stage::set("pause", 1).await;
    stage.config.retry.delay_min = Duration::from_secs(3);
    stage.config.retry.delay_max = Duration::from_secs(3);
    stage.count("a", 1, 2).await;
    let failing = Routes::default().on("Counted", FailsOnce(AtomicBool::new(true)));
    let running = stage.start(failing).await;
    let failed = async || running.counters.read().failures == 1;
    eventually(SOON, "the first attempt has failed", failed).await;
    let open = format!(
        "SELECT count(*) FROM pg_stat_activity WHERE xact_start IS NOT NULL AND \
         application_name = 'inbox/{}' AND state LIKE 'idle in transaction%'",
        stage.config.consumer.name
    );
    eventually(Duration::from_secs(2), "it is closed within the wait", async || {
        stage.schema.number(&open).await == 0
    })
    .await;
    eventually(SOON, "the second attempt", async || stage.effects().await == 2).await;
    assert_eq!(stage.of("a").await, [1, 2]);
    assert_eq!(running.stop().await, Ended::Shutdown);
}

/// Finding 18: the same ids in two partitions in opposite sequence: each has one effect, nothing is
/// parked. Ids are claimed sorted, so neither waits for the other in a circle.
#[tokio::test]
async fn the_same_ids_in_two_partitions_have_one_effect_each() {
    let stage = Stage::set("crossed", 2).await;
    let event = |at: i64, partition| {
        let name = format!("a{at}");
        Record::event(&name, "Counted", &name, "{\"n\":1}").partition(partition)
    };
    let forth = (0..200).map(|at| event(at, 0));
    let back = (0..200).rev().map(|at| event(at, 1));
    stage.send(&forth.chain(back).collect::<Vec<_>>()).await;
    let running = stage.start(routes()).await;
    let settled = "SELECT coalesce(sum(watermark), 0)::bigint FROM inbox_partitions";
    eventually(SOON, "all settled", async || stage.schema.number(settled).await == 400).await;
    assert_eq!((stage.effects().await, stage.parked("").await), (200, 0));
    let distinct = "SELECT count(DISTINCT event_id) FROM effects";
    assert_eq!(stage.schema.number(distinct).await, 200);
    assert_eq!(running.stop().await, Ended::Shutdown);
}

/// Leaves a nested transaction open at its first call.
struct Leaks(AtomicBool);

impl Handler<Postgres> for Leaks {
    type Event = Count;

    async fn handle(&self, event: &Event<Count>, tx: &mut Tx<'_, Postgres>) -> HandlerResult {
        if self.0.swap(false, Ordering::SeqCst) {
            let nested = tx.unguarded().await?.begin().await?;
            std::mem::forget(nested);
        }
        effect(event, tx).await
    }
}

/// Finding 20: after a leaked nested transaction the driver's COMMIT would release a savepoint and
/// answer Ok: the batch is not taken for settled, and every event has its effect once.
#[tokio::test]
async fn a_nested_transaction_that_a_handler_leaks_loses_nothing() {
    let stage = Stage::set("leak", 1).await;
    for name in ["a", "b", "c"] {
        stage.count(name, 1, 10).await;
    }
    let leaking = Routes::default().on("Counted", Leaks(AtomicBool::new(true)));
    let running = stage.start(leaking).await;
    let settled = "SELECT coalesce(sum(watermark), 0)::bigint FROM inbox_partitions";
    eventually(SOON, "all settled", async || stage.schema.number(settled).await == 30).await;
    assert_eq!((stage.effects().await, stage.parked("").await), (30, 0));
    assert_eq!(running.counters.read().applied, 30, "only what has committed is counted");
    for name in ["a", "b", "c"] {
        assert_eq!(stage.of(name).await, (1..=10).collect::<Vec<_>>());
    }
    assert_eq!(running.stop().await, Ended::Shutdown);
}
