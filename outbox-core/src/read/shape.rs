//! What is around the payload in a record's value.

use std::borrow::Cow;

use super::{
    Pointer,
    connect::{Closed, Connect, Opened},
    envelopes::Envelope,
    pointer::Pointed,
};
use crate::Record;

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
    /// A record with key and headers as the rules read them; nothing where it has them so.
    pub(super) fn texts(&self, record: Cow<'_, Record>) -> Option<Record> {
        match (self, record) {
            (Self::Connect(connect), record) => connect.texts(&record),
            (_, Cow::Owned(record)) => Some(record),
            (_, Cow::Borrowed(_)) => None,
        }
    }

    /// Takes a record's value apart.
    pub(super) fn open(&self, record: &Record, around: &[Pointer]) -> Result<Opened, Closed> {
        let value = &record.payload;
        let plain =
            || Opened { payload: value.clone(), around: vec![Pointed::Absent; around.len()] };
        let Some(bytes) = value else { return Ok(plain()) };
        match self {
            Self::Plain => Ok(plain()),
            Self::Connect(connect) => connect.open(bytes, around),
            Self::Envelope(envelope) => envelope.open(record, bytes, around),
        }
    }
}
