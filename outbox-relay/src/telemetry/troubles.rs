//! What goes wrong with the database and with Kafka: reported once for each cause, and once when it is over.

use std::{
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use service_kit::throttle::{Cause, Occurrences, Throttle};

use super::Signal;

/// What goes wrong in one place. Where nothing does, the answer that it works costs one look at a flag.
#[derive(Debug)]
struct Place {
    throttle: Mutex<Throttle>,
    open: AtomicBool,
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
    /// What nobody says the end of.
    lines: Place,
}

impl Default for Troubles {
    fn default() -> Self {
        let outage = || Place::new(Throttle::outage(Duration::ZERO));
        Self {
            database: outage(),
            kafka: outage(),
            listening: outage(),
            prune: outage(),
            lines: Place::new(Throttle::by_cause()),
        }
    }
}

impl Troubles {
    pub(crate) fn database_out(&self, error: String) {
        if let Some(Occurrences { times, seconds }) =
            self.database.record("database_outage", &error)
        {
            Signal::DatabaseOutage { times, seconds, error }.emit();
        }
    }

    /// The database has answered.
    pub(crate) fn database_works(&self) {
        self.database.works("database_outage");
    }

    /// The client has trouble with the brokers.
    pub(crate) fn brokers(&self, error: String) {
        if let Some(Occurrences { times, seconds }) = self.kafka.record("broker_trouble", &error) {
            Signal::BrokerTrouble { times, seconds, error }.emit();
        }
    }

    /// No producer can be made ready.
    pub(crate) fn kafka_out(&self, error: String) {
        if let Some(Occurrences { times, seconds }) = self.kafka.record("kafka_outage", &error) {
            Signal::KafkaOutage { times, seconds, error }.emit();
        }
    }

    /// What became of a batch is not known.
    pub(crate) fn unknown(&self, rows: usize, error: String) {
        if let Some(Occurrences { times, seconds }) = self.kafka.record("unknown", &error) {
            Signal::Unknown { rows, times, seconds, error }.emit();
        }
    }

    /// Brokers have taken something.
    pub(crate) fn kafka_works(&self) {
        self.kafka.works("kafka_outage");
    }

    /// Whether new rows are told of, or why not.
    pub(crate) fn listening(&self, listens: Result<(), String>) {
        let Err(error) = listens else { return self.listening.works("listening_broken") };
        if let Some(Occurrences { times, seconds }) =
            self.listening.record("listening_broken", &error)
        {
            Signal::ListeningBroken { times, seconds, error }.emit();
        }
    }

    /// Whether old rows are removed, or why not.
    pub(crate) fn prunes(&self, prunes: Result<(), String>) {
        let Err(error) = prunes else { return self.prune.works("prune_failed") };
        if let Some(Occurrences { times, seconds }) = self.prune.record("prune_failed", &error) {
            Signal::PruneFailed { times, seconds, error }.emit();
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
