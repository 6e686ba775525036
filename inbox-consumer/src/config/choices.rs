//! Choices between few words.

use serde::{Deserialize, Serialize};

/// Where a consumer begins that neither database nor group know.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Start {
    /// At the beginning of the log.
    #[default]
    Earliest,
    /// At its end.
    Latest,
    /// Nowhere: the partition stands still until a person decides.
    Error,
}

impl From<Start> for inbox_engine::internal::Start {
    fn from(start: Start) -> Self {
        match start {
            Start::Earliest => Self::Earliest,
            Start::Latest => Self::Latest,
            Start::Error => Self::Error,
        }
    }
}

/// The protocol by which the group divides partitions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Protocol {
    /// Members divide them (cooperative-sticky).
    #[default]
    Classic,
    /// The broker divides them (KIP-848, Kafka 4).
    Consumer,
}

/// What happens to what nobody can take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unwanted {
    /// It is parked, as any failure.
    #[default]
    Park,
    /// It is settled and counted.
    Ignore,
    /// It is settled, and appended to the outbox for the topic of dead letters.
    DeadLetter,
}

/// How payloads of events with one id are compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Content {
    /// Byte by byte.
    #[default]
    Bytes,
    /// As JSON: the order of keys and white space do not count.
    Json,
}

/// Which rules records are read by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// The headers that outbox-core writes.
    #[default]
    Own,
    /// `[events.rules]`.
    Custom,
}
