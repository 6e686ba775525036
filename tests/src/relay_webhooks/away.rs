//! A receiver that is away for a while: what that costs, and how fast what has waited goes afterwards.

use std::{
    fs,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use clap::ValueEnum;
use outbox_core::{Aggregate, OutboxEvent};
use serde::Serialize;
use serde_json::Value;
use sqlx::PgPool;
use tokio::time::{MissedTickBehavior, interval};

use super::{
    receiver::Manner,
    scene::{NOBODY, Scene, memory_kib, mib},
};
use crate::{Executable, eventually};

const AGGREGATES: usize = 500;
/// How long the receiver takes events before it goes.
const BEFORE: Duration = Duration::from_secs(10);
/// How often the producer commits.
const STEP: Duration = Duration::from_millis(50);
/// The longest wait until what has waited is sent.
const DRAIN_MAX: Duration = Duration::from_mins(15);

/// What a receiver that is away does with connections.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Refusal {
    /// Nobody listens: they are refused.
    Closed,
    /// They are accepted and closed at once, so that they can be counted.
    AcceptClose,
}

/// What is measured.
#[derive(Clone, Copy, Debug)]
pub struct Away {
    /// How long the receiver is away.
    pub seconds: u64,
    /// Events a second that are appended all the while.
    pub rate: u32,
    /// What it does with connections.
    pub refusal: Refusal,
}

#[derive(Debug, Serialize)]
struct Figures {
    rows_that_waited: i64,
    /// The most of any row, at the end of the outage and in the end.
    attempts_max: i64,
    attempts_max_in_the_end: i64,
    log_lines: usize,
    /// Connections in the outage; of the whole machine those that failed, where nobody listens.
    connections: u64,
    seconds_to_first: f64,
    seconds_to_empty: f64,
    rows_a_second: f64,
    rows_a_second_since_first: f64,
    copies: usize,
    relay_memory_kib: u64,
}

/// Plays it, and says what it found. Panics where an event was lost or came out of order.
pub async fn measure(relay: &Executable, away: Away) -> Value {
    let Away { seconds, rate, refusal } = away;
    println!(
        "{rate} events a second of {AGGREGATES} aggregates; the receiver is away for {seconds} s after {} s; \
         connections are {}",
        BEFORE.as_secs(),
        match refusal {
            Refusal::Closed => "refused",
            Refusal::AcceptClose => "taken and closed at once",
        }
    );
    let mut scene = Scene::set(Manner::default()).await;
    let worker = scene.relay(relay);
    let over = Arc::new(AtomicBool::new(false));
    let pool = scene.outbox.schema.pool().clone();
    let producer = tokio::spawn(produce(pool, rate, Arc::clone(&over)));
    tokio::time::sleep(BEFORE).await;
    let lines = || worker.log().lines().count();
    let attempts = |scene: &Scene| match refusal {
        Refusal::Closed => failed_connections(),
        Refusal::AcceptClose => scene.receiver.connections(),
    };
    let (lines_before, connections_before) = (lines(), attempts(&scene));
    scene.receiver.close(refusal == Refusal::AcceptClose).await;
    let accepted = scene.receiver.read(|ledger| ledger.events);
    assert!(accepted > 0, "the relay delivers before the receiver goes");
    tokio::time::sleep(Duration::from_secs(seconds)).await;
    let attempts_max = scene.attempts_but_of(NOBODY).await;
    let (log_lines, connections) = (lines() - lines_before, attempts(&scene) - connections_before);
    let log = worker.log();
    let last = scene.outbox.schema.number("SELECT max(seq) FROM outbox_events").await;
    let unsent = format!("FROM outbox_events WHERE sent_at IS NULL AND seq <= {last}");
    let waited = scene.outbox.schema.number(&format!("SELECT count(*) {unsent}")).await;
    assert_eq!(scene.receiver.read(|ledger| ledger.events), accepted, "the receiver was away");
    scene.receiver.open().await;
    let opened = Instant::now();
    eventually(DRAIN_MAX, "an event is accepted again", async || {
        scene.receiver.read(|ledger| ledger.events) > accepted
    })
    .await;
    let first = opened.elapsed();
    let left = format!("SELECT count(*) FROM (SELECT 1 {unsent} LIMIT 1) found");
    eventually(DRAIN_MAX, "what has waited is sent", async || {
        scene.outbox.schema.number(&left).await == 0
    })
    .await;
    let empty = opened.elapsed();
    over.store(true, Ordering::Relaxed);
    let appended = producer.await.expect("the producer works");
    scene.accepted(appended).await;
    scene.outbox.drained(crate::SOON).await;
    scene.demand_order(NOBODY).await;
    #[expect(clippy::cast_precision_loss, reason = "a rate")]
    let rows = waited as f64;
    let figures = Figures {
        rows_that_waited: waited,
        attempts_max,
        attempts_max_in_the_end: scene.attempts_but_of(NOBODY).await,
        log_lines,
        connections,
        seconds_to_first: first.as_secs_f64(),
        seconds_to_empty: empty.as_secs_f64(),
        rows_a_second: rows / empty.as_secs_f64(),
        rows_a_second_since_first: rows / (empty - first).as_secs_f64().max(0.001),
        copies: scene.receiver.read(|ledger| ledger.copies),
        relay_memory_kib: memory_kib(&worker),
    };
    tell(&figures, refusal);
    for line in log.lines().skip(lines_before) {
        println!("  the relay's log in the outage: {line}");
    }
    assert_eq!(figures.attempts_max, 0, "ATTEMPTS SPENT in an outage of the receiver");
    serde_json::to_value(figures).expect("figures become JSON")
}

fn tell(figures: &Figures, refusal: Refusal) {
    println!(
        "at the end of the outage {} rows waited; the most attempts of a row were {} (in the end {}); the relay's log \
         had {} lines of the outage",
        figures.rows_that_waited,
        figures.attempts_max,
        figures.attempts_max_in_the_end,
        figures.log_lines
    );
    match refusal {
        Refusal::Closed => println!(
            "connections that failed in the outage, of the whole machine: {}; no more than so many were the relay's",
            figures.connections
        ),
        Refusal::AcceptClose => println!("connections in the outage: {}", figures.connections),
    }
    println!(
        "from opening the port: the first event after {:.2} s, all that waited sent after {:.2} s, {:.0} rows a \
         second; since the first event {:.0} a second, beside what was appended meanwhile",
        figures.seconds_to_first,
        figures.seconds_to_empty,
        figures.rows_a_second,
        figures.rows_a_second_since_first
    );
    println!(
        "each aggregate was in order and none was lost; {} copies; memory of the relay {}",
        figures.copies,
        mib(figures.relay_memory_kib)
    );
}

/// Appends until it is over; answers how many.
async fn produce(pool: PgPool, rate: u32, over: Arc<AtomicBool>) -> usize {
    let began = Instant::now();
    let mut ticks = interval(STEP);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut appended = 0;
    while !over.load(Ordering::Relaxed) {
        ticks.tick().await;
        let due = began.elapsed().as_millis() * u128::from(rate) / 1_000;
        let due = usize::try_from(due).expect("so many fit");
        let events: Vec<_> = (appended..due).map(event).collect();
        let mut tx = pool.begin().await.expect("a transaction");
        outbox_core::append_all(&mut *tx, &events).await.expect("events");
        tx.commit().await.expect("a commit");
        appended = appended.max(due);
    }
    appended
}

/// Numbered as the receiver reads it: aggregates take turns.
fn event(index: usize) -> OutboxEvent {
    let (number, n) = (1 + index % AGGREGATES, 1 + index / AGGREGATES);
    let aggregate = Aggregate::new("Account", number.to_string()).expect("an aggregate");
    let payload = serde_json::json!({ "aggregate": number, "n": n });
    OutboxEvent::new("Counted", &aggregate, &payload).expect("an event")
}

/// Connections of this machine that nobody took, since it runs.
fn failed_connections() -> u64 {
    let text = fs::read_to_string("/proc/net/snmp").unwrap_or_default();
    let mut lines = text.lines().filter_map(|line| line.strip_prefix("Tcp:"));
    let (names, numbers) = (lines.next().unwrap_or_default(), lines.next().unwrap_or_default());
    let mut pairs = names.split_whitespace().zip(numbers.split_whitespace());
    let found = pairs.find(|(name, _)| *name == "AttemptFails");
    found.and_then(|(_, number)| number.parse().ok()).unwrap_or(0)
}
