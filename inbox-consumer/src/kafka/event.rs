//! What events of librdkafka are about.

use rdkafka::types::RDKafkaErrorCode;

/// What an event is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    Committed,
    Error,
    Log,
    Other,
    Rebalance,
    Record,
}

/// A partition as an event names it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Place {
    pub(super) topic: String,
    pub(super) partition: i32,
    /// Of an error: the offset it is about.
    pub(super) offset: i64,
    pub(super) error: RDKafkaErrorCode,
}
