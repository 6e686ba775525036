//! Why a record is no event.

use std::fmt;

use super::{Pointer, Sources};
use crate::{IdError, JsonFault, Problem, Text};

/// A part of an event, as sentences call it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Part {
    /// The event id.
    Id,
    /// The source that a foreign id belongs to.
    IdSource,
    /// The event type.
    Type,
    /// The aggregate id.
    AggregateId,
    /// The aggregate type.
    AggregateType,
    /// The aggregate version.
    AggregateVersion,
    /// The time of the event.
    OccurredAt,
    /// The version of the payload's schema.
    SchemaVersion,
}

impl Part {
    /// The key of [`ReadRules`](super::ReadRules) that says where the part is.
    pub fn key(self) -> &'static str {
        match self {
            Self::Id => "id",
            Self::IdSource => "id_source",
            Self::Type => "type",
            Self::AggregateId => "aggregate_id",
            Self::AggregateType => "aggregate_type",
            Self::AggregateVersion => "aggregate_version",
            Self::OccurredAt => "occurred_at",
            Self::SchemaVersion => "schema_version",
        }
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Id => "event id",
            Self::IdSource => "source of the event id",
            Self::Type => "event type",
            Self::AggregateId => "aggregate id",
            Self::AggregateType => "aggregate type",
            Self::AggregateVersion => "aggregate version",
            Self::OccurredAt => "time of the event",
            Self::SchemaVersion => "schema version",
        })
    }
}

/// Why a record is no event: a sentence that names the place, and never shows what stands there.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// Key, headers and payload together are too large; nothing of them was looked at.
    #[error(
        "the record has {bytes} bytes, more than the allowed {max}; send less, or raise \
         `events.event_bytes_max`"
    )]
    TooLarge {
        /// What the record has.
        bytes: usize,
        /// The limit.
        max: usize,
    },
    /// Its headers could not be read; nothing of it was looked at.
    #[error("the headers of the record cannot be read: {problem}")]
    UnreadableHeaders {
        /// What is wrong with them.
        problem: Text,
    },
    /// There is no event id.
    #[error(
        "the record has no event id: {} is missing or empty; have its producer send one for each \
         event, or set `events.rules.id` to its place, with `events.format` custom",
        wanted.described()
    )]
    MissingId {
        /// Where it was looked for.
        wanted: Sources,
    },
    /// There is no event type.
    #[error(
        "the record has no event type: {} is missing or empty; have its producer send one, or set \
         `events.rules.type` to its place, with `events.format` custom",
        wanted.described()
    )]
    MissingType {
        /// Where it was looked for.
        wanted: Sources,
    },
    /// There is no aggregate id.
    #[error(
        "the record names no aggregate: {} is missing or empty; have its producer send one, or \
         set `events.rules.aggregate_id` to its place, with `events.format` custom",
        wanted.described()
    )]
    MissingAggregate {
        /// Where it was looked for.
        wanted: Sources,
    },
    /// Another part that has to be there is not.
    #[error(
        "the record has no {part}: {} is missing or empty; set `events.rules.{}` to its place",
        wanted.described(),
        part.key()
    )]
    Missing {
        /// What is missing.
        part: Part,
        /// Where it was looked for.
        wanted: Sources,
    },
    /// A part was to come from the payload, and there is none.
    #[error(
        "the record is a tombstone (it has no payload), so it has no {part} in the payload at \
         `{pointer}`; set `events.rules.{}` to a header or the key as well",
        part.key()
    )]
    Tombstone {
        /// What is missing.
        part: Part,
        /// Where it was looked for.
        pointer: Pointer,
    },
    /// A header is wrong.
    #[error("the header `{name}`, read as the {part}, {problem}")]
    InvalidHeader {
        /// The header.
        name: Text,
        /// What it was to give.
        part: Part,
        /// What is wrong with it.
        problem: Problem,
    },
    /// The record key is wrong.
    #[error("the record key, read as the {part}, {problem}{}", key_advice(*problem))]
    InvalidKey {
        /// What it was to give.
        part: Part,
        /// What is wrong with it.
        problem: Problem,
    },
    /// A value in the payload is wrong.
    #[error("the payload at `{pointer}`, read as the {part}, {problem}")]
    InvalidPointer {
        /// Where it is.
        pointer: Pointer,
        /// What it was to give.
        part: Part,
        /// What is wrong with it.
        problem: Problem,
    },
    /// The topic's name or a constant does not do.
    #[error("the {part} {problem}; set `events.rules.{}` to another place", part.key())]
    InvalidPart {
        /// What it was to give.
        part: Part,
        /// What is wrong with it.
        problem: Problem,
    },
    /// No id can be made.
    #[error(transparent)]
    InvalidId(IdError),
    /// A part was to come from the payload, and that is not JSON.
    #[error("the payload is not JSON: {0}")]
    InvalidJson(JsonFault),
    /// It belongs to the producer's own book-keeping: nobody has to see it.
    #[error("the record is not an event: it is {what}")]
    NoEvent {
        /// What it is.
        what: &'static str,
    },
    /// It does not fit the format of a [`Preset`](super::Preset).
    #[error("{text}")]
    Preset {
        /// One word for it.
        reason: &'static str,
        /// What is wrong, and which setting it depends on.
        text: String,
    },
}

impl ReadError {
    /// One word for metrics and tables.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::TooLarge { .. } => "too_large",
            Self::UnreadableHeaders { .. } => "unreadable_headers",
            Self::MissingId { .. } => "missing_id",
            Self::MissingType { .. } => "missing_type",
            Self::MissingAggregate { .. } => "missing_aggregate",
            Self::Missing { .. } => "missing_part",
            Self::Tombstone { .. } => "tombstone",
            Self::InvalidHeader { .. } => "invalid_header",
            Self::InvalidKey { .. } => "invalid_key",
            Self::InvalidPointer { .. } => "invalid_pointer",
            Self::InvalidPart { .. } => "invalid_part",
            Self::InvalidId(_) => "invalid_id",
            Self::InvalidJson(_) => "invalid_json",
            Self::NoEvent { .. } => "no_event",
            Self::Preset { reason, .. } => reason,
        }
    }

    pub(super) fn missing(part: Part, wanted: &Sources) -> Self {
        let wanted = wanted.clone();
        match part {
            Part::Id => Self::MissingId { wanted },
            Part::Type => Self::MissingType { wanted },
            Part::AggregateId => Self::MissingAggregate { wanted },
            part => Self::Missing { part, wanted },
        }
    }
}

fn key_advice(problem: Problem) -> &'static str {
    match problem {
        Problem::NotUtf8 => "; `key:hex` reads keys that are not text",
        // Numbers as bytes, and what converters of a schema registry write, have such bytes.
        Problem::Nul => {
            ", as binary keys do; `key:hex` reads keys that are not text \
             (`events.rules.aggregate_id`)"
        }
        _ => "",
    }
}
