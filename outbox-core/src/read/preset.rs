//! Formats that the field knows by name: the places of their parts, and what to say when one is missing.

use std::borrow::Cow;

use super::{
    DebeziumRouter, Part, ReadError, ReadRules, change, cloud_events, envelopes,
    log_place::{self, Plain},
    shape::Shape,
};
use crate::{Problem, Record};

/// A format that the field knows by name. [`Reader::preset`](super::Reader::preset) reads by it.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Preset {
    /// Debezium's outbox event router.
    DebeziumOutbox(DebeziumRouter),
    /// `CloudEvents` 1.0 over Kafka, in binary and in structured mode.
    CloudEvents,
    /// Changes of tables, by Debezium's connectors.
    DebeziumRaw,
    /// Spring Cloud Stream and Spring Kafka.
    SpringCloudStream,
    /// `MassTransit`, in its envelope or with its headers.
    MassTransit,
    /// Domain events of Eventuate Tram.
    EventuateTram,
}

impl Preset {
    /// How configurations write it.
    pub fn name(&self) -> &'static str {
        match self {
            Self::DebeziumOutbox(_) => "debezium-outbox",
            Self::CloudEvents => "cloudevents",
            Self::DebeziumRaw => "debezium-raw",
            Self::SpringCloudStream => "spring-cloud-stream",
            Self::MassTransit => "masstransit",
            Self::EventuateTram => "eventuate-tram",
        }
    }

    /// Where the parts of an event are.
    pub(super) fn rules(&self) -> ReadRules {
        match self {
            Self::DebeziumOutbox(router) => router.rules(),
            Self::CloudEvents => cloud_events::rules(),
            Self::DebeziumRaw => change::rules(),
            Self::SpringCloudStream => envelopes::spring_rules(),
            Self::MassTransit => envelopes::masstransit_rules(),
            Self::EventuateTram => envelopes::eventuate_rules(),
        }
    }

    /// What is around the payload.
    pub(super) fn shape(&self) -> Shape {
        match self {
            Self::DebeziumOutbox(router) => Shape::Connect(router.connect()),
            Self::CloudEvents | Self::DebeziumRaw => Shape::Plain,
            Self::SpringCloudStream => Shape::Connect(envelopes::spring_headers()),
            Self::MassTransit => Shape::Envelope(envelopes::MASSTRANSIT),
            Self::EventuateTram => Shape::Envelope(envelopes::EVENTUATE),
        }
    }

    /// Whether records hold an event type by what is set. Where they do not, rules have to say where it comes from.
    #[doc(hidden)]
    pub fn places_type(&self) -> bool {
        match self {
            Self::DebeziumOutbox(router) => router.places_type(),
            _ => true,
        }
    }

    /// Whether a text that a schema describes holds the payload.
    pub(super) fn has_text_in_schema(&self) -> bool {
        matches!(self, Self::DebeziumOutbox(router) if router.has_schema_of_registry())
    }

    /// A record in the form that the rules are about.
    pub(super) fn plain<'r>(
        &self,
        topic: &str,
        record: &'r Record,
    ) -> Result<Plain<'r>, ReadError> {
        match self {
            Self::CloudEvents => cloud_events::binary(record).and_then(log_place::told_apart),
            Self::DebeziumRaw => change::plain(topic, record),
            _ => Ok(Plain { record: Cow::Borrowed(record), told_by_id: false }),
        }
    }

    /// The same for good, where it is another form and loses nothing. `shape` is the preset's own.
    pub(super) fn unfold(&self, shape: &Shape, record: &Record) -> Option<Record> {
        match (self, shape) {
            (Self::CloudEvents, _) => cloud_events::unfold(record),
            (Self::DebeziumRaw, _) => change::unfold(record),
            (_, Shape::Connect(connect)) => connect.key.plain_key(record),
            _ => None,
        }
    }

    /// The same error with what to set for this format.
    pub(super) fn explain(&self, error: ReadError, record: &Record) -> ReadError {
        let Some(advice) = self.advice(&error, record) else { return error };
        // What plain rules would advise is no use here.
        let problem = match &error {
            ReadError::MissingId { wanted } => missing("event id", wanted),
            ReadError::MissingType { wanted } => missing("event type", wanted),
            ReadError::MissingAggregate { wanted } => missing("aggregate id", wanted),
            ReadError::Missing { part, wanted } => missing(part, wanted),
            ReadError::Tombstone { part, pointer } => {
                format!("the record is a tombstone, so it has no {part} at `{pointer}`")
            }
            other => other.to_string(),
        };
        let reason = error.reason();
        ReadError::Preset { reason, text: format!("{} record: {problem}; {advice}", self.name()) }
    }

    fn advice(&self, error: &ReadError, record: &Record) -> Option<String> {
        let part = match error {
            ReadError::MissingId { .. } => Some(Part::Id),
            ReadError::MissingType { .. } => Some(Part::Type),
            ReadError::MissingAggregate { .. } => Some(Part::AggregateId),
            ReadError::Missing { part, .. } | ReadError::Tombstone { part, .. } => Some(*part),
            ReadError::InvalidJson(_) => None,
            ReadError::InvalidKey { problem: Problem::Nul | Problem::NotUtf8, .. } => {
                let is_outbox = matches!(self, Self::DebeziumOutbox(_));
                return is_outbox.then(|| BINARY_KEY.to_owned());
            }
            _ => return None,
        };
        match self {
            Self::DebeziumOutbox(router) => outbox_advice(router, error, part, record),
            Self::CloudEvents => cloud_events::advice(part).map(str::to_owned),
            Self::DebeziumRaw => change::advice(part).map(str::to_owned),
            Self::SpringCloudStream => envelopes::spring_advice(part).map(str::to_owned),
            Self::MassTransit => envelopes::masstransit_advice(part).map(str::to_owned),
            Self::EventuateTram => envelopes::eventuate_advice(part).map(str::to_owned),
        }
    }
}

fn missing(part: impl std::fmt::Display, wanted: &super::Sources) -> String {
    format!("it has no {part}: {} is missing or empty", wanted.described())
}

const BINARY_KEY: &str = "if the connector's `key.converter` writes numbers, set it in \
                          [events.debezium] as in the connector; if it uses a schema registry, \
                          set `events.rules.aggregate_id` to `key:hex`";

fn outbox_advice(
    router: &DebeziumRouter,
    error: &ReadError,
    part: Option<Part>,
    record: &Record,
) -> Option<String> {
    Some(match part {
        Some(Part::Type) if router.has_type(record) => "the connector places the type there, and \
                                                        the column of this row is null or empty: \
                                                        have the application write a type into \
                                                        each row of its outbox"
            .into(),
        Some(Part::Id) => "the router adds this header to every event, so this record did not \
                           pass through it: apply it to all records of the topic \
                           (`route.topic.regex` or the predicate of the connector), or set \
                           `events.rules.id` to where another transformation has put the id"
            .into(),
        Some(Part::Type) if matches!(error, ReadError::Tombstone { .. }) => {
            "`route.tombstone.on.empty.payload` of the router leaves no envelope: place the type in a header by \
             `table.fields.additional.placement`"
                .into()
        }
        Some(Part::Type) => "the router sends a type only if configured: place it with \
                             `table.fields.additional.placement` of the connector \
                             (`type:header:eventType`) and set the same in [events.debezium], or \
                             set `events.rules.type` to its place, such as `value:OrderChanged`, \
                             `pointer:/type` or `topic:outbox.event.*`"
            .into(),
        Some(Part::AggregateId) => "the column of `table.field.event.key` was empty: write the \
                                    aggregate's id or null into it, or set \
                                    `events.rules.aggregate_id` to the place of the id"
            .into(),
        Some(Part::AggregateType) => format!(
            "set `route.topic.replacement` in [events.debezium] as in the connector (it is `{}` \
             now), or `events.rules.aggregate_type` to the place of the type, such as `topic` or \
             `value:Order`",
            router.replacement()
        ),
        None => "set `value.converter` in [events.debezium] as in the connector".into(),
        Some(_) => return None,
    })
}
