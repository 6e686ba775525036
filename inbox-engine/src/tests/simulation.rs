//! Seeded histories: the real engine in a small world where everything goes wrong, and what must never
//! happen. `INBOX_SEED` runs one history more, with its last steps printed if it fails; `INBOX_STEPS` sets
//! how many steps the others have.
#![expect(clippy::print_stdout, reason = "the number of steps, and the seed that failed")]

mod chance;
mod database;
mod group;
mod handling;
mod log;
mod obeying;
mod parked;
mod trouble;
mod worker;
mod world;

use std::panic::{AssertUnwindSafe, catch_unwind};

use world::{Seen, World};

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

/// Runs one history; answers its steps, and what happened in it.
fn history(seed: u64, epochs_known: bool, trace: bool) -> (u64, Seen) {
    let mut world = World::new(seed, epochs_known, trace);
    let ended = catch_unwind(AssertUnwindSafe(|| world.run()));
    if ended.is_err() {
        for line in world.trace.iter().flatten() {
            println!("{line}");
        }
        println!("{}", world.describe());
        panic!("the history with seed {seed} failed at step {}: INBOX_SEED={seed}", world.steps);
    }
    (world.steps, world.seen)
}

/// Runs histories until they have three million steps together, or as many as `INBOX_STEPS` says.
fn histories(first: u64, epochs_known: bool) {
    let steps_min = number("INBOX_STEPS").unwrap_or(3_000_000);
    let (mut steps, mut seeds) = (0, first..);
    let mut seen = Seen::new();
    while steps < steps_min {
        let more = history(seeds.next().unwrap(), epochs_known, false);
        steps += more.0;
        more.1.into_iter().for_each(|(what, times)| *seen.entry(what).or_default() += times);
    }
    println!("{steps} steps in {} histories: {seen:?}", seeds.start - first);
    // With a rule switched off some of it may be missing: that proves nothing.
    for what in EVERYTHING.into_iter().filter(|_| cfg!(not(feature = "ablation"))) {
        let often = seen.get(what).is_some_and(|times| *times > 100);
        assert!(often || epochs_known && what == "claim of a passed offset", "hardly any {what}");
    }
}

/// What has to happen in them, or they prove little.
const EVERYTHING: [&str; 49] = [
    "Kafka commit",
    "blamed head",
    "careful commit",
    "claim of a passed offset",
    "commit of one lane",
    "commit of several lanes",
    "confirmed",
    "claim that another transaction blocks",
    "conflict",
    "conflict of a release",
    "crash",
    "discard",
    "doomed event",
    "empty look",
    "failed Kafka commit",
    "failed look",
    "failed release",
    "failed seek",
    "failed take-over",
    "failover",
    "fenced release",
    "fenced stray",
    "fenced stray release",
    "fenced transaction",
    "fenced watermark",
    "full",
    "full look",
    "idle check",
    "intent",
    "let go of one",
    "let go of several",
    "look",
    "named failure",
    "not confirmed",
    "outage",
    "outage of a release",
    "release of nothing",
    "release of one",
    "release of several",
    "remap",
    "remap that waits",
    "stray commit",
    "stray release",
    "take-over",
    "unknown commit",
    "unknown release",
    "unnamed failure",
    "watermark",
    "watermark outage",
];

/// A1, A4, A10, B1, B2, B3, C1, C6, C9, C10, C16, C17, D5, D7, D14, E1, I1, I4, I5: faults of every kind, and still
/// no effect twice, none lost, none out of order, and in the end everything is settled.
#[test]
fn histories_keep_the_promise() {
    histories(0, true);
}

/// Finding 2b: the same when the broker tells no leader epochs, and rows are pruned.
#[test]
fn histories_without_leader_epochs_keep_the_promise() {
    histories(1_000_000, false);
}

/// One history more, by its seed.
#[test]
fn the_history_of_a_given_seed_keeps_the_promise() {
    let seed = number("INBOX_SEED");
    for epochs_known in [true, false] {
        history(seed.unwrap_or(42), epochs_known, seed.is_some());
    }
}
