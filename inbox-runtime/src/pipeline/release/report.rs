//! What a release did, for people and counters.

use std::time::Duration;

use inbox_engine::internal::{Offset, ParkReason};
use outbox_core::TopicPartition;

use crate::telemetry::{Counters, Signal};

/// What a committed release did.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Report {
    /// Events that left their queue with their effect.
    pub(crate) released: u64,
    /// Events that left it without one: they were stale.
    pub(crate) stale: u64,
    /// Events that left it without one: a person gave them up.
    pub(crate) discarded: u64,
    /// Events that failed again and stay.
    pub(crate) failed: Vec<FailedRelease>,
}

/// An event that failed again.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct FailedRelease {
    pub(crate) offset: Offset,
    pub(crate) attempt: u32,
    pub(crate) reason: ParkReason,
    pub(crate) error: String,
    /// When it is tried again; `None`: it waits for a person.
    pub(crate) delay: Option<Duration>,
}

impl Report {
    /// Counts it and tells it.
    pub(crate) fn tell(self, partition: &TopicPartition, counters: &Counters) {
        let Self { released, stale, discarded, failed } = self;
        counters.batches.add(1); // a release is a transaction, too
        counters.released.add(released);
        counters.stale.add(stale);
        counters.discarded.add(discarded);
        counters.release_failures.add(failed.len() as u64);
        if released > 0 || discarded > 0 {
            Signal::Released { partition: partition.clone(), events: released, discarded }.emit();
        }
        for FailedRelease { offset, attempt, reason, error, delay } in failed {
            let (partition, offset) = (partition.clone(), offset.0);
            match reason {
                ParkReason::Torn => Signal::Torn { partition, offset, error },
                ParkReason::Mismatch => Signal::Mismatch { partition, offset, error },
                reason => Signal::ReleaseFailed {
                    partition,
                    offset,
                    attempt: Some(attempt),
                    reason: reason.as_str().to_owned(),
                    again_seconds: delay
                        .map(|delay| i64::try_from(delay.as_secs()).unwrap_or(i64::MAX)),
                    error,
                },
            }
            .emit();
        }
    }
}
