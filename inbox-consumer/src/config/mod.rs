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

mod database;
mod duration;
mod error;
mod handlers;
mod http;
mod key;
mod keys;
mod kind;
mod layers;
mod load;
mod outbox;
mod park;
mod raw;
mod reference;
mod secret;
mod sections;
mod security;
mod size;
mod validate;

#[cfg(test)]
mod tests;

pub use database::DatabaseKind;
pub use error::{ConfigError, Problem};
pub use handlers::{Declared, DeclaredMode};
pub use http::Http;
pub use key::Key;
pub use keys::KEYS;
pub use kind::Kind;
pub use layers::Origin;
pub use load::Overrides;
pub use outbox::{Outbox, Wake};
pub use park::Park;
pub use raw::{Raw, refused};
pub use reference::reference;
pub use secret::Secret;
pub use sections::{
    Batch, Config, Database, Events, Format, Identity, Kafka, Lanes, Limits, Log, LogFormat,
    Protocol, Retention, Retry, Start, UnknownType,
};
pub use security::{Security, SecurityProtocol};
