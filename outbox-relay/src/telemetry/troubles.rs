//! What goes wrong with the database and with Kafka: reported once for each cause, and once when it is over; counted
//! each time.

use std::{
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use service_kit::{
    Counter,
    throttle::{Cause, Occurrences, Throttle},
};

use super::{
    Signal,
    outages::{Outage, OutageState},
};

/// What goes wrong in one place. Where nothing does, the answer that it works costs one look at a flag.
#[derive(Debug)]
struct Place {
    throttle: Mutex<Throttle>,
    open: AtomicBool,
}

/// How often something was met, by the signal that tells it.
#[derive(Debug, Default)]
pub(crate) struct ErrorCounters {
    pub(crate) database_outage: Counter,
    pub(crate) kafka_outage: Counter,
    pub(crate) broker_trouble: Counter,
    pub(crate) destination_outage: Counter,
    pub(crate) listening_broken: Counter,
    pub(crate) prune_failed: Counter,
    pub(crate) reading_failed: Counter,
}

impl Place {
    fn new(throttle: Throttle) -> Self {
        Self { throttle: Mutex::new(throttle), open: AtomicBool::new(false) }
    }

    fn record(&self, kind: &str, error: &str) -> Option<Occurrences> {
        let mut throttle = self.throttle.lock().unwrap_or_else(PoisonError::into_inner);
        self.open.store(true, Relaxed);
        throttle.record(Cause::of(kind, error), Instant::now())
    }

    /// Nobody will find out how it ends.
    fn forget(&self) {
        let mut throttle = self.throttle.lock().unwrap_or_else(PoisonError::into_inner);
        *throttle = Throttle::outage(Duration::ZERO);
        self.open.store(false, Relaxed);
    }

    fn works(&self, of: &'static str) {
        if !self.open.load(Relaxed) {
            return;
        }
        let mut throttle = self.throttle.lock().unwrap_or_else(PoisonError::into_inner);
        let over = throttle.resolve(Instant::now());
        self.open.store(throttle.is_open(), Relaxed);
        drop(throttle);
        if let Some(Occurrences { times, seconds }) = over {
            Signal::OutageOver { of, times, seconds }.emit();
        }
    }
}

/// What goes wrong, for all tasks and threads of a relay together.
#[derive(Debug)]
pub(crate) struct Troubles {
    database: Place,
    kafka: Place,
    listening: Place,
    prune: Place,
    reading: Place,
    /// What nobody says the end of.
    lines: Place,
    /// Each time that something was met.
    pub(crate) errors: ErrorCounters,
    database_state: OutageState,
    /// Batches do not go through, or no producer is ready.
    kafka_state: OutageState,
    /// The client loses brokers, which may be one of several.
    brokers_state: OutageState,
}

impl Default for Troubles {
    fn default() -> Self {
        let outage = || Place::new(Throttle::outage(Duration::ZERO));
        Self {
            database: outage(),
            kafka: outage(),
            listening: outage(),
            prune: outage(),
            reading: outage(),
            lines: Place::new(Throttle::by_cause()),
            errors: ErrorCounters::default(),
            database_state: OutageState::default(),
            kafka_state: OutageState::default(),
            brokers_state: OutageState::default(),
        }
    }
}

impl Troubles {
    pub(crate) fn database_out(&self, error: String) {
        self.errors.database_outage.add(1);
        self.database_state.fails(&error);
        if let Some(Occurrences { times, seconds }) =
            self.database.record("database_outage", &error)
        {
            Signal::DatabaseOutage { times, seconds, error }.emit();
        }
    }

    /// The database has answered.
    pub(crate) fn database_works(&self) {
        self.database_state.works();
        self.database.works("database_outage");
    }

    /// The client has trouble with the brokers.
    pub(crate) fn brokers(&self, error: String) {
        self.errors.broker_trouble.add(1);
        self.brokers_state.fails(&error);
        if let Some(Occurrences { times, seconds }) = self.kafka.record("broker_trouble", &error) {
            Signal::BrokerTrouble { times, seconds, error }.emit();
        }
    }

    /// No producer can be made ready.
    pub(crate) fn kafka_out(&self, error: String) {
        self.errors.kafka_outage.add(1);
        self.kafka_state.fails(&error);
        if let Some(Occurrences { times, seconds }) = self.kafka.record("kafka_outage", &error) {
            Signal::KafkaOutage { times, seconds, error }.emit();
        }
    }

    /// What became of a batch is not known.
    pub(crate) fn unknown(&self, rows: usize, error: String) {
        self.kafka_state.fails(&error);
        if let Some(Occurrences { times, seconds }) = self.kafka.record("unknown", &error) {
            Signal::Unknown { rows, times, seconds, error }.emit();
        }
    }

    /// Brokers have taken something.
    pub(crate) fn kafka_works(&self) {
        self.kafka_state.works();
        self.brokers_state.works();
        self.kafka.works("kafka_outage");
    }

    /// A broker has answered a question; whether batches go through is not known by that.
    pub(crate) fn brokers_answer(&self) {
        self.brokers_state.works();
    }

    /// Called every few seconds: reports the end of an outage that no batch has reported. An error that the client had
    /// queued before the end comes after it, and a relay without rows sends no batch.
    pub(crate) fn settle_kafka(&self) {
        if self.kafka_outage().is_none() {
            self.kafka.works("kafka_outage");
        }
    }

    /// Nobody uses Kafka here any more: what was out of it is no trouble of this relay's.
    pub(crate) fn kafka_unused(&self) {
        self.kafka_state.works();
        self.brokers_state.works();
        self.kafka.forget();
    }

    /// Whether the client has lost brokers, and nothing has shown since that one answers.
    pub(crate) fn brokers_are_doubtful(&self) -> bool {
        self.brokers_state.read().is_some()
    }

    /// The outage of the database that lasts.
    pub(crate) fn database_outage(&self) -> Option<Outage> {
        self.database_state.read()
    }

    /// The outage of Kafka that lasts: what came first of the two is since when.
    pub(crate) fn kafka_outage(&self) -> Option<Outage> {
        let both = [self.kafka_state.read(), self.brokers_state.read()];
        both.into_iter().flatten().min_by_key(|outage| outage.since)
    }

    /// Whether new rows are told of, or why not.
    pub(crate) fn listening(&self, listens: Result<(), String>) {
        let Err(error) = listens else { return self.listening.works("listening_broken") };
        self.errors.listening_broken.add(1);
        if let Some(Occurrences { times, seconds }) =
            self.listening.record("listening_broken", &error)
        {
            Signal::ListeningBroken { times, seconds, error }.emit();
        }
    }

    /// Whether old rows are removed, or why not.
    pub(crate) fn prunes(&self, prunes: Result<(), String>) {
        let Err(error) = prunes else { return self.prune.works("prune_failed") };
        self.errors.prune_failed.add(1);
        if let Some(Occurrences { times, seconds }) = self.prune.record("prune_failed", &error) {
            Signal::PruneFailed { times, seconds, error }.emit();
        }
    }

    /// Whether the outbox is read for metrics, or why not. An outage of the database is told as that.
    pub(crate) fn reads(&self, reads: Result<(), String>) {
        let Err(error) = reads else { return self.reading.works("reading_failed") };
        self.errors.reading_failed.add(1);
        if self.database_outage().is_some() {
            return;
        }
        if let Some(Occurrences { times, seconds }) = self.reading.record("reading_failed", &error)
        {
            Signal::ReadingFailed { times, seconds, error }.emit();
        }
    }

    /// As if what is out had been for so long already.
    #[cfg(test)]
    pub(super) fn age(&self, by: Duration) {
        for state in [&self.database_state, &self.kafka_state, &self.brokers_state] {
            state.age(by);
        }
    }

    /// A line of librdkafka's.
    pub(crate) fn line(&self, facility: &str, line: &str) {
        if let Some(Occurrences { times, seconds }) = self.lines.record(facility, line) {
            tracing::warn!(target: "outbox_relay", times, seconds, "{facility} {line}");
        }
    }
}

#[cfg(test)]
mod tests {
    use service_kit::testing::capture_log;

    use super::*;

    #[test]
    fn the_end_of_an_outage_is_told_without_a_batch() {
        let troubles = Troubles::default();
        let lines = capture_log(|| {
            troubles.brokers("all brokers are down".into());
            troubles.settle_kafka();
            troubles.brokers_answer();
            troubles.settle_kafka();
            troubles.settle_kafka();
            troubles.brokers("all brokers are down".into());
            troubles.kafka_unused();
            troubles.settle_kafka();
        });
        let signal = |(_, fields): &(String, Vec<(String, String)>)| {
            fields.iter().find(|(name, _)| name == "signal").map(|(_, value)| value.clone())
        };
        let signals: Vec<String> = lines.iter().filter_map(signal).collect();
        assert_eq!(signals, ["broker_trouble", "outage_over", "broker_trouble"]);
    }

    #[test]
    fn an_outage_is_told_once_and_once_that_it_is_over() {
        let troubles = Troubles::default();
        let lines = capture_log(|| {
            troubles.database_works();
            for _ in 0..50 {
                troubles.database_out("connection refused".into());
                troubles.listening(Err("connection refused".into()));
                troubles.kafka_out("no broker".into());
                troubles.line("FAIL", "127.0.0.1:9092/1: Connection refused (after 1ms)");
            }
            troubles.database_works();
            troubles.database_works();
        });
        let signal = |(level, fields): &(String, Vec<(String, String)>)| {
            let value =
                |name: &str| fields.iter().find(|(key, _)| key == name).map(|(_, v)| v.clone());
            (level.clone(), value("signal").unwrap_or_default(), value("times").unwrap_or_default())
        };
        let row =
            |level: &str, signal: &str, times: &str| (level.into(), signal.into(), times.into());
        assert_eq!(
            lines.iter().map(signal).collect::<Vec<_>>(),
            [
                row("warn", "database_outage", "1"),
                row("warn", "listening_broken", "1"),
                row("warn", "kafka_outage", "1"),
                row("warn", "", "1"),
                row("info", "outage_over", "50"),
            ]
        );
    }
}
