//! What a relay is told: one TOML file, the environment over it, flags over that.
//!
//! [`KEYS`] is the one table of all keys with unit, default and bounds; the tables of `docs/relay.md` are
//! made from it.
//!
//! ```
//! use outbox_relay::config::Config;
//!
//! let mut config = Config::new("localhost:9092", "postgres://localhost/shop");
//! config.kafka.topic = "shop.{aggregate_type}".into();
//! assert!(config.validate().iter().all(|problem| !problem.fatal));
//! ```

mod keys;
mod sections;
mod validate;

#[cfg(test)]
mod reference;
#[cfg(test)]
mod tests;

pub use inbox_settings::{
    ConfigError, DatabaseKind, DatabaseTls, Key, Kind, Log, LogFormat, Origin, Overrides, Problem,
    Raw, Secret, Security, SecurityProtocol,
};
pub use keys::KEYS;
pub use sections::{Batch, Config, Database, Kafka, Limits, Relaying, Retention, Wake};
