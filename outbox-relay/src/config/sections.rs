//! The sections of the configuration, one type each. Units, defaults and bounds: [`super::KEYS`].

use std::{path::Path, time::Duration};

use inbox_settings::{
    ConfigError, DatabaseTls, Log, Overrides, Problem, Raw, Secret, Security, duration,
    properties::Program, size,
};
use serde::{Deserialize, Serialize};

use super::keys::TABLE;

/// Everything a relay is told.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// What reading it has noticed: no later look finds it.
    #[serde(skip)]
    #[doc(hidden)]
    pub noticed: Vec<Problem>,
    /// How relays of one outbox share it.
    pub relay: Relaying,
    /// Where the outbox is.
    pub database: Database,
    /// Where events go, and how.
    pub kafka: Kafka,
    /// How much goes together.
    pub batch: Batch,
    /// What makes the relay look.
    pub wake: Wake,
    /// How long rows are kept.
    pub retention: Retention,
    /// What bounds waiting.
    pub limits: Limits,
    /// What is logged, and how.
    pub log: Log,
}

/// `[relay]`: how relays of one outbox share it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Relaying {
    /// How long the active one may be silent.
    #[serde(with = "duration")]
    pub lease: Duration,
}

/// `[database]`: the database of the outbox.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Database {
    /// `postgres://…`, `postgresql://…` or `sqlite:path`.
    pub url: Secret,
    /// How the way to a `PostgreSQL` server on another machine is protected.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls: Option<DatabaseTls>,
    /// The schema of the outbox tables (`PostgreSQL`); first in the search path.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schema: Option<String>,
    /// Longest statement.
    #[serde(with = "duration")]
    pub statement_timeout: Duration,
    /// Prepared statements kept per connection; 0 keeps none (`PgBouncer` in transaction mode).
    pub statement_cache: u16,
}

/// `[kafka]`: the cluster, and how events get there.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Kafka {
    /// `host:port`, several separated by commas.
    pub bootstrap: String,
    /// The topic of a row that names none: a template.
    pub topic: String,
    /// Whether a predecessor is fenced at the broker.
    pub fencing: bool,
    /// What the transactional id begins with.
    pub transactional_id_prefix: String,
    /// How long a batch may wait for the brokers.
    #[serde(with = "duration")]
    pub delivery_timeout: Duration,
    /// The largest record.
    #[serde(deserialize_with = "size::deserialize")]
    pub message_bytes_max: usize,
    /// TLS and SASL, passed through to the client.
    #[serde(flatten)]
    pub security: Security,
    /// Further settings of librdkafka.
    pub raw: Raw,
}

/// `[batch]`: how much is read, sent and marked together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Batch {
    /// Rows.
    pub events_max: usize,
    /// Their payloads.
    #[serde(deserialize_with = "size::deserialize")]
    pub bytes_max: usize,
}

/// `[wake]`: what makes the relay look.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Wake {
    /// Being told (`PostgreSQL`).
    pub notify: bool,
    /// Looking by itself; zero never.
    #[serde(with = "duration")]
    pub poll_interval: Duration,
}

/// `[retention]`: how long rows are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Retention {
    /// Age, by the database's clock, at which a sent or discarded row is removed.
    #[serde(with = "duration")]
    pub sent: Duration,
    /// How often older ones are removed.
    #[serde(with = "duration")]
    pub prune_interval: Duration,
    /// How many a statement removes at most.
    pub chunk: u32,
}

/// `[limits]`: what bounds waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Longest delay between attempts to reach a database or a Kafka that is out.
    #[serde(with = "duration")]
    pub outage_delay_max: Duration,
    /// How long a shutdown waits for the batch that is under way.
    #[serde(with = "duration")]
    pub shutdown_deadline: Duration,
}

impl Config {
    /// A configuration with all defaults, and a topic per aggregate type, for embedding and tests. Every
    /// field is public.
    pub fn new(bootstrap: impl Into<String>, url: impl Into<Secret>) -> Self {
        let mut config = Self::default();
        config.kafka.bootstrap = bootstrap.into();
        config.kafka.topic = "{aggregate_type}".into();
        config.database.url = url.into();
        config
    }

    /// Reads `path` (nothing, if `None`), lays `env` over it (names `OUTBOX_<SECTION>__<KEY>`; pass
    /// [`std::env::vars`]), and `overrides` over that; then refuses what does not go together.
    ///
    /// # Errors
    /// Every unknown key and every value of the wrong form at once, or every unsafe combination,
    /// one sentence each. Doubtful combinations are no error: see [`Config::validate`].
    pub fn load(
        path: Option<&Path>,
        env: impl IntoIterator<Item = (String, String)>,
        overrides: &Overrides,
    ) -> Result<Self, ConfigError> {
        TABLE.load(
            path,
            env,
            overrides,
            |config: &mut Self, _, noticed| config.noticed = noticed,
            Self::validate,
        )
    }
}

impl Kafka {
    /// TLS, SASL and `[kafka.raw]` under librdkafka's names, **secrets in clear**: for the client only.
    pub(crate) fn client_settings(&self) -> Vec<(String, String)> {
        let mut all = self.security.client_settings();
        all.extend(self.raw.passed(Program::Relay));
        all
    }
}

impl Default for Relaying {
    fn default() -> Self {
        Self { lease: Duration::from_secs(15) }
    }
}

impl Default for Database {
    fn default() -> Self {
        Self {
            url: Secret::default(),
            tls: None,
            schema: None,
            statement_timeout: Duration::from_secs(20),
            statement_cache: 100,
        }
    }
}

impl Default for Kafka {
    fn default() -> Self {
        Self {
            bootstrap: String::new(),
            topic: String::new(),
            fencing: true,
            transactional_id_prefix: "outbox-relay".into(),
            delivery_timeout: Duration::from_secs(30),
            message_bytes_max: 1028 * 1024,
            security: Security::default(),
            raw: Raw::default(),
        }
    }
}

impl Default for Batch {
    fn default() -> Self {
        Self { events_max: 500, bytes_max: 4 << 20 }
    }
}

impl Default for Wake {
    fn default() -> Self {
        Self { notify: true, poll_interval: Duration::from_secs(1) }
    }
}

impl Default for Retention {
    fn default() -> Self {
        Self {
            sent: Duration::from_hours(24),
            prune_interval: Duration::from_secs(10),
            chunk: 5_000,
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            outage_delay_max: Duration::from_secs(10),
            shutdown_deadline: Duration::from_secs(10),
        }
    }
}
