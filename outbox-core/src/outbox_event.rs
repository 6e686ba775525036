//! An event that is about to be written.

use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use serde::Serialize;

use crate::{
    Aggregate, CodecError, EVENT_TYPE_BYTES_MAX, Encode, EventId, Header, Json, Problem, Record,
    Text, header_names as names, problem::check_text,
};

/// An event that a producer makes. Its id is made here, once: sending it again sends the same event.
///
/// ```
/// use outbox_core::{Aggregate, OutboxEvent, Reader};
///
/// let account = Aggregate::new("Account", "42")?;
/// let event = OutboxEvent::new("Deposited", &account, &serde_json::json!({ "amount": 5 }))?;
/// let record = event.record();
/// let read = Reader::own(1 << 20).read("deposits", 0, 7, &record)?;
/// assert_eq!((read.event_id, &*read.event_type), (event.id(), "Deposited"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OutboxEvent {
    id: EventId,
    event_type: Text,
    aggregate: Aggregate,
    aggregate_version: Option<i64>,
    occurred_at_ms: i64,
    schema_version: Option<i32>,
    headers: Vec<Header>,
    payload: Bytes,
}

/// Why an event cannot be made.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OutboxEventError {
    /// The payload cannot be encoded.
    #[error(transparent)]
    Codec(#[from] CodecError),
    /// The event type cannot be used.
    #[error("the event type {0}")]
    Type(Problem),
    /// The header is filled from the event itself.
    #[error("the header `{0}` is filled from the event itself; use the method for it")]
    Reserved(String),
}

impl OutboxEvent {
    /// An event with a new id, that happened now, its payload as JSON.
    ///
    /// # Errors
    /// When the payload has no JSON form or the type is empty, too long or has a NUL.
    pub fn new<T: Serialize + ?Sized>(
        event_type: &str,
        aggregate: &Aggregate,
        payload: &T,
    ) -> Result<Self, OutboxEventError> {
        Self::encoded(event_type, aggregate, Json.encode(payload)?)
    }

    /// The same with a payload that is encoded already.
    ///
    /// # Errors
    /// When the type is empty, too long or has a NUL.
    pub fn encoded(
        event_type: &str,
        aggregate: &Aggregate,
        payload: Bytes,
    ) -> Result<Self, OutboxEventError> {
        check_text(event_type.as_bytes(), EVENT_TYPE_BYTES_MAX).map_err(OutboxEventError::Type)?;
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Ok(Self {
            id: EventId::new(),
            event_type: event_type.into(),
            aggregate: aggregate.clone(),
            aggregate_version: None,
            occurred_at_ms: i64::try_from(since.as_millis()).unwrap_or(i64::MAX),
            schema_version: None,
            headers: Vec::new(),
            payload,
        })
    }

    /// Gives it an id that was made before.
    #[must_use]
    pub fn with_id(self, id: EventId) -> Self {
        Self { id, ..self }
    }

    /// The aggregate's version after the event.
    #[must_use]
    pub fn with_aggregate_version(self, version: i64) -> Self {
        Self { aggregate_version: Some(version), ..self }
    }

    /// When it happened, in milliseconds since 1970.
    #[must_use]
    pub fn with_occurred_at_ms(self, millis: i64) -> Self {
        Self { occurred_at_ms: millis, ..self }
    }

    /// The version of the payload's schema.
    #[must_use]
    pub fn with_schema_version(self, version: i32) -> Self {
        Self { schema_version: Some(version), ..self }
    }

    /// Adds a header.
    ///
    /// # Errors
    /// When it is one that the event itself fills ([`names::RESERVED`]).
    pub fn with_header(
        mut self,
        name: &str,
        value: impl Into<Bytes>,
    ) -> Result<Self, OutboxEventError> {
        if names::RESERVED.contains(&name) {
            return Err(OutboxEventError::Reserved(name.into()));
        }
        self.headers.push(Header { name: name.into(), value: Some(value.into()) });
        Ok(self)
    }

    /// Its id.
    pub fn id(&self) -> EventId {
        self.id
    }

    /// The record to send: the key is the aggregate id.
    pub fn record(&self) -> Record {
        let text = |name: &'static str, value: Bytes| Header {
            name: Text::from_static(name),
            value: Some(value),
        };
        let mut headers = vec![
            text(names::EVENT_ID, self.id.to_string().into()),
            text(names::EVENT_TYPE, self.event_type.clone().into()),
            text(names::AGGREGATE_TYPE, self.aggregate.aggregate_type().to_owned().into()),
            text(names::OCCURRED_AT, self.occurred_at_ms.to_string().into()),
        ];
        if let Some(version) = self.aggregate_version {
            headers.push(text(names::AGGREGATE_VERSION, version.to_string().into()));
        }
        if let Some(version) = self.schema_version {
            headers.push(text(names::SCHEMA_VERSION, version.to_string().into()));
        }
        headers.extend(self.headers.iter().cloned());
        Record {
            key: Some(self.aggregate.aggregate_id().to_owned().into()),
            headers,
            payload: Some(self.payload.clone()),
            timestamp_ms: Some(self.occurred_at_ms),
        }
    }
}
