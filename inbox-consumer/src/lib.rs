//! Exactly-once effects from Kafka in SQL, in order per aggregate.

pub mod config;
mod handler;
pub mod pipeline;
mod router;
pub mod telemetry;
mod tx;

pub use handler::{BatchHandler, Event, Fault, Handler, HandlerError, HandlerResult};
pub use router::Routes;
pub use tx::{SavepointTx, Tx};
