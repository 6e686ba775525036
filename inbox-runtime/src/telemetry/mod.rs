//! Everything observable: [`Signal`] for logs, [`METRICS`] and [`Counters`] for numbers, one documented
//! table each (`docs/telemetry.md` and `docs/metrics.md` are made from them), spans for traces. No payload
//! and no secret is ever in any of them.
//!
//! ```text
//! runtime --writes--> meters --read by--> readings --> metrics --> port
//! ```

mod counters;
pub(crate) mod meters;
mod metrics;
mod partition_reading;
mod port;
mod readings;
mod signal;
pub(crate) mod watchdog;

#[cfg(test)]
mod http_tests;
#[cfg(test)]
mod reading_tests;
#[cfg(test)]
mod tests;

pub use counters::{Counters, Counts};
pub use metrics::{METRICS, prometheus};
pub use partition_reading::{HeldLane, PartitionReading, Reason};
pub(crate) use readings::of_the_group;
pub use readings::{Held, Readiness, Readings, Unready};
pub use service_kit::{
    SignalEntry,
    telemetry::{CONTENT_TYPE, Metric, MetricKind},
};
pub use signal::{SIGNALS, Signal};

use service_kit::{PanicReport, TracesNotice};

#[cfg(test)]
use service_kit::Counter;

impl From<PanicReport> for Signal {
    fn from(panic: PanicReport) -> Self {
        let PanicReport { thread, place, backtrace, error } = panic;
        Self::Panicked { thread, place, backtrace, error }
    }
}

impl From<TracesNotice> for Signal {
    fn from(notice: TracesNotice) -> Self {
        match notice {
            TracesNotice::Doubtful(reason) => Self::Doubtful { reason },
            TracesNotice::Lost { spans, error } => Self::TracesLost { spans, error },
            TracesNotice::Exported { spans, seconds } => Self::TracesExported { spans, seconds },
        }
    }
}

/// `docs/telemetry.md`, from the tables.
#[cfg(test)]
fn reference() -> String {
    let mut page = String::from(
        "# Telemetry\n\n<!-- Made from the tables in inbox-runtime/src/telemetry/; a test \
         compares them. -->\n\nMetrics and health: [metrics.md](metrics.md).\n\n## \
         Signals\n\nEverything the runtime reports is a log event with the target \
         `inbox_consumer` and the field `signal`. Its message contains the error; it never \
         contains payloads or secrets.\n\n",
    );
    page.push_str(&SignalEntry::reference(SIGNALS));
    page.push_str(&Counter::reference(Counts::DOCS, "Consumer::counters"));
    page
}
