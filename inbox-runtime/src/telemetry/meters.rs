//! What the runtime records while it works; [`Readings`](super::Readings) read it.
//!
//! Nothing here is written per event: a transaction, a run of a handler or a second at a time. Numbers
//! are atomic; what is more than a number is replaced as a whole once a second.

use std::{
    collections::HashMap,
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
    time::{Duration, Instant, SystemTime},
};

use inbox_engine::internal::{BatchOutcome, ParkReason};
use inbox_handler::internal::Calls;
use kafka_kit::internal::Forbidden;
use outbox_core::TopicPartition;
use service_kit::{
    Counter,
    telemetry::{EVENTS, Histogram, LONG, SHORT, Scale},
};

use super::{Counters, partition_reading::PartitionReading};

/// Why events are parked, in the order of [`Meters::parked`].
pub(crate) const REASONS: [ParkReason; 10] = [
    ParkReason::ByHand,
    ParkReason::Crashed,
    ParkReason::Exhausted,
    ParkReason::Follower,
    ParkReason::Gap,
    ParkReason::Mismatch,
    ParkReason::Rejected,
    ParkReason::Torn,
    ParkReason::Undecodable,
    ParkReason::UnknownType,
];

/// What one consumer has measured of itself.
#[derive(Debug)]
pub struct Meters {
    pub(crate) consumer: String,
    /// Plain counts.
    pub counters: Arc<Counters>,
    /// By [`REASONS`].
    pub(crate) parked: [Counter; REASONS.len()],
    pub(crate) transaction_seconds: Histogram,
    pub(crate) transaction_events: Histogram,
    pub(crate) event_age: Histogram,
    /// By the number of the route.
    pub(crate) routes: Vec<RouteMeter>,
    pub(crate) connections_max: u64,
    pub(crate) connections_opened: Counter,
    pub(crate) begun: SystemTime,
    /// Where the HTTP port listens.
    pub(crate) http: OnceLock<SocketAddr>,
    /// Ends the process when a handler blocks its thread for good, so that others take its partitions.
    pub end_when_blocked: OnceLock<fn(&str)>,
    /// Calls of handlers.
    pub(crate) calls: Calls,
    /// Requests of the HTTP intake.
    pub intake: IntakeMeter,
    live: Mutex<Live>,
    parked_now: Mutex<HashMap<TopicPartition, Parked>>,
    oldest_snapshot: Mutex<Option<Duration>>,
}

/// One handler, by the event type it takes: as many as are registered, never more.
#[derive(Debug)]
pub(crate) struct RouteMeter {
    pub(crate) event_type: String,
    pub(crate) events: Counter,
    pub(crate) failures: Counter,
    pub(crate) run_seconds: Histogram,
}

/// Requests of the HTTP intake, by the status of their answers.
#[derive(Debug, Default)]
pub struct IntakeMeter {
    answers: [Counter; ANSWERS.len()],
}

/// The statuses that there are.
const ANSWERS: [u16; 9] = [200, 202, 400, 401, 408, 409, 413, 415, 503];

impl IntakeMeter {
    /// Counts a request.
    pub fn count(&self, status: u16) {
        if let Some(at) = ANSWERS.iter().position(|known| *known == status) {
            self.answers[at].add(1);
        }
    }

    /// How many had each status, of those that occurred.
    pub(crate) fn read(&self) -> impl Iterator<Item = (u16, u64)> {
        let read = ANSWERS.into_iter().zip(&self.answers);
        read.map(|(status, counter)| (status, counter.read())).filter(|(_, count)| *count > 0)
    }
}

/// What is parked of a partition.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Parked {
    pub(crate) events: u64,
    pub(crate) aggregates: u64,
}

/// What the loop that owns the engine tells once a second.
#[derive(Clone, Debug, Default)]
pub(crate) struct Live {
    /// When it told that; nothing before it ran and after it ended.
    pub(crate) at: Option<Instant>,
    /// It was asked to end.
    pub(crate) ending: bool,
    pub(crate) ended: bool,
    pub(crate) joined: bool,
    /// Topics that are consumed and are not there.
    pub(crate) topics_missing: Arc<[Arc<str>]>,
    /// What the brokers forbid.
    pub(crate) forbidden: Arc<[Forbidden]>,
    /// Topics that are consumed, are there, and that no member of the group was given.
    pub(crate) topics_unassigned: Arc<[Arc<str>]>,
    /// For how long no broker had answered then.
    pub(crate) brokers_silence: Duration,
    /// How long the Kafka client had not been polled then.
    pub(crate) silence: Duration,
    pub(crate) committed_at: Option<Instant>,
    pub(crate) connections_busy: u64,
    pub(crate) connections_idle: u64,
    /// How many transactions may be open side by side.
    pub(crate) transactions_limit: u64,
    pub(crate) partitions: Arc<[PartitionReading]>,
}

impl Meters {
    /// For a consumer with these handled event types, by the number of their route.
    pub fn new<'t>(
        consumer: &str,
        event_types: impl IntoIterator<Item = &'t str>,
        connections_max: usize,
    ) -> Arc<Self> {
        let route = |event_type: &str| RouteMeter {
            event_type: event_type.to_owned(),
            events: Counter::default(),
            failures: Counter::default(),
            run_seconds: Histogram::new(Scale::Seconds, SHORT),
        };
        Arc::new(Self {
            consumer: consumer.to_owned(),
            counters: Arc::default(),
            parked: Default::default(),
            transaction_seconds: Histogram::new(Scale::Seconds, SHORT),
            transaction_events: Histogram::new(Scale::Whole, EVENTS),
            event_age: Histogram::new(Scale::Seconds, LONG),
            routes: event_types.into_iter().map(route).collect(),
            connections_max: connections_max as u64,
            connections_opened: Counter::default(),
            begun: SystemTime::now(),
            http: OnceLock::new(),
            end_when_blocked: OnceLock::new(),
            calls: Calls::default(),
            intake: IntakeMeter::default(),
            live: Mutex::default(),
            parked_now: Mutex::default(),
            oldest_snapshot: Mutex::default(),
        })
    }

    /// Counts a transaction. `oldest_ms` is the earliest record's time.
    pub(crate) fn transaction(
        &self,
        outcome: &BatchOutcome,
        events: usize,
        oldest_ms: Option<i64>,
        took: Duration,
    ) {
        self.counters.count(outcome);
        if !matches!(outcome, BatchOutcome::Committed(_)) {
            return;
        }
        self.transaction_seconds.took(took);
        self.transaction_events.observe(events as u64);
        if let Some(age) = oldest_ms.and_then(since) {
            self.event_age.took(age);
        }
    }

    /// Counts an event that was parked.
    pub(crate) fn parked(&self, reason: ParkReason) {
        if let Some(index) = REASONS.iter().position(|known| *known == reason) {
            self.parked[index].add(1);
        }
    }

    /// Counts a run of a handler; `handled` events of it succeeded.
    pub(crate) fn run(&self, route: u32, took: Duration, handled: usize, failed: bool) {
        let index = usize::try_from(route).unwrap_or(usize::MAX);
        let Some(meter) = self.routes.get(index) else { return };
        meter.run_seconds.took(took);
        meter.events.add(handled as u64);
        meter.failures.add(u64::from(failed));
    }

    /// Replaces what the loop told before.
    pub(crate) fn publish(&self, live: Live) {
        *guard(&self.live) = live;
    }

    /// The loop has ended.
    pub fn end(&self) {
        *guard(&self.live) = Live { ended: true, ..Live::default() };
    }

    /// What the loop told last.
    pub(crate) fn live(&self) -> Live {
        guard(&self.live).clone()
    }

    /// Replaces what is known to be parked.
    pub(crate) fn publish_parked(&self, parked: HashMap<TopicPartition, Parked>) {
        *guard(&self.parked_now) = parked;
    }

    /// Replaces for how long the oldest snapshot is known to be open.
    pub(crate) fn publish_snapshot(&self, open: Option<Duration>) {
        *guard(&self.oldest_snapshot) = open;
    }

    /// For how long the oldest snapshot was open when it was last looked at.
    pub(crate) fn oldest_snapshot(&self) -> Option<Duration> {
        *guard(&self.oldest_snapshot)
    }

    /// What was parked of a partition when it was last looked at.
    pub(crate) fn parked_now(&self, partition: &TopicPartition) -> Option<Parked> {
        guard(&self.parked_now).get(partition).copied()
    }
}

/// How long ago a time was that a producer or a broker wrote; nothing when their clock is ahead.
fn since(millis: i64) -> Option<Duration> {
    let then =
        SystemTime::UNIX_EPOCH.checked_add(Duration::from_millis(millis.try_into().ok()?))?;
    SystemTime::now().duration_since(then).ok()
}

pub(super) fn guard<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
