//! Any rules and any record: an event within the bounds, or a reason that shows nothing of the record.
//!
//! An input is lines: the rules as JSON (or `own`, or a format's name, behind it perhaps settings of Debezium's router
//! as JSON, and behind a tabulator `[events.rules]` as JSON), the topic, `key=…`, headers as `h:NAME=…` or
//! `h:NAME`; then an empty line, and the payload.

use bytes::Bytes;
use outbox_core::internal::detect;
use outbox_core::{
    AGGREGATE_ID_BYTES_MAX, AGGREGATE_TYPE_BYTES_MAX, DebeziumRouter, EVENT_TYPE_BYTES_MAX,
    Envelope, Header, Preset, ReadError, ReadRules, Reader, Record, RuleKeys, SOURCE_ID_BYTES_MAX,
    Source, Sources,
};

use super::input::{CANARY, has_canary, head_and_rest, pair};

/// Small, so that inputs get beyond it.
const BYTES_MAX: usize = 3000;

/// What a content type may take that the record did not name.
const UNFOLDED_MORE: usize = 64;

/// Reads a record twice, and looks at what came of it.
pub fn check(input: &[u8]) {
    let (lines, payload) = head_and_rest(input);
    let mut lines = lines.into_iter();
    let (Some(rules), Some(topic)) = (lines.next(), lines.next()) else { return };
    let Ok(topic) = std::str::from_utf8(topic) else { return };
    let Some((reader, plain)) = reader(rules) else { return };
    let record = record(lines, payload);
    // What rules and topic say may be told.
    let secret = !has_canary(rules) && !has_canary(topic.as_bytes());

    let read = reader.read(topic, 3, 7, &record);
    assert_eq!(read, reader.read(topic, 3, 7, &record.clone()), "one answer");
    if let (true, Some(unfolded)) = (read.is_ok(), reader.unfold(topic, &record)) {
        // What it takes more may be too much.
        if unfolded.size() <= BYTES_MAX {
            assert_eq!(read, reader.read(topic, 3, 7, &unfolded), "unfolded it is the same");
        }
        assert!(unfolded.size() <= record.size() + UNFOLDED_MORE, "it does not grow");
        assert_eq!(reader.unfold(topic, &unfolded), None, "once");
    }
    let told = reader.clone().with_topics([topic]);
    assert_eq!(read, told.read(topic, 3, 7, &record), "a topic that is told changes nothing");
    match read {
        Ok(event) => {
            within_bounds(&event, &record, plain);
            if plain {
                ordered(&reader, topic, &record, &event);
            } else {
                alone(&reader, topic, &record, &event);
            }
        }
        Err(error) => told_well(&error, secret, &record),
    }
    proposed(topic, &record);
}

/// By its rules, and whether nothing is around the payload; `None` when they are none. Rules come back as they were
/// written.
fn reader(rules: &[u8]) -> Option<(Reader, bool)> {
    if rules == b"own" {
        return Some((Reader::own(BYTES_MAX), true));
    }
    if let Some(preset) = preset(rules) {
        let (preset, keys) = preset;
        let reader = Reader::preset(preset, &keys, BYTES_MAX);
        assert!(reader.is_ok() || keys != RuleKeys::default(), "its own rules are rules");
        return Some((reader.ok()?, false));
    }
    let rules: ReadRules = serde_json::from_slice(rules).ok()?;
    let written = serde_json::to_string(&rules).expect("rules are JSON");
    assert_eq!(serde_json::from_str::<ReadRules>(&written).expect("it was written"), rules);
    let reader = Reader::new(rules, BYTES_MAX).ok()?;
    if let Ok(lane_rule) = reader.lane_rule().parse::<Sources>() {
        assert_eq!(lane_rule, reader.rules().aggregate_id);
    }
    Some((reader, true))
}

fn preset(line: &[u8]) -> Option<(Preset, RuleKeys)> {
    let line = std::str::from_utf8(line).ok()?;
    let (line, keys) = match line.split_once('\t') {
        Some((line, keys)) => (line, serde_json::from_str(keys).ok()?),
        None => (line, RuleKeys::default()),
    };
    let (name, settings) = line.split_once(' ').unwrap_or((line, "{}"));
    let preset = match name {
        "debezium-outbox" => {
            let router: DebeziumRouter = serde_json::from_str(settings).ok()?;
            let written = serde_json::to_string(&router).expect("settings are JSON");
            assert_eq!(serde_json::from_str::<DebeziumRouter>(&written).ok()?, router);
            Preset::DebeziumOutbox(router)
        }
        "cloudevents" => Preset::CloudEvents,
        "debezium-raw" => Preset::DebeziumRaw,
        "spring-cloud-stream" => Preset::SpringCloudStream,
        "masstransit" => Preset::MassTransit,
        "eventuate-tram" => Preset::EventuateTram,
        _ => return None,
    };
    Some((preset, keys))
}

fn record<'a>(lines: impl Iterator<Item = &'a [u8]>, payload: &[u8]) -> Record {
    let mut record = Record::default();
    for line in lines {
        let (name, value) = match pair(line) {
            Some((name, value)) => (name, Some(value)),
            None => (std::str::from_utf8(line).unwrap_or_default(), None),
        };
        if let Some(name) = name.strip_prefix("h:") {
            record.headers.push(Header { name: name.into(), value });
        } else if name == "key" {
            record.key = value;
        }
    }
    // A tombstone has none, which is not the same as an empty one.
    record.payload = (payload != b"-").then(|| Bytes::copy_from_slice(payload));
    record
}

fn within_bounds(event: &Envelope, record: &Record, plain: bool) {
    let text = |text: &str, max: usize| {
        assert!(!text.is_empty() && text.len() <= max && !text.contains('\0'), "{text:?}");
    };
    text(&event.event_type, EVENT_TYPE_BYTES_MAX);
    text(event.aggregate.aggregate_type(), AGGREGATE_TYPE_BYTES_MAX);
    text(event.aggregate.aggregate_id(), AGGREGATE_ID_BYTES_MAX);
    if let Some(id) = &event.source_id {
        text(id, SOURCE_ID_BYTES_MAX);
    }
    assert!(!plain || event.payload == record.payload);
    assert!(record.size() <= BYTES_MAX);
}

/// Events of one aggregate have one order key: it is the aggregate id, or what that is the
/// hexadecimal form of.
fn ordered(reader: &Reader, topic: &str, record: &Record, event: &Envelope) {
    let places = &reader.rules().aggregate_id;
    let Some(key) = reader.order_key(topic, record) else {
        assert!(places.pointers().next().is_some(), "known without the payload");
        return;
    };
    let id = event.aggregate.aggregate_id();
    if key.is_empty() {
        assert_eq!(id, "@3-7", "an aggregate of its own");
    } else if places.as_slice() == [Source::KeyHex] {
        let hex: String = key.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(id, hex);
    } else {
        assert_eq!(id.as_bytes(), key);
    }
}

/// An event that is an aggregate of its own is behind no other.
fn alone(reader: &Reader, topic: &str, record: &Record, event: &Envelope) {
    let unfolded = reader.unfold(topic, record);
    let record = unfolded.as_ref().unwrap_or(record);
    if event.aggregate.aggregate_id() == "@3-7"
        && let Some(key) = reader.order_key(topic, record)
    {
        assert!(key.is_empty() || reads_so(key), "{}", String::from_utf8_lossy(key));
    }
}

/// Somebody's aggregate may be called so.
fn reads_so(key: &[u8]) -> bool {
    key.windows(4).any(|window| window == b"@3-7") || key.contains(&b'\\')
}

/// What is proposed can be written down, and reads the record.
fn proposed(topic: &str, record: &Record) {
    let Some(found) = detect(topic, [record]) else { return };
    assert_eq!(found.read, 1, "{found:?}");
    let text = found.keys.join("\n");
    assert!(text.parse::<toml::Table>().is_ok(), "{text}");
}

fn told_well(error: &ReadError, secret: bool, record: &Record) {
    let sentence = error.to_string();
    assert!(!sentence.is_empty());
    assert!(error.reason().bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_'));
    // A header's name comes from the rules, and a member's name says which value is meant.
    let payload = record.payload.as_deref().unwrap_or_default();
    let shows = secret && !names_a_member(payload) && sentence.contains(CANARY);
    assert!(!shows, "a value is shown: {sentence} of {record:?}");
}

/// Whether a JSON text has the canary in the name of a member: a colon follows the quote that ends it.
fn names_a_member(json: &[u8]) -> bool {
    let mut places = json.windows(CANARY.len()).enumerate();
    places.any(|(at, window)| {
        let behind = json[at..].iter().skip_while(|byte| **byte != b'"').skip(1);
        let next = behind.copied().find(|byte| !byte.is_ascii_whitespace());
        window == CANARY.as_bytes() && next == Some(b':')
    })
}
