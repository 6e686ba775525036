//! The rules, one by one, in seeded histories, and in small worlds through and through.

mod chance;
mod database;
mod histories;
mod inspect;
mod parked;
mod scenarios;
mod small_worlds;
mod world;

use std::time::Duration;

use crate::types::{DestinationLimits, PlannerSettings};

/// Destinations `d0`, which connects and takes runs, and others that do neither; small bounds, delays without chance.
fn settings(destinations: usize) -> PlannerSettings {
    let limits = |number: usize| DestinationLimits {
        name: format!("d{number}"),
        batch_max: [4, 1, 3][number.min(2)],
        calls_max: if number == 0 { 1 } else { 3 },
        takes_runs: number == 0,
        connects: number == 0,
    };
    PlannerSettings {
        destinations: (0..destinations).map(limits).collect(),
        one_lane: false,
        batch_rows: 8,
        batch_bytes: 80,
        rows_max: 32,
        bytes_max: 320,
        attempts_max: 4,
        delay_min: Duration::from_secs(1),
        delay_max: Duration::from_secs(8),
        outage_delay_max: Duration::from_secs(5),
        outage_of: 3,
        dues_every: Duration::from_secs(10),
        backoff: |first, longest, tries| first.saturating_mul(1 << tries.min(20)).min(longest),
    }
}
