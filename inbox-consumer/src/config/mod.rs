//! What a consumer is told: one TOML file, the environment over it, flags over that.
//!
//! Each key is declared once, with its type, unit, default, bounds and what it does. The types, [`KEYS`] and
//! `docs/configuration.md` are made of that.
//!
//! ```
//! use inbox_consumer::config::Config;
//!
//! let mut config = Config::new("billing", "localhost:9092", ["orders"], "postgres://app@localhost/billing");
//! config.lanes.count = 8;
//! assert!(config.validate().iter().all(|problem| !problem.fatal));
//! ```

mod database;
mod events;
mod handlers;
mod intake;
mod kafka;
mod limits;
mod load;
mod outbox;
mod park;
mod schemas;
mod sections;
mod validate;

#[cfg(test)]
mod reference;
#[cfg(test)]
mod tests;

pub use database::Database;
pub use events::{Content, EventTopic, EventTopics, Events, Format, Unwanted};
pub use handlers::{Declared, DeclaredMode, GapEnd, VersionMode};
pub use intake::Intake;
pub use kafka::{Identity, Kafka, Protocol, Start};
pub use limits::{Batch, Lanes, Limits, Retention, Retry};
pub use outbox::{Outbox, Wake};
pub use park::Park;
pub use schemas::Schemas;
pub(crate) use sections::TABLE;
pub use sections::{Config, KEYS};
pub use service_kit::{
    ConfigError, DatabaseKind, DatabaseTls, Http, Key, Kind, Log, LogFormat, Origin, Overrides,
    Problem, Raw, Secret, Security, SecurityProtocol, Share, Traces,
};
