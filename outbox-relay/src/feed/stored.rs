//! A stored row becomes an event again.

use bytes::Bytes;
use outbox_core::{Aggregate, Envelope, EventId, OutboxEvent, Text, headers_from_json};
use uuid::Uuid;

use crate::port::Row;

/// The columns of a row.
pub(super) struct Columns {
    pub(super) seq: i64,
    pub(super) event_id: Uuid,
    pub(super) event_type: String,
    pub(super) aggregate_type: String,
    pub(super) aggregate_id: String,
    pub(super) aggregate_version: Option<i64>,
    pub(super) occurred_at_ms: Option<i64>,
    pub(super) schema_version: Option<i32>,
    pub(super) topic: Option<String>,
    pub(super) headers: String,
    pub(super) payload: Option<Vec<u8>>,
}

impl Columns {
    /// The row. One that was written by other means than `append` may be no event.
    pub(super) fn row(self) -> Row {
        let aggregate = format!("{}/{}", self.aggregate_type, self.aggregate_id);
        Row { seq: self.seq, aggregate, event: self.event() }
    }

    fn event(self) -> Result<OutboxEvent, String> {
        let not = |error: &dyn std::fmt::Display| format!("the row is no event: {error}");
        let aggregate = Aggregate::new(self.aggregate_type, self.aggregate_id);
        let headers = headers_from_json(&self.headers).map_err(|error| not(&error))?;
        let envelope = Envelope {
            event_id: EventId::from(self.event_id),
            source_id: None,
            event_type: self.event_type.into(),
            aggregate: aggregate.map_err(|error| not(&error))?,
            aggregate_version: self.aggregate_version,
            occurred_at_ms: self.occurred_at_ms,
            schema_version: self.schema_version,
            payload: self.payload.map(Bytes::from),
        };
        OutboxEvent::restored(envelope, self.topic.map(Text::from), headers)
            .map_err(|error| not(&error))
    }
}
