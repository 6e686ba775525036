//! Exactly-once effects from Kafka in SQL, in order per aggregate.

pub mod config;
mod consumer;
mod handler;
mod kafka;
pub mod pipeline;
mod router;
mod store;
pub mod telemetry;
mod tx;

pub use consumer::{BuildError, Consumer, ConsumerBuilder, Ended};
pub use handler::{BatchHandler, Event, Fault, Handler, HandlerError, HandlerResult};
pub use router::Routes;
pub use tx::{SavepointTx, Tx};
