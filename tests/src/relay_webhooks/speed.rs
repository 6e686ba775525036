//! How many events a second a relay delivers, beside loops written by hand.

use std::time::Duration;

use serde::Serialize;
use serde_json::Value;

use super::{
    hand_loop,
    receiver::{Manner, WARM},
    scene::{NOBODY, Scene, calls_max, memory_kib, mib},
};
use crate::{Executable, Ratio, Spread, eventually};

const AGGREGATES: usize = 500;
/// Workers of the loop that does not keep the order.
const MANY: usize = 8;
/// A loop is stopped after so long: beside a slow receiver, the one with one worker would take minutes.
const LOOP_MAX: Duration = Duration::from_secs(20);

/// What is measured.
#[derive(Clone, Copy, Debug)]
pub struct Speed {
    /// Events, without those that go before the clock starts.
    pub events: usize,
    /// How often.
    pub rounds: usize,
    /// How long each answer of the receiver takes.
    pub answer: Duration,
}

/// What rounds had, in events a second.
#[derive(Debug, Default, Serialize)]
struct Figures {
    relay: Vec<f64>,
    one_worker: Vec<f64>,
    many_workers: Vec<f64>,
    /// Of a hundred events, how many came behind a later one of their aggregate.
    many_workers_reordered_percent: Vec<f64>,
    relay_copies: usize,
    relay_memory_kib: u64,
}

/// Measures by turns, and says what it found. Panics where the relay lost an event or the order of an aggregate.
pub async fn measure(relay: &Executable, speed: Speed) -> Value {
    let Speed { events, rounds, answer } = speed;
    println!(
        "{events} events of {AGGREGATES} aggregates behind {WARM}; the receiver answers after {} ms; nothing is \
         signed; the relay has its default configuration: {} calls at once at most",
        answer.as_millis(),
        calls_max()
    );
    let mut figures = Figures::default();
    for round in 0..rounds {
        // Who begins takes turns, too.
        for turn in (0..3).map(|step| (round + step) % 3) {
            match turn {
                0 => ship(relay, speed, &mut figures).await,
                1 => {
                    let (rate, reordered) = run_loop(speed, 1).await;
                    assert!(reordered == 0.0, "one worker keeps the order");
                    figures.one_worker.push(rate);
                }
                _ => {
                    let (rate, reordered) = run_loop(speed, MANY).await;
                    figures.many_workers.push(rate);
                    figures.many_workers_reordered_percent.push(reordered);
                }
            }
        }
        println!(
            "round {}: relay {:.0}, loop with one worker {:.0}, with {MANY} {:.0} events a second",
            round + 1,
            figures.relay[round],
            figures.one_worker[round],
            figures.many_workers[round]
        );
    }
    tell(&figures);
    serde_json::to_value(figures).expect("figures become JSON")
}

fn tell(figures: &Figures) {
    let Figures { relay, one_worker, many_workers, many_workers_reordered_percent, .. } = figures;
    println!(
        "relay: {} events a second, each aggregate in order, none lost, {} copies; memory {} at most",
        Spread::of(relay),
        figures.relay_copies,
        mib(figures.relay_memory_kib)
    );
    for (workers, rates) in [(1, one_worker), (MANY, many_workers)] {
        println!("loop by hand, workers: {workers}: {} events a second", Spread::of(rates));
        if let Some(ratio) = Ratio::of(relay, rates) {
            println!("  the relay pair by pair: {ratio} times that");
        }
    }
    let Spread { median, lowest, highest } = Spread::of(many_workers_reordered_percent);
    println!(
        "  with {MANY} workers it does not keep the order: of a hundred events {median:.1} came behind a later one of \
         their aggregate (lowest {lowest:.1}, highest {highest:.1})"
    );
}

async fn ship(program: &Executable, speed: Speed, figures: &mut Figures) {
    let Speed { events, answer, .. } = speed;
    let scene = Scene::set(Manner { time: answer, refused: None }).await;
    scene.store(events + WARM, AGGREGATES).await;
    let relay = scene.relay(program);
    scene.accepted(events + WARM).await;
    scene.outbox.drained(crate::SOON).await;
    scene.demand_order(NOBODY).await;
    let (rate, copies) = scene.receiver.read(|ledger| (ledger.rate(), ledger.copies));
    figures.relay.push(rate);
    figures.relay_copies += copies;
    figures.relay_memory_kib = figures.relay_memory_kib.max(memory_kib(&relay));
}

/// Answers events a second, and of a hundred events how many were reordered.
#[expect(clippy::cast_precision_loss, reason = "a share")]
async fn run_loop(speed: Speed, workers: usize) -> (f64, f64) {
    let Speed { events, answer, .. } = speed;
    let scene = Scene::set(Manner { time: answer, refused: None }).await;
    hand_loop::store(&scene, events + WARM, AGGREGATES).await;
    let workers = hand_loop::start(&scene, workers).await;
    eventually(LOOP_MAX * 6, "the loop by hand ships", async || {
        scene.receiver.read(|ledger| ledger.events >= events + WARM || ledger.running() >= LOOP_MAX)
    })
    .await;
    let found = scene
        .receiver
        .read(|ledger| (ledger.rate(), 100.0 * ledger.reordered as f64 / ledger.events as f64));
    drop(workers);
    found
}
