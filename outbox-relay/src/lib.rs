//! Ships an outbox table, to Kafka or to [destinations](destination) of any kind: nothing lost, in order per aggregate, one active relay at a time.
//!
//! Inside a service:
//!
//! ```no_run
//! # async fn example(shutdown: impl Future<Output = ()> + Send) -> Result<(), Box<dyn std::error::Error>> {
//! use outbox_relay::{Relay, config::Config};
//!
//! let mut config = Config::new("localhost:9092", "postgres://shop@localhost/shop");
//! config.kafka.topic = "shop.{aggregate_type}".into();
//! let ended = Relay::builder(config).build().await?.run(shutdown).await;
//! println!("{ended}");
//! # Ok(())
//! # }
//! ```
//!
//! Or as a program: `outbox-relay run --config relay.toml`; see `docs/relay.md`.
//!
//! # What it promises
//!
//! 1. *Nothing is lost.* A row is marked as sent after the brokers have acknowledged its record, never
//!    before. A delivery that ran into its time-out is unknown, not failed: its rows are read again.
//! 2. *Order.* The records of one aggregate are written in the order of their rows. A row that cannot be
//!    sent is set aside by name, and later rows of its aggregate wait behind it; no other aggregate does.
//! 3. *The same event.* An event may be written a second time when a relay dies between the
//!    acknowledgement and the mark; it has the same id, key and partition, so that an inbox recognises it.
//! 4. *One at a time.* Relays of one outbox take turns by a lease in the database. A relay that takes over
//!    fences its predecessor at the broker, so that what a frozen one still has in hand is refused there.
#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]

mod build_error;
#[cfg(feature = "cli")]
pub mod cli;
pub mod config;
mod deadline;
pub mod destination;
mod ended;
mod feed;
mod format;
mod holder;
mod port;
mod pump;
mod relay;
mod routes;
mod sink;
pub mod telemetry;
mod topic;
mod watch;

#[cfg(not(any(feature = "postgres", feature = "sqlite")))]
compile_error!(
    "no database is on: enable the feature `postgres` or `sqlite` of inbox-outbox-relay"
);

pub use build_error::BuildError;
pub use ended::Ended;
pub use port::{Finding, OpenError};
pub use relay::{DatabaseOptions, Relay, RelayBuilder, migrate};
