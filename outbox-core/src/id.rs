//! Event ids: whatever a producer sends becomes one key of 16 bytes.

use std::fmt;

use sha2::{Digest, Sha256};
use uuid::Uuid;

use crate::problem::ID_BYTES_MAX;

/// What fits into 48 bits.
const TIME_MS_MAX: i64 = (1 << 48) - 1;
/// Bytes of time in front of an id that holds within a topic: steps of 65 s, which leaves 90 bits to the hash.
const SCOPED_TIME_BYTES: usize = 4;
/// 2015 to 2065.
const DERIVED_BETWEEN_MS: std::ops::Range<i64> = 1_420_070_400_000..2_997_993_600_000;

/// The id of an event: 16 bytes, shown as a UUID.
///
/// | the producer sends | the id is |
/// |---|---|
/// | a UUID, in any of its usual spellings | that UUID: [`EventId::from_uuid_text`] |
/// | any other text or bytes | a `UUIDv8` of `SHA-256(source ‖ 0x00 ‖ id)`: [`EventId::foreign`] |
/// | nothing | a `UUIDv8` of `SHA-256(0x00 ‖ source ‖ 0x00 ‖ partition-offset)`: [`EventId::at`] |
///
/// Where ids hold within their topic only ([`IdScope::Topic`](crate::IdScope::Topic)), each of the three is made one
/// of its topic: [`EventId::within`].
///
/// An event that a handler appends has an id that follows from the event it handles: [`EventId::derived`].
///
/// The rules cannot meet by accident: a source is never empty and has no NUL, so the first NUL of
/// the hashed text tells where the source ends and which of the rules was used.
#[derive(
    Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize,
)]
#[serde(transparent)]
pub struct EventId(Uuid);

impl EventId {
    /// A new id for an event that is about to be written: a `UUIDv7`, which sorts by time.
    #[expect(clippy::new_without_default, reason = "a default id would be a constant one")]
    pub fn new() -> Self {
        Self(Uuid::now_v7())
    }

    /// The id of an event from `source` (a topic, a `CloudEvents` source, an endpoint) that calls
    /// it `id`. A UUID is its own key whatever the source; other ids are unique only within it.
    ///
    /// ```
    /// use outbox_core::EventId;
    ///
    /// let spelled = EventId::foreign("shop", "{0190A5C8-7C2E-7D64-9B6E-0C9F5D9B2A11}")?;
    /// assert_eq!(spelled.to_string(), "0190a5c8-7c2e-7d64-9b6e-0c9f5d9b2a11");
    /// assert_ne!(EventId::foreign("shop", "order-1")?, EventId::foreign("depot", "order-1")?);
    /// # Ok::<(), outbox_core::IdError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// When the id is empty or longer than [`ID_BYTES_MAX`], or the source is empty or has a NUL.
    pub fn foreign(source: &str, id: impl AsRef<[u8]>) -> Result<Self, IdError> {
        let id = id.as_ref();
        if id.is_empty() {
            return Err(IdError::Empty);
        }
        if id.len() > ID_BYTES_MAX {
            return Err(IdError::TooLong { bytes: id.len(), max: ID_BYTES_MAX });
        }
        if let Some(own) = Self::from_uuid_text(id) {
            return Ok(own);
        }
        check_source(source)?;
        Ok(Self::digest(&[source.as_bytes(), b"\0", id]))
    }

    /// The id of the record at a position, for producers that send none. `source` is the topic,
    /// unless the rules name another.
    ///
    /// It recognises redeliveries by Kafka, but not a producer that sends the same event twice; and
    /// after a topic was deleted and created anew its positions mean other events: name another
    /// source then.
    ///
    /// # Errors
    ///
    /// When the source is empty or has a NUL.
    pub fn at(source: &str, partition: i32, offset: i64) -> Result<Self, IdError> {
        check_source(source)?;
        let position = Position::new(partition, offset);
        Ok(Self::digest(&[b"\0", source.as_bytes(), b"\0", position.as_bytes()]))
    }

    /// This id as one that holds within a topic only: a `UUIDv8` of `SHA-256(0x00 ‖ 0x00 ‖ 0x00 ‖ topic ‖ 0x00 ‖ id)`,
    /// the id as its 16 bytes. Nobody finds an id that another topic makes the same of: 90 bits of the hash at least
    /// are in it. The first 32 bits of a `UUIDv7` stay in front, so that new ids are neighbours in indexes.
    ///
    /// ```
    /// use outbox_core::EventId;
    ///
    /// let id = EventId::new();
    /// assert_ne!(id.within("orders")?, id.within("refunds")?);
    /// # Ok::<(), outbox_core::IdError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// When the topic is empty or has a NUL.
    pub fn within(self, topic: &str) -> Result<Self, IdError> {
        check_source(topic)?;
        let hash = Self::hash(&[b"\0\0\0", topic.as_bytes(), b"\0", self.as_bytes()]);
        let mut bytes = [0; 16];
        let time = self.made_at_ms().map_or(0, |_| SCOPED_TIME_BYTES);
        bytes[..time].copy_from_slice(&self.as_bytes()[..time]);
        bytes[time..].copy_from_slice(&hash[..16 - time]);
        Ok(Self(uuid::Builder::from_custom_bytes(bytes).into_uuid()))
    }

    /// The id of the event that `consumer` appends as its number `ordinal`, from 0, while it handles the event
    /// `handled`: a `UUIDv8` of 48 bits of time and of `SHA-256(0x00 ‖ 0x00 ‖ consumer ‖ 0x00 ‖ handled ‖
    /// ordinal)`, the id as its 16 bytes and the ordinal as four, the highest first.
    ///
    /// A handler that runs again, because its database went back in time, appends the same events under the
    /// same ids, so that whoever reads them recognises the copies. `time_ms` is the time of the handled event
    /// and not of the call, for the same reason; it stands in front, as in a `UUIDv7`, so that new ids are
    /// neighbours in the indexes of inboxes. It is taken from the handled id itself where that tells one:
    /// [`EventId::time_ms`].
    #[doc(hidden)]
    pub fn derived(consumer: &str, handled: Self, ordinal: u32, time_ms: i64) -> Self {
        let parts =
            [b"\0\0", consumer.as_bytes(), b"\0", handled.as_bytes(), &ordinal.to_be_bytes()];
        let mut bytes = [0; 16];
        let time = time_ms.clamp(0, TIME_MS_MAX).to_be_bytes();
        bytes[..6].copy_from_slice(&time[2..]);
        bytes[6..].copy_from_slice(&Self::hash(&parts)[..10]);
        Self(uuid::Builder::from_custom_bytes(bytes).into_uuid())
    }

    /// The time in front of the id, in milliseconds since 1970, if there is one: in a `UUIDv7`, and in a
    /// `UUIDv8` whose first 48 bits are a time of this half of the century, as those of a
    /// [derived](EventId::derived) id are. One of two hundred ids that are hashes looks as if it had one; that
    /// does no harm where a time only has to be the same whenever it is asked for.
    pub fn time_ms(&self) -> Option<i64> {
        let mut time = [0; 8];
        time[2..].copy_from_slice(&self.as_bytes()[..6]);
        let time = i64::from_be_bytes(time);
        match self.0.get_version_num() {
            7 => Some(time),
            8 => Some(time).filter(|time| DERIVED_BETWEEN_MS.contains(time)),
            _ => None,
        }
    }

    /// The id that a text spells as a UUID (hyphenated, simple, braced or urn, in either case), or
    /// `None` if it is no UUID.
    pub fn from_uuid_text(text: impl AsRef<[u8]>) -> Option<Self> {
        Uuid::try_parse_ascii(text.as_ref()).ok().map(Self)
    }

    /// The 16 bytes, as the inbox table has them.
    pub fn as_bytes(&self) -> &[u8; 16] {
        self.0.as_bytes()
    }

    /// The id as a UUID.
    pub fn uuid(self) -> Uuid {
        self.0
    }

    /// When the id was made, in milliseconds since 1970, if it says so (`UUIDv7`).
    pub fn made_at_ms(self) -> Option<i64> {
        self.time_ms().filter(|_| self.0.get_version_num() == 7)
    }

    fn hash(parts: &[&[u8]]) -> [u8; 32] {
        let mut hash = Sha256::new();
        for part in parts {
            hash.update(part);
        }
        hash.finalize().into()
    }

    fn digest(parts: &[&[u8]]) -> Self {
        let mut bytes = [0; 16];
        bytes.copy_from_slice(&Self::hash(parts)[..16]);
        Self(uuid::Builder::from_custom_bytes(bytes).into_uuid())
    }
}

impl From<Uuid> for EventId {
    fn from(uuid: Uuid) -> Self {
        Self(uuid)
    }
}

impl From<[u8; 16]> for EventId {
    fn from(bytes: [u8; 16]) -> Self {
        Self(Uuid::from_bytes(bytes))
    }
}

impl fmt::Display for EventId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl fmt::Debug for EventId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EventId({})", self.0)
    }
}

/// Why no event id can be made.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum IdError {
    /// The id has no bytes.
    #[error("the event id is empty; the producer must send one for each event")]
    Empty,
    /// The id is too long.
    #[error("the event id is {bytes} bytes long, more than the allowed {max}")]
    TooLong {
        /// Its length.
        bytes: usize,
        /// The limit, [`ID_BYTES_MAX`].
        max: usize,
    },
    /// The source cannot be told apart from the id.
    #[error("the source of the event id is empty or contains a NUL character; name another source")]
    Source,
}

fn check_source(source: &str) -> Result<(), IdError> {
    if source.is_empty() || source.as_bytes().contains(&0) {
        return Err(IdError::Source);
    }
    Ok(())
}

/// `partition-offset` in decimal, on the stack.
struct Position {
    text: [u8; 40],
    len: usize,
}

impl Position {
    fn new(partition: i32, offset: i64) -> Self {
        let mut position = Self { text: [0; 40], len: 0 };
        // 11 + 1 + 20 characters at most, so it always fits.
        let _fits = fmt::write(&mut position, format_args!("{partition}-{offset}"));
        position
    }

    fn as_bytes(&self) -> &[u8] {
        &self.text[..self.len]
    }
}

impl fmt::Write for Position {
    fn write_str(&mut self, part: &str) -> fmt::Result {
        let end = self.len + part.len();
        self.text.get_mut(self.len..end).ok_or(fmt::Error)?.copy_from_slice(part.as_bytes());
        self.len = end;
        Ok(())
    }
}
