//! Payloads to values and back.

use std::{future::Future, pin::Pin, sync::Arc};

use bytes::Bytes;
use serde::{Serialize, de::DeserializeOwned};

use crate::Payload;

/// What a codec has to wait for: see [`Decode::start`] and [`Decode::prepare`].
pub type Preparation<'a> = Pin<Box<dyn Future<Output = Result<(), CodecError>> + Send + 'a>>;

/// Turns payloads into values of type `T`. One per route; [`Json`] is the default.
///
/// A codec must be pure: the same payload gives the same value at every attempt. It may be asked for a
/// payload whose event turns out to have been handled. It runs inside the transaction of its event, so it waits for
/// nothing: what it needs from elsewhere it fetches in [`prepare`](Self::prepare), before a transaction begins.
///
/// ```
/// use outbox_core::{CodecError, Decode, Payload};
///
/// /// A number in the byte order that the header `order` names.
/// struct Number;
///
/// impl Decode<u32> for Number {
///     fn decode(&self, payload: &Payload<'_>) -> Result<u32, CodecError> {
///         let bytes = payload.bytes()?.try_into().map_err(|_| CodecError::other("not four bytes"))?;
///         match payload.header("order") {
///             Some(b"little") => Ok(u32::from_le_bytes(bytes)),
///             _ => Ok(u32::from_be_bytes(bytes)),
///         }
///     }
/// }
///
/// assert_eq!(Number.decode(&Payload::new(&[0, 0, 1, 2]))?, 258);
/// assert!(Number.decode(&Payload::tombstone()).is_err());
/// # Ok::<(), CodecError>(())
/// ```
pub trait Decode<T>: Send + Sync + 'static {
    /// Decodes a payload. [`Payload::bytes`] refuses a tombstone, a record without payload; a codec whose `T` can stand
    /// for one looks at [`Payload::content`].
    ///
    /// # Errors
    ///
    /// When the payload is no `T`: its event is parked. The error must not show the payload: it is stored and logged.
    /// After [`CodecError::Unavailable`] the transaction is rolled back, the payload prepared and decoded again.
    fn decode(&self, payload: &Payload<'_>) -> Result<T, CodecError>;

    /// Gets ready, once, before a consumer takes any event.
    ///
    /// # Errors
    ///
    /// What keeps the consumer from starting. [`CodecError::Unavailable`] does not: it is reported, and payloads wait.
    fn start(&self) -> Preparation<'_> {
        Box::pin(std::future::ready(Ok(())))
    }

    /// Fetches what this payload cannot be decoded without, such as a schema; `None` when nothing is missing. Asked for
    /// each payload before its transaction begins, so the question itself has to be cheap.
    ///
    /// # Errors
    ///
    /// [`CodecError::Unavailable`] is an outage: the partition waits, nothing is parked, and no attempt is spent. Of any
    /// other error nothing becomes: [`decode`](Self::decode) says it again, as the reason to park the event.
    fn prepare(&self, _payload: &Payload<'_>) -> Option<Preparation<'_>> {
        None
    }
}

/// A codec that several routes share.
impl<T, C: Decode<T> + ?Sized> Decode<T> for Arc<C> {
    fn decode(&self, payload: &Payload<'_>) -> Result<T, CodecError> {
        (**self).decode(payload)
    }

    fn start(&self) -> Preparation<'_> {
        (**self).start()
    }

    fn prepare(&self, payload: &Payload<'_>) -> Option<Preparation<'_>> {
        (**self).prepare(payload)
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
/// use outbox_core::{Decode, Json, Payload};
///
/// let amount: u32 = Json.decode(&Payload::new(b"250"))?;
/// assert_eq!(amount, 250);
///
/// let wrong = Decode::<u32>::decode(&Json, &Payload::new(br#"  "secret""#)).unwrap_err();
/// assert_eq!(
///     wrong.to_string(),
///     "the payload does not fit the event's type: invalid type, expected u32 at line 1 column 10"
/// );
/// # Ok::<(), outbox_core::CodecError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Json;

impl<T: DeserializeOwned> Decode<T> for Json {
    fn decode(&self, payload: &Payload<'_>) -> Result<T, CodecError> {
        match payload.content() {
            Some(bytes) => serde_json::from_slice(bytes).map_err(|e| CodecError::from_json(&e)),
            None => serde_json::from_slice(b"null").map_err(|_| CodecError::Tombstone),
        }
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
    /// What the codec needs is not there at the moment, for no payload of its kind: an outage, and no fault of the event.
    #[error("{0}")]
    Unavailable(String),
    /// What another codec has to say: a sentence without any of the payload.
    #[error("{0}")]
    Other(String),
}

impl CodecError {
    /// What a codec of one's own has to say: a sentence without any of the payload.
    pub fn other(sentence: impl Into<String>) -> Self {
        Self::Other(sentence.into())
    }

    /// What serde says of a value that a payload was decoded to, without the value.
    pub fn value(error: &serde_json::Error) -> Self {
        let what = JsonFault::of(error).what;
        Self::Other(format!(
            "the payload does not fit the event's type: {what}; correct its producer, or the type that the handler takes"
        ))
    }

    /// Whether it says nothing of the payload, which is to wait.
    pub fn is_outage(&self) -> bool {
        matches!(self, Self::Unavailable(_))
    }

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
