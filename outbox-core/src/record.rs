//! A Kafka record, owned and without librdkafka: what readers turn into an event.

use bytes::Bytes;

use crate::Text;

/// Key, headers, payload and timestamp of a record. All slices share a few allocations.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
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

/// One header of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// Its name.
    pub name: Text,
    /// Its value; `None` is a null header.
    pub value: Option<Bytes>,
}

impl Record {
    /// The value of the last header of that name, as Kafka's own clients take it.
    pub fn header(&self, name: &str) -> Option<&Bytes> {
        self.headers.iter().rev().find(|h| &*h.name == name).and_then(|h| h.value.as_ref())
    }

    /// What the record takes in memory, in bytes, besides the structures themselves.
    pub fn size(&self) -> usize {
        let headers: usize = self
            .headers
            .iter()
            .map(|h| h.name.len() + h.value.as_ref().map_or(0, Bytes::len))
            .sum();
        headers + self.key.as_ref().map_or(0, Bytes::len) + self.payload.as_ref().map_or(0, Bytes::len)
    }
}
