//! What is around the payload in a record's value.

use bytes::Bytes;

use super::{
    Pointer,
    connect::{Closed, Connect, Opened},
    envelopes::Envelope,
    pointer::Pointed,
};

/// What is around the payload in a record's value, and how key and headers are written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Shape {
    /// Nothing: the value is the payload.
    Plain,
    /// What Kafka Connect's converters write.
    Connect(Connect),
    /// A JSON object, of which the payload is a member.
    Envelope(Envelope),
}

impl Shape {
    /// Takes a record's value apart.
    pub(super) fn open(&self, value: Option<&Bytes>, around: &[Pointer]) -> Result<Opened, Closed> {
        let plain =
            || Opened { payload: value.cloned(), around: vec![Pointed::Absent; around.len()] };
        let Some(bytes) = value else { return Ok(plain()) };
        match self {
            Self::Plain => Ok(plain()),
            Self::Connect(connect) => connect.open(bytes, around),
            Self::Envelope(envelope) => envelope.open(bytes, around),
        }
    }
}
