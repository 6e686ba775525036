//! The record that a parked row keeps, out of its JSON text, and how values are written there.

use std::borrow::Cow;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use outbox_core::{Header, Record, Text};
use serde::{Deserialize, Serialize};

/// What is read of a row.
#[derive(Deserialize)]
struct StoredRecord {
    #[serde(deserialize_with = "Option::deserialize")]
    timestamp_ms: Option<i64>,
    #[serde(deserialize_with = "Option::deserialize")]
    key: Option<Coded<'static>>,
    #[serde(alias = "payload_begins", deserialize_with = "Option::deserialize")]
    payload: Option<Coded<'static>>,
    headers: Vec<(Name<'static>, Option<Coded<'static>>)>,
}

/// Text where it is text that every database takes (`jsonb` has no NUL, B10), base64 otherwise.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Coded<'d> {
    /// As text.
    Text(Cow<'d, str>),
    /// As base64.
    Base64(Cow<'d, str>),
}

impl<'d> Coded<'d> {
    /// As it is written.
    pub fn of(bytes: &'d [u8]) -> Self {
        match std::str::from_utf8(bytes) {
            Ok(text) if is_short(text) => Self::Text(text.into()),
            _ => Self::base64(bytes),
        }
    }

    /// In ASCII alone.
    pub fn base64(bytes: &[u8]) -> Self {
        Self::Base64(STANDARD.encode(bytes).into())
    }

    fn bytes(self) -> Option<Bytes> {
        match self {
            Self::Text(text) => Some(text.into_owned().into()),
            Self::Base64(text) => Some(STANDARD.decode(&*text).ok()?.into()),
        }
    }
}

/// The name of a header, which is text.
#[derive(Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Name<'d> {
    /// As text.
    Plain(Cow<'d, str>),
    /// Coded.
    Coded(Coded<'d>),
}

impl<'d> Name<'d> {
    /// As it is written.
    pub fn of(name: &'d str) -> Self {
        if is_short(name) {
            Self::Plain(name.into())
        } else {
            Self::Coded(Coded::of(name.as_bytes()))
        }
    }

    fn text(self) -> Option<Text> {
        match self {
            Self::Plain(name) => Some(name.into_owned().into()),
            Self::Coded(coded) => Text::try_from(coded.bytes()?).ok(),
        }
    }
}

/// Whether a text is not more than twice as long in JSON, which writes six bytes for most control characters: what
/// a row takes is bounded by what its record has. Never so with a NUL.
fn is_short(text: &str) -> bool {
    let more = |byte: &u8| match byte {
        b'"' | b'\\' | b'\n' | b'\r' | b'\t' | 0x08 | 0x0c => 1,
        0x01..0x20 => 5,
        _ => 0,
    };
    !text.contains('\0') && text.as_bytes().iter().map(more).sum::<usize>() <= text.len()
}

/// The record that a row keeps, or what it keeps of it; `None` when the text is not what it should be.
pub fn record(document: &str) -> Option<Record> {
    let StoredRecord { timestamp_ms, key, payload, headers } =
        serde_json::from_str(document).ok()?;
    let bytes = |coded: Option<Coded<'_>>| coded.map_or(Some(None), |it| it.bytes().map(Some));
    let header =
        |(name, value): (Name<'_>, _)| Some(Header { name: name.text()?, value: bytes(value)? });
    Some(Record {
        key: bytes(key)?,
        headers: headers.into_iter().map(header).collect::<Option<_>>()?,
        payload: bytes(payload)?,
        timestamp_ms,
    })
}

#[cfg(test)]
mod tests {
    use super::record;

    #[test]
    fn a_row_that_was_written_over_holds_no_record() {
        for text in ["", "{}", "[]", r#"{"key":3,"payload":null,"headers":[]}"#] {
            assert_eq!(record(text), None, "{text}");
        }
    }
}
