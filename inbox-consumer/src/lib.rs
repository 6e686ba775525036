//! Exactly-once effects from Kafka in SQL, in order per aggregate.
pub mod pipeline;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
pub mod store;
#[cfg(feature = "testing")]
pub mod testing;
