//! Payloads to values and back.

use std::{future::Future, pin::Pin, sync::Arc};

use bytes::Bytes;
use serde::{Serialize, de::DeserializeOwned};

use crate::{CodecError, Payload, decode_memory::DecodeMemory};

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
    /// [`CodecError::Unavailable`] is an outage: the partition waits, nothing is parked, and no attempt is spent; so is
    /// whatever takes longer than `retry.attempt_deadline`. Of any other error nothing becomes:
    /// [`decode`](Self::decode) says it again, as the reason to park the event.
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
        let mut memory = DecodeMemory::default();
        if let Some(bytes) = payload.content().filter(|_| payload.is_tree()) {
            memory.reserve_tree(bytes)?;
        }
        match payload.content() {
            Some(bytes) => {
                serde_json::from_slice(bytes).map_err(|e| CodecError::from_json(bytes, &e))
            }
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
