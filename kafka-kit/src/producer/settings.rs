//! The settings of a producer: those that the promise rests on, defaults, and the users' own.

use std::{fmt, sync::Arc, time::Duration};

use rdkafka::{ClientConfig, config::RDKafkaLogLevel};

use crate::properties::Properties;

/// Where Kafka is, and how to write.
pub struct ProducerSettings<O> {
    pub bootstrap: String,
    /// `None`: no fencing, no transactions.
    pub transactional_id: Option<String>,
    pub delivery_timeout: Duration,
    pub message_bytes_max: usize,
    pub properties: Properties,
    /// Receives what goes wrong.
    pub troubles: Arc<O>,
}

impl<O> Clone for ProducerSettings<O> {
    fn clone(&self) -> Self {
        Self {
            bootstrap: self.bootstrap.clone(),
            transactional_id: self.transactional_id.clone(),
            delivery_timeout: self.delivery_timeout,
            message_bytes_max: self.message_bytes_max,
            properties: self.properties.clone(),
            troubles: Arc::clone(&self.troubles),
        }
    }
}

impl<O> fmt::Debug for ProducerSettings<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProducerSettings")
            .field("bootstrap", &self.bootstrap)
            .field("transactional_id", &self.transactional_id)
            .field("properties", &self.properties)
            .finish_non_exhaustive()
    }
}

/// What no user may change, because a promise rests on it.
const FIXED: &[(&str, &str)] = &[
    ("enable.idempotence", "true"),
    ("enable.gapless.guarantee", "true"),
    ("acks", "all"),
    // Java's, so that all producers put a key on one partition.
    ("partitioner", "murmur2_random"),
];

/// What users may change.
const DEFAULTS: &[(&str, &str)] = &[
    // A batch is handed over at once: nothing is gained by waiting for more.
    ("linger.ms", "1"),
    // A typo in a template must not create a topic.
    ("allow.auto.create.topics", "false"),
    // A batch is looked at before it is sent; a topic that goes meanwhile shall not hold it for long.
    ("topic.metadata.propagation.max.ms", "5000"),
];

impl<O> ProducerSettings<O> {
    pub(super) fn client_config(&self) -> ClientConfig {
        let mut config = self.inspection_config();
        for (name, value) in FIXED {
            config.set(*name, *value);
        }
        let millis = |time: Duration| time.as_millis().to_string();
        config.set("message.timeout.ms", millis(self.delivery_timeout));
        config.set("message.max.bytes", self.message_bytes_max.to_string());
        if let Some(id) = &self.transactional_id {
            config.set("transactional.id", id);
            config.set("transaction.timeout.ms", millis(self.transaction_timeout()));
        }
        config
    }

    /// The same without what only producing needs.
    pub(super) fn inspection_config(&self) -> ClientConfig {
        let mut config = self.properties.client_config(RDKafkaLogLevel::Error, DEFAULTS);
        config.set("bootstrap.servers", &self.bootstrap);
        config.set("client.id", format!("outbox-relay-{}", uuid::Uuid::now_v7()));
        config
    }

    /// Longer than a batch may take: the broker ends what a relay left open that nobody replaced.
    pub(super) fn transaction_timeout(&self) -> Duration {
        self.delivery_timeout * 2
    }
}
