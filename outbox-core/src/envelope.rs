//! The event as the business knows it.

use std::fmt;

use bytes::Bytes;

use crate::{
    EventId, Problem, Text,
    problem::{AGGREGATE_ID_BYTES_MAX, AGGREGATE_TYPE_BYTES_MAX, check_text},
    record::Size,
};

/// What order is kept for: a type and an id within it. Both are non-empty texts without NUL.
///
/// ```
/// use outbox_core::Aggregate;
///
/// let account = Aggregate::new("Account", "42")?;
/// assert_eq!(account.to_string(), "Account/42");
/// assert_ne!(account, Aggregate::new("Order", "42")?);
/// # Ok::<(), outbox_core::AggregateError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Aggregate {
    pub(crate) aggregate_type: Text,
    pub(crate) aggregate_id: Text,
}

impl Aggregate {
    /// Names an aggregate.
    ///
    /// # Errors
    ///
    /// When a part is empty, has a NUL, or is longer than [`AGGREGATE_TYPE_BYTES_MAX`] or
    /// [`AGGREGATE_ID_BYTES_MAX`].
    pub fn new(
        aggregate_type: impl Into<Text>,
        aggregate_id: impl Into<Text>,
    ) -> Result<Self, AggregateError> {
        let (aggregate_type, aggregate_id) = (aggregate_type.into(), aggregate_id.into());
        check_text(aggregate_type.as_bytes(), AGGREGATE_TYPE_BYTES_MAX)
            .map_err(AggregateError::Type)?;
        check_text(aggregate_id.as_bytes(), AGGREGATE_ID_BYTES_MAX).map_err(AggregateError::Id)?;
        Ok(Self { aggregate_type, aggregate_id })
    }

    /// What kind of thing it is, such as `Account`. At most [`AGGREGATE_TYPE_BYTES_MAX`] bytes.
    pub fn aggregate_type(&self) -> &str {
        &self.aggregate_type
    }

    /// Which one of its kind. At most [`AGGREGATE_ID_BYTES_MAX`] bytes.
    pub fn aggregate_id(&self) -> &str {
        &self.aggregate_id
    }
}

impl fmt::Display for Aggregate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.aggregate_type, self.aggregate_id)
    }
}

/// Why a pair of texts names no aggregate.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AggregateError {
    /// The type is at fault.
    #[error("the aggregate type {0}")]
    Type(Problem),
    /// The id is at fault.
    #[error("the aggregate id {0}")]
    Id(Problem),
}

/// An event, read from a record or about to be written. The headers stay with the record.
///
/// Cloning copies no bytes. `Debug` shows the payload's size only.
#[derive(Clone, PartialEq, Eq)]
pub struct Envelope {
    /// Its id: what a consumer recognises it by.
    pub event_id: EventId,
    /// The id as the producer sent it when the event's is made of it: it was no UUID, or ids hold within their topic
    /// ([`IdScope::Topic`](crate::IdScope::Topic)). At most
    /// [`SOURCE_ID_BYTES_MAX`](crate::SOURCE_ID_BYTES_MAX) bytes, for people only. Bytes that are
    /// not text and NUL appear as U+FFFD.
    pub source_id: Option<Text>,
    /// What happened, such as `OrderPaid`: routes go by it. Not empty, no NUL, at most
    /// [`EVENT_TYPE_BYTES_MAX`](crate::EVENT_TYPE_BYTES_MAX) bytes.
    pub event_type: Text,
    /// What it happened to.
    pub aggregate: Aggregate,
    /// The aggregate's version after the event, if the producer counts.
    pub aggregate_version: Option<i64>,
    /// When it happened by the producer's clock, in milliseconds since 1970. Clocks lie: never used
    /// for correctness.
    pub occurred_at_ms: Option<i64>,
    /// The version of the payload's schema.
    pub schema_version: Option<i32>,
    /// What the codec decodes; `None` is a tombstone, which is not the same as no bytes.
    pub payload: Option<Bytes>,
}

impl fmt::Debug for Envelope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Envelope")
            .field("event_id", &self.event_id)
            .field("source_id", &self.source_id)
            .field("event_type", &self.event_type)
            .field("aggregate", &self.aggregate)
            .field("aggregate_version", &self.aggregate_version)
            .field("occurred_at_ms", &self.occurred_at_ms)
            .field("schema_version", &self.schema_version)
            .field("payload", &Size::of(self.payload.as_ref()))
            .finish()
    }
}
