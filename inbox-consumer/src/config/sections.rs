//! The sections of the configuration, one type each. Units, defaults and bounds: [`super::KEYS`].

use std::time::Duration;

use inbox_settings::{
    DatabaseTls, Log, Problem, Raw, Secret, Security, duration, properties::Program, size,
};
use outbox_core::{IdScope, ReadRules, Reader, RulesError};
use serde::{Deserialize, Serialize};

use super::{Content, Declared, Format, Http, Outbox, Park, Protocol, Start, Unwanted};

/// Everything a consumer is told.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// What reading it has noticed: no later look finds it.
    #[serde(skip)]
    #[doc(hidden)]
    pub noticed: Vec<Problem>,
    /// Who it is.
    pub consumer: Identity,
    /// What it reads, and how.
    pub kafka: Kafka,
    /// Where effects and inbox live.
    pub database: Database,
    /// How records become events.
    pub events: Events,
    /// How a partition is divided.
    pub lanes: Lanes,
    /// How much goes into one transaction.
    pub batch: Batch,
    /// What happens to a failing event before it is parked.
    pub retry: Retry,
    /// What happens to it afterwards.
    pub park: Park,
    /// What bounds memory and waiting.
    pub limits: Limits,
    /// How long inbox rows are kept.
    pub retention: Retention,
    /// How handlers append events.
    pub outbox: Outbox,
    /// Where metrics and health are served.
    pub http: Http,
    /// What is logged, and how.
    pub log: Log,
    /// Handlers without Rust.
    pub handlers: Vec<Declared>,
}

/// `[consumer]`: the name that dedup is scoped to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Identity {
    /// The consumer's name. Two deployments with one name share their inbox.
    pub name: String,
    /// Static membership: a name that only this process uses.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instance_id: Option<String>,
}

/// `[kafka]`: the cluster, the topics, and how they are read.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Kafka {
    /// `host:port`, several separated by commas.
    pub bootstrap: String,
    /// The topics.
    pub topics: Vec<String>,
    /// The consumer group; see [`Config::group`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// Where to begin without history.
    pub start: Start,
    /// The group protocol.
    pub protocol: Protocol,
    /// After this silence the group gives the partitions away (protocol `classic`).
    #[serde(with = "duration")]
    pub session_timeout: Duration,
    /// TLS and SASL, passed through to the client.
    #[serde(flatten)]
    pub security: Security,
    /// Further settings of librdkafka.
    pub raw: Raw,
}

/// `[database]`: one database for effects and inbox.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Database {
    /// `postgres://…`, `postgresql://…` or `sqlite:path`.
    pub url: Secret,
    /// How the way to a `PostgreSQL` server on another machine is protected.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls: Option<DatabaseTls>,
    /// The schema of the inbox tables (`PostgreSQL`); first in the search path.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schema: Option<String>,
    /// Transactions open at once.
    pub connections: u16,
    /// Longest statement.
    #[serde(with = "duration")]
    pub statement_timeout: Duration,
    /// Longest wait for a lock.
    #[serde(with = "duration")]
    pub lock_timeout: Duration,
    /// Longest silence of this process within a transaction.
    #[serde(with = "duration")]
    pub idle_timeout: Duration,
    /// Prepared statements kept per connection; 0 keeps none (`PgBouncer` in transaction mode).
    pub statement_cache: u16,
}

/// `[events]`: how records become events.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Events {
    /// Which rules records are read by.
    pub format: Format,
    /// The rules of the format `custom`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rules: Option<ReadRules>,
    /// Where an event id is one event's. The database keeps what a consumer began with.
    pub id_scope: IdScope,
    /// What happens to an event that no route takes.
    pub unknown_type: Unwanted,
    /// What happens to a record that cannot be read as an event, or whose payload its handler's type cannot be.
    pub undecodable: Unwanted,
    /// The topic of dead letters, if there are any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dead_letter_topic: Option<String>,
    /// What two events with one id must have in common.
    pub content: Content,
    /// A larger record is not decoded.
    #[serde(deserialize_with = "size::deserialize")]
    pub event_bytes_max: usize,
}

/// `[lanes]`: ordered queues per partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Lanes {
    /// How many. The database keeps what a partition was first read with.
    pub count: u16,
}

/// `[batch]`: how much goes into one transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Batch {
    /// Events of a transaction.
    pub events_max: usize,
    /// Their bytes.
    #[serde(deserialize_with = "size::deserialize")]
    pub bytes_max: usize,
}

/// `[retry]`: quick attempts before an event is parked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Retry {
    /// Attempts, the first included.
    pub attempts_max: u32,
    /// Delay before the second attempt; it doubles.
    #[serde(with = "duration")]
    pub delay_min: Duration,
    /// Longest delay.
    #[serde(with = "duration")]
    pub delay_max: Duration,
    /// Longest attempt; after it the connection is closed and the attempt has failed.
    #[serde(with = "duration")]
    pub attempt_deadline: Duration,
}

/// `[limits]`: what bounds memory and waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Bytes of a partition in memory; above it the partition is paused in Kafka.
    #[serde(deserialize_with = "size::deserialize")]
    pub partition_bytes_max: usize,
    /// Parked aggregates of a partition.
    pub parked_aggregates_max: u32,
    /// Parked events of a partition.
    pub parked_events_max: u32,
    /// Bytes of the parked events of a partition.
    #[serde(deserialize_with = "size::deserialize")]
    pub parked_bytes_max: usize,
    /// Longest delay between attempts to reach a database that is out.
    #[serde(with = "duration")]
    pub outage_delay_max: Duration,
    /// How long a revoked partition may finish what runs.
    #[serde(with = "duration")]
    pub drain_deadline: Duration,
    /// How long leaving the group may take at the end.
    #[serde(with = "duration")]
    pub close_deadline: Duration,
}

/// `[retention]`: how long inbox rows are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Retention {
    /// Age, by the database's clock, at which a settled row is removed.
    #[serde(with = "duration")]
    pub inbox: Duration,
    /// Age at which an act of the audit is removed; `None` keeps them for ever.
    #[serde(with = "duration::option", skip_serializing_if = "Option::is_none")]
    pub audit: Option<Duration>,
    /// How often the runtime sweeps.
    #[serde(with = "duration")]
    pub prune_interval: Duration,
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
        let Events { format, rules, id_scope, event_bytes_max, .. } = &self.events;
        let reader = match (format, rules) {
            (Format::Custom, Some(rules)) => Reader::new(rules.clone(), *event_bytes_max)?,
            (Format::Own, _) | (Format::Custom, None) => Reader::own(*event_bytes_max),
        };
        let topics = self.kafka.topics.iter().map(String::as_str);
        Ok(reader.with_id_scope(*id_scope).with_topics(topics))
    }

    /// The consumer group: `kafka.group`, or the consumer's name.
    pub fn group(&self) -> &str {
        self.kafka.group.as_deref().unwrap_or(&self.consumer.name)
    }
}

impl Kafka {
    /// TLS, SASL and `[kafka.raw]` under librdkafka's names, **secrets in clear**: for the client
    /// only. What the runtime itself sets (group, offsets, session) is not among them.
    pub(crate) fn client_settings(&self) -> Vec<(String, String)> {
        let mut all = self.security.client_settings();
        all.extend(self.raw.passed(Program::Consumer));
        all
    }
}

const MIB: usize = 1024 * 1024;

impl Default for Kafka {
    fn default() -> Self {
        Self {
            bootstrap: String::new(),
            topics: Vec::new(),
            group: None,
            start: Start::default(),
            protocol: Protocol::default(),
            session_timeout: Duration::from_secs(10),
            security: Security::default(),
            raw: Raw::default(),
        }
    }
}

impl Default for Database {
    fn default() -> Self {
        Self {
            url: Secret::default(),
            tls: None,
            schema: None,
            connections: 8,
            statement_timeout: Duration::from_secs(20),
            lock_timeout: Duration::from_secs(2),
            idle_timeout: Duration::from_secs(40),
            statement_cache: 100,
        }
    }
}

impl Default for Events {
    fn default() -> Self {
        Self {
            format: Format::default(),
            rules: None,
            id_scope: IdScope::default(),
            unknown_type: Unwanted::default(),
            undecodable: Unwanted::default(),
            dead_letter_topic: None,
            content: Content::default(),
            event_bytes_max: MIB,
        }
    }
}

impl Default for Lanes {
    fn default() -> Self {
        Self { count: 16 }
    }
}

impl Default for Batch {
    fn default() -> Self {
        Self { events_max: 1_000, bytes_max: 4 * MIB }
    }
}

impl Default for Retry {
    fn default() -> Self {
        Self {
            attempts_max: 4,
            delay_min: Duration::from_millis(100),
            delay_max: Duration::from_secs(2),
            attempt_deadline: Duration::from_secs(30),
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            partition_bytes_max: 4 * MIB,
            parked_aggregates_max: 1_000,
            parked_events_max: 100_000,
            parked_bytes_max: 1024 * MIB,
            outage_delay_max: Duration::from_secs(10),
            drain_deadline: Duration::from_secs(3),
            close_deadline: Duration::from_secs(10),
        }
    }
}

impl Default for Retention {
    fn default() -> Self {
        Self {
            inbox: Duration::from_hours(7 * 24),
            audit: None,
            prune_interval: Duration::from_mins(1),
        }
    }
}
