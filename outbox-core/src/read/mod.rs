//! Records to events: through a preset, or by rules that say where each value is.

mod error;
mod rules;
mod source;
mod time;

pub use error::ReadError;
pub use rules::{IdSource, ReadRules};
pub use source::Source;

use std::borrow::Cow;

use bytes::Bytes;
use serde_json::Value;

use crate::{
    AGGREGATE_ID_BYTES_MAX, AGGREGATE_TYPE_BYTES_MAX, Aggregate, EVENT_TYPE_BYTES_MAX, Envelope,
    EventId, Problem, Record, Text, problem::check_text,
};

/// Reads records as events.
#[derive(Clone, Debug)]
pub struct Reader {
    rules: ReadRules,
    bytes_max: usize,
    parses: bool,
}

impl Reader {
    /// A reader by rules. Records above `bytes_max` bytes are refused before anything is parsed.
    pub fn new(rules: ReadRules, bytes_max: usize) -> Self {
        let parses = rules.needs_payload();
        Self { rules, bytes_max, parses }
    }

    /// A reader of this project's own headers: see [`header_names`](crate::header_names).
    pub fn own(bytes_max: usize) -> Self {
        Self::new(ReadRules::own(), bytes_max)
    }

    /// Reads a record. The payload is parsed only if a rule points into it, and then once.
    ///
    /// # Errors
    /// What is missing or wrong, and where; never any of the payload.
    pub fn read(
        &self,
        topic: &str,
        partition: i32,
        offset: i64,
        record: &Record,
    ) -> Result<Envelope, ReadError> {
        let bytes = record.size();
        if bytes > self.bytes_max {
            return Err(ReadError::TooLarge { bytes, max: self.bytes_max });
        }
        let payload = self.payload(record)?;
        let at = Place { topic, record, payload: payload.as_ref() };
        let (event_id, source_id) = self.id(&at, partition, offset)?;
        let wrong = |what, place: &Source| {
            let place = place.to_string();
            move |problem| ReadError::Invalid { what, place, problem }
        };
        let rules = &self.rules;
        let event_type = at
            .text(&rules.event_type, EVENT_TYPE_BYTES_MAX)
            .map_err(wrong("event type", &rules.event_type))?
            .ok_or_else(|| ReadError::MissingType { place: rules.event_type.to_string() })?;
        let aggregate = self.aggregate(&at, offset)?;
        Ok(Envelope {
            event_id,
            source_id,
            event_type,
            aggregate,
            aggregate_version: at.number("aggregate version", rules.aggregate_version.as_ref())?,
            occurred_at_ms: at.time(rules.occurred_at.as_ref())?,
            schema_version: at.number("schema version", rules.schema_version.as_ref())?,
            payload: record.payload.clone(),
        })
    }

    /// What order is kept by: computed without decoding the payload, so that an unreadable record has
    /// its place, too (finding 3). `None`: the whole partition is one sequence, because the aggregate
    /// is inside the payload. A record without a key (and without the header) has no aggregate: an
    /// empty text stands for all of these.
    pub fn order_key<'r>(&'r self, topic: &'r str, record: &'r Record) -> Option<Cow<'r, [u8]>> {
        if self.rules.aggregate_id.iter().any(Source::needs_payload) {
            return None;
        }
        let found = self.rules.aggregate_id.iter().find_map(|source| source.order(topic, record));
        Some(found.unwrap_or(Cow::Borrowed(b"")))
    }

    /// Where the aggregate comes from, as the database keeps it: another text means other lanes.
    pub fn lane_rule(&self) -> String {
        let sources: Vec<String> =
            self.rules.aggregate_id.iter().map(ToString::to_string).collect();
        sources.join("|")
    }

    fn payload(&self, record: &Record) -> Result<Option<Value>, ReadError> {
        let Some(bytes) = record.payload.as_ref().filter(|_| self.parses) else { return Ok(None) };
        let parsed = serde_json::from_slice(bytes);
        parsed.map(Some).map_err(|error| ReadError::json(&error))
    }

    fn id(
        &self,
        at: &Place<'_>,
        partition: i32,
        offset: i64,
    ) -> Result<(EventId, Option<Text>), ReadError> {
        let source = match &self.rules.id {
            IdSource::Position => {
                let id = EventId::at(at.topic, partition, offset);
                return Ok((
                    id.map_err(|error| ReadError::Id { place: "position".into(), error })?,
                    None,
                ));
            }
            IdSource::At(source) => source,
        };
        let place = || source.to_string();
        let bytes = source.bytes(at.topic, at.record, at.payload);
        let bytes = bytes.map_err(|problem| ReadError::Invalid {
            what: "event id",
            place: place(),
            problem,
        })?;
        let bytes = bytes.ok_or_else(|| ReadError::MissingId { place: place() })?;
        if let Some(id) = EventId::from_uuid_text(&bytes) {
            return Ok((id, None));
        }
        let of = self.rules.id_source.as_deref().unwrap_or(at.topic);
        let id = EventId::foreign(of, &bytes);
        let id = id.map_err(|error| ReadError::Id { place: place(), error })?;
        Ok((id, Some(shown(&bytes))))
    }

    fn aggregate(&self, at: &Place<'_>, offset: i64) -> Result<Aggregate, ReadError> {
        let sources = &self.rules.aggregate_id;
        let places = || self.lane_rule();
        let mut found = None;
        for source in sources {
            let text = at.text(source, AGGREGATE_ID_BYTES_MAX);
            found = text.map_err(|problem| ReadError::Invalid {
                what: "aggregate id",
                place: source.to_string(),
                problem,
            })?;
            if found.is_some() {
                break;
            }
        }
        // A null key asks for no order: the event is its own aggregate (C4).
        let keyless = sources.contains(&Source::Key) && at.record.key.is_none();
        let aggregate_id = match found {
            Some(id) => id,
            None if keyless => Text::from(format!("@{offset}")),
            None => return Err(ReadError::MissingAggregate { place: places() }),
        };
        let mut aggregate_type = None;
        if let Some(source) = &self.rules.aggregate_type {
            let text = at.text(source, AGGREGATE_TYPE_BYTES_MAX);
            aggregate_type = text.map_err(|problem| ReadError::Invalid {
                what: "aggregate type",
                place: source.to_string(),
                problem,
            })?;
        }
        let aggregate_type = aggregate_type.unwrap_or_else(|| at.topic.into());
        Ok(Aggregate::checked(aggregate_type, aggregate_id))
    }
}

/// A record where values are looked up.
struct Place<'r> {
    topic: &'r str,
    record: &'r Record,
    payload: Option<&'r Value>,
}

impl Place<'_> {
    fn text(&self, source: &Source, max: usize) -> Result<Option<Text>, Problem> {
        let Some(bytes) = source.bytes(self.topic, self.record, self.payload)? else {
            return Ok(None);
        };
        check_text(&bytes, max)?;
        Text::try_from(bytes).map(Some).map_err(|_| Problem::NotUtf8)
    }

    fn optional<T>(
        &self,
        what: &'static str,
        source: Option<&Source>,
        read: impl FnOnce(&Bytes) -> Result<T, Problem>,
    ) -> Result<Option<T>, ReadError> {
        let Some(source) = source else { return Ok(None) };
        let value = source.bytes(self.topic, self.record, self.payload);
        let value = value.and_then(|bytes| bytes.as_ref().map(read).transpose());
        value.map_err(|problem| ReadError::Invalid { what, place: source.to_string(), problem })
    }

    fn number<T: std::str::FromStr>(
        &self,
        what: &'static str,
        source: Option<&Source>,
    ) -> Result<Option<T>, ReadError> {
        self.optional(what, source, |bytes| {
            let text = std::str::from_utf8(bytes).map_err(|_| Problem::NotUtf8)?;
            text.parse().map_err(|_| Problem::NotWhole)
        })
    }

    fn time(&self, source: Option<&Source>) -> Result<Option<i64>, ReadError> {
        self.optional("time", source, |bytes| {
            let text = std::str::from_utf8(bytes).map_err(|_| Problem::NotUtf8)?;
            time::millis(text).ok_or(Problem::NotTime)
        })
    }
}

/// A foreign id for people to see: cut, and as text.
fn shown(bytes: &Bytes) -> Text {
    let cut = &bytes[..bytes.len().min(crate::SOURCE_ID_BYTES_MAX)];
    let text = String::from_utf8_lossy(cut).replace('\0', "\u{fffd}");
    let mut end = text.len().min(crate::SOURCE_ID_BYTES_MAX);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    Text::from(&text[..end])
}

#[cfg(test)]
mod tests;
