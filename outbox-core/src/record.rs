//! A Kafka record, owned and without librdkafka: what readers turn into an event.

use std::fmt;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::Text;

/// Key, headers, payload and timestamp of a record. All slices share a few allocations.
///
/// `Debug` shows sizes instead of payload and header values, which may be secret.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Record {
    /// The key; `None` is a null key.
    pub key: Option<Bytes>,
    /// The headers in their order; a name may occur more than once.
    pub headers: Vec<Header>,
    /// The payload; `None` is a tombstone.
    pub payload: Option<Bytes>,
    /// The record's timestamp in milliseconds since 1970, if it has one. Never used for correctness.
    pub timestamp_ms: Option<i64>,
}

/// One header of a record. `Debug` shows the value's size only.
#[derive(Clone, PartialEq, Eq)]
pub struct Header {
    /// Its name.
    pub name: Text,
    /// Its value; `None` is a null header.
    pub value: Option<Bytes>,
}

/// What is known of a record that is too large, and kept in part.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Excerpt {
    /// Bytes of key, headers and payload together.
    pub bytes: usize,
    /// Bytes of the payload; `None`: it is a tombstone.
    pub payload_bytes: Option<usize>,
    /// SHA-256 of the payload in hexadecimal.
    pub payload_sha256: Option<String>,
    /// Bytes of the key.
    pub key_bytes: Option<usize>,
    /// How many headers it has.
    pub headers: usize,
}

/// Where Confluent's `HeaderSchemaIdSerializer` names the schema of a key, which has nothing in front then.
const KEY_SCHEMA: &[u8] = b"__key_schema_id";

impl Record {
    /// Whether the key is no text but what a schema of a registry describes, as a header says.
    #[doc(hidden)]
    pub fn is_key_of_schema(&self) -> bool {
        self.key.is_some() && self.header_bytes(KEY_SCHEMA).is_some()
    }

    /// The value of the last header of that name, as Kafka's own clients take it.
    pub fn header(&self, name: &str) -> Option<&Bytes> {
        self.header_bytes(name.as_bytes())
    }

    /// The same by the bytes of the name, without looking at them as text.
    pub(crate) fn header_bytes(&self, name: &[u8]) -> Option<&Bytes> {
        self.headers
            .iter()
            .rev()
            .find(|header| header.name.as_bytes() == name)
            .and_then(|header| header.value.as_ref())
    }

    /// What the record takes in memory, in bytes, besides the structures themselves.
    pub fn size(&self) -> usize {
        let headers: usize = self
            .headers
            .iter()
            .map(|header| header.name.len() + header.value.as_ref().map_or(0, Bytes::len))
            .sum();
        headers
            + self.key.as_ref().map_or(0, Bytes::len)
            + self.payload.as_ref().map_or(0, Bytes::len)
    }
}

impl fmt::Debug for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Record")
            .field("key", &self.key)
            .field("headers", &self.headers)
            .field("payload", &Size::of(self.payload.as_ref()))
            .field("timestamp_ms", &self.timestamp_ms)
            .finish()
    }
}

impl fmt::Debug for Header {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {:?}", self.name, Size::of(self.value.as_ref()))
    }
}

/// Bytes that `Debug` shows by their number only.
pub(crate) struct Size(Option<usize>);

impl Size {
    pub(crate) fn of(bytes: Option<&Bytes>) -> Self {
        Self(bytes.map(Bytes::len))
    }
}

impl fmt::Debug for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(bytes) => write!(f, "{bytes} bytes"),
            None => f.write_str("null"),
        }
    }
}
