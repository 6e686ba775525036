//! Everything a consumer is told, a field for each section.

use outbox_core::{Reader, RulesError};
use service_kit::{Http, Log, Secret, Traces, configuration};

use super::{
    Batch, Database, Declared, Events, Identity, Intake, Kafka, Lanes, Limits, Outbox, Park,
    Retention, Retry, Schemas,
};

configuration! {
    /// Everything a consumer is told.
    pub struct Config: "INBOX_", "configuration", "inbox_consumer", 9464 {
        /// Who it is.
        consumer: Identity,
        /// What it reads, and how.
        kafka: Kafka,
        /// Where effects and inbox live.
        database: Database,
        /// How records become events.
        events: Events,
        /// Payloads that are no JSON.
        schemas: Schemas,
        /// How a partition is divided.
        lanes: Lanes,
        /// How much goes into one transaction.
        batch: Batch,
        /// What happens to a failing event before it is parked.
        retry: Retry,
        /// What happens to it afterwards.
        park: Park,
        /// What bounds memory and waiting.
        limits: Limits,
        /// How long inbox rows are kept.
        retention: Retention,
        /// How handlers append events.
        outbox: Outbox,
        /// Events by HTTP.
        intake: Intake,
        /// Where metrics and health are served.
        http: Http,
        /// What is logged, and how.
        log: Log,
        /// Where spans are exported to.
        traces: Traces,
        /// Handlers without Rust.
        handlers: Vec<Declared>,
    }
}

impl Config {
    /// A configuration with all defaults, for embedding and tests. Every field is public.
    pub fn new<T: Into<String>>(
        consumer: impl Into<String>,
        bootstrap: impl Into<String>,
        topics: impl IntoIterator<Item = T>,
        url: impl Into<Secret>,
    ) -> Self {
        let mut config = Self::default();
        config.consumer.name = consumer.into();
        config.kafka.bootstrap = bootstrap.into();
        config.kafka.topics = topics.into_iter().map(Into::into).collect();
        config.database.url = url.into();
        config
    }

    /// What reads records as `[events]` says.
    ///
    /// # Errors
    /// When the rules of `[events.rules]` contradict themselves; [`Config::validate`] says so, too.
    pub fn reader(&self) -> Result<Reader, RulesError> {
        let reader = self.events.reader()?;
        let topics = self.kafka.topics.iter().map(String::as_str);
        Ok(reader.with_id_scope(self.events.id_scope).with_topics(topics))
    }

    /// Whether anything is read from Kafka: nothing need be where events come by HTTP.
    pub fn reads_kafka(&self) -> bool {
        let named = !self.kafka.bootstrap.is_empty() || !self.kafka.topics.is_empty();
        named || !self.intake.is_on()
    }

    /// The consumer group: `kafka.group`, or the consumer's name.
    pub fn group(&self) -> &str {
        self.kafka.group.as_deref().unwrap_or(&self.consumer.name)
    }
}
