//! Where the parts of an event are: what a configuration says, and what it may not say.

use serde::{Deserialize, Serialize};

use super::{Part, Source, Sources, time};
use crate::{
    Problem, Text, header_names,
    problem::{
        AGGREGATE_ID_BYTES_MAX, AGGREGATE_TYPE_BYTES_MAX, EVENT_TYPE_BYTES_MAX, ID_BYTES_MAX,
        check_text,
    },
};

/// What is assumed about parts that the rules leave out.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Preset {
    /// They are where [`OutboxEvent`](crate::OutboxEvent) puts them.
    #[default]
    Own,
    /// Nothing: `id`, `type` and `aggregate` have to be said, other parts are absent.
    Custom,
}

/// Where the parts of an event are in a record. The configuration's keys are the fields' names.
///
/// | key | takes | with `preset = "own"` | with `preset = "custom"` |
/// |---|---|---|---|
/// | `id` | places | `header:event_id` | required |
/// | `source` | places | `topic` | `topic` |
/// | `type` | places | `header:event_type` | required |
/// | `aggregate` | places | `header:aggregate_id`, then `key` | required |
/// | `aggregate_type` | places | `header:aggregate_type`, then `topic` | `topic` |
/// | `version` | places | `header:aggregate_version` | absent |
/// | `occurred_at` | places | `header:occurred_at` | absent |
/// | `schema_version` | places | `header:schema_version` | absent |
/// | `event_bytes_max` | bytes, 1 KiB to 16 MiB | 1 MiB | 1 MiB |
///
/// Places are written as [`Source`] says: one, or a list to look at in turn. `source` is what
/// foreign ids are unique within, see [`EventId`](crate::EventId).
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct ReadRules {
    /// What is assumed about the parts below that are `None`.
    pub preset: Preset,
    /// The event id. `position` may be the last of its places.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<Sources>,
    /// What an id that is no UUID is unique within.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<Sources>,
    /// The event type: `type` in a configuration.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub event_type: Option<Sources>,
    /// The aggregate id. A change of it is a change of [`Reader::lane_rule`](super::Reader).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub aggregate: Option<Sources>,
    /// The aggregate type.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub aggregate_type: Option<Sources>,
    /// The aggregate version: a whole number of 64 bits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<Sources>,
    /// When it happened: milliseconds since 1970, or RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub occurred_at: Option<Sources>,
    /// The version of the payload's schema: a whole number of 32 bits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schema_version: Option<Sources>,
    /// The largest record that is read, in bytes of key, headers and payload together.
    pub event_bytes_max: usize,
}

impl Default for ReadRules {
    fn default() -> Self {
        Self {
            preset: Preset::Own,
            id: None,
            source: None,
            event_type: None,
            aggregate: None,
            aggregate_type: None,
            version: None,
            occurred_at: None,
            schema_version: None,
            event_bytes_max: Self::EVENT_BYTES_MAX_DEFAULT,
        }
    }
}

impl ReadRules {
    /// What `event_bytes_max` is unless said otherwise: 1 MiB.
    pub const EVENT_BYTES_MAX_DEFAULT: usize = 1 << 20;
    /// The least that `event_bytes_max` may be: 1 KiB.
    pub const EVENT_BYTES_MAX_LEAST: usize = 1 << 10;
    /// The most that `event_bytes_max` may be: 16 MiB.
    pub const EVENT_BYTES_MAX_MOST: usize = 16 << 20;

    /// Our own headers; the aggregate id is the record key.
    pub fn own() -> Self {
        Self::default()
    }

    /// Nothing but what is said here.
    pub fn custom(
        id: impl Into<Sources>,
        event_type: impl Into<Sources>,
        aggregate: impl Into<Sources>,
    ) -> Self {
        Self {
            preset: Preset::Custom,
            id: Some(id.into()),
            event_type: Some(event_type.into()),
            aggregate: Some(aggregate.into()),
            ..Self::default()
        }
    }
}

/// The rules with the preset filled in, checked.
#[derive(Clone, Debug)]
pub(super) struct Places {
    pub(super) id: Sources,
    pub(super) source: Sources,
    pub(super) event_type: Sources,
    pub(super) aggregate: Sources,
    pub(super) aggregate_type: Sources,
    pub(super) version: Option<Sources>,
    pub(super) occurred_at: Option<Sources>,
    pub(super) schema_version: Option<Sources>,
}

impl Places {
    pub(super) fn of(rules: &ReadRules) -> Result<Self, RulesError> {
        let header = |name| Sources::of(Source::Header(Text::from_static(name)));
        let own = |name| (rules.preset == Preset::Own).then(|| header(name));
        let part = |said: &Option<Sources>, default: Option<Sources>| said.clone().or(default);
        let required = |part, places: Option<Sources>| places.ok_or(RulesError::Missing { part });

        let key_too = own(header_names::AGGREGATE_ID).map(|own| own.then(Source::Key));
        let topic_too = own(header_names::AGGREGATE_TYPE).map(|own| own.then(Source::Topic));
        let topic = || Sources::of(Source::Topic);
        let places = Self {
            id: required(Part::Id, part(&rules.id, own(header_names::EVENT_ID)))?,
            source: part(&rules.source, None).unwrap_or_else(topic),
            event_type: required(
                Part::Type,
                part(&rules.event_type, own(header_names::EVENT_TYPE)),
            )?,
            aggregate: required(Part::Aggregate, part(&rules.aggregate, key_too))?,
            aggregate_type: part(&rules.aggregate_type, topic_too).unwrap_or_else(topic),
            version: part(&rules.version, own(header_names::AGGREGATE_VERSION)),
            occurred_at: part(&rules.occurred_at, own(header_names::OCCURRED_AT)),
            schema_version: part(&rules.schema_version, own(header_names::SCHEMA_VERSION)),
        };
        places.check()?;
        Ok(places)
    }

    /// Every part that has places.
    pub(super) fn each(&self) -> impl Iterator<Item = (Part, &Sources)> {
        [
            (Part::Id, Some(&self.id)),
            (Part::Source, Some(&self.source)),
            (Part::Type, Some(&self.event_type)),
            (Part::Aggregate, Some(&self.aggregate)),
            (Part::AggregateType, Some(&self.aggregate_type)),
            (Part::Version, self.version.as_ref()),
            (Part::OccurredAt, self.occurred_at.as_ref()),
            (Part::SchemaVersion, self.schema_version.as_ref()),
        ]
        .into_iter()
        .filter_map(|(part, places)| Some((part, places?)))
    }

    fn check(&self) -> Result<(), RulesError> {
        for (part, places) in self.each() {
            check_position(part, places)?;
            for source in places.as_slice() {
                check_constant(part, source)?;
            }
        }
        check_aggregate(&self.aggregate)
    }
}

fn check_position(part: Part, places: &Sources) -> Result<(), RulesError> {
    let (last, earlier) = places.as_slice().split_last().ok_or(RulesError::Missing { part })?;
    let misplaced =
        earlier.contains(&Source::Position) || (part != Part::Id && *last == Source::Position);
    if misplaced { Err(RulesError::Position { part }) } else { Ok(()) }
}

/// An aggregate has one order key however its id was found: places that change the bytes of the
/// key, or are not at hand without the payload, stand alone.
fn check_aggregate(places: &Sources) -> Result<(), RulesError> {
    let alone = places.has(&Source::KeyHex) || places.pointers().next().is_some();
    if alone && places.as_slice().len() > 1 { Err(RulesError::AggregateAlone) } else { Ok(()) }
}

fn check_constant(part: Part, source: &Source) -> Result<(), RulesError> {
    match source {
        Source::Value(_) | Source::Topic if part == Part::Id => Err(RulesError::ConstantId),
        Source::Value(value) => checked(part, value.as_bytes())
            .map_err(|problem| RulesError::Constant { part, problem }),
        _ => Ok(()),
    }
}

fn checked(part: Part, value: &[u8]) -> Result<(), Problem> {
    let text = check_text(value, bytes_max(part))?;
    match part {
        Part::Version => whole::<i64>(text).map(drop),
        Part::SchemaVersion => whole::<i32>(text).map(drop),
        Part::OccurredAt => time::millis(text).map(drop).ok_or(Problem::NotTime),
        _ => Ok(()),
    }
}

/// The longest text of a part.
pub(super) fn bytes_max(part: Part) -> usize {
    match part {
        Part::Type => EVENT_TYPE_BYTES_MAX,
        Part::AggregateType => AGGREGATE_TYPE_BYTES_MAX,
        Part::Aggregate => AGGREGATE_ID_BYTES_MAX,
        Part::Id | Part::Source | Part::Version | Part::OccurredAt | Part::SchemaVersion => {
            ID_BYTES_MAX
        }
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
    /// The preset has no default for it.
    #[error("`preset = \"custom\"` needs `{}`: say where the {part} is", part.key())]
    Missing {
        /// The part.
        part: Part,
    },
    /// `position` is not the last place of an id.
    #[error(
        "`position` in `{}` is not possible: it can only be the last place of `id`",
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
        "`aggregate` cannot combine `key:hex` or `pointer:` with other places: one aggregate could \
         then be in two lanes; name a single place"
    )]
    AggregateAlone,
    /// The size limit is out of bounds.
    #[error("`event_bytes_max` is {bytes}; it has to be between {least} and {most}")]
    EventBytesMax {
        /// What was said.
        bytes: usize,
        /// The least.
        least: usize,
        /// The most.
        most: usize,
    },
}
