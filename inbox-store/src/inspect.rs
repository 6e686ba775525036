//! Findings that all databases share.

use inbox_engine::internal::Rule;
use outbox_core::internal::objects::{Unique, unique};

use crate::port::{Finding, Fit};

/// What the consumer takes for granted of its tables, with the columns of the key of lanes.
pub(super) const fn inbox(lanes: &'static [&'static str]) -> [Unique; 7] {
    [
        unique("inbox_consumers", &["consumer"]),
        unique("inbox_events", &["consumer_ref", "event_id"]),
        unique("inbox_lanes", lanes),
        unique("inbox_parked", &["leader_epoch", "offset", "partition_ref"]),
        unique("inbox_partitions", &["consumer_ref", "partition", "topic", "topic_id"]),
        unique("inbox_suspects", &["offset", "partition_ref"]),
        unique("inbox_versions", &["aggregate_key", "consumer_ref"]),
    ]
}

/// The consumer refuses to start with it.
pub(super) fn fatal(text: impl Into<String>) -> Finding {
    Finding { fatal: true, text: text.into() }
}

/// What is wrong with tables, which the consumer refuses to start with.
pub(super) fn unsound(found: Vec<String>) -> impl Iterator<Item = Finding> {
    found.into_iter().filter(|_| Rule::TablesAreVerified.on()).map(fatal)
}

/// The promise is weaker with it.
pub(super) fn doubtful(text: impl Into<String>) -> Finding {
    Finding { fatal: false, text: text.into() }
}

/// What the version of the tables means.
pub(super) fn schema(version: Option<i64>, newest: i64) -> Option<Finding> {
    match Fit::of("inbox", version, newest) {
        Fit::Own => None,
        Fit::Newer(text) => Some(doubtful(text)),
        Fit::Unfit(text) => Some(fatal(text)),
    }
}

/// Clocks that differ by more than this are told.
#[cfg(feature = "postgres")]
const CLOCK_MAX: f64 = 5.0;

/// What the difference of two clocks means (seconds since 1970).
#[cfg(feature = "postgres")]
pub(super) fn clock(database: f64, ours: f64) -> Option<Finding> {
    let ahead = database - ours;
    let which = if ahead < 0.0 { "behind" } else { "ahead of" };
    (ahead.abs() > CLOCK_MAX).then(|| {
        doubtful(format!(
            "the clock of the database is {:.0} s {which} this machine's: retention and the times \
             of parked events follow the database's clock, records the brokers'; synchronize all \
             of them by NTP",
            ahead.abs()
        ))
    })
}
