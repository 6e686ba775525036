//! Events about to be written.

use bytes::Bytes;
use serde::Serialize;

use crate::{
    Aggregate, CodecError, Encode, Envelope, EventId, Header, Json, Problem, Record, Text,
    header_names,
    problem::{EVENT_TYPE_BYTES_MAX, check_text},
};

/// An event about to be written, with an id of its own. See the [crate](crate) for an example.
///
/// Cloning it keeps the id: a clone is the same event.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OutboxEvent {
    envelope: Envelope,
    headers: Vec<Header>,
}

impl OutboxEvent {
    /// A new event with a payload in JSON. It occurred when its id was made: now.
    ///
    /// # Errors
    ///
    /// When the type is empty, has a NUL or is longer than [`EVENT_TYPE_BYTES_MAX`], or the payload
    /// cannot be JSON.
    pub fn new<T: Serialize + ?Sized>(
        event_type: impl Into<Text>,
        aggregate: &Aggregate,
        payload: &T,
    ) -> Result<Self, OutboxEventError> {
        Self::with_codec(event_type, aggregate, payload, &Json)
    }

    /// A new event with a payload in the codec's encoding.
    ///
    /// # Errors
    ///
    /// As [`OutboxEvent::new`], or what the codec says.
    pub fn with_codec<T: ?Sized, C: Encode<T>>(
        event_type: impl Into<Text>,
        aggregate: &Aggregate,
        payload: &T,
        codec: &C,
    ) -> Result<Self, OutboxEventError> {
        Self::encoded(event_type, aggregate, codec.encode(payload)?)
    }

    /// A new event with a payload that is encoded already.
    ///
    /// # Errors
    ///
    /// When the type is empty, has a NUL or is longer than [`EVENT_TYPE_BYTES_MAX`].
    pub fn encoded(
        event_type: impl Into<Text>,
        aggregate: &Aggregate,
        payload: Bytes,
    ) -> Result<Self, OutboxEventError> {
        Self::made(event_type.into(), aggregate, Some(payload))
    }

    /// A new event without payload, as compacted topics have them for what is deleted.
    ///
    /// # Errors
    ///
    /// As [`OutboxEvent::encoded`].
    pub fn tombstone(
        event_type: impl Into<Text>,
        aggregate: &Aggregate,
    ) -> Result<Self, OutboxEventError> {
        Self::made(event_type.into(), aggregate, None)
    }

    fn made(
        event_type: Text,
        aggregate: &Aggregate,
        payload: Option<Bytes>,
    ) -> Result<Self, OutboxEventError> {
        check_text(event_type.as_bytes(), EVENT_TYPE_BYTES_MAX).map_err(OutboxEventError::Type)?;
        let event_id = EventId::new();
        let envelope = Envelope {
            event_id,
            source_id: None,
            event_type,
            aggregate: aggregate.clone(),
            aggregate_version: None,
            occurred_at_ms: event_id.made_at_ms(),
            schema_version: None,
            payload,
        };
        Ok(Self { envelope, headers: Vec::new() })
    }

    /// Gives it another id, for example one that follows from what caused it.
    #[must_use]
    pub fn with_id(mut self, id: EventId) -> Self {
        self.envelope.event_id = id;
        self
    }

    /// Says which version its aggregate has after it.
    #[must_use]
    pub fn with_aggregate_version(mut self, version: i64) -> Self {
        self.envelope.aggregate_version = Some(version);
        self
    }

    /// Says which version of the payload's schema it follows.
    #[must_use]
    pub fn with_schema_version(mut self, version: i32) -> Self {
        self.envelope.schema_version = Some(version);
        self
    }

    /// Says when it happened, in milliseconds since 1970.
    #[must_use]
    pub fn with_occurred_at_ms(mut self, millis: i64) -> Self {
        self.envelope.occurred_at_ms = Some(millis);
        self
    }

    /// Adds a header after those that are there.
    ///
    /// # Errors
    ///
    /// When the name is empty, has a NUL, or is one of [`header_names::RESERVED`], which the event
    /// fills itself.
    pub fn with_header(
        mut self,
        name: impl Into<Text>,
        value: impl Into<Bytes>,
    ) -> Result<Self, OutboxEventError> {
        let name = name.into();
        check_text(name.as_bytes(), usize::MAX).map_err(OutboxEventError::HeaderName)?;
        if header_names::RESERVED.contains(&name.as_str()) {
            return Err(OutboxEventError::ReservedHeader(name));
        }
        self.headers.push(Header { name, value: Some(value.into()) });
        Ok(self)
    }

    /// Its id.
    pub fn id(&self) -> EventId {
        self.envelope.event_id
    }

    /// The event as its consumers will read it.
    pub fn envelope(&self) -> &Envelope {
        &self.envelope
    }

    /// The headers that were added; those of the event itself are not among them.
    pub fn headers(&self) -> &[Header] {
        &self.headers
    }

    /// The record that carries it: the aggregate id is the key, the event's own headers come first,
    /// then those that were added.
    pub fn record(&self) -> Record {
        Record {
            key: Some(self.envelope.aggregate.aggregate_id.clone().into()),
            headers: self.own_headers().chain(self.headers.iter().cloned()).collect(),
            payload: self.envelope.payload.clone(),
            timestamp_ms: self.envelope.occurred_at_ms,
        }
    }

    fn own_headers(&self) -> impl Iterator<Item = Header> {
        let event = &self.envelope;
        let decimal = |number: i64| Bytes::from(number.to_string());
        [
            (header_names::EVENT_ID, Some(Bytes::from(event.event_id.to_string()))),
            (header_names::EVENT_TYPE, Some(event.event_type.clone().into())),
            (header_names::AGGREGATE_TYPE, Some(event.aggregate.aggregate_type.clone().into())),
            (header_names::AGGREGATE_VERSION, event.aggregate_version.map(decimal)),
            (header_names::OCCURRED_AT, event.occurred_at_ms.map(decimal)),
            (header_names::SCHEMA_VERSION, event.schema_version.map(|v| decimal(v.into()))),
        ]
        .into_iter()
        .filter(|(_, value)| value.is_some())
        .map(|(name, value)| Header { name: Text::from_static(name), value })
    }
}

/// Why an event cannot be written.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OutboxEventError {
    /// Its type is no type.
    #[error("the event type {0}")]
    Type(Problem),
    /// A header's name is no name.
    #[error("the name of a header {0}")]
    HeaderName(Problem),
    /// A header belongs to the event.
    #[error("the header `{0}` is filled from the event; use the method of that name instead")]
    ReservedHeader(Text),
    /// Its payload has no encoding.
    #[error(transparent)]
    Codec(#[from] CodecError),
}
