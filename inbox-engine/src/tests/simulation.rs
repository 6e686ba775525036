//! Seeded histories: the real engine in a small world where everything goes wrong, and what must never
//! happen. `INBOX_SEED` runs one history more, with its last steps printed if it fails.
#![expect(clippy::print_stdout, reason = "the number of steps, and the seed that failed")]

mod chance;
mod database;
mod handling;
mod log;
mod worker;
mod world;

use std::panic::{AssertUnwindSafe, catch_unwind};

use world::World;

/// Runs one history; answers its steps.
fn history(seed: u64, epochs_known: bool, trace: bool) -> u64 {
    let mut world = World::new(seed, epochs_known, trace);
    let ended = catch_unwind(AssertUnwindSafe(|| world.run()));
    if ended.is_err() {
        for line in world.trace.iter().flatten() {
            println!("{line}");
        }
        println!("{}", world.describe());
        panic!("the history with seed {seed} failed at step {}: INBOX_SEED={seed}", world.steps);
    }
    world.steps
}

fn histories(seeds: std::ops::Range<u64>, epochs_known: bool) -> u64 {
    let steps: u64 = seeds.clone().map(|seed| history(seed, epochs_known, false)).sum();
    println!("{steps} steps in {} histories", seeds.end - seeds.start);
    steps
}

/// A1, A4, A10, B1, B2, B3, C1, C6, C9, C10, C16, C17, D5, D7, D14, E1: faults of every kind, and still
/// no effect twice, none lost, none out of order, and in the end everything is settled.
#[test]
fn histories_keep_the_promise() {
    assert!(histories(0..150, true) > 500_000);
}

/// Finding 2b: the same when the broker tells no leader epochs, and rows are pruned.
#[test]
fn histories_without_leader_epochs_keep_the_promise() {
    assert!(histories(1_000..1_150, false) > 500_000);
}

/// One history more, by its seed.
#[test]
fn the_history_of_a_given_seed_keeps_the_promise() {
    let seed = std::env::var("INBOX_SEED").ok().and_then(|seed| seed.parse().ok());
    for epochs_known in [true, false] {
        history(seed.unwrap_or(42), epochs_known, seed.is_some());
    }
}
