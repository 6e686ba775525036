//! What a consumer is told: one TOML file, the environment over it, flags over that.
//!
//! [`KEYS`] is the one table of all keys with unit, default and bounds; `docs/configuration.md` is
//! generated from it, and tests hold the table, the document and these types together.
//!
//! ```
//! use inbox_consumer::config::Config;
//!
//! let mut config = Config::new("billing", "localhost:9092", ["orders"], "postgres://localhost/billing");
//! config.lanes.count = 8;
//! assert!(config.validate().iter().all(|problem| !problem.fatal));
//! ```

mod choices;
mod database;
mod handlers;
mod http;
mod keys;
mod load;
mod outbox;
mod park;
mod sections;
mod validate;

#[cfg(test)]
mod reference;
#[cfg(test)]
mod tests;

pub use choices::{Content, Format, Protocol, Start, Unwanted};
pub use handlers::{Declared, DeclaredMode};
pub use http::Http;
pub use inbox_settings::{
    ConfigError, DatabaseKind, DatabaseTls, Key, Kind, Log, LogFormat, Origin, Overrides, Problem,
    Raw, Secret, Security, SecurityProtocol,
};
pub use keys::KEYS;
pub use outbox::{Outbox, Wake};
pub use park::Park;
pub use sections::{
    Batch, Config, Database, Events, Identity, Kafka, Lanes, Limits, Retention, Retry,
};
