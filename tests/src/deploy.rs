//! A bad deploy: a handler that fails for every event of one type, until a good one replaces it.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use inbox_consumer::{Event, Handler, HandlerError, HandlerResult, Routes, Tx};
use serde::Serialize;
use sqlx::Postgres;
use tokio::process::Command;

use crate::{
    Count, Counter, Executable, Record, SOON, Stage, effect, eventually,
    soak::checker::{self, Expected},
};

/// The type of the events that the bad deploy cannot handle.
pub const CHARGED: &str = "Charged";

/// Handles as `Counter` does, but rejects everything while it is bad.
#[derive(Clone, Debug, Default)]
pub struct Deploy {
    bad: Arc<AtomicBool>,
}

impl Deploy {
    /// One that rejects.
    pub fn bad() -> Self {
        Self { bad: Arc::new(AtomicBool::new(true)) }
    }

    /// From now on it handles.
    pub fn mend(&self) {
        self.bad.store(false, Ordering::SeqCst);
    }

    /// Routes for `Charged`, to this handler, and for `Counted`, to one that is always good.
    pub fn routes(&self) -> Routes<Postgres> {
        Routes::default().on(CHARGED, self.clone()).on("Counted", Counter)
    }
}

impl Handler<Postgres> for Deploy {
    type Event = Count;

    async fn handle(&self, event: &Event<Count>, tx: &mut Tx<'_, Postgres>) -> HandlerResult {
        if self.bad.load(Ordering::SeqCst) {
            return Err(HandlerError::reject("no column \"fee\" in table accounts"));
        }
        effect(event, tx).await
    }
}

/// A `Charged` event: number `n` of its aggregate.
pub fn charged(aggregate: &str, n: i64) -> Record {
    Record::event(&format!("{aggregate}-{n}"), CHARGED, aggregate, &format!("{{\"n\":{n}}}"))
}

/// How large a run is.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// Aggregates; each begins with an event that the bad deploy rejects.
    pub aggregates: i64,
    /// Events of each; every second one is of the other type.
    pub per_aggregate: i64,
    /// Partitions of the topic.
    pub partitions: i32,
    /// `limits.parked_aggregates_max`.
    pub aggregates_max: u32,
    /// `limits.parked_events_max`.
    pub events_max: u32,
}

/// What was measured.
#[derive(Debug, Serialize)]
pub struct Report {
    /// Events sent.
    pub events: i64,
    /// Events parked when every partition stood still.
    pub parked: i64,
    /// The most that any partition had parked at any time.
    pub parked_in_a_partition: i64,
    /// The most aggregates of which any partition had parked events.
    pub aggregates_in_a_partition: i64,
    /// From the start of the bad deploy to the last partition standing still.
    pub seconds_to_standstill: f64,
    /// From the release to the last effect.
    pub seconds_to_recovery: f64,
    /// What is wrong with the effects in the end.
    pub violations: Vec<String>,
}

/// Runs the bad deploy until every partition stands still by name, then the good one, releases
/// everything with one command, and waits for every effect.
pub async fn bad_deploy(worker: &Executable, size: Size) -> Report {
    let mut stage = Stage::set("deploy", size.partitions).await;
    stage.config.limits.parked_aggregates_max = size.aggregates_max;
    stage.config.limits.parked_events_max = size.events_max;
    fill(&stage, size).await;
    let patience = Duration::from_mins(5);

    let began = Instant::now();
    let bad = stage.start(Deploy::bad().routes()).await;
    let full = "SELECT count(*) FROM inbox_partitions WHERE standstill LIKE 'parked_limit: %'";
    eventually(patience, "every partition says that it has parked what it may", async || {
        stage.schema.number(full).await == i64::from(size.partitions)
    })
    .await;
    let seconds_to_standstill = began.elapsed().as_secs_f64();
    let parked = at_rest(&stage, patience).await;
    let (parked_in_a_partition, aggregates_in_a_partition) = most(&stage).await;
    bad.stop().await;
    assert!(stage.effects().await == 0, "the bad deploy let an event overtake a parked one");

    let good = stage.start(Deploy::default().routes()).await;
    let began = Instant::now();
    released(worker, &stage).await;
    let all = size.aggregates * size.per_aggregate;
    eventually(patience, "every event has its effect", async || stage.effects().await >= all).await;
    let seconds_to_recovery = began.elapsed().as_secs_f64();
    eventually(SOON, "nothing is parked", async || stage.parked("").await == 0).await;
    good.stop().await;
    let expected = Expected {
        aggregates: size.aggregates.unsigned_abs(),
        per_aggregate: size.per_aggregate.unsigned_abs(),
    };
    let wrong = checker::check(stage.schema.pool(), expected).await.expect("reading the effects");
    Report {
        events: all,
        parked,
        parked_in_a_partition,
        aggregates_in_a_partition,
        seconds_to_standstill,
        seconds_to_recovery,
        violations: wrong.iter().map(|v| format!("{:?}: {}", v.anomaly, v.text)).collect(),
    }
}

/// Events parked once nothing more is parked. A partition says that it stands when the first
/// transaction does not fit; smaller ones, a few waits later, still fill the rest of the room.
async fn at_rest(stage: &Stage, patience: Duration) -> i64 {
    let (mut parked, mut since) = (0, Instant::now());
    eventually(patience, "parked events, and no more of them for four seconds", async || {
        let now = stage.parked("").await;
        if now != parked {
            (parked, since) = (now, Instant::now());
        }
        parked > 0 && since.elapsed() > Duration::from_secs(4)
    })
    .await;
    parked
}

async fn fill(stage: &Stage, size: Size) {
    let mut records = Vec::new();
    for n in 1..=size.per_aggregate {
        for aggregate in 0..size.aggregates {
            let aggregate = aggregate.to_string();
            let one =
                if n % 2 == 1 { charged(&aggregate, n) } else { crate::counted(&aggregate, n) };
            records.push(one);
            if records.len() == 20_000 {
                stage.send(&records).await;
                records.clear();
            }
        }
    }
    stage.send(&records).await;
}

/// The most events and aggregates that a partition has parked.
async fn most(stage: &Stage) -> (i64, i64) {
    sqlx::query_as(
        "SELECT coalesce(max(e), 0), coalesce(max(a), 0) FROM (SELECT count(*) e, count(DISTINCT aggregate_key) a \
         FROM inbox_parked GROUP BY partition_ref) p",
    )
    .fetch_one(stage.schema.pool())
    .await
    .expect("counting what is parked")
}

/// The one command of the recipe.
async fn released(worker: &Executable, stage: &Stage) {
    let done = Command::from(worker.command())
        .args(["parked", "release", "--type", CHARGED, "--yes", "--as", "tests"])
        .args(["--why", "the bad deploy is taken back"])
        .env("INBOX_CONSUMER__NAME", &stage.config.consumer.name)
        .env("INBOX_KAFKA__BOOTSTRAP", stage.topic.bootstrap())
        .env("INBOX_KAFKA__TOPICS", stage.topic.name())
        .env("INBOX_DATABASE__URL", stage.schema.url())
        .output()
        .await
        .expect("the worker starts");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
}
