//! Failures of handlers, for the log: a bad deploy fails every event, from Kafka and by HTTP.

use std::{
    sync::{Mutex, PoisonError},
    time::Instant,
};

use service_kit::throttle::{Cause, Occurrences, Throttle};

/// Which failures were reported, and when.
#[derive(Debug)]
pub(super) struct HandlerFailures(Mutex<Throttle>);

impl Default for HandlerFailures {
    fn default() -> Self {
        Self(Mutex::new(Throttle::by_cause()))
    }
}

impl HandlerFailures {
    /// A handler has failed on an event of a type: how often it did so, if that is to be reported.
    pub(super) fn record(&self, event_type: &str, error: &str, now: Instant) -> Option<u64> {
        let mut throttle = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let occurrences = throttle.record(Cause::of(event_type, error), now);
        occurrences.map(|Occurrences { times, .. }| times)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// A bad deploy: every event fails, with an error of its own number.
    #[test]
    fn failures_of_handlers_are_reported_once_for_each_cause() {
        let (failures, start) = (HandlerFailures::default(), Instant::now());
        let reported = |kind: &str, error: &str, seconds| {
            failures.record(kind, error, start + Duration::from_secs(seconds))
        };
        assert_eq!(reported("OrderPaid", "no account 7", 0), Some(1));
        assert!((0..20).all(|n| reported("OrderPaid", &format!("no account {n}"), 1).is_none()));
        assert_eq!(reported("OrderPaid", "permission denied", 1), Some(1), "another error");
        assert_eq!(reported("OrderShipped", "no account 7", 1), Some(1), "another type");
        assert_eq!(reported("OrderPaid", "no account 9", 31), Some(22));
    }
}
