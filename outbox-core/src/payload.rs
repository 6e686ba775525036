//! What a codec sees of an event.

use std::fmt;

use crate::{CodecError, Envelope, Header};

/// The payload of an event, and what tells how to read it.
#[derive(Clone, Copy)]
pub struct Payload<'a> {
    content: Option<&'a [u8]>,
    headers: &'a [Header],
    schema_version: Option<i32>,
    topic: &'a str,
    event_type: &'a str,
    text_in_schema: bool,
    tree: bool,
}

impl<'a> Payload<'a> {
    /// Bytes alone, for tests of a codec and for codecs around others.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { content: Some(bytes), ..Self::tombstone() }
    }

    /// No payload.
    pub fn tombstone() -> Self {
        Self {
            content: None,
            headers: &[],
            schema_version: None,
            topic: "",
            event_type: "",
            text_in_schema: false,
            tree: false,
        }
    }

    /// Of an event that was read from a record of `topic` with these headers.
    pub fn of(envelope: &'a Envelope, headers: &'a [Header], topic: &'a str) -> Self {
        Self {
            content: envelope.payload.as_deref(),
            headers,
            schema_version: envelope.schema_version,
            topic,
            event_type: &envelope.event_type,
            text_in_schema: false,
            tree: false,
        }
    }

    /// Says whether a text that a schema describes holds the payload.
    #[doc(hidden)]
    #[must_use]
    pub fn with_text_in_schema(self, text_in_schema: bool) -> Self {
        Self { text_in_schema, ..self }
    }

    /// Whether a text that a schema describes holds the payload, as a column of JSON behind a converter of Kafka Connect.
    #[doc(hidden)]
    pub fn is_text_in_schema(&self) -> bool {
        self.text_in_schema
    }

    /// The same for a codec that is to make a tree of JSON values of it, whose size is bounded then.
    pub(crate) fn as_tree(self) -> Self {
        Self { tree: true, ..self }
    }

    /// Whether a tree of JSON values is to be made of it.
    #[doc(hidden)]
    pub fn is_tree(&self) -> bool {
        self.tree
    }

    /// The same with other bytes: what is left behind a prefix, say.
    #[must_use]
    pub fn with_bytes<'b>(&self, bytes: &'b [u8]) -> Payload<'b>
    where
        'a: 'b,
    {
        Payload { content: Some(bytes), ..*self }
    }

    /// The same with another version of its schema.
    #[must_use]
    pub fn with_schema_version(self, version: i32) -> Self {
        Self { schema_version: Some(version), ..self }
    }

    /// The same with other headers.
    #[must_use]
    pub fn with_headers(self, headers: &'a [Header]) -> Self {
        Self { headers, ..self }
    }

    /// The same in another topic.
    #[must_use]
    pub fn with_topic(self, topic: &'a str) -> Self {
        Self { topic, ..self }
    }

    /// The bytes.
    ///
    /// # Errors
    ///
    /// [`CodecError::Tombstone`] where there are none.
    pub fn bytes(&self) -> Result<&'a [u8], CodecError> {
        self.content.ok_or(CodecError::Tombstone)
    }

    /// The bytes; `None` for a tombstone.
    pub fn content(&self) -> Option<&'a [u8]> {
        self.content
    }

    /// All headers of the record, in their order.
    pub fn headers(&self) -> &'a [Header] {
        self.headers
    }

    /// The value of the last header of that name; `None` also for a null header.
    pub fn header(&self, name: &str) -> Option<&'a [u8]> {
        self.headers.iter().rfind(|header| header.name == name)?.value.as_deref()
    }

    /// The version of its schema, as the event says.
    pub fn schema_version(&self) -> Option<i32> {
        self.schema_version
    }

    /// The topic of its record.
    pub fn topic(&self) -> &'a str {
        self.topic
    }

    /// The event's type.
    pub fn event_type(&self) -> &'a str {
        self.event_type
    }
}

/// Without the bytes and the values of headers: they may be anyone's secret.
impl fmt::Debug for Payload<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Payload")
            .field("bytes", &self.content.map(<[u8]>::len))
            .field("schema_version", &self.schema_version)
            .field("topic", &self.topic)
            .field("event_type", &self.event_type)
            .finish_non_exhaustive()
    }
}
