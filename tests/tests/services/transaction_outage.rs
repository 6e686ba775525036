//! Faults of the infrastructure spend no attempt: nothing is parked for them.

use std::time::{Duration, Instant};

use inbox_consumer::{Ended, Routes};
use serde_json::json;
use tests::{Counter, OwnPostgres, SOON, Services, Stage, StopMode, eventually};

use super::acting::{acting, told};

/// A10: the database is away for some seconds under load, twice, in both ways. No event is parked, and
/// all are handled in order when it is back.
#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_is_away_parks_nothing() {
    let postgres = OwnPostgres::start().await;
    let topic = Services::from_env().topic("outage", 2).await;
    let mut stage = Stage::with(topic, postgres.schema().await).await;
    stage.config.retry.attempts_max = 1;
    let aggregates = ["a", "b", "c", "d"];
    let mut sent = 0;
    let mut send = async |stage: &Stage, count: i64| {
        for aggregate in aggregates {
            stage.count(aggregate, sent + 1, sent + count).await;
        }
        sent += count;
        sent * 4
    };
    let all = send(&stage, 200).await;
    let running = stage.start(Routes::default().on("Counted", Counter)).await;
    eventually(SOON, "it has begun", async || stage.effects().await >= all / 8).await;
    for mode in [StopMode::Fast, StopMode::Immediate] {
        tokio::task::block_in_place(|| postgres.stop(mode));
        let outages = running.counters.read().outages;
        let all = send(&stage, 200).await;
        let until = Instant::now() + Duration::from_secs(2);
        eventually(SOON, "it has met the outage for some seconds", async || {
            running.counters.read().outages > outages && Instant::now() > until
        })
        .await;
        tokio::task::block_in_place(|| postgres.start_again());
        eventually(SOON, "all events", async || stage.effects().await == all).await;
    }
    for aggregate in aggregates {
        assert_eq!(stage.of(aggregate).await, (1..=600).collect::<Vec<_>>());
    }
    assert_eq!((stage.parked("").await, running.counters.read().failures), (0, 0));
    assert_eq!(running.stop().await, Ended::Shutdown);
}

/// A2, A10: a conflict that comes again and again is no attempt of the handler, though the handler says
/// nothing of it.
#[tokio::test]
async fn conflicts_again_and_again_park_nothing() {
    for sql in [
        "DO $$ BEGIN RAISE SQLSTATE '40001'; END $$",
        "DO $$ BEGIN RAISE SQLSTATE '40P01'; END $$",
        "DO $$ BEGIN RAISE SQLSTATE '55P03'; END $$",
    ] {
        let mut stage = Stage::set("conflicts", 1).await;
        stage.config.retry.attempts_max = 2;
        let bad = json!({"sql": sql, "swallow": true, "times": 8});
        stage.send(&[told("a", 1, bad), told("a", 2, json!({}))]).await;
        let running = stage.start(acting()).await;
        eventually(SOON, "handled", async || stage.effects().await == 2).await;
        let counts = running.counters.read();
        assert_eq!((counts.failures, counts.conflicts, stage.parked("").await), (0, 8, 0));
        assert_eq!(running.stop().await, Ended::Shutdown);
    }
}

/// A10: somebody ends sessions in the middle of their transactions, again and again, while new ones work. One
/// attempt is all that an event has, and none is spent.
#[tokio::test(flavor = "multi_thread")]
async fn sessions_that_are_ended_again_and_again_park_nothing() {
    let mut stage = Stage::set("ended", 1).await;
    stage.config.retry.attempts_max = 1;
    let aggregates = ["a", "b", "c", "d"];
    for aggregate in aggregates {
        stage.count(aggregate, 1, 500).await;
    }
    let running = stage.start(Routes::default().on("Counted", Counter)).await;
    let end = "SELECT count(pg_terminate_backend(pid)) FROM (SELECT DISTINCT pid FROM pg_locks \
               WHERE relation = 'effects'::regclass AND pid <> pg_backend_pid()) s";
    let (mut ended, mut more) = (0, 500);
    eventually(SOON, "all effects", async || {
        // Then no more: on a slow machine each would be ended before its COMMIT.
        if ended <= 3 {
            ended += stage.schema.number(end).await;
        }
        if ended <= 3 && stage.effects().await >= 4 * more {
            for aggregate in aggregates {
                stage.count(aggregate, more + 1, more + 100).await;
            }
            more += 100;
        }
        ended > 3 && stage.effects().await >= 4 * more
    })
    .await;
    for aggregate in aggregates {
        assert_eq!(stage.of(aggregate).await, (1..=more).collect::<Vec<_>>());
    }
    assert_eq!((stage.parked("").await, running.counters.read().failures), (0, 0));
    assert_eq!(running.stop().await, Ended::Shutdown);
}
