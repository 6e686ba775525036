//! Payloads to values and back.

use bytes::Bytes;
use serde::{Serialize, de::DeserializeOwned};

/// Turns payloads into values of type `T`. One per route; [`Json`] is the default.
///
/// A codec must be pure: the same bytes give the same value at every attempt. It may be asked for a
/// payload whose event turns out to have been handled.
pub trait Decode<T>: Send + Sync + 'static {
    /// Decodes a payload.
    ///
    /// # Errors
    ///
    /// When the bytes are no `T`. The error must not show the payload: it is stored and logged.
    fn decode(&self, payload: &[u8]) -> Result<T, CodecError>;

    /// Decodes a tombstone, a record without payload. Unless a codec says otherwise that is an
    /// error, and the event is parked.
    ///
    /// # Errors
    ///
    /// When `T` cannot stand for "no payload".
    fn decode_tombstone(&self) -> Result<T, CodecError> {
        Err(CodecError::Tombstone)
    }
}

/// Turns values of type `T` into payloads.
pub trait Encode<T: ?Sized>: Send + Sync + 'static {
    /// Encodes a value.
    ///
    /// # Errors
    ///
    /// When the value has no encoding, for example a JSON map with keys that are no texts.
    fn encode(&self, value: &T) -> Result<Bytes, CodecError>;
}

/// JSON through serde. Nesting is limited to 128 levels, so that no payload overflows the stack.
///
/// A tombstone is decoded as `null`: a handler that wants tombstones takes `Option<T>`.
///
/// ```
/// use outbox_core::{Decode, Json};
///
/// let amount: u32 = Json.decode(b"250")?;
/// assert_eq!(amount, 250);
///
/// let wrong = Decode::<u32>::decode(&Json, br#"  "secret""#).unwrap_err();
/// assert_eq!(
///     wrong.to_string(),
///     "the payload does not fit the event's type: invalid type, expected u32 at line 1 column 10"
/// );
/// # Ok::<(), outbox_core::CodecError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Json;

impl<T: DeserializeOwned> Decode<T> for Json {
    fn decode(&self, payload: &[u8]) -> Result<T, CodecError> {
        serde_json::from_slice(payload).map_err(|error| CodecError::from_json(&error))
    }

    fn decode_tombstone(&self) -> Result<T, CodecError> {
        serde_json::from_slice(b"null").map_err(|_| CodecError::Tombstone)
    }
}

impl<T: Serialize + ?Sized> Encode<T> for Json {
    fn encode(&self, value: &T) -> Result<Bytes, CodecError> {
        serde_json::to_vec(value)
            .map(Bytes::from)
            .map_err(|error| CodecError::Encode(error.to_string()))
    }
}

/// Why a payload is no value, or a value no payload.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CodecError {
    /// The payload is not JSON at all.
    #[error("the payload is not JSON: {0}")]
    Syntax(JsonFault),
    /// The payload is JSON, but not of the expected shape.
    #[error("the payload does not fit the event's type: {0}")]
    Shape(JsonFault),
    /// There is no payload.
    #[error(
        "the record has no payload (a tombstone), and the event's type cannot stand for that; \
         take Option<…> as the handler's event type to accept tombstones"
    )]
    Tombstone,
    /// The value has no encoding.
    #[error("the value cannot be encoded: {0}")]
    Encode(String),
    /// What another codec has to say: a sentence without any of the payload.
    #[error("{0}")]
    Other(String),
}

impl CodecError {
    fn from_json(error: &serde_json::Error) -> Self {
        let fault = JsonFault::of(error);
        if error.is_data() { Self::Shape(fault) } else { Self::Syntax(fault) }
    }
}

/// What is wrong with a JSON text, and where. Shows none of it.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{what} at line {line} column {column}")]
pub struct JsonFault {
    /// What is wrong, in words of the parser and the expected type.
    pub what: String,
    /// The line, from 1.
    pub line: usize,
    /// The column, from 1, in bytes.
    pub column: usize,
}

impl JsonFault {
    /// Of a line of `whole` that `part` is a part of.
    pub(crate) fn inside(whole: &[u8], part: &str, error: &serde_json::Error) -> Self {
        let before = &whole[..part.as_ptr() as usize - whole.as_ptr() as usize];
        let lines = before.split(|byte| *byte == b'\n');
        let (line, column) = lines.fold((0, 0), |(line, _), text| (line + 1, text.len()));
        Self { line, column: column + error.column(), ..Self::of(error) }
    }

    pub(crate) fn of(error: &serde_json::Error) -> Self {
        let text = error.to_string();
        let what = if error.is_data() { shape(&text) } else { without_place(&text) };
        Self { what: what.into_owned(), line: error.line(), column: error.column() }
    }
}

/// The parser's sentence without "at line 1 column 2". Of syntax errors only: they quote nothing.
fn without_place(text: &str) -> std::borrow::Cow<'_, str> {
    text.rsplit_once(" at line ").map_or(text, |(what, _)| what).into()
}

/// The parts of serde's sentences that come from the expected type. What was found instead
/// stands between them and may be anyone's secret.
fn shape(text: &str) -> std::borrow::Cow<'_, str> {
    const KINDS: [&str; 5] =
        ["invalid type", "invalid value", "invalid length", "unknown variant", "unknown field"];
    let what = text.rsplit_once(" at line ").map_or(text, |(what, _)| what);
    if what.starts_with("missing field `") || what.starts_with("duplicate field `") {
        return what.into();
    }
    let Some(kind) = KINDS.into_iter().find(|kind| what.starts_with(kind)) else {
        return "a value is refused".into();
    };
    // Without fields or variants nothing is "expected" after what was found.
    if what.ends_with(", there are no fields") || what.ends_with(", there are no variants") {
        return kind.into();
    }
    match what.rsplit_once(", expected ") {
        Some((_, expected)) => format!("{kind}, expected {expected}").into(),
        None => kind.into(),
    }
}
