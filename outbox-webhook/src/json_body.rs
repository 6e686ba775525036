//! The body `json`: one object, whose fields are configured.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde::Serializer as _;
use serde_json::{
    Serializer,
    value::{RawValue, to_raw_value},
};

use crate::{attempt::Attempt, cloud_event};

/// Fields unless others are configured.
const DEFAULT: &[&str] = &["id: id", "type: type", "payload: payload"];

/// What a field holds, by the name that the configuration has for it.
const CONTENTS: &[(&str, FieldContent)] = &[
    ("id", FieldContent::Id),
    ("type", FieldContent::EventType),
    ("aggregate_type", FieldContent::AggregateType),
    ("aggregate_id", FieldContent::AggregateId),
    ("aggregate_version", FieldContent::AggregateVersion),
    ("schema_version", FieldContent::SchemaVersion),
    ("occurred_at", FieldContent::OccurredAt),
    ("dedup_key", FieldContent::DedupKey),
    ("topic", FieldContent::Topic),
    ("attempt", FieldContent::Attempt),
    ("payload", FieldContent::Payload),
];

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum FieldContent {
    Id,
    EventType,
    AggregateType,
    AggregateId,
    AggregateVersion,
    SchemaVersion,
    OccurredAt,
    DedupKey,
    Topic,
    Attempt,
    Payload,
}

/// The fields of the object, in order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct JsonBody(Vec<(String, FieldContent)>);

impl JsonBody {
    /// Reads lines `name: content`; without any, `id`, `type` and `payload`.
    ///
    /// # Errors
    /// What is wrong with a line, as the end of a sentence about its key.
    pub(crate) fn read(lines: &[String]) -> Result<Self, String> {
        let mut fields: Vec<(String, FieldContent)> = Vec::new();
        let default = DEFAULT.iter().copied().filter(|_| lines.is_empty());
        for line in lines.iter().map(String::as_str).chain(default) {
            let (name, content) = line
                .split_once(':')
                .ok_or("has an entry without a colon; write \"field: content\"")?;
            let (name, content) = (name.trim(), content.trim());
            let known = CONTENTS.iter().find(|(named, _)| *named == content);
            let (_, known) = known.ok_or_else(|| {
                let names: Vec<&str> = CONTENTS.iter().map(|(name, _)| *name).collect();
                format!("has {content:?}, which is not one of {}", names.join(", "))
            })?;
            if name.is_empty() || fields.iter().any(|(other, _)| other == name) {
                return Err(format!("has the field {name:?} twice, or without a name"));
            }
            fields.push((name.to_owned(), *known));
        }
        Ok(Self(fields))
    }

    /// The object of an event; what the event does not have is null.
    ///
    /// # Errors
    /// Never, as far as is known: all of it is text.
    pub(crate) fn document(
        &self,
        attempt: Attempt<'_>,
        content_type: &str,
    ) -> Result<Vec<u8>, String> {
        let field = |(name, content): &(String, FieldContent)| match content {
            FieldContent::Payload => payload(name, attempt, content_type),
            content => Ok((name.clone(), value(*content, attempt)?)),
        };
        let fields: Result<Vec<_>, serde_json::Error> = self.0.iter().map(field).collect();
        let mut bytes = Vec::new();
        let written = fields.and_then(|fields| Serializer::new(&mut bytes).collect_map(fields));
        written.map_err(|error| format!("cannot encode the event as a JSON object: {error}"))?;
        Ok(bytes)
    }
}

type Raw = Result<Box<RawValue>, serde_json::Error>;

fn value(content: FieldContent, attempt: Attempt<'_>) -> Raw {
    let event = attempt.event.envelope();
    match content {
        FieldContent::Id => to_raw_value(&event.event_id.to_string()),
        FieldContent::EventType => to_raw_value(event.event_type.as_str()),
        FieldContent::AggregateType => to_raw_value(event.aggregate.aggregate_type()),
        FieldContent::AggregateId => to_raw_value(event.aggregate.aggregate_id()),
        FieldContent::AggregateVersion => to_raw_value(&event.aggregate_version),
        FieldContent::SchemaVersion => to_raw_value(&event.schema_version),
        FieldContent::OccurredAt => to_raw_value(&cloud_event::time(event)),
        FieldContent::DedupKey => to_raw_value(&attempt.event.dedup_key()),
        FieldContent::Topic => to_raw_value(&attempt.topic),
        FieldContent::Attempt => to_raw_value(&attempt.number),
        FieldContent::Payload => to_raw_value(&()),
    }
}

/// The payload as it is where JSON holds it, else in base64 under the field's name with `_base64`.
fn payload(
    name: &str,
    attempt: Attempt<'_>,
    content_type: &str,
) -> Result<(String, Box<RawValue>), serde_json::Error> {
    let Some(bytes) = attempt.event.envelope().payload.as_deref() else {
        return Ok((name.to_owned(), to_raw_value(&())?));
    };
    Ok(match cloud_event::inline(bytes, content_type) {
        Some(inline) => (name.to_owned(), to_raw_value(&inline)?),
        None => (format!("{name}_base64"), to_raw_value(&STANDARD.encode(bytes))?),
    })
}
