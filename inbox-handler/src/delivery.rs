//! One delivery: the record, and the event that was read from it.

use outbox_core::{
    Envelope, ReadError, Record, TopicPartition,
    internal::{Excerpt, ReadAs},
};

/// A record with what could be read from it. Shared, never copied, on its way to the handler.
#[derive(Debug)]
pub struct Delivery {
    /// Where it arrived.
    pub partition: TopicPartition,
    /// At which offset.
    pub offset: inbox_engine::internal::Offset,
    /// The record as it arrived, or what is kept of it.
    pub record: Record,
    /// What is known of a record that is kept in part. In a box, since few are.
    pub excerpt: Option<Box<Excerpt>>,
    /// The event, or why the record is not one.
    pub event: Result<Envelope, ReadError>,
    /// What was found out besides.
    pub read_as: ReadAs,
}

impl Delivery {
    /// The record as handlers are given it: with key and headers as the rules of the format read them.
    pub fn as_read(&self) -> &Record {
        self.read_as.record.as_deref().unwrap_or(&self.record)
    }

    /// The event's id as its producer wrote it; `?` where the record could not be read.
    pub fn id(&self) -> String {
        let Ok(event) = &self.event else { return "?".into() };
        event.source_id.as_ref().map_or_else(|| event.event_id.to_string(), ToString::to_string)
    }
}
