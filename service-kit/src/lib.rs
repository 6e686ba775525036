//! What the consumer and the relay have in common beside the envelope: above all their configurations, which
//! are one table of keys with unit, default and bounds; a TOML file, the environment over it, flags over that;
//! values that never show themselves.
//!
//! The crates that use it have the table and the types; this one reads, checks and documents them. With the
//! feature `cli` also what their commands have in common, from the command line to the exit code; and the
//! tables of what they tell and count are made the same way, by [`signals!`] and [`counters!`]. It is
//! part of the two crates' machinery and follows their versions: users find what they need of it there.
#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]

// What its macros name, in this crate, too.
extern crate self as service_kit;

pub mod brokers;
#[cfg(feature = "cli")]
pub mod cli;
pub mod duration;
pub mod printed;
pub mod properties;
pub mod section;
pub mod setting;
pub mod size;
pub mod telemetry;
#[cfg(feature = "testing")]
pub mod testing;
pub mod told;

mod chance;
mod database;
mod error;
mod files;
mod host;
mod http;
mod key;
mod kind;
mod layers;
mod load;
mod log;
#[cfg(feature = "postgres")]
mod postgres;
mod raw;
mod secret;
mod security;
mod table;

pub use chance::{Random, backoff, chance};
pub use database::{Build, DatabaseAddress, DatabaseKind, DatabaseTls, scheme};
pub use error::{ConfigError, Problem};
pub use host::host;
pub use http::Http;
pub use key::{Key, Need};
pub use kind::Kind;
pub use layers::{Origin, insert};
pub use load::Overrides;
#[cfg(feature = "cli")]
pub use log::start as start_log;
pub use log::{Log, LogFormat};
#[cfg(feature = "postgres")]
pub use postgres::{PostgresAddress, tls_trouble};
pub use raw::Raw;
pub use secret::Secret;
pub use section::Section;
pub use security::{Security, SecurityProtocol};
pub use setting::Setting;
pub use table::{KeyTable, is_described, is_identifier, is_name};
pub use telemetry::{Counter, SignalEntry};
