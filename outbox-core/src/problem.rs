//! What can be wrong with a single value, and the bounds of texts.

/// The longest event id that is accepted, in bytes as sent.
pub const ID_BYTES_MAX: usize = 1024;
/// How much of a foreign id is kept for people to see, in bytes.
pub const SOURCE_ID_BYTES_MAX: usize = 255;
/// The longest event type, in bytes.
pub const EVENT_TYPE_BYTES_MAX: usize = 255;
/// The longest aggregate type, in bytes.
pub const AGGREGATE_TYPE_BYTES_MAX: usize = 255;
/// The longest aggregate id, in bytes.
pub const AGGREGATE_ID_BYTES_MAX: usize = 1024;
/// The longest dedup key, in bytes.
pub const DEDUP_KEY_BYTES_MAX: usize = 255;

/// What is wrong with one value. Its text continues a sentence that begins with the value's place,
/// and never shows the value itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
    /// It has no bytes.
    #[error("is empty")]
    Empty,
    /// It is not text.
    #[error("is not UTF-8 text")]
    NotUtf8,
    /// It has a character that no database stores in a text.
    #[error("contains a NUL character")]
    Nul,
    /// It is too long.
    #[error("is {bytes} bytes long, more than the allowed {max}")]
    TooLong {
        /// Its length.
        bytes: usize,
        /// The limit.
        max: usize,
    },
    /// A whole number was expected.
    #[error("is not an integer within range")]
    NotWhole,
    /// A time was expected.
    #[error("is neither milliseconds since 1970 nor an RFC 3339 time such as 2026-01-31T09:30:00Z")]
    NotTime,
    /// A number was to be a time, and is none in its unit.
    #[error(
        "is a number outside of the range of times in its unit, which is milliseconds since 1970 \
         by default; have its producer send those, or RFC 3339, or set \
         `events.rules.occurred_at_unit` to seconds, micros, nanos or days"
    )]
    OtherUnit,
    /// Its text is what a schema says of it.
    #[error(
        "was written with a schema of a registry (header `__key_schema_id`), which is not \
         supported for keys; have its producer send keys as text, or the header `aggregate_id`, \
         or set `events.rules.aggregate_id` to `key:hex`"
    )]
    OfSchema,
    /// It is a JSON object, array, fraction or boolean.
    #[error("is neither a string nor an integer")]
    NotScalar,
}

/// Checks what every text of an envelope has to be: at most `max` bytes of UTF-8 without NUL, not
/// empty.
pub(crate) fn check_text(bytes: &[u8], max: usize) -> Result<&str, Problem> {
    if bytes.is_empty() {
        return Err(Problem::Empty);
    }
    if bytes.len() > max {
        return Err(Problem::TooLong { bytes: bytes.len(), max });
    }
    if bytes.contains(&0) {
        return Err(Problem::Nul);
    }
    std::str::from_utf8(bytes).map_err(|_| Problem::NotUtf8)
}
