//! Why a consumer ended.

use std::fmt;

/// Why a consumer ended.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Ended {
    /// As asked: open transactions finished, watermarks and offsets written, partitions let go.
    Shutdown,
    /// As asked, but the Kafka client did not close in time; nothing is lost by that.
    ShutdownCutShort(String),
    /// The Kafka client is dead (fenced instance id, refused by the broker): start the process anew.
    KafkaFatal(String),
    /// The HTTP intake cannot begin: its address is in use, its place in the database cannot be had, its secrets cannot
    /// be read.
    IntakeFailed(String),
    /// A part of the runtime panicked. Effects are safe; please report it.
    Panicked(String),
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Shutdown => f.write_str("the consumer has shut down"),
            Self::ShutdownCutShort(why) => write!(f, "the consumer has shut down, but {why}"),
            Self::KafkaFatal(why) => write!(f, "the Kafka client failed permanently: {why}"),
            Self::IntakeFailed(why) => write!(f, "the HTTP intake cannot start: {why}"),
            Self::Panicked(why) => write!(f, "the runtime panicked: {why}"),
        }
    }
}
