//! Why a record is no event.

use crate::{IdError, JsonFault, Problem};

/// Why a record is no event. Each text says what is wrong and where, and shows none of the payload.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The event id cannot be used.
    #[error("the event id at {place} cannot be used: {error}")]
    Id {
        /// Where it was looked for.
        place: String,
        /// What is wrong with it.
        error: IdError,
    },
    /// A value is not what it has to be.
    #[error("the {what} at {place} {problem}")]
    Invalid {
        /// Which value.
        what: &'static str,
        /// Where it is.
        place: String,
        /// What is wrong with it.
        problem: Problem,
    },
    /// A rule points into the payload, and the payload is not JSON.
    #[error("the payload is not JSON, and the rules of reading point into it: {0}")]
    InvalidJson(JsonFault),
    /// There is no aggregate id.
    #[error("the record has no aggregate id at {place}; the producer has to send one")]
    MissingAggregate {
        /// Where it was looked for.
        place: String,
    },
    /// There is no event id.
    #[error(
        "the record has no event id at {place}; the producer has to send one, or the rules of reading \
         have to name another place (`position` for producers that send none)"
    )]
    MissingId {
        /// Where it was looked for.
        place: String,
    },
    /// There is no event type.
    #[error("the record has no event type at {place}; the producer has to send one")]
    MissingType {
        /// Where it was looked for.
        place: String,
    },
    /// The record is larger than allowed.
    #[error("the record has {bytes} bytes, more than the {max} of events.event_bytes_max")]
    TooLarge {
        /// Its size.
        bytes: usize,
        /// The limit.
        max: usize,
    },
}

impl ReadError {
    pub(super) fn json(error: &serde_json::Error) -> Self {
        Self::InvalidJson(JsonFault::of(error))
    }
}
