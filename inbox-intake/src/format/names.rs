//! What a sender calls the parts of an event, for what it is told of them: it knows of no record, and of no key.

use std::borrow::Cow;

use outbox_core::{Part, ReadError};

type Name = Cow<'static, str>;

/// The name of each part in a request, as its sender wrote it.
#[derive(Clone, Debug)]
pub(crate) struct PartNames {
    pub(super) id: Name,
    pub(super) event_type: Name,
    pub(super) aggregate_type: Name,
    pub(super) aggregate_id: Name,
    pub(super) aggregate_version: Name,
    pub(super) occurred_at: Name,
    pub(super) schema_version: Name,
}

impl PartNames {
    /// Those of the envelope.
    pub(super) const ENVELOPE: Self = Self {
        id: Cow::Borrowed("event_id"),
        event_type: Cow::Borrowed("event_type"),
        aggregate_type: Cow::Borrowed("aggregate_type"),
        aggregate_id: Cow::Borrowed("aggregate_id"),
        aggregate_version: Cow::Borrowed("aggregate_version"),
        occurred_at: Cow::Borrowed("occurred_at"),
        schema_version: Cow::Borrowed("schema_version"),
    };
    /// Those of a `CloudEvent`.
    pub(super) const CLOUD_EVENT: Self = Self {
        id: Cow::Borrowed("id"),
        event_type: Cow::Borrowed("type"),
        aggregate_type: Cow::Borrowed("aggregatetype"),
        aggregate_id: Cow::Borrowed("partitionkey"),
        aggregate_version: Cow::Borrowed("aggregateversion"),
        occurred_at: Cow::Borrowed("time"),
        schema_version: Cow::Borrowed("schemaversion"),
    };
    /// Those of the headers of a webhook.
    pub(super) const WEBHOOK: Self = Self {
        id: Cow::Borrowed("webhook-id"),
        event_type: Cow::Borrowed("Event-Type"),
        aggregate_type: Cow::Borrowed("Aggregate-Type"),
        aggregate_id: Cow::Borrowed("Aggregate-Id"),
        aggregate_version: Cow::Borrowed("Aggregate-Version"),
        occurred_at: Cow::Borrowed("Occurred-At"),
        schema_version: Cow::Borrowed("Schema-Version"),
    };

    fn of(&self, part: Part) -> Option<&Name> {
        Some(match part {
            Part::Id => &self.id,
            Part::Type => &self.event_type,
            Part::AggregateId => &self.aggregate_id,
            Part::AggregateType => &self.aggregate_type,
            Part::AggregateVersion => &self.aggregate_version,
            Part::OccurredAt => &self.occurred_at,
            Part::SchemaVersion => &self.schema_version,
            _ => return None,
        })
    }

    /// Why an event is none, for who has sent it.
    pub(crate) fn sentence(&self, error: &ReadError) -> String {
        let missing = |name: &str| format!("`{name}` is missing or empty");
        let told = match error {
            ReadError::InvalidHeader { part, problem, .. }
            | ReadError::InvalidKey { part, problem }
            | ReadError::InvalidPointer { part, problem, .. }
            | ReadError::InvalidPart { part, problem } => {
                self.of(*part).map(|name| format!("`{name}` {problem}"))
            }
            ReadError::MissingId { .. } => Some(missing(&self.id)),
            ReadError::MissingType { .. } => Some(missing(&self.event_type)),
            ReadError::MissingAggregate { .. } => Some(missing(&self.aggregate_id)),
            ReadError::Missing { part, .. } => self.of(*part).map(|name| missing(name)),
            ReadError::InvalidId(error) => Some(format!("`{}`: {error}", self.id)),
            ReadError::TooLarge { bytes, max } => Some(format!(
                "the event has {bytes} bytes, more than the {max} that are allowed here"
            )),
            _ => None,
        };
        told.unwrap_or_else(|| error.to_string())
    }
}
