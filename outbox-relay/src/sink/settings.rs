//! What the client is told: settings that the promise rests on, defaults, and the users' own.

use std::{fmt, sync::Arc, time::Duration};

use rdkafka::{ClientConfig, config::RDKafkaLogLevel, error::KafkaError};

use crate::telemetry::Troubles;

/// Where Kafka is, and how to write.
#[derive(Clone)]
pub(crate) struct SinkSettings {
    pub(crate) bootstrap: String,
    /// `None`: no fencing, no transactions.
    pub(crate) transactional_id: Option<String>,
    pub(crate) delivery_timeout: Duration,
    pub(crate) message_bytes_max: usize,
    /// TLS, SASL and further settings of librdkafka, by its names. Secrets in clear.
    pub(crate) properties: Vec<(String, String)>,
    /// Where what goes wrong is told.
    pub(crate) troubles: Arc<Troubles>,
}

impl fmt::Debug for SinkSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Values may be secrets under names that no list foresees.
        let names: Vec<&str> = self.properties.iter().map(|(name, _)| name.as_str()).collect();
        f.debug_struct("SinkSettings")
            .field("bootstrap", &self.bootstrap)
            .field("transactional_id", &self.transactional_id)
            .field("properties", &names)
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
    // 10 s by default: too long a silence after a broker's restart.
    ("reconnect.backoff.max.ms", "2000"),
    ("socket.keepalive.enable", "true"),
    ("log.connection.close", "false"),
    // A typo in a template must not create a topic.
    ("allow.auto.create.topics", "false"),
    // A batch is looked at before it is sent; a topic that goes meanwhile shall not hold it for long.
    ("topic.metadata.propagation.max.ms", "5000"),
];

impl SinkSettings {
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
        let mut config = ClientConfig::new();
        config.set_log_level(RDKafkaLogLevel::Error);
        for (name, value) in DEFAULTS {
            config.set(*name, *value);
        }
        for (name, value) in &self.properties {
            if name == "debug" {
                config.set_log_level(RDKafkaLogLevel::Debug);
            }
            config.set(name, value);
        }
        config.set("bootstrap.servers", &self.bootstrap);
        config.set("client.id", format!("outbox-relay-{}", uuid::Uuid::now_v7()));
        config
    }

    /// Longer than a batch may take: the broker ends what a relay left open that nobody replaced.
    pub(super) fn transaction_timeout(&self) -> Duration {
        self.delivery_timeout * 2
    }
}

/// What is wrong with the settings, without the value, which may be a secret.
pub(super) fn refusal(error: &KafkaError) -> String {
    match error {
        KafkaError::ClientConfig(_, _, name, _) => format!(
            "the Kafka property `{name}` is unknown to librdkafka, has an invalid value, or needs \
             a build with the feature `tls`"
        ),
        KafkaError::ClientCreation(why) => {
            format!("cannot build the Kafka client from its settings: {why}")
        }
        other => format!("cannot build the Kafka client: {other}"),
    }
}
