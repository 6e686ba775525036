//! What is measured of each destination by itself.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use service_kit::{
    Counter,
    telemetry::{Histogram, LONG, SHORT, Scale},
};

use crate::port::DestinationOutage;

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
    /// It, or parts of it, that are down.
    outages: Mutex<Vec<DestinationOutage>>,
}

impl DestinationMeters {
    pub(super) fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            rows: Counter::default(),
            delivery_seconds: Histogram::new(Scale::Seconds, SHORT),
            delay_seconds: Histogram::new(Scale::Seconds, LONG),
            outages: Mutex::default(),
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

    /// What of it is down; empty when all of it works.
    pub(crate) fn set_outages(&self, outages: Vec<DestinationOutage>) {
        *self.lock() = outages;
    }

    /// What of it is down.
    pub(super) fn outages(&self) -> Vec<DestinationOutage> {
        self.lock().clone()
    }

    /// The longest of its outages.
    pub(super) fn out_for(&self) -> Duration {
        self.lock().iter().map(DestinationOutage::lasts).max().unwrap_or_default()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<DestinationOutage>> {
        self.outages.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
