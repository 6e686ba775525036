//! Events about to be written.

use bytes::Bytes;
use serde::Serialize;

use crate::{
    Aggregate, Cause, Encode, Envelope, EventId, Header, Json, Record, Text, header_names,
    outbox_event_error::{self as error, OutboxEventError, check_header_name, check_topic},
    problem::{DEDUP_KEY_BYTES_MAX, EVENT_TYPE_BYTES_MAX, ID_BYTES_MAX, check_text},
    trace_context::{is_traceparent, is_tracestate},
};

/// The largest event that is appended unless another limit is set: what a Kafka broker takes by default.
/// Compared with [`OutboxEvent::size`].
pub const EVENT_BYTES_MAX: usize = 1 << 20;
/// What a batch of one record takes besides the record's own bytes, at most.
const RECORD_OVERHEAD: usize = 128;
/// What a header takes besides its name and value, at most.
const HEADER_OVERHEAD: usize = 10;

/// An event about to be written, with an id of its own. The documentation of the [`crate`] has an example.
///
/// Cloning it keeps the id: a clone is the same event.
#[derive(Clone, Debug)]
pub struct OutboxEvent {
    envelope: Envelope,
    topic: Option<Text>,
    headers: Vec<Header>,
    deliver_after_ms: Option<i64>,
    dedup_key: Option<Text>,
    /// Nobody has said which id it has.
    id_is_made: bool,
}

/// Where its id comes from is no part of an event.
impl PartialEq for OutboxEvent {
    fn eq(&self, other: &Self) -> bool {
        let Self { envelope, topic, headers, deliver_after_ms, dedup_key, id_is_made: _ } = self;
        (envelope, topic, headers) == (&other.envelope, &other.topic, &other.headers)
            && (deliver_after_ms, dedup_key) == (&other.deliver_after_ms, &other.dedup_key)
    }
}

impl Eq for OutboxEvent {}

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
            occurred_at_ms: event_id.made_at_ms().and_then(|it| error::check_occurred_at(it).ok()),
            schema_version: None,
            payload,
        };
        Ok(Self { id_is_made: true, ..Self::of(envelope, None, Vec::new()) })
    }

    /// The event that was written into an outbox table, for whoever ships it. Its
    /// [`record`](Self::record) is what the event's own would have been.
    /// An error: the event could not have been made here, it was written by other means.
    #[doc(hidden)]
    pub fn restored(
        envelope: Envelope,
        topic: Option<Text>,
        headers: Vec<Header>,
    ) -> Result<Self, OutboxEventError> {
        check_text(envelope.event_type.as_bytes(), EVENT_TYPE_BYTES_MAX)
            .map_err(OutboxEventError::Type)?;
        headers.iter().try_for_each(|header| check_header_name(&header.name))?;
        topic.as_ref().map_or(Ok(()), check_topic)?;
        envelope.occurred_at_ms.map(error::check_occurred_at).transpose()?;
        Ok(Self::of(envelope, topic, headers))
    }

    fn of(envelope: Envelope, topic: Option<Text>, headers: Vec<Header>) -> Self {
        let (deliver_after_ms, dedup_key) = (None, None);
        Self { envelope, topic, headers, deliver_after_ms, dedup_key, id_is_made: false }
    }

    /// Gives it another id. It keeps that one, whoever appends it.
    #[must_use]
    pub fn with_id(mut self, id: EventId) -> Self {
        self.envelope.event_id = id;
        self.id_is_made = false;
        self
    }

    /// Gives it this id unless [`with_id`](Self::with_id) has said one.
    #[must_use]
    #[doc(hidden)]
    pub fn or_id(mut self, id: EventId) -> Self {
        if self.id_is_made {
            self.envelope.event_id = id;
        }
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
    ///
    /// # Errors
    ///
    /// Outside of the years 0000 to 9999, and between 1970 and March 1973, as seconds would be: no consumer reads it.
    pub fn with_occurred_at_ms(mut self, millis: i64) -> Result<Self, OutboxEventError> {
        self.envelope.occurred_at_ms = Some(error::check_occurred_at(millis)?);
        Ok(self)
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
        check_header_name(&name)?;
        self.headers.push(Header { name, value: Some(value.into()) });
        Ok(self)
    }

    /// Says which conversation it belongs to: the header `correlation_id`.
    ///
    /// # Errors
    ///
    /// When the id is empty, has a NUL or is longer than [`ID_BYTES_MAX`].
    pub fn with_correlation(mut self, id: impl Into<Text>) -> Result<Self, OutboxEventError> {
        let id = id.into();
        check_text(id.as_bytes(), ID_BYTES_MAX).map_err(OutboxEventError::Correlation)?;
        self.set(header_names::CORRELATION_ID, id.into());
        Ok(self)
    }

    /// Says what it follows from: fills the headers `causation_id`, `correlation_id`, `traceparent` and
    /// `tracestate` as far as they are not there yet. The conversation of a cause that names none has the
    /// name of the cause.
    ///
    /// ```
    /// use outbox_core::{Aggregate, OutboxEvent, header_names};
    ///
    /// let order = Aggregate::new("Order", "1001")?;
    /// let paid = OutboxEvent::new("OrderPaid", &order, &250)?.with_correlation("checkout-77")?;
    /// let shipped = OutboxEvent::new("OrderShipped", &order, &())?.caused_by(&paid);
    ///
    /// let record = shipped.record();
    /// assert_eq!(record.header(header_names::CORRELATION_ID).unwrap(), "checkout-77");
    /// assert_eq!(record.header(header_names::CAUSATION_ID).unwrap(), &paid.id().to_string());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn caused_by(mut self, cause: impl Into<Cause>) -> Self {
        for (name, value) in cause.into().headers() {
            if !self.headers.iter().any(|header| header.name == name) {
                self.headers.push(Header { name: Text::from_static(name), value: Some(value) });
            }
        }
        self
    }

    /// The id of what it follows from: its header `causation_id`.
    pub fn cause(&self) -> Option<EventId> {
        let named = |header: &&Header| header.name == header_names::CAUSATION_ID;
        EventId::from_uuid_text(self.headers.iter().find(named)?.value.as_ref()?)
    }

    /// Follows from an event that has got another id: corrects the headers `causation_id` and
    /// `correlation_id`.
    #[doc(hidden)]
    pub fn rename_cause(&mut self, old: EventId, new: EventId) {
        let names = [header_names::CAUSATION_ID, header_names::CORRELATION_ID];
        for Header { name, value } in &mut self.headers {
            let id = value.as_ref().and_then(EventId::from_uuid_text);
            if names.contains(&name.as_str()) && id == Some(old) {
                *value = Some(Bytes::from(new.to_string()));
            }
        }
    }

    /// Says which span it is sent in: the headers `traceparent` and, unless it is empty, `tracestate` of
    /// W3C Trace Context.
    ///
    /// # Errors
    ///
    /// When they are not of the form that the specification gives them.
    pub fn with_trace_context(
        mut self,
        traceparent: impl Into<Text>,
        tracestate: impl Into<Text>,
    ) -> Result<Self, OutboxEventError> {
        let (traceparent, tracestate) = (traceparent.into(), tracestate.into());
        if !is_traceparent(traceparent.as_bytes()) {
            return Err(OutboxEventError::Traceparent);
        }
        if !tracestate.is_empty() && !is_tracestate(tracestate.as_bytes()) {
            return Err(OutboxEventError::Tracestate);
        }
        self.set(header_names::TRACEPARENT, traceparent.into());
        self.headers.retain(|header| header.name != header_names::TRACESTATE);
        if !tracestate.is_empty() {
            self.set(header_names::TRACESTATE, tracestate.into());
        }
        Ok(self)
    }

    /// Sends it to this topic instead of the one that the relay's template says.
    ///
    /// # Errors
    ///
    /// When no topic of Kafka can have that name.
    pub fn with_topic(mut self, topic: impl Into<Text>) -> Result<Self, OutboxEventError> {
        let topic = topic.into();
        check_topic(&topic)?;
        self.topic = Some(topic);
        Ok(self)
    }

    /// Has the relay keep it until then, in milliseconds since 1970: it is delivered not before that time by
    /// the database's clock, and as soon as the relay looks after it.
    ///
    /// Order holds: events behind it of the same aggregate wait for it. So give what is late on purpose, such
    /// as a reminder, an aggregate of its own (`Reminder/1001`, not `Order/1001`). A time that is past delays
    /// nothing.
    ///
    /// # Errors
    ///
    /// When it is before 1970 or after the year 9999: it is counted in another unit.
    pub fn with_deliver_after_ms(mut self, millis: i64) -> Result<Self, OutboxEventError> {
        self.deliver_after_ms = Some(error::check_deliver_after(millis)?);
        Ok(self)
    }

    /// Says what it is the only event of: of several that are appended with one key the first is there, and
    /// the others are left out in silence but for the answer ([`Appended::left_out`](crate::Appended)),
    /// whatever else they say, be it in the same transaction or years later.
    ///
    /// A key is remembered as long as its row is kept: until `retention.sent` of the relay. All keys of an outbox share
    /// one namespace across event types: `welcome/4711`, not `4711`. Consumers get it in the header `dedup_key`.
    ///
    /// # Errors
    ///
    /// When the key is empty, has a NUL or is longer than [`DEDUP_KEY_BYTES_MAX`].
    pub fn with_dedup_key(mut self, key: impl Into<Text>) -> Result<Self, OutboxEventError> {
        let key = key.into();
        check_text(key.as_bytes(), DEDUP_KEY_BYTES_MAX).map_err(OutboxEventError::DedupKey)?;
        self.dedup_key = Some(key);
        Ok(self)
    }

    /// Sets a header that occurs once.
    fn set(&mut self, name: &'static str, value: Bytes) {
        self.headers.retain(|header| header.name != name);
        self.headers.push(Header { name: Text::from_static(name), value: Some(value) });
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

    /// The topic that [`with_topic`](Self::with_topic) named.
    pub fn topic(&self) -> Option<&str> {
        self.topic.as_deref()
    }

    /// When it is delivered at the earliest, in milliseconds since 1970: what
    /// [`with_deliver_after_ms`](Self::with_deliver_after_ms) said.
    pub fn deliver_after_ms(&self) -> Option<i64> {
        self.deliver_after_ms
    }

    /// The key that [`with_dedup_key`](Self::with_dedup_key) gave it.
    pub fn dedup_key(&self) -> Option<&str> {
        self.dedup_key.as_deref()
    }

    /// What it takes in a batch of Kafka, in bytes, at most: key, payload and headers with what frames
    /// them. An event of at most 1 MiB fits a broker with default settings.
    pub fn size(&self) -> usize {
        let record = self.record();
        record.size() + record.headers.len() * HEADER_OVERHEAD + RECORD_OVERHEAD
    }

    /// The record that carries it: the aggregate id is the key, the event's own headers come first,
    /// then those that were added. It has no timestamp, so Kafka sets the time of sending: by the timestamp a broker
    /// deletes what is older than the topic's retention and refuses what is ahead.
    pub fn record(&self) -> Record {
        Record {
            key: Some(self.envelope.aggregate.aggregate_id.clone().into()),
            headers: self.own_headers().chain(self.headers.iter().cloned()).collect(),
            payload: self.envelope.payload.clone(),
            timestamp_ms: None,
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
            (header_names::DEDUP_KEY, self.dedup_key.clone().map(Bytes::from)),
        ]
        .into_iter()
        .filter(|(_, value)| value.is_some())
        .map(|(name, value)| Header { name: Text::from_static(name), value })
    }
}
