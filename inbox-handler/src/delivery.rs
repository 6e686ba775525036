//! One delivery: the record, and the event that was read from it.

use outbox_core::{Envelope, ReadError, Record, TopicPartition, internal::Excerpt};

/// A record with what could be read from it. Shared, never copied, on its way to the handler.
#[derive(Debug)]
pub struct Delivery {
    /// Where it arrived.
    pub partition: TopicPartition,
    /// At which offset.
    pub offset: inbox_engine::internal::Offset,
    /// The record as it arrived, or what is kept of it.
    pub record: Record,
    /// What is known of a record that is kept in part.
    pub excerpt: Option<Excerpt>,
    /// The event, or why the record is not one.
    pub event: Result<Envelope, ReadError>,
    /// Whether its id alone tells which event it is: see [`Reader::tells_by_id`](outbox_core::Reader::tells_by_id).
    pub told_by_id: bool,
}

impl Delivery {
    /// The event's id as its producer wrote it; `?` where the record could not be read.
    pub fn id(&self) -> String {
        let Ok(event) = &self.event else { return "?".into() };
        event.source_id.as_ref().map_or_else(|| event.event_id.to_string(), ToString::to_string)
    }
}
