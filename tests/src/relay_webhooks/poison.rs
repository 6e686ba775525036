//! How fast everything else goes beside an event that the receiver never takes.

use serde::Serialize;
use serde_json::Value;

use super::{
    receiver::{Manner, Numbered, WARM},
    scene::{NOBODY, Scene, memory_kib, mib},
};
use crate::{Executable, Ratio, Spread};

/// The first of all events: what follows it of its aggregate waits from the beginning.
const POISON: Numbered = Numbered { aggregate: 1, n: 1 };

/// What is measured.
#[derive(Clone, Copy, Debug)]
pub struct Poison {
    /// Events, without those that go before the clock starts.
    pub events: usize,
    /// How often.
    pub rounds: usize,
    /// Aggregates that they are of.
    pub aggregates: usize,
}

/// What rounds had, in events a second.
#[derive(Debug, Default, Serialize)]
struct Figures {
    with: Vec<f64>,
    without: Vec<f64>,
    /// Attempts of the event that was never taken, in each round.
    attempts: Vec<usize>,
    relay_copies: usize,
    relay_memory_kib: u64,
}

/// Measures by turns, and says what it found. Panics where an event was lost, came out of order, or overtook the one
/// that is never taken.
pub async fn measure(relay: &Executable, poison: Poison) -> Value {
    let Poison { events, rounds, aggregates } = poison;
    println!(
        "{events} events of {aggregates} aggregates behind {WARM}; one event is answered 500, or none"
    );
    let mut figures = Figures::default();
    for round in 0..rounds {
        // Who begins takes turns, too.
        for poisoned in [round % 2 == 0, round % 2 == 1] {
            ship(relay, poison, poisoned, &mut figures).await;
        }
        println!(
            "round {}: with it {:.0}, without {:.0} events a second; it was tried {} times",
            round + 1,
            figures.with[round],
            figures.without[round],
            figures.attempts[round]
        );
    }
    let (with, without) = (Spread::of(&figures.with), Spread::of(&figures.without));
    println!("events of all other aggregates a second: with it {with}, without {without}");
    println!("ratio of the medians: {:.3} (wanted: 0.95)", with.median / without.median);
    if let Some(ratio) = Ratio::of(&figures.with, &figures.without) {
        println!("pair by pair: {ratio}");
    }
    println!(
        "each aggregate was in order, none was lost, what follows the event waited, no other row spent an attempt; {} \
         copies; memory of the relay {} at most",
        figures.relay_copies,
        mib(figures.relay_memory_kib)
    );
    serde_json::to_value(figures).expect("figures become JSON")
}

async fn ship(program: &Executable, poison: Poison, poisoned: bool, figures: &mut Figures) {
    let Poison { events, aggregates, .. } = poison;
    let refused = poisoned.then_some(POISON);
    let scene = Scene::set(Manner { refused, ..Manner::default() }).await;
    scene.store(events + WARM, aggregates).await;
    let but = if poisoned { POISON.aggregate } else { NOBODY };
    let count = format!("SELECT count(*) FROM outbox_events WHERE aggregate_id <> '{but}'");
    let count = scene.outbox.schema.number(&count).await;
    let relay = scene.relay(program);
    scene.accepted(usize::try_from(count).expect("a count")).await;
    if !poisoned {
        scene.outbox.drained(crate::SOON).await;
    }
    scene.demand_order(but).await;
    assert_eq!(scene.attempts_but_of(POISON.aggregate).await, 0, "an attempt of another row");
    let (rate, copies, refusals) =
        scene.receiver.read(|ledger| (ledger.rate(), ledger.copies, ledger.refusals));
    figures.relay_copies += copies;
    figures.relay_memory_kib = figures.relay_memory_kib.max(memory_kib(&relay));
    if poisoned {
        figures.with.push(rate);
        figures.attempts.push(refusals);
    } else {
        figures.without.push(rate);
    }
}
