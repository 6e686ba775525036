//! What the consumer and the relay have in common beside the envelope: above all their configurations; a TOML
//! file, the environment over it, flags over that; values that never show themselves.
//!
//! Each key is declared once, by [`section!`]; of that are made its type's field, its default, the row of the table
//! that reading and checking go by, and its row in the documentation. The tables of what programs tell, count and
//! measure are made the same way, by [`signals!`], [`counters!`] and [`metrics!`]. The port that
//! serves metrics and health is here, too, and with the feature `cli` what the commands have in common, from the
//! command line to the exit code. It is part of the two crates' machinery and follows their versions: users find what they need
//! of it there.
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
pub mod server;
pub mod setting;
pub mod size;
pub mod telemetry;
#[cfg(feature = "testing")]
pub mod testing;
pub mod throttle;

mod chance;
mod database;
mod docs;
mod error;
mod files;
mod host;
mod http;
mod key;
mod kind;
mod layers;
mod load;
mod log;
#[cfg(feature = "opentelemetry")]
mod otlp;
#[cfg(feature = "postgres")]
mod postgres;
mod raw;
mod secret;
mod security;
mod share;
mod table;
mod trace_context;
mod traces;
#[cfg(feature = "webhook")]
mod webhook;

pub use chance::{Random, backoff, chance};
pub use database::{Build, DatabaseAddress, DatabaseKind, DatabaseTls, scheme, shown_address};
pub use docs::docs_url;
pub use error::{ConfigError, Problem};
pub use files::doubt_of;
pub use host::{host, is_loopback};
pub use http::Http;
pub use key::{Key, Need};
pub use kind::Kind;
pub use layers::{Origin, insert};
pub use load::Overrides;
pub use log::{Log, LogFormat, PanicReport};
#[cfg(feature = "postgres")]
pub use postgres::{PostgresAddress, login_advice, tls_trouble};
pub use raw::Raw;
pub use secret::Secret;
pub use section::Section;
pub use security::{Security, SecurityProtocol};
pub use setting::Setting;
pub use share::Share;
pub use table::{KeyTable, is_described, is_identifier, is_name, topic_name};
pub use telemetry::{Counter, SignalEntry};
pub use trace_context::TraceContext;
pub use traces::{Traces, TracesNotice};
#[cfg(feature = "webhook")]
pub use webhook::WebhookKey;
