//! One delivery: the record, and the event that was read from it.

use outbox_core::{Envelope, ReadError, Record};

use super::port::TopicPartition;

/// A record with what could be read from it. Shared, never copied, on its way to the handler.
#[derive(Debug)]
pub struct Delivery {
    /// Where it arrived.
    pub partition: TopicPartition,
    /// At which offset.
    pub offset: inbox_engine::Offset,
    /// The record as it arrived.
    pub record: Record,
    /// The event, or why the record is not one.
    pub event: Result<Envelope, ReadError>,
}
