//! What a relay is told: one TOML file, the environment over it, flags over that.
//!
//! Each key is declared once, with its type, unit, default, bounds and what it does. The types, [`KEYS`] and the
//! tables of `docs/relay-reference.md` are made of that.
//!
//! ```
//! use outbox_relay::config::Config;
//!
//! let mut config = Config::new("localhost:9092", "postgres://app@localhost/shop");
//! config.kafka.topic = "shop.{aggregate_type}".into();
//! assert!(config.validate().iter().all(|problem| !problem.fatal));
//! ```

mod sections;
mod validate;
mod webhooks;

#[cfg(test)]
mod reference;
#[cfg(test)]
mod tests;

pub use outbox_debezium::{
    Debezium, EmptyArrayBehavior, KeyConverter, NullBehavior, ValueConverter,
};
pub(crate) use sections::TABLE;
pub use sections::{
    Batch, Config, Database, KEYS, Kafka, Limits, RecordFormat, Relaying, Retention, Retry, Route,
    Wake,
};
pub use service_kit::{
    ConfigError, DatabaseKind, DatabaseTls, Http, Key, Kind, Log, LogFormat, Origin, Overrides,
    Problem, Raw, Secret, Security, SecurityProtocol, Share, Traces,
};
pub use webhooks::{Webhook, WebhookBody};
