//! Exactly-once effects from Kafka in SQL, in order per aggregate.

pub mod config;
pub mod pipeline;
pub mod telemetry;
