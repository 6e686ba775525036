//! Any settings of Debezium's router and any row: a record that is read back as the event that it was, or a sentence.
//!
//! An input is lines: the settings as JSON, under the names of `[debezium]`; event type, aggregate type, aggregate id;
//! headers as `h:NAME=VALUE` (`h:__debezium.row=…` makes it a row of another table); then an empty line, and the
//! payload (`-`: none).

use bytes::Bytes;
use outbox_core::{
    Aggregate, DebeziumRouter, Envelope, EventId, Header, OutboxEvent, Preset, Reader, Record,
    RuleKeys, Source,
};
use outbox_debezium::{Debezium, KeyConverter, ValueConverter, internal::Router};

use super::input::{head_and_rest, pair};

/// An expanded array of objects has each field in each of them.
const RECORD_BYTES_MAX: usize = 64 << 20;
const ROW: &str = "__debezium.row";
const CLASSES: &str = "org.apache.kafka.connect";

/// Routes an event twice, looks at the record, and reads it back.
pub fn check(input: &[u8]) {
    let (lines, payload) = head_and_rest(input);
    let mut lines = lines.into_iter();
    let Some(Ok(mut settings)) = lines.next().map(serde_json::from_slice::<Debezium>) else {
        return;
    };
    // The run's id in these is another one with each start.
    settings.topic_prefix = None;
    let Some(event) = event(&mut lines, payload) else { return };
    let router = match Router::read(&settings) {
        Ok(router) => router,
        Err(wrong) => {
            assert!(!wrong.is_empty() && wrong.iter().all(|sentence| !sentence.is_empty()));
            return;
        }
    };
    let route = || Ok::<_, String>((router.topic(&event)?, router.record(&event)?.0));
    let first = route();
    assert_eq!(first, route(), "one answer");
    let (topic, record) = match &first {
        Ok(routed) => routed,
        Err(sentence) => {
            assert!(!sentence.is_empty());
            return;
        }
    };
    assert!(record.size() <= RECORD_BYTES_MAX, "{} bytes of {}", record.size(), input.len());
    if settings.value_converter == ValueConverter::Json {
        is_json(record.payload.as_deref());
    }
    if settings.key_converter == KeyConverter::Json {
        is_json(record.key.as_deref());
    }
    if event.headers().iter().all(|header| header.name != ROW) {
        read_back(&settings, &event, topic, record);
    }
}

fn event<'a>(lines: &mut impl Iterator<Item = &'a [u8]>, payload: &[u8]) -> Option<OutboxEvent> {
    let mut text = || std::str::from_utf8(lines.next()?).ok();
    let (event_type, aggregate_type, aggregate_id) = (text()?, text()?, text()?);
    let mut headers = Vec::new();
    for (name, value) in lines.filter_map(pair) {
        if let Some(name) = name.strip_prefix("h:") {
            headers.push(Header { name: name.into(), value: Some(value) });
        }
    }
    let envelope = Envelope {
        event_id: EventId::foreign("fuzz", "1").ok()?,
        source_id: None,
        event_type: event_type.into(),
        aggregate: Aggregate::new(aggregate_type, aggregate_id).ok()?,
        aggregate_version: Some(7),
        occurred_at_ms: Some(1_769_851_800_000),
        schema_version: None,
        payload: (payload != b"-").then(|| Bytes::copy_from_slice(payload)),
    };
    OutboxEvent::restored(envelope, None, headers).ok()
}

/// What is written as JSON is JSON to everybody else, too.
fn is_json(bytes: Option<&[u8]>) {
    let Some(bytes) = bytes else { return };
    // By names that lead nowhere: the document is walked, and not built, however deep it is.
    let place = "/0/0".parse().expect("it is a pointer");
    let read = outbox_core::Pointer::find_all(&[place], bytes, &mut [None]);
    assert!(read.is_ok(), "no JSON: {read:?} of {}", String::from_utf8_lossy(bytes));
}

/// The consumer's reader, told the same settings, finds the event.
fn read_back(settings: &Debezium, event: &OutboxEvent, topic: &str, record: &Record) {
    let sent = event.envelope();
    let Ok(router) = DebeziumRouter::new(names(settings)) else { return };
    let mut keys = RuleKeys::default();
    keys.event_type = Some(Source::Constant("T".into()).into());
    keys.aggregate_type = Some(Source::Topic.into());
    let preset = Preset::DebeziumOutbox(router);
    let reader = Reader::preset(preset, &keys, usize::MAX).expect("its own rules are rules");
    let read = reader.read(topic, 0, 0, record);
    // Columns of one's own choice may stand in the place of others.
    let usual = settings.table_field_event_id == "id"
        && settings.table_field_event_key == "aggregateid"
        && settings.route_by_field == "aggregatetype"
        && settings.table_field_event_type == "type"
        && !settings.table_fields_additional_placement.contains("id");
    let read = match read {
        Ok(read) => read,
        Err(error) => {
            assert!(!usual, "{error} {record:?}");
            return;
        }
    };
    if usual {
        assert_eq!(read.event_id, sent.event_id);
        assert_eq!(read.aggregate.aggregate_id(), sent.aggregate.aggregate_id());
    }
    let blank = settings.route_tombstone_on_empty_payload;
    if !settings.table_expand_json_payload
        && !blank
        && !settings.table_fields_additional_placement.contains("payload")
    {
        assert_eq!(read.payload, sent.payload);
    }
}

/// The settings under the names of a connector.
fn names(settings: &Debezium) -> Vec<(&'static str, String)> {
    let key = match settings.key_converter {
        KeyConverter::String => "storage.StringConverter",
        KeyConverter::Json => "json.JsonConverter",
    };
    let value = match settings.value_converter {
        ValueConverter::String => "storage.StringConverter",
        ValueConverter::Json => "json.JsonConverter",
        ValueConverter::Bytes => "converters.ByteArrayConverter",
    };
    vec![
        ("table.fields.additional.placement", settings.table_fields_additional_placement.clone()),
        ("key.converter", format!("{CLASSES}.{key}")),
        ("key.converter.schemas.enable", settings.key_converter_schemas_enable.to_string()),
        ("value.converter", format!("{CLASSES}.{value}")),
        ("value.converter.schemas.enable", settings.value_converter_schemas_enable.to_string()),
    ]
    .into_iter()
    .filter(|(name, value)| !value.is_empty() || *name != "table.fields.additional.placement")
    .collect()
}
