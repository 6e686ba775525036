//! Settings common to every client of librdkafka: the users' own, and the defaults beneath them.

use std::fmt;

use rdkafka::{ClientConfig, config::RDKafkaLogLevel, error::KafkaError};

use crate::broker::BrokerError;

/// TLS, SASL and further settings of librdkafka, by its names. Secrets in clear.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Properties(Vec<(String, String)>);

/// What users may change.
const DEFAULTS: &[(&str, &str)] = &[
    // 10 s by default: too long a silence after a broker's restart.
    ("reconnect.backoff.max.ms", "2000"),
    ("socket.keepalive.enable", "true"),
    ("log.connection.close", "false"),
];

impl From<Vec<(String, String)>> for Properties {
    fn from(properties: Vec<(String, String)>) -> Self {
        Self(properties)
    }
}

impl fmt::Debug for Properties {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Values may be secrets under names that no list foresees.
        f.debug_list().entries(self.names()).finish()
    }
}

impl Properties {
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(name, _)| name.as_str())
    }

    pub(crate) fn value(&self, wanted: &str) -> Option<&str> {
        let found = self.0.iter().find(|(name, _)| name == wanted);
        found.map(|(_, value)| value.as_str())
    }

    /// A configuration with these over `defaults`. The client tells what is of this level, or all that `debug` asks for.
    pub(crate) fn client_config(
        &self,
        level: RDKafkaLogLevel,
        defaults: &[(&str, &str)],
    ) -> ClientConfig {
        let mut config = ClientConfig::new();
        let level = if self.value("debug").is_some() { RDKafkaLogLevel::Debug } else { level };
        config.set_log_level(level);
        for (name, value) in DEFAULTS.iter().chain(defaults) {
            config.set(*name, *value);
        }
        for (name, value) in &self.0 {
            config.set(name, value);
        }
        config
    }
}

/// What is wrong with the settings, without the value, which may be a secret.
pub(crate) fn refusal(error: &KafkaError) -> BrokerError {
    BrokerError(match error {
        KafkaError::ClientConfig(_, _, name, _) => format!(
            "the Kafka property `{name}` is unknown to librdkafka, has an invalid value, or needs \
             a build with the feature `tls`"
        ),
        KafkaError::ClientCreation(why) => {
            format!("cannot build the Kafka client from its settings: {why}")
        }
        other => format!("cannot build the Kafka client: {other}"),
    })
}
