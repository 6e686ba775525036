//! What is told of direct events: failures of handlers.

use std::time::Instant;

use inbox_engine::internal::Failure;
use inbox_store::internal::port::Owners;

use super::Direct;
use crate::{
    pipeline::{Delivered, parked::event_labels},
    telemetry::Signal,
};

impl<DB: Owners> Direct<DB> {
    /// Handlers that failed on events that are known.
    pub(super) fn tell_failures(&self, items: &[Delivered], failures: &[Failure]) {
        for failure in failures {
            let Some(item) = failure.index.and_then(|index| items.get(index)) else { continue };
            let [event_type, event_id, aggregate] = event_labels(item);
            let kind = event_type.as_deref().unwrap_or_default();
            let failed = &self.work.state.failures;
            let Some(times) = failed.record(kind, &failure.error, Instant::now()) else { continue };
            Signal::HandlerFailed {
                partition: self.settings.place.clone(),
                offset: None,
                attempt: None,
                event_type,
                event_id,
                aggregate,
                times,
                error: failure.error.clone(),
            }
            .emit();
        }
    }

    /// Something that is doubtful.
    pub fn tell_doubt(reason: String) {
        Signal::Doubtful { reason }.emit();
    }
}
