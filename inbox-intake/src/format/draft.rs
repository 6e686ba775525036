//! An event before it is a record: the one place that knows where a record has which part.

use bytes::Bytes;
use outbox_core::{
    Header, IdScope, ReadRules, Reader, Record, RulesError, Source, Sources, Text,
    header_names as names,
};

use super::names::PartNames;

/// What an id that is no UUID is unique within: the source of a `CloudEvent`.
const EVENT_SOURCE: &str = "event_source";

/// What reads the records that drafts become.
pub(crate) fn reader(id_scope: IdScope, bytes_max: usize) -> Result<Reader, RulesError> {
    let mut rules = ReadRules::own();
    let source = Source::Header(Text::from_static(EVENT_SOURCE));
    if let Ok(sources) = Sources::new([source, Source::Topic]) {
        rules.id_source = sources;
    }
    Ok(Reader::new(rules, bytes_max)?.with_id_scope(id_scope))
}

/// The parts of an event, as its sender wrote them.
#[derive(Debug)]
pub(super) struct Draft {
    /// What its sender calls them.
    pub(super) names: PartNames,
    pub(super) id: String,
    pub(super) source: Option<String>,
    pub(super) event_type: String,
    pub(super) aggregate_type: Option<String>,
    pub(super) aggregate_id: Option<String>,
    pub(super) aggregate_version: Option<String>,
    pub(super) occurred_at: Option<String>,
    pub(super) schema_version: Option<String>,
    pub(super) correlation_id: Option<String>,
    pub(super) causation_id: Option<String>,
    pub(super) traceparent: Option<String>,
    pub(super) tracestate: Option<String>,
    /// Further headers, in their order.
    pub(super) headers: Vec<(String, String)>,
    /// `None` is a tombstone.
    pub(super) payload: Option<Bytes>,
}

impl Draft {
    /// Without any.
    pub(super) fn of(names: PartNames) -> Self {
        Self {
            names,
            id: String::new(),
            source: None,
            event_type: String::new(),
            aggregate_type: None,
            aggregate_id: None,
            aggregate_version: None,
            occurred_at: None,
            schema_version: None,
            correlation_id: None,
            causation_id: None,
            traceparent: None,
            tracestate: None,
            headers: Vec::new(),
            payload: None,
        }
    }

    /// The record. An event without an aggregate is one of its own, named by its id: copies of it have the same.
    pub(super) fn record(self, now_ms: i64) -> Record {
        let key = self.aggregate_id.filter(|id| !id.is_empty());
        let key = key.unwrap_or_else(|| self.id.clone());
        let named = [
            (names::EVENT_ID, Some(self.id)),
            (names::EVENT_TYPE, Some(self.event_type)),
            (EVENT_SOURCE, self.source),
            (names::AGGREGATE_TYPE, self.aggregate_type),
            // Behind those of the sender, which count for nothing then.
            (names::AGGREGATE_ID, Some(String::new())),
            (names::AGGREGATE_VERSION, self.aggregate_version),
            (names::OCCURRED_AT, self.occurred_at),
            (names::SCHEMA_VERSION, self.schema_version),
            (names::CORRELATION_ID, self.correlation_id),
            (names::CAUSATION_ID, self.causation_id),
            (names::TRACEPARENT, self.traceparent),
            (names::TRACESTATE, self.tracestate),
        ];
        let ours = |name: &str| named.iter().any(|(known, _)| *known == name);
        let mut headers = Vec::with_capacity(self.headers.len() + named.len());
        let theirs = self.headers.into_iter().filter(|(name, _)| !ours(name));
        headers.extend(theirs.map(|(name, value)| header(name.into(), value)));
        let named = named.into_iter().filter_map(|(name, value)| {
            let value = value.filter(|value| !value.is_empty())?;
            Some(header(Text::from_static(name), value))
        });
        headers.extend(named);
        Record { key: Some(key.into()), headers, payload: self.payload, timestamp_ms: Some(now_ms) }
    }
}

fn header(name: Text, value: String) -> Header {
    Header { name, value: Some(value.into()) }
}
