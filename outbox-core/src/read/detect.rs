//! Which format records are of, by a few of them.

use super::{
    DebeziumRouter, Pointer, Preset, ReadError, Reader, RuleKeys, RulesError, Source, pointer,
};
use crate::Record;

/// Whatever is in the sample may be read.
const BYTES_MAX: usize = usize::MAX;
const JSON: &str = "org.apache.kafka.connect.json.JsonConverter";

/// How records of a topic may be read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Proposal {
    /// `events.format`.
    pub format: &'static str,
    /// Further keys below `[events]`, each a line of TOML.
    pub keys: Vec<String>,
    /// How many of the records are read by that.
    pub read: usize,
    /// What a person has to decide, or why one of the records is not read.
    pub note: Option<String>,
}

/// The format that reads most of the records; of several the one that asks for most of a record. Nothing when none
/// reads any.
pub fn detect<'r>(topic: &str, records: impl IntoIterator<Item = &'r Record>) -> Option<Proposal> {
    let records: Vec<&Record> = records.into_iter().collect();
    let own = Candidate {
        format: "own",
        keys: Vec::new(),
        note: None,
        reader: Ok(Reader::own(BYTES_MAX)),
    };
    // What Spring has written in quotes the own format would take with them.
    let mut candidates = vec![spring(&records), Some(own), debezium_outbox(topic, &records)];
    let others =
        [Preset::CloudEvents, Preset::DebeziumRaw, Preset::MassTransit, Preset::EventuateTram];
    candidates.extend(others.map(|preset| Some(simple(preset))));
    let read = candidates
        .into_iter()
        .flatten()
        .filter_map(|candidate| candidate.proposal(topic, &records));
    // The first of those that read most.
    read.rev().max_by_key(|proposal| proposal.read)
}

struct Candidate {
    format: &'static str,
    keys: Vec<String>,
    note: Option<String>,
    reader: Result<Reader, RulesError>,
}

impl Candidate {
    fn proposal(self, topic: &str, records: &[&Record]) -> Option<Proposal> {
        let reader = self.reader.ok()?;
        let mut read = 0;
        let mut note = self.note;
        for record in records {
            match reader.read(topic, 0, 0, record) {
                Ok(_) => read += 1,
                Err(ReadError::NoEvent { .. }) => {}
                Err(error) => note = note.or_else(|| Some(format!("one cannot be read: {error}"))),
            }
        }
        (read > 0).then_some(Proposal { format: self.format, keys: self.keys, read, note })
    }
}

fn simple(preset: Preset) -> Candidate {
    let format = preset.name();
    let reader = Reader::preset(preset, &RuleKeys::default(), BYTES_MAX);
    Candidate { format, keys: Vec::new(), note: None, reader }
}

fn debezium_outbox(topic: &str, records: &[&Record]) -> Option<Candidate> {
    let first = records.iter().find(|record| record.header("id").is_some())?;
    let payload = records.iter().find_map(|record| record.payload.as_deref());
    let begins = |start: &[u8]| payload.is_some_and(|payload| payload.starts_with(start));
    let mut settings: Vec<(&str, String)> = Vec::new();
    let with_schemas = begins(b"{\"schema\":");
    let (mut keys, mut note) = (RuleKeys::default(), None);
    if let Some(name) = type_header(first) {
        // By its name the column is recognised.
        settings.push(("table.fields.additional.placement", format!("type:header:{name}")));
    } else if let Some(name) = payload.and_then(|payload| type_member(payload, with_schemas)) {
        settings.push(("table.fields.additional.placement", format!("type:envelope:{name}")));
    } else {
        let pattern = topic.contains("outbox.event.").then_some("topic:outbox.event.*");
        let place: Source = pattern.unwrap_or("topic").parse().ok()?;
        keys.event_type = Some(place.into());
        note = Some(
            "the records contain no event type, so the topic's name is used here: choose where it \
             comes from, preferably by `table.fields.additional.placement` of the connector"
                .to_owned(),
        );
    }
    if with_schemas || begins(b"\"") {
        settings.push(("value.converter", JSON.to_owned()));
        settings.push(("value.converter.schemas.enable", with_schemas.to_string()));
    }
    if !topic.contains("outbox.event.") {
        keys.aggregate_type = Some(Source::Topic.into());
    }
    let router = DebeziumRouter::new(settings.iter().cloned()).ok()?;
    let mut lines = Vec::new();
    for (name, places) in [("type", &keys.event_type), ("aggregate_type", &keys.aggregate_type)] {
        lines.extend(places.as_ref().map(|places| format!("rules.{name} = \"{places}\"")));
    }
    lines.extend(settings.iter().map(|(name, value)| format!("debezium.\"{name}\" = {value:?}")));
    let preset = Preset::DebeziumOutbox(router);
    let (format, reader) = (preset.name(), Reader::preset(preset, &keys, BYTES_MAX));
    Some(Candidate { format, keys: lines, note, reader })
}

/// By what Spring's mapper of headers leaves behind, or its `JsonSerializer`.
fn spring(records: &[&Record]) -> Option<Candidate> {
    const SIGNS: [&str; 2] = ["spring_json_header_types", "__TypeId__"];
    let first = records.iter().find(|record| {
        let event_type = record.header("event_type");
        let is_quoted = event_type.is_some_and(|value| value.starts_with(b"\""));
        is_quoted || SIGNS.iter().any(|name| record.header(name).is_some())
    })?;
    let (mut keys, mut lines, mut note) = (RuleKeys::default(), Vec::new(), None);
    if first.header("event_id").is_none() {
        let named =
            first.headers.iter().map(|header| header.name.as_str()).find(|name| is_id(name));
        let place = named.map_or_else(|| "position".to_owned(), |name| format!("header:{name}"));
        note = Some(match named {
            Some(name) => format!(
                "check whether the header `{name}` is the event's id, unique \
                                   for each event"
            ),
            None => "Spring sends no id, so only an event's position in the topic identifies it: \
                     have the producer set a header such as `event_id`, and set `rules.id` to it"
                .to_owned(),
        });
        lines.push(format!("rules.id = {place:?}"));
        keys.id = Some(place.parse::<Source>().ok()?.into());
    }
    let preset = Preset::SpringCloudStream;
    let (format, reader) = (preset.name(), Reader::preset(preset, &keys, BYTES_MAX));
    Some(Candidate { format, keys: lines, note, reader })
}

/// A name that people give an id.
fn is_id(name: &str) -> bool {
    let plain = name.replace(['_', '-'], "").to_ascii_lowercase();
    ["id", "eventid", "messageid"].contains(&&*plain) && !name.contains([':', ',', '|'])
}

/// A name that people give a type.
fn is_type(name: &str) -> bool {
    let plain = name.replace(['_', '-'], "").to_ascii_lowercase();
    ["type", "eventtype"].contains(&&*plain) && !name.contains([':', ',', '|'])
}

fn type_header(record: &Record) -> Option<&str> {
    record.headers.iter().map(|header| header.name.as_str()).find(|name| is_type(name))
}

/// A type beside a member `payload`.
fn type_member(payload: &[u8], with_schemas: bool) -> Option<&'static str> {
    const NAMES: [&str; 4] = ["eventType", "type", "event_type", "eventtype"];
    let below = |name: &str| {
        let place = Pointer::whole();
        if with_schemas { place.child("payload").child(name) } else { place.child(name) }
    };
    let pointers: Vec<Pointer> = std::iter::once("payload").chain(NAMES).map(below).collect();
    let found = pointer::take(&pointers, &bytes::Bytes::copy_from_slice(payload)).ok()?;
    let (whole, types) = found.split_first()?;
    let is_there = |pointed: &pointer::Pointed| *pointed != pointer::Pointed::Absent;
    let at = types.iter().position(is_there)?;
    is_there(whole).then_some(NAMES[at])
}
