//! The records of a real Debezium 3.7 (Kafka Connect 4.1, Java 17) for the same rows.
//!
//! `fixtures` has the rows as the trigger of `outbox-relay adopt` leaves them in `outbox_events`, the settings of each
//! connector, and its records. `cargo xtask debezium` makes such a comparison live.

use std::collections::HashMap;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use outbox_core::{Aggregate, Envelope, EventId, Header, OutboxEvent, Record};
use serde::{Deserialize, de::DeserializeOwned};

use crate::{placement::ROW, router::Router, settings::Debezium};

#[derive(Deserialize)]
struct StoredRow {
    table: String,
    event_id: uuid::Uuid,
    aggregate_type: String,
    aggregate_id: String,
    event_type: String,
    payload: Option<String>,
    occurred_at_ms: Option<i64>,
    row: String,
}

#[derive(Deserialize)]
struct Variant {
    #[serde(rename = "variant")]
    name: String,
    table: String,
    settings: HashMap<String, String>,
    /// Its connector stops at the row.
    stops: bool,
}

#[derive(Deserialize)]
struct Written {
    variant: String,
    topic: String,
    partition: i32,
    timestamp: Option<i64>,
    key: Option<String>,
    value: Option<String>,
    headers: Vec<(String, Option<String>)>,
}

fn lines<T: DeserializeOwned>(text: &str) -> Vec<T> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn bytes(base64: Option<&str>) -> Option<Bytes> {
    base64.map(|text| STANDARD.decode(text).unwrap().into())
}

impl StoredRow {
    fn event(&self) -> OutboxEvent {
        let envelope = Envelope {
            event_id: EventId::from(self.event_id),
            source_id: None,
            event_type: self.event_type.as_str().into(),
            aggregate: Aggregate::new(self.aggregate_type.as_str(), self.aggregate_id.as_str())
                .unwrap(),
            aggregate_version: None,
            occurred_at_ms: self.occurred_at_ms,
            schema_version: None,
            payload: bytes(self.payload.as_deref()),
        };
        let told = Header { name: ROW.into(), value: Some(self.row.clone().into()) };
        OutboxEvent::restored(envelope, None, vec![told]).unwrap()
    }
}

/// The connector's settings as the configuration has them: dots become lines, converters have short names.
fn settings(variant: &Variant) -> Debezium {
    let mut table = toml::Table::new();
    table.insert("topic_prefix".into(), variant.name.clone().into());
    for (name, value) in &variant.settings {
        let name = name.strip_prefix("transforms.outbox.").unwrap_or(name);
        // What `BinaryDataConverter` hands on to.
        if name.starts_with("value.converter.delegate") {
            continue;
        }
        let value = match value.as_str() {
            "true" => true.into(),
            "false" => false.into(),
            "org.apache.kafka.connect.storage.StringConverter" => "string".into(),
            "org.apache.kafka.connect.json.JsonConverter" => "json".into(),
            "org.apache.kafka.connect.converters.ByteArrayConverter"
            | "io.debezium.converters.BinaryDataConverter" => "bytes".into(),
            value => toml::Value::from(value),
        };
        table.insert(name.replace('.', "_"), value);
    }
    table.try_into().unwrap()
}

/// What follows from the connector and its Java alone.
fn known(variant: &str, value: Option<Bytes>) -> Option<Bytes> {
    match (variant, value) {
        // Java 17 writes one digit too many of some numbers; Java 19 does not.
        ("j-negz", Some(value)) => {
            let text = String::from_utf8(value.to_vec()).unwrap();
            Some(text.replace("9.999999999999999E22", "1.0E23").into())
        }
        // Fields of objects that differ: their order is another one with each start of the connector.
        ("j-merge", Some(value)) => {
            let text = String::from_utf8(value.to_vec()).unwrap();
            let (c, b) = (
                r#"{"type":"string","optional":true,"field":"c"}"#,
                r#"{"type":"int32","optional":true,"field":"b"}"#,
            );
            let text = text.replace(&format!("{c},{b}"), &format!("{b},{c}"));
            let text = text.replace(r#"{"c":null,"b":1}"#, r#"{"b":1,"c":null}"#);
            Some(text.replace(r#"{"c":"x","b":null}"#, r#"{"b":null,"c":"x"}"#).into())
        }
        // Columns that have a default: `adopt` takes none where schemas are sent.
        ("w-env-expand" | "n-env", Some(value)) => {
            let mut text = String::from_utf8(value.to_vec()).unwrap();
            for default in [r#""default":"x","#, r#""default":5,"#, r#""default":0,"#] {
                text = text.replace(default, "");
            }
            Some(text.into())
        }
        (_, value) => value,
    }
}

/// Headers as text, without the one that is another with each start.
fn headers(record: &Record) -> Vec<(String, Option<String>)> {
    let text = |value: &Bytes| String::from_utf8(value.to_vec()).unwrap();
    let all = record.headers.iter();
    let all = all.map(|header| (header.name.to_string(), header.value.as_ref().map(text)));
    all.filter(|(name, _)| name != RUN).collect()
}

const RUN: &str = "__debezium.context.runId";

#[test]
fn records_are_those_of_debezium_byte_for_byte() {
    let rows: Vec<StoredRow> = lines(include_str!("fixtures/rows.jsonl"));
    let variants: Vec<Variant> = lines(include_str!("fixtures/variants.jsonl"));
    let written: Vec<Written> = lines(include_str!("fixtures/records.jsonl"));
    let mut compared = 0;
    for variant in &variants {
        let name = variant.name.as_str();
        let router =
            Router::read(&settings(variant)).unwrap_or_else(|wrong| panic!("{name}: {wrong:?}"));
        let mut records = HashMap::new();
        for event in rows.iter().filter(|row| row.table == variant.table).map(StoredRow::event) {
            let record = router.record(&event);
            if variant.stops {
                let error = record.expect_err(name);
                assert!(error.contains("as in Debezium's connector"), "{error}");
                continue;
            }
            let Ok((record, partition)) = record else { continue };
            let id = record.header("id").unwrap().clone();
            records.insert(id, (router.topic(&event).unwrap(), partition, record));
        }
        for theirs in written.iter().filter(|record| record.variant == name) {
            let id =
                theirs.headers.iter().find(|(name, _)| name == "id").unwrap().1.clone().unwrap();
            let (topic, partition, ours) = &records[id.as_bytes()];
            let which = format!("{name}, {id}");
            assert_eq!(*topic, theirs.topic, "{which}");
            assert_eq!(ours.key, bytes(theirs.key.as_deref()), "{which}");
            let value = known(name, bytes(theirs.value.as_deref()));
            assert_eq!(
                ours.payload,
                value,
                "{which}: {ours:?}\n{}\n{}",
                shown(ours.payload.as_ref()),
                shown(value.as_ref())
            );
            let wanted: Vec<_> =
                theirs.headers.iter().filter(|(name, _)| name != RUN).cloned().collect();
            assert_eq!(headers(ours), wanted, "{which}");
            assert!(partition.is_none_or(|partition| partition == theirs.partition), "{which}");
            if theirs.timestamp.is_some() {
                assert_eq!(ours.timestamp_ms, theirs.timestamp, "{which}");
            }
            compared += 1;
        }
    }
    assert_eq!(compared, written.len(), "each record was compared");
}

fn shown(value: Option<&Bytes>) -> String {
    value.map_or("null".into(), |value| String::from_utf8_lossy(value).into_owned())
}

fn appended() -> OutboxEvent {
    let order = Aggregate::new("order", "7").unwrap();
    let event = OutboxEvent::new("OrderPaid", &order, &serde_json::json!({"total": 12.5})).unwrap();
    event.with_header("tenant", "acme").unwrap().with_occurred_at_ms(1_767_323_045_678).unwrap()
}

fn record(settings: Debezium, event: &OutboxEvent) -> Result<Record, String> {
    Router::read(&settings).unwrap().record(event).map(|(record, _)| record)
}

#[test]
fn an_appended_event_has_the_columns_of_its_table_and_its_headers() {
    let placement = "type:header:eventType,tenant:header,aggregate_version:header,nobody:header";
    let settings =
        Debezium { table_fields_additional_placement: placement.into(), ..Debezium::default() };
    let event = appended();
    let record = record(settings, &event).unwrap();
    let text = |text: &str| Some(text.to_owned());
    assert_eq!(
        headers(&record),
        [
            ("id".to_owned(), Some(event.id().to_string())),
            ("eventType".to_owned(), text("OrderPaid")),
            ("tenant".to_owned(), text("acme")),
            ("aggregate_version".to_owned(), None),
            ("nobody".to_owned(), None),
        ]
    );
    assert_eq!(record.key.as_deref(), Some(&b"7"[..]));
    assert_eq!(record.payload.as_deref(), Some(&br#"{"total":12.5}"#[..]));
    assert_eq!(record.timestamp_ms, None, "as long as no column is named for it");
}

#[test]
fn an_appended_event_is_routed_by_the_column_that_is_named() {
    let topic = |route_by_field: &str, event: &OutboxEvent| {
        let settings = Debezium { route_by_field: route_by_field.into(), ..Debezium::default() };
        Router::read(&settings).unwrap().topic(event)
    };
    let event = appended();
    for (column, routed) in [
        ("aggregatetype", "order"),
        ("aggregate_type", "order"),
        ("kind", "order"),
        ("event_type", "OrderPaid"),
        ("aggregate_id", "7"),
    ] {
        assert_eq!(topic(column, &event), Ok(format!("outbox.event.{routed}")), "{column}");
    }
    let keyed = appended().with_dedup_key("k-1").unwrap();
    assert_eq!(topic("dedup_key", &keyed), Ok("outbox.event.k-1".into()));
    let error = topic("dedup_key", &event).unwrap_err();
    assert!(error.contains("`debezium.route_by_field`"), "{error}");
    // What `adopt` copies has the column in its aggregate's type.
    let adopted = appended().with_header(ROW, "{}").unwrap();
    assert_eq!(topic("event_type", &adopted), Ok("outbox.event.order".into()));
}

#[test]
fn a_dedup_key_can_be_placed() {
    let settings = Debezium {
        table_fields_additional_placement: "dedup_key:header:key".into(),
        route_by_field: "event_type".into(),
        table_field_event_key: "event_type".into(),
        ..Debezium::default()
    };
    let event = appended().with_dedup_key("k-1").unwrap();
    let record = record(settings, &event).unwrap();
    assert_eq!(headers(&record)[1], ("key".to_owned(), Some("k-1".to_owned())));
    assert_eq!(record.key.as_deref(), Some(&b"OrderPaid"[..]), "not the aggregate's type");
}

#[test]
fn a_row_that_has_come_without_a_column_is_told() {
    let rows: Vec<StoredRow> = lines(include_str!("fixtures/rows.jsonl"));
    let settings = Debezium {
        table_fields_additional_placement: "tenant:header".into(),
        ..Debezium::default()
    };
    let error = record(settings, &rows[0].event()).unwrap_err();
    assert!(error.contains("lacks the column tenant") && error.contains("adopt"), "{error}");
    let order = Aggregate::new("order", "7").unwrap();
    let event = OutboxEvent::new("OrderPaid", &order, &1).unwrap().with_header(ROW, "{}").unwrap();
    let error = record(Debezium::default(), &event).unwrap_err();
    assert!(error.contains("adopt"), "{error}");
}

#[test]
fn settings_that_no_connector_could_follow_are_refused() {
    let refused = |change: fn(&mut Debezium), words: &[&str]| {
        let mut settings = Debezium::default();
        change(&mut settings);
        let wrong = Router::read(&settings).unwrap_err().join("; ");
        assert!(words.iter().all(|word| wrong.contains(word)), "{wrong}");
    };
    refused(|s| s.table_expand_json_payload = true, &["value_converter", "JsonConverter"]);
    refused(|s| s.table_fields_additional_placement = "type:envelope".into(), &["value_converter"]);
    refused(|s| s.table_fields_additional_placement = "type:heder".into(), &["\"type:heder\""]);
    refused(|s| s.route_topic_regex = "(".into(), &["route_topic_regex"]);
}
