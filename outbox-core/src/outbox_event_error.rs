//! Why an event cannot be written, and what checks it.

use crate::{CodecError, Problem, Text, header_names, problem::check_text, read::micros_of};

/// The longest name of a topic, in bytes.
const TOPIC_BYTES_MAX: usize = 249;
/// The last millisecond of the year 9999: what microseconds would say is behind it.
const DELIVER_AFTER_MS_MAX: i64 = 253_402_300_799_999;

/// Why an event cannot be written.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OutboxEventError {
    /// Its type is no type.
    #[error("the event type {0}")]
    Type(Problem),
    /// A header's name is no name.
    #[error("the name of a header {0}")]
    HeaderName(Problem),
    /// A header belongs to the event.
    #[error("the header `{0}` is set from the event; use the method of that name instead")]
    ReservedHeader(Text),
    /// The conversation has no name.
    #[error("the correlation id {0}")]
    Correlation(Problem),
    /// The span is no span.
    #[error(
        "the traceparent does not follow W3C Trace Context: 00-, 32 hexadecimal digits, -, 16 of \
         them, -, 2 of them, in lower case and neither id all zero"
    )]
    Traceparent,
    /// The vendors' state is none.
    #[error(
        "the tracestate is longer than 512 bytes, or contains characters other than printable \
         ASCII"
    )]
    Tracestate,
    /// The topic is no topic.
    #[error(
        "the topic name is invalid: 1 to 249 letters, digits, `.`, `_` and `-`, and neither `.` \
         nor `..`"
    )]
    Topic,
    /// The time is none that anybody means.
    #[error(
        "the time of delivery is not between 1970 and the year 9999; give it in milliseconds \
         since 1970"
    )]
    DeliverAfter,
    /// The time is none that consumers take.
    #[error(
        "the event's time is not in the years 0000 to 9999, or is between 1970 and March 1973, as \
         seconds would be; give it in milliseconds since 1970"
    )]
    OccurredAt,
    /// The key is no key.
    #[error("the dedup key {0}")]
    DedupKey(Problem),
    /// Its payload has no encoding.
    #[error(transparent)]
    Codec(#[from] CodecError),
}

pub(crate) fn check_header_name(name: &Text) -> Result<(), OutboxEventError> {
    check_text(name.as_bytes(), usize::MAX).map_err(OutboxEventError::HeaderName)?;
    if header_names::RESERVED.contains(&name.as_str()) {
        return Err(OutboxEventError::ReservedHeader(name.clone()));
    }
    Ok(())
}

pub(crate) fn check_topic(topic: &Text) -> Result<(), OutboxEventError> {
    let fits = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    let length = (1..=TOPIC_BYTES_MAX).contains(&topic.len());
    if length && topic.as_bytes().iter().all(fits) && *topic != "." && *topic != ".." {
        return Ok(());
    }
    Err(OutboxEventError::Topic)
}

pub(crate) fn check_deliver_after(millis: i64) -> Result<i64, OutboxEventError> {
    let sound = (0..=DELIVER_AFTER_MS_MAX).contains(&millis);
    if sound { Ok(millis) } else { Err(OutboxEventError::DeliverAfter) }
}

/// Consumers read no other number as milliseconds.
pub(crate) fn check_occurred_at(millis: i64) -> Result<i64, OutboxEventError> {
    micros_of(millis, None).map(|_| millis).ok_or(OutboxEventError::OccurredAt)
}
