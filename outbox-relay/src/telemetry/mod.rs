//! Everything observable: [`Signal`] for logs, [`METRICS`] and [`Counters`] for numbers, one documented table each. No
//! payload and no secret is ever in any of them.
//!
//! ```text
//! relay --writes--> meters, troubles --read by--> readings --> metrics --> port
//! ```

mod counters;
mod destinations;
mod meters;
mod metrics;
mod outages;
mod port;
mod readings;
mod signal;
mod troubles;

#[cfg(test)]
mod reading_tests;
#[cfg(test)]
mod tests;

pub use counters::{Counters, Counts};
pub(crate) use meters::Meters;
pub use metrics::{METRICS, prometheus};
pub use readings::{Readiness, Readings, Unready};
pub use service_kit::{
    SignalEntry,
    telemetry::{CONTENT_TYPE, Metric, MetricKind},
};
pub use signal::{SIGNALS, Signal};
pub(crate) use troubles::Troubles;

#[cfg(test)]
use service_kit::Counter;

/// The generated part of `docs/relay-reference.md` about signals, counters, metrics and health.
#[cfg(test)]
pub(crate) fn reference() -> String {
    let mut page = String::from(
        "\n## Signals\n\n\
         Everything the relay reports is a log event with the target `outbox_relay` and the field `signal`.\n\n",
    );
    page.push_str(&SignalEntry::reference(SIGNALS));
    page.push_str(&Counter::reference(Counts::DOCS, "Relay::counters"));
    page.push_str(&metrics::metrics_reference());
    page
}
