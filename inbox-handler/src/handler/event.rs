//! The event as a handler sees it.

use std::sync::Arc;

use outbox_core::{Aggregate, Cause, Envelope, EventId, Header, header_names};

use crate::Delivery;

/// An event with its decoded payload.
///
/// It shares the record it was read from: nothing but the payload is decoded, nothing is copied.
#[derive(Debug)]
pub struct Event<T> {
    /// What happened.
    pub payload: T,
    delivery: Arc<Delivery>,
    attempt: u32,
}

impl<T> Event<T> {
    /// `delivery.event` is `Ok`.
    pub(crate) fn new(delivery: &Arc<Delivery>, attempt: u32, payload: T) -> Self {
        Self { payload, delivery: Arc::clone(delivery), attempt }
    }

    /// Whether it was made of this delivery.
    pub(crate) fn is_of(&self, delivery: &Arc<Delivery>) -> bool {
        Arc::ptr_eq(&self.delivery, delivery)
    }

    fn envelope(&self) -> &Envelope {
        match &self.delivery.event {
            Ok(envelope) => envelope,
            Err(error) => unreachable!("only a readable delivery becomes an event: {error}"),
        }
    }

    /// Its id. A foreign id that is no UUID appears as the UUID made from it, and so does every id under
    /// `events.id_scope = "topic"`; see [`source_id`](Self::source_id).
    pub fn id(&self) -> EventId {
        self.envelope().event_id
    }

    /// The id as the producer sent it, where [`id`](Self::id) is made of it.
    pub fn source_id(&self) -> Option<&str> {
        self.envelope().source_id.as_deref()
    }

    /// Its type, such as `OrderPaid`.
    pub fn event_type(&self) -> &str {
        &self.envelope().event_type
    }

    /// What it happened to.
    pub fn aggregate(&self) -> &Aggregate {
        &self.envelope().aggregate
    }

    /// The aggregate's version after the event, if its producer counts.
    pub fn aggregate_version(&self) -> Option<i64> {
        self.envelope().aggregate_version
    }

    /// When it happened by the producer's clock, in milliseconds since 1970. Clocks lie: order
    /// comes from the partition, never from this.
    pub fn occurred_at_ms(&self) -> Option<i64> {
        self.envelope().occurred_at_ms
    }

    /// The version of the payload's schema.
    pub fn schema_version(&self) -> Option<i32> {
        self.envelope().schema_version
    }

    /// All headers of the record, in their order; a name may occur more than once. Where a format says how headers are
    /// written (Connect's and Spring's converters), they are the texts that were written.
    pub fn headers(&self) -> &[Header] {
        &self.delivery.as_read().headers
    }

    /// The value of the last header of that name; `None` also for a null header.
    pub fn header(&self, name: &str) -> Option<&[u8]> {
        self.delivery.as_read().header(name).map(AsRef::as_ref)
    }

    /// The W3C Trace Context that the event was sent in: the header `traceparent`, if it is text.
    pub fn trace_parent(&self) -> Option<&str> {
        self.header(header_names::TRACEPARENT).and_then(|value| std::str::from_utf8(value).ok())
    }

    /// Which attempt this is: 1 for the first. Attempts that ended in an outage or a conflict do
    /// not count, so a handler may run more often than this says.
    pub fn attempt(&self) -> u32 {
        self.attempt
    }

    /// The topic that it was read from.
    pub fn topic(&self) -> &str {
        &self.delivery.partition.topic
    }

    /// The partition that it was read from.
    pub fn partition(&self) -> i32 {
        self.delivery.partition.partition
    }

    /// The offset that it was read at.
    pub fn offset(&self) -> i64 {
        self.delivery.offset.0
    }
}

/// For [`OutboxEvent::caused_by`](outbox_core::OutboxEvent::caused_by); `tx.append` in a
/// [`Handler`](crate::Handler) does it by itself.
impl<T> From<&Event<T>> for Cause {
    fn from(event: &Event<T>) -> Self {
        Self::new(event.id(), event.headers())
    }
}
