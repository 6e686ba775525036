//! Exactly-once effects from Kafka in SQL, in order per aggregate.

pub mod config;
pub mod kafka;
pub mod pipeline;
#[cfg(feature = "testing")]
pub mod testing;
