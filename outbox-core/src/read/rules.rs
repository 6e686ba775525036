//! Where the parts of an event are: what a configuration says, and what it may not say.

use serde::{Deserialize, Serialize};

use super::{Part, Source, Sources, TimeUnit, time};
use crate::{
    Problem, Text, header_names as names,
    problem::{
        AGGREGATE_ID_BYTES_MAX, AGGREGATE_TYPE_BYTES_MAX, EVENT_TYPE_BYTES_MAX, ID_BYTES_MAX,
        check_text,
    },
};

/// Where the parts of an event are in a record. A configuration's keys are the fields' names, and
/// `type` for [`ReadRules::event_type`].
///
/// | key | left out | [`ReadRules::own`] |
/// |---|---|---|
/// | `id` | required | `header:event_id` |
/// | `id_source` | `topic` | `topic` |
/// | `type` | required | `header:event_type` |
/// | `aggregate_id` | `key` | `header:aggregate_id`, then `key` |
/// | `aggregate_type` | `topic` | `header:aggregate_type`, then `topic` |
/// | `aggregate_version` | absent | `header:aggregate_version` |
/// | `occurred_at` | absent | `header:occurred_at` |
/// | `occurred_at_unit` | `millis` | `millis` |
/// | `schema_version` | absent | `header:schema_version` |
///
/// Places are written as [`Source`] says: one, or a list to look at in turn.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct ReadRules {
    /// The event id. `position` may be the last of its places, for producers that send none.
    pub id: Sources,
    /// What ids that are no UUIDs are unique within; see [`EventId`](crate::EventId).
    #[serde(default = "topic", skip_serializing_if = "is_topic")]
    pub id_source: Sources,
    /// The event type.
    #[serde(rename = "type")]
    pub event_type: Sources,
    /// The aggregate id. A change of it changes [`Reader::lane_rule`](super::Reader::lane_rule).
    #[serde(default = "key")]
    pub aggregate_id: Sources,
    /// The aggregate type.
    #[serde(default = "topic", skip_serializing_if = "is_topic")]
    pub aggregate_type: Sources,
    /// The aggregate version: a whole number of 64 bits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub aggregate_version: Option<Sources>,
    /// When it happened: milliseconds since 1970, or RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub occurred_at: Option<Sources>,
    /// What a number counts that stands for that time; milliseconds where it is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub occurred_at_unit: Option<TimeUnit>,
    /// The version of the payload's schema: a whole number of 32 bits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema_version: Option<Sources>,
}

fn topic() -> Sources {
    Source::Topic.into()
}

fn is_topic(places: &Sources) -> bool {
    *places.as_slice() == [Source::Topic]
}

fn key() -> Sources {
    Source::Key.into()
}

impl ReadRules {
    /// This project's own headers; the aggregate id is the record key.
    pub fn own() -> Self {
        let header = |name| Source::Header(Text::from_static(name));
        let only = |name| Sources::from(header(name));
        Self {
            id: only(names::EVENT_ID),
            id_source: topic(),
            event_type: only(names::EVENT_TYPE),
            aggregate_id: only(names::AGGREGATE_ID).then(Source::Key),
            aggregate_type: only(names::AGGREGATE_TYPE).then(Source::Topic),
            aggregate_version: Some(only(names::AGGREGATE_VERSION)),
            occurred_at: Some(only(names::OCCURRED_AT)),
            occurred_at_unit: None,
            schema_version: Some(only(names::SCHEMA_VERSION)),
        }
    }

    /// Id and type from there, the aggregate id from the record key, its type from the topic's name.
    pub fn new(id: impl Into<Sources>, event_type: impl Into<Sources>) -> Self {
        Self {
            id: id.into(),
            id_source: topic(),
            event_type: event_type.into(),
            aggregate_id: key(),
            aggregate_type: topic(),
            aggregate_version: None,
            occurred_at: None,
            occurred_at_unit: None,
            schema_version: None,
        }
    }

    /// Every part that has places.
    pub(super) fn each(&self) -> impl Iterator<Item = (Part, &Sources)> {
        [
            (Part::Id, Some(&self.id)),
            (Part::IdSource, Some(&self.id_source)),
            (Part::Type, Some(&self.event_type)),
            (Part::AggregateId, Some(&self.aggregate_id)),
            (Part::AggregateType, Some(&self.aggregate_type)),
            (Part::AggregateVersion, self.aggregate_version.as_ref()),
            (Part::OccurredAt, self.occurred_at.as_ref()),
            (Part::SchemaVersion, self.schema_version.as_ref()),
        ]
        .into_iter()
        .filter_map(|(part, places)| Some((part, places?)))
    }

    pub(super) fn check(&self) -> Result<(), RulesError> {
        for (part, places) in self.each() {
            check_position(part, places)?;
            for source in places.as_slice() {
                self.check_constant(part, source)?;
            }
        }
        check_aggregate(&self.aggregate_id)
    }

    fn check_constant(&self, part: Part, source: &Source) -> Result<(), RulesError> {
        match source {
            Source::Constant(_) | Source::Topic | Source::TopicPart(_) if part == Part::Id => {
                Err(RulesError::ConstantId)
            }
            Source::Constant(value) => self
                .checked(part, value.as_bytes())
                .map_err(|problem| RulesError::Constant { part, problem }),
            _ => Ok(()),
        }
    }

    fn checked(&self, part: Part, value: &[u8]) -> Result<(), Problem> {
        let text = check_text(value, bytes_max(part))?;
        match part {
            Part::AggregateVersion => whole::<i64>(text).map(drop),
            Part::SchemaVersion => whole::<i32>(text).map(drop),
            Part::OccurredAt => time::millis(text, self.occurred_at_unit).map(drop),
            _ => Ok(()),
        }
    }
}

/// `position` is always there: what comes after it would never be looked at.
fn check_position(part: Part, places: &Sources) -> Result<(), RulesError> {
    let allowed = |i: usize| part == Part::Id && i + 1 == places.as_slice().len();
    match places.as_slice().iter().position(|source| *source == Source::Position) {
        Some(i) if !allowed(i) => Err(RulesError::Position { part }),
        _ => Ok(()),
    }
}

/// An aggregate has one order key however its id was found: places that change the bytes of the
/// key, or are not at hand without the payload, stand alone.
fn check_aggregate(places: &Sources) -> Result<(), RulesError> {
    let alone = places.has(&Source::KeyHex) || places.pointers().next().is_some();
    if alone && places.as_slice().len() > 1 { Err(RulesError::AggregateAlone) } else { Ok(()) }
}

/// The longest text of a part.
pub(super) fn bytes_max(part: Part) -> usize {
    match part {
        Part::Type => EVENT_TYPE_BYTES_MAX,
        Part::AggregateType => AGGREGATE_TYPE_BYTES_MAX,
        Part::AggregateId => AGGREGATE_ID_BYTES_MAX,
        Part::Id
        | Part::IdSource
        | Part::AggregateVersion
        | Part::OccurredAt
        | Part::SchemaVersion => ID_BYTES_MAX,
    }
}

/// A whole number.
pub(super) fn whole<N: std::str::FromStr>(text: &str) -> Result<N, Problem> {
    text.parse().map_err(|_| Problem::NotWhole)
}

/// Why rules are refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RulesError {
    /// `position` is not the last place of an id.
    #[error(
        "`position` in `{}` is not allowed: it can only be the last place of `id`",
        part.key()
    )]
    Position {
        /// The part.
        part: Part,
    },
    /// Every event would have the same id.
    #[error(
        "`id` cannot be a constant or the topic's name: every event would count as a duplicate of \
         the first; use `position` for producers that send no id"
    )]
    ConstantId,
    /// A constant is not what the part has to be.
    #[error("the constant in `{}` {problem}", part.key())]
    Constant {
        /// The part.
        part: Part,
        /// What is wrong with it.
        problem: Problem,
    },
    /// Two places of the aggregate could give one aggregate two lanes.
    #[error(
        "`aggregate_id` cannot combine `key:hex` or `pointer:` with other places: one aggregate could \
         then be in two lanes; name a single place"
    )]
    AggregateAlone,
}
