//! One delivery: the record, and the event that was read from it.

use outbox_core::{Envelope, ReadError, Record};

/// A record with what could be read from it. Shared, never copied, on its way to the handler.
#[derive(Debug)]
pub struct Delivery {
    /// The topic, for parked rows and errors.
    pub partition: super::port::TopicPartition,
    /// The record as it arrived.
    pub record: Record,
    /// The event, or why the record is not one.
    pub event: Result<Envelope, ReadError>,
}
