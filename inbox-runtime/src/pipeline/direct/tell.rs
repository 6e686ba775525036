//! What is told of direct events: failures of handlers, and a database that is away.

use std::{
    sync::{Arc, PoisonError},
    time::{Duration, Instant},
};

use inbox_engine::internal::Failure;
use inbox_store::internal::port::Owners;
use service_kit::throttle::{Cause, Occurrences, Throttle};

use super::Direct;
use crate::{
    pipeline::{Delivered, parked::event_labels},
    telemetry::{PartitionReading, Reason, Signal, meters::Live},
};

/// What keeps the upkeep from its work, told now and then.
#[derive(Debug)]
pub(super) struct Trouble {
    throttle: Throttle,
    now: Option<String>,
}

impl Default for Trouble {
    fn default() -> Self {
        Self { throttle: Throttle::outage(Duration::ZERO), now: None }
    }
}

impl<DB: Owners> Direct<DB> {
    /// Handlers that failed on events that are known.
    pub(super) fn tell_failures(&self, items: &[Delivered], failures: &[Failure]) {
        for failure in failures {
            let Some(item) = failure.index.and_then(|index| items.get(index)) else { continue };
            let [event_type, event_id, aggregate] = event_labels(item);
            Signal::HandlerFailed {
                partition: self.settings.place.clone(),
                offset: None,
                attempt: None,
                event_type,
                event_id,
                aggregate,
                error: failure.error.clone(),
            }
            .emit();
        }
    }

    /// The upkeep does its rounds.
    pub fn tell_maintained(&self) {
        let mut trouble = self.trouble.lock().unwrap_or_else(PoisonError::into_inner);
        trouble.now = None;
        if let Some(Occurrences { times, seconds }) = trouble.throttle.resolve(Instant::now()) {
            Signal::OutageOver { of: "outage", partitions: Some(1), times, seconds }.emit();
        }
    }

    /// The upkeep met this: told at once, and now and then while it goes on.
    pub fn tell_failed(&self, error: String) {
        let mut trouble = self.trouble.lock().unwrap_or_else(PoisonError::into_inner);
        trouble.now = Some(error.clone());
        let cause = Cause::of("outage", &error);
        if let Some(Occurrences { times, seconds }) = trouble.throttle.record(cause, Instant::now())
        {
            let partition = self.settings.place.clone();
            Signal::Outage { partition, partitions: 1, times, seconds, error }.emit();
        }
    }

    /// Something that is doubtful.
    pub fn tell_doubt(reason: String) {
        Signal::Doubtful { reason }.emit();
    }

    /// How things are, for metrics and health of a process that reads nothing of Kafka. Once a second.
    pub fn publish(&self, ending: bool) {
        let trouble = self.trouble.lock().unwrap_or_else(PoisonError::into_inner).now.clone();
        let standstill = trouble.map(|sentence| Reason { name: "outage", sentence });
        let reading = PartitionReading::of_intake(&self.settings.place, standstill);
        self.work.meters.publish(Live {
            at: Some(Instant::now()),
            ending,
            joined: true,
            connections_idle: self.work.sessions.idle_count() as u64,
            transactions_limit: self.work.meters.connections_max,
            partitions: Arc::new([reading]),
            ..Live::default()
        });
    }
}
