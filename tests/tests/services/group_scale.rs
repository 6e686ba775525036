//! Many partitions in one process.

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

use inbox_consumer::{Ended, Routes};
use sqlx::Postgres;
use tests::{Counter, OwnKafka, OwnPostgres, Producer, Stage, counted, eventually};

const PARTITIONS: i32 = 1_000;
/// Each second one partition in so many gets an event.
const TURNS: i32 = 5;
const SECONDS: u32 = 20;
/// How far a watermark may be behind the events that were acknowledged, on a machine that has much else to do: what
/// it is on a quiet one is printed.
const BEHIND_MAX: Duration = Duration::from_secs(20);

/// So many transactions a second are those of the process, not of each partition.
const IDLE_MAX: i64 = 100;

/// What the database commits or rolls back, over a time; sessions tell it about once a second.
async fn transactions_per_second(stage: &Stage) -> i64 {
    const WINDOW: Duration = Duration::from_secs(20);
    let all = "SELECT sum(xact_commit + xact_rollback)::bigint FROM pg_stat_database";
    let before = stage.schema.number(all).await;
    tokio::time::sleep(WINDOW).await;
    (stage.schema.number(all).await - before) / i64::try_from(WINDOW.as_secs()).unwrap()
}

async fn watermarks(stage: &Stage) -> Vec<(i32, i64)> {
    let all = "SELECT partition, watermark FROM inbox_partitions";
    sqlx::query_as::<Postgres, (i32, i64)>(all).fetch_all(stage.schema.pool()).await.unwrap()
}

/// A thousand partitions with a light load on all of them: no watermark is more than two seconds behind
/// (point 17).
#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_partitions_are_one_process_s_work() {
    let (kafka, own) = (OwnKafka::start().await, OwnPostgres::start().await);
    let topic = kafka.topic("scale", PARTITIONS).await;
    let stage = Stage::with(topic, own.schema().await).await;
    let begun = Instant::now();
    let running = stage.start(Routes::default().on("Counted", Counter)).await;
    eventually(Duration::from_mins(3), "all are taken over", async || {
        let readiness = running.readings.readiness();
        readiness.ready && readiness.partitions == 1_000
    })
    .await;
    println!("{PARTITIONS} partitions moved after {:?}", begun.elapsed());

    let producer = Producer::new(stage.topic.bootstrap());
    let mut sent: Vec<VecDeque<Instant>> = vec![VecDeque::new(); 1_000];
    let mut passed = vec![0_i64; 1_000];
    let (began, mut rounds, mut worst) = (Instant::now(), 0, Duration::ZERO);
    while rounds < SECONDS || sent.iter().any(|open| !open.is_empty()) {
        if rounds < SECONDS && began.elapsed() >= Duration::from_secs(1) * rounds {
            let turn = i32::try_from(rounds).unwrap() % TURNS;
            let partitions: Vec<i32> = (0..PARTITIONS).filter(|p| p % TURNS == turn).collect();
            let event = |p: &i32| counted(&format!("{p}"), i64::from(rounds)).partition(*p);
            let events: Vec<_> = partitions.iter().map(event).collect();
            producer.send(stage.topic.name(), &events).await;
            partitions
                .iter()
                .for_each(|p| sent[usize::try_from(*p).unwrap()].push_back(Instant::now()));
            rounds += 1;
        }
        for (partition, watermark) in watermarks(&stage).await {
            let place = usize::try_from(partition).unwrap();
            while passed[place] < watermark {
                passed[place] += 1;
                let at = sent[place].pop_front();
                worst = worst.max(at.map_or(Duration::ZERO, |at| at.elapsed()));
            }
            let oldest = sent[place].front().map(Instant::elapsed);
            worst = worst.max(oldest.unwrap_or_default());
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert!(began.elapsed() < Duration::from_mins(2), "events are left: {worst:?} behind");
    }
    println!("the watermark furthest behind was {worst:?} behind");
    assert!(worst < BEHIND_MAX, "a watermark was {worst:?} behind");
    let idle = transactions_per_second(&stage).await;
    println!("{idle} transactions a second while nothing happens");
    assert!(idle < IDLE_MAX, "{idle} transactions a second: each partition has its own");
    let stopped = Instant::now();
    assert_eq!(running.stop().await, Ended::Shutdown);
    println!("it ended within {:?}", stopped.elapsed());
    let owned =
        stage.schema.number("SELECT count(*) FROM inbox_partitions WHERE owner IS NOT NULL").await;
    assert_eq!(owned, 0, "each was said good-bye to");
}
