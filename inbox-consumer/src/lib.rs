//! Exactly-once effects from Kafka in SQL, in order per aggregate.
#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(feature = "cli")]
pub mod cli;
pub mod config;
mod consumer;
mod handler;
pub mod kafka;
pub mod pipeline;
mod router;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
pub mod store;
pub mod telemetry;
#[cfg(feature = "testing")]
pub mod testing;
mod tx;

#[cfg(not(any(feature = "postgres", feature = "sqlite")))]
compile_error!("no database is on: enable the feature `postgres` or `sqlite` of inbox-consumer");

pub use consumer::{BuildError, Consumer, ConsumerBuilder, Ended, migrate};
pub use handler::{BatchHandler, Event, Fault, Handler, HandlerError, HandlerResult};
pub use router::{Routes, Schedule};
pub use tx::{SavepointTx, Tx};
