//! What the planner is made with.

use std::time::Duration;

use inbox_engine::internal::Rule;
use outbox_planner::internal::{DestinationLimits, PlannerSettings};

use super::PumpOptions;
use crate::routes::KAFKA;

/// This many batches of rows are in memory.
const BATCHES: usize = 4;
/// How often parked rows are looked for though nothing is known of any: somebody may have changed rows.
const DUES_EVERY: Duration = Duration::from_secs(10);

pub(super) fn planner_settings(options: &PumpOptions) -> PlannerSettings {
    let PumpOptions { retry, destinations, routes, events_max, bytes_max, .. } = options;
    let kafka = DestinationLimits {
        name: KAFKA.to_owned(),
        batch_max: *events_max,
        calls_max: 1,
        takes_runs: true,
        connects: true,
    };
    let limits = destinations.iter().map(|destination| DestinationLimits {
        name: destination.name.clone(),
        batch_max: destination.sink.batch_max().max(1),
        calls_max: destination.sink.calls_max().max(1),
        takes_runs: false,
        connects: false,
    });
    let one_lane = match (&destinations[..], routes.reach_kafka()) {
        ([], _) => true,
        ([destination], false) => destination.one_scope,
        _ => false,
    };
    PlannerSettings {
        destinations: std::iter::once(kafka).chain(limits).collect(),
        one_lane,
        batch_rows: *events_max,
        batch_bytes: *bytes_max,
        rows_max: events_max * BATCHES,
        bytes_max: bytes_max * BATCHES,
        attempts_max: retry.attempts_max,
        delay_min: retry.delay_min,
        delay_max: retry.delay_max,
        outage_delay_max: retry.outage_delay_max,
        dues_every: DUES_EVERY,
        outage_of: if Rule::OutageSpendsNoAttempt.on() { 3 } else { usize::MAX },
        backoff: |first, longest, tries| {
            service_kit::backoff(first, longest, tries, service_kit::chance())
        },
    }
}
