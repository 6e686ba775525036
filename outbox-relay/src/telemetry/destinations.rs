//! What is measured of each destination by itself.

use std::time::{Duration, Instant};

use service_kit::{
    Counter,
    telemetry::{Histogram, LONG, SHORT, Scale},
};

use super::outages::{Outage, OutageState};

/// What was measured of one destination.
#[derive(Debug)]
pub(crate) struct DestinationMeters {
    pub(super) name: String,
    /// Rows that it has taken.
    pub(super) rows: Counter,
    /// From handing rows over to the answer.
    pub(super) delivery_seconds: Histogram,
    /// From the append of a row to its delivery.
    pub(super) delay_seconds: Histogram,
    state: OutageState,
}

impl DestinationMeters {
    pub(super) fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            rows: Counter::default(),
            delivery_seconds: Histogram::new(Scale::Seconds, SHORT),
            delay_seconds: Histogram::new(Scale::Seconds, LONG),
            state: OutageState::default(),
        }
    }

    /// An answer has come, so long after rows were handed over.
    pub(crate) fn note_answer(&self, took: Duration) {
        self.delivery_seconds.took(took);
    }

    /// Rows were delivered, the oldest of them so long after it was appended.
    pub(crate) fn note_delivery(&self, rows: usize, age: Option<Duration>) {
        self.rows.add(rows as u64);
        if let Some(age) = age {
            self.delay_seconds.took(age);
        }
    }

    /// Since when it is out, and why; `None` when it works.
    pub(crate) fn set_outage(&self, outage: Option<(Instant, String)>) {
        match outage {
            Some((since, error)) => self.state.set(Outage { since, error }),
            None => self.state.works(),
        }
    }

    /// For how long it has been out.
    pub(super) fn out_for(&self) -> Duration {
        self.state.read().map_or(Duration::ZERO, |outage| outage.lasts())
    }
}
