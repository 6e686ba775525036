//! Records that a Debezium 3.7 with PostgreSQL has sent, in each configuration that sent any (`debezium.jsonl`).
//! Topics begin with the variant's name, as those have that a tool has copied.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use outbox_core::{
    DebeziumRouter, Envelope, EventId, Header, Preset, ReadError, Reader, Record, RuleKeys,
};
use serde_json::Value;

const STRING: &str = "org.apache.kafka.connect.storage.StringConverter";
const JSON: &str = "org.apache.kafka.connect.json.JsonConverter";
const PLACED: &str = "event_type:header:eventType,aggregate_type:header:aggregateType,headers:header:headers,\
     created_at:header:occurredAt,created_ms:header:occurredMs,version:header:version";

const BIG: &str = r#"{"big": 9007199254740993, "gone": null, "note": "Grüße ☕", "lines": [{"qty": 1, "sku": "A"}], "total": 12.50, "orderId": 7}"#;
const BIG_IN_BYTES: &str = r#"{"orderId": 7, "total": 12.50, "big": 9007199254740993, "note": "Grüße ☕", "lines": [{"sku": "A", "qty": 1}], "gone": null}"#;
const BIG_EXPANDED: &str = r#"{"big":9007199254740993,"note":"Grüße ☕","lines":[{"qty":1,"sku":"A"}],"total":12.5,"orderId":7}"#;
const MIXED: &str = r#"{"empty": [], "mixed": [1, "two", {"three": 3}]}"#;

/// The end of the id, type, aggregate type, aggregate id (empty: an aggregate of its own), payload.
type Row = (&'static str, &'static str, &'static str, &'static str, Option<&'static [u8]>);

/// The rows of the table that most variants read.
const ROWS: [Row; 6] = [
    ("01", "OrderCreated", "order", "order-7", Some(BIG.as_bytes())),
    ("02", "OrderPaid", "order", "order-7", Some(br#"{"orderId": 7}"#)),
    ("03", "CustomerRenamed", "customer", "42", Some(br#""a plain string""#)),
    ("04", "OrderDeleted", "order", "order-8", None),
    ("05", "Keyless", "order", "", Some(br#"{"n": 1}"#)),
    ("06", "MixedArray", "order", "order-9", Some(MIXED.as_bytes())),
];

pub(crate) struct Placed {
    pub(crate) topic: String,
    partition: i32,
    offset: i64,
    pub(crate) record: Record,
}

/// The records of a variant.
pub(crate) fn records(variant: &str) -> Vec<Placed> {
    let bytes = |value: &Value| match value {
        Value::Null => None,
        Value::String(text) => Some(text.clone().into()),
        coded => Some(STANDARD.decode(coded["base64"].as_str().unwrap()).unwrap().into()),
    };
    let lines = include_str!("debezium.jsonl").lines();
    let all = lines.map(|line| serde_json::from_str::<Value>(line).unwrap());
    let own = all.filter(|line| line["variant"] == variant).map(|line| Placed {
        topic: line["topic"].as_str().unwrap().to_owned(),
        partition: i32::try_from(line["partition"].as_i64().unwrap()).unwrap(),
        offset: line["offset"].as_i64().unwrap(),
        record: Record {
            key: bytes(&line["key"]),
            headers: line["headers"]
                .as_array()
                .unwrap()
                .iter()
                .map(|header| Header {
                    name: header[0].as_str().unwrap().into(),
                    value: bytes(&header[1]),
                })
                .collect(),
            payload: bytes(&line["value"]),
            timestamp_ms: None,
        },
    });
    own.collect()
}

fn router(settings: &[(&str, &str)]) -> DebeziumRouter {
    DebeziumRouter::new(settings.iter().copied()).unwrap()
}

fn reader(settings: &[(&str, &str)], event_type: Option<&str>) -> Reader {
    let mut keys = RuleKeys::default();
    keys.event_type = event_type.map(|text| crate::source(text).into());
    Reader::preset(Preset::DebeziumOutbox(router(settings)), &keys, crate::BYTES_MAX).unwrap()
}

fn read(reader: &Reader, placed: &Placed) -> Result<Envelope, ReadError> {
    reader.read(&placed.topic, placed.partition, placed.offset, &placed.record)
}

/// Each record of a variant is one of the rows, and each row is there. Without a type of their own all have `Changed`.
fn all_are_read(variant: &str, settings: &[(&str, &str)], event_type: Option<&str>, rows: &[Row]) {
    let reader = reader(settings, event_type);
    let records = records(variant);
    assert_eq!(records.len(), rows.len(), "{variant}");
    for placed in &records {
        let event = read(&reader, placed).unwrap_or_else(|error| panic!("{variant}: {error}"));
        let id = event.event_id.to_string();
        let row =
            rows.iter().find(|(end, ..)| id == format!("00000000-0000-4000-8000-0000000000{end}"));
        let (_, own_type, aggregate_type, aggregate_id, payload) =
            row.unwrap_or_else(|| panic!("{variant}: {id} is none of the rows"));
        let wanted = if event_type.is_some() { "Changed" } else { own_type };
        assert_eq!(event.event_type, wanted, "{variant} {id}");
        assert_eq!(event.aggregate.aggregate_type(), *aggregate_type, "{variant} {id}");
        let alone = format!("@{}-{}", placed.partition, placed.offset);
        let aggregate = if aggregate_id.is_empty() { &*alone } else { aggregate_id };
        assert_eq!(event.aggregate.aggregate_id(), aggregate, "{variant} {id}");
        assert_eq!(event.payload.as_deref(), *payload, "{variant} {id}");
    }
}

/// Each names what is at fault, and what to change.
#[test]
fn a_sentence_blames_what_is_at_fault() {
    let avro = "io.confluent.connect.avro.AvroConverter";
    let envelope = [
        ("table.fields.additional.placement", "type:envelope:eventType"),
        ("value.converter", avro),
    ];
    let error = DebeziumRouter::new(envelope).unwrap_err().to_string();
    assert!(
        error.contains("place the columns in headers") && !error.contains("as in the connector"),
        "{error}"
    );
    let reader = reader(&[("table.fields.additional.placement", "type:header:eventType")], None);
    let read = |key: &[u8], event_type: Option<&'static str>| {
        let mut record = crate::record("", &[("id", "0190a5c8-7c2e-7d64-9b6e-0c9f5d9b2c04")], "{}");
        record.key = Some(key.to_vec().into());
        record.headers.push(Header { name: "eventType".into(), value: event_type.map(Into::into) });
        reader.read("outbox.event.order", 0, 0, &record).unwrap_err().to_string()
    };
    for event_type in [None, Some("")] {
        let error = read(b"k", event_type);
        assert!(error.contains("the column of this row is null or empty"), "{error}");
        assert!(!error.contains("let `table.fields.additional.placement`"), "{error}");
    }
    for key in [&[0, 0, 0, 0, 50, 14, b'o'][..], &42_i64.to_be_bytes(), &[0xff; 8]] {
        let error = read(key, Some("Paid"));
        assert!(
            error.contains("`events.rules.aggregate_id` to `key:hex`")
                && error.contains("`key.converter`"),
            "{error}"
        );
    }
    let mut keys = RuleKeys::default();
    keys.event_type = Some(crate::source("pointer:/type").into());
    let preset = Preset::DebeziumOutbox(router(&[]));
    let reader = Reader::preset(preset, &keys, crate::BYTES_MAX).unwrap();
    let record = crate::record("k", &[("id", "1")], "\u{feff}{\"type\":\"a\"}");
    let error = reader.read("outbox.event.order", 0, 0, &record).unwrap_err().to_string();
    assert!(error.contains("a byte order mark"), "{error}");
}

#[test]
fn the_router_is_read_in_its_default_configuration_under_each_converter() {
    let fixed = Some("value:Changed");
    let expanded = [
        ("01", "", "order", "order-7", Some(BIG_EXPANDED.as_bytes())),
        ("02", "", "order", "order-7", Some(&br#"{"orderId":7}"#[..])),
        ROWS[2],
        ROWS[3],
        ("05", "", "order", "", Some(br#"{"n":1}"#)),
        ROWS[5],
    ];
    for (variant, rows, settings) in [
        ("default-string", ROWS, &[("key.converter", STRING), ("value.converter", STRING)][..]),
        (
            "default-json",
            ROWS,
            &[("value.converter", JSON), ("value.converter.schemas.enable", "false")],
        ),
        (
            "default-json-schemas",
            ROWS,
            &[
                ("key.converter", JSON),
                ("key.converter.schemas.enable", "true"),
                ("value.converter", JSON),
                ("value.converter.schemas.enable", "true"),
            ],
        ),
        (
            "default-expand",
            expanded,
            &[
                ("key.converter", STRING),
                ("value.converter", JSON),
                ("value.converter.schemas.enable", "false"),
                ("transforms.outbox.table.expand.json.payload", "true"),
            ],
        ),
    ] {
        all_are_read(variant, settings, fixed, &rows);
        // The same by its looks, without a word about converters.
        all_are_read(variant, &[], fixed, &rows);
    }
}

#[test]
fn a_type_in_a_header_or_in_the_envelope_is_found() {
    let header = ("table.fields.additional.placement", "type:header:eventType");
    all_are_read("default-type-header", &[header], None, &ROWS);
    all_are_read("default-type-header", &[header, ("value.converter", STRING)], None, &ROWS);
    all_are_read("default-type-header", &[], None, &ROWS);
    let envelope = ("table.fields.additional.placement", "type:envelope:eventType");
    all_are_read("default-type-envelope", &[envelope], None, &ROWS);
    let json = [envelope, ("value.converter", JSON), ("value.converter.schemas.enable", "false")];
    all_are_read("default-type-envelope", &json, None, &ROWS);
}

#[test]
fn other_columns_are_found_under_the_routers_settings() {
    let settings = [
        ("transforms.outbox.table.field.event.key", "aggregate_id"),
        ("transforms.outbox.table.field.event.type", "event_type"),
        ("transforms.outbox.route.by.field", "aggregate_type"),
        ("transforms.outbox.table.fields.additional.placement", PLACED),
    ];
    let line = Some(&br#"{"ok": true}"#[..]);
    let rows = [
        ("11", "OrderCreated", "order", "order-7", Some(BIG.as_bytes())),
        ("12", "OrderPaid", "order", "order-7", Some(&br#"{"orderId": 7}"#[..])),
        ("13", "LineAdded", "order.line", "line/1", line),
    ];
    all_are_read("mapped-string", &settings, None, &rows);
    let expanded = [
        ("11", "OrderCreated", "order", "order-7", Some(BIG_EXPANDED.as_bytes())),
        ("12", "OrderPaid", "order", "order-7", Some(&br#"{"orderId":7}"#[..])),
        ("13", "LineAdded", "order.line", "line/1", Some(&br#"{"ok":true}"#[..])),
    ];
    all_are_read("mapped-expand", &settings, None, &expanded);
    all_are_read("mapped-expand", &settings[3..], None, &expanded);

    let mut keys = RuleKeys::default();
    keys.aggregate_version = Some(crate::source("header:version").into());
    keys.occurred_at = Some(crate::source("header:occurredMs").into());
    let preset = Preset::DebeziumOutbox(router(&settings));
    let reader = Reader::preset(preset, &keys, crate::BYTES_MAX).unwrap();
    let event = read(&reader, &records("mapped-string")[0]).unwrap();
    assert_eq!((event.aggregate_version, event.occurred_at_ms), (Some(1), Some(1_767_323_045_678)));
}

#[test]
fn bytes_are_the_payload_as_they_are() {
    let rows = [
        ("21", "", "order", "order-7", Some(BIG_IN_BYTES.as_bytes())),
        ("22", "", "order", "order-7", Some(&[0, 1, 2, 254, 255][..])),
        ("23", "", "order", "order-7", None),
    ];
    for variant in ["bytes-raw", "bytes-binary"] {
        all_are_read(variant, &[], Some("value:Changed"), &rows);
    }
    let binary = [
        ("value.converter", "io.debezium.converters.BinaryDataConverter"),
        ("value.converter.delegate.converter.type", JSON),
        ("value.converter.delegate.converter.type.schemas.enable", "false"),
    ];
    all_are_read("bytes-binary", &binary, Some("value:Changed"), &rows);
}

/// A record of the router by hand.
fn sent(key: &str, headers: &[(&'static str, &str)], value: Option<&str>) -> Placed {
    let id = ("id", "7c1d7ee6-8b0b-4a2a-9b1e-3a2f2d9b6c01");
    let headers: Vec<_> = std::iter::once(id).chain(headers.iter().copied()).collect();
    let payload = value.map(|text| text.to_owned().into());
    let record = Record { payload, ..crate::record(key, &headers, "") };
    Placed { topic: "outbox.event.order".into(), partition: 1, offset: 2, record }
}

#[test]
fn envelopes_with_schemas_tombstones_and_base64_are_taken_apart() {
    let placed = ("table.fields.additional.placement", "type:envelope,aggregatetype:envelope:kind");
    let value = r#"{"schema":{"type":"struct","fields":[{"type":"bytes","field":"payload"}]},"payload":{"payload":"aGk=","type":"Paid","kind":"Order"}}"#;
    let reader_of = |more: &[(&str, &str)]| reader(&[&[placed], more].concat(), None);
    let key = r#"{"schema":{"type":"int64"},"payload":42}"#;
    let event =
        read(&reader_of(&[("value.converter", JSON)]), &sent(key, &[], Some(value))).unwrap();
    assert_eq!((event.event_type.as_str(), event.payload.as_deref()), ("Paid", Some(&b"hi"[..])));
    assert_eq!(event.aggregate.to_string(), "Order/42");
    let value = r#"{"payload":"aGk=","type":"Paid","kind":"Order"}"#;
    let event = read(&reader_of(&[("payload.encoding", "base64")]), &sent("a", &[], Some(value)));
    assert_eq!(event.unwrap().payload.as_deref(), Some(&b"hi"[..]));
    let value = r#"{"payload":{"n":1.50},"type":"Paid","kind":"Order"}"#;
    let event = read(&reader_of(&[]), &sent("a", &[], Some(value))).unwrap();
    assert_eq!(event.payload.as_deref(), Some(&br#"{"n":1.50}"#[..]));

    let error = read(&reader_of(&[]), &sent("a", &[], None)).unwrap_err();
    let told = "debezium-outbox record: the record is a tombstone, so it has no event type at `/type`; \
         `route.tombstone.on.empty.payload` of the router leaves no envelope";
    assert!(error.to_string().starts_with(told), "{error}");
    let header = [("table.fields.additional.placement", "type:header")];
    let event = read(&reader(&header, None), &sent("a", &[("type", "Gone")], None)).unwrap();
    assert_eq!((event.event_type.as_str(), event.payload), ("Gone", None));
}

#[test]
fn headers_and_keys_of_other_converters_are_texts() {
    let quoted = sent("\"order-7\"", &[("eventType", "\"Paid\"")], Some("{}"));
    let event = read(&reader(&[], None), &quoted).unwrap();
    assert_eq!((event.event_type.as_str(), event.aggregate.aggregate_id()), ("Paid", "order-7"));
    let id = r#"{"schema":{"type":"string"},"payload":"7c1d7ee6-8b0b-4a2a-9b1e-3a2f2d9b6c02"}"#;
    let wrapped = sent("order-7", &[("eventType", "Paid"), ("id", id)], Some("{}"));
    let event = read(&reader(&[("header.converter", JSON)], None), &wrapped).unwrap();
    assert_eq!(event.event_id.to_string(), "7c1d7ee6-8b0b-4a2a-9b1e-3a2f2d9b6c02");
    let plain = reader(&[("key.converter", STRING)], None);
    let event = read(&plain, &quoted).unwrap();
    assert_eq!(event.aggregate.aggregate_id(), "\"order-7\"");
    let long = [("key.converter", "org.apache.kafka.connect.converters.LongConverter")];
    let event =
        read(&reader(&long, None), &sent("\0\0\0\0\0\0\0*", &[("eventType", "Paid")], None));
    assert_eq!(event.unwrap().aggregate.aggregate_id(), "42");
}

/// Order is kept by what a key says, not by how a converter has written it: an event without an aggregate is behind no
/// other, and one aggregate has one lane under every converter.
#[test]
fn order_is_kept_by_the_text_of_a_key() {
    let by_looks = reader(&[], Some("value:Changed"));
    let keyless = records("default-json-schemas").into_iter().find(|placed| {
        placed.record.key.as_deref().is_some_and(|key| key.ends_with(b"\"payload\":null}"))
    });
    let keyless = keyless.unwrap();
    let order_key = |reader: &Reader, placed: &Placed| {
        let unfolded = reader.unfold(&placed.topic, &placed.record);
        let record = unfolded.unwrap_or_else(|| placed.record.clone());
        let read_again = reader.read(&placed.topic, placed.partition, placed.offset, &record);
        assert_eq!(read_again, read(reader, placed));
        assert_eq!(reader.unfold(&placed.topic, &record), None, "once");
        reader.order_key(&placed.topic, &record).map(<[u8]>::to_vec)
    };
    assert_eq!(order_key(&by_looks, &keyless), Some(Vec::new()));
    let json = reader(&[("key.converter", JSON)], Some("value:Changed"));
    for (key, text) in [
        ("order-7", "order-7"),
        ("\"order-7\"", "order-7"),
        (r#"{"schema":{"type":"string","optional":false},"payload":"order-7"}"#, "order-7"),
        (r#"{"schema":{"type":"int64"},"payload":42}"#, "42"),
        // What it says would be taken for a text in quotes once more.
        (r#""\"order-7\"""#, r#""\"order-7\"""#),
    ] {
        for reader in [&by_looks, &json] {
            let placed = sent(key, &[], Some("{}"));
            assert_eq!(order_key(reader, &placed).as_deref(), Some(text.as_bytes()), "{key}");
        }
    }
    let plain = reader(&[("key.converter", STRING)], Some("value:Changed"));
    let quoted = sent("\"order-7\"", &[], Some("{}"));
    assert_eq!(order_key(&plain, &quoted).as_deref(), Some(&b"\"order-7\""[..]));
    // Rules that look at the bytes of a key find them.
    let mut keys = RuleKeys::default();
    keys.event_type = Some(crate::source("value:Changed").into());
    keys.aggregate_id = Some(crate::source("key:hex").into());
    let hex = Reader::preset(Preset::DebeziumOutbox(router(&[])), &keys, crate::BYTES_MAX).unwrap();
    assert_eq!(hex.unfold(&quoted.topic, &quoted.record), None);
}

#[test]
fn ids_of_any_column_type_are_ids() {
    let numbered = sent("a", &[("eventType", "Paid"), ("id", "17")], Some("{}"));
    let event = read(&reader(&[], None), &numbered).unwrap();
    assert_eq!(event.event_id, EventId::foreign("outbox.event.order", "17").unwrap());
    assert_eq!(event.source_id.as_deref(), Some("17"));
}

#[test]
fn rules_point_into_the_payload_however_it_is_wrapped() {
    for value in [
        r#"{"kind":"Paid"}"#,
        r#""{\"kind\":\"Paid\"}""#,
        r#"{"schema":{"type":"string"},"payload":"{\"kind\":\"Paid\"}"}"#,
    ] {
        let event = read(&reader(&[], Some("pointer:/kind")), &sent("a", &[], Some(value)));
        assert_eq!(event.unwrap().event_type, "Paid", "{value}");
    }
    let event = read(&reader(&[], Some("topic:outbox.event.*")), &sent("a", &[], Some("{}")));
    assert_eq!(event.unwrap().event_type, "order");
}

#[test]
fn topics_name_the_aggregate_type_as_the_router_makes_them() {
    let typed = |settings: &[(&str, &str)], topic: &str| {
        let placed = Placed { topic: topic.into(), ..sent("7", &[("type", "Paid")], Some("{}")) };
        read(&reader(settings, None), &placed).map(|event| event.aggregate.to_string())
    };
    let replacement = |text: &'static str| [("route.topic.replacement", text)];
    assert_eq!(typed(&[], "outbox.event.order").unwrap(), "order/7");
    assert_eq!(
        typed(&replacement("shop.${routedByValue}.v1"), "shop.order.v1").unwrap(),
        "order/7"
    );
    assert_eq!(typed(&replacement("shop-$1"), "shop-order").unwrap(), "order/7");
    assert_eq!(typed(&replacement("all-events"), "all-events").unwrap(), "all-events/7");
    let error = typed(&[], "orders").unwrap_err().to_string();
    let told = "set `route.topic.replacement` in [events.debezium] as in the connector (it is \
                `outbox.event.${routedByValue}` now), or `events.rules.aggregate_type`";
    assert!(error.contains(told), "{error}");
}

/// What is sent, under which settings, and what is said of it.
#[test]
fn what_fits_no_way_names_the_setting() {
    let envelope = [("table.fields.additional.placement", "type:envelope:eventType")];
    let schemas = [("value.converter", JSON), ("value.converter.schemas.enable", "true")];
    let json = [("value.converter", JSON)];
    let typed = [("type", "Paid")];
    let long = "x".repeat(300);
    for (settings, placed, reason, told) in [
        (&[][..], records("raw-change-event").remove(0), "missing_id", "did not pass through it"),
        (
            &[],
            records("default-string").remove(0),
            "missing_type",
            "`table.fields.additional.placement` of the connector",
        ),
        (&[], sent("", &typed, Some("{}")), "missing_aggregate", "`table.field.event.key`"),
        (&envelope, sent("a", &[], Some("{}")), "invalid_payload", "without the member `payload`"),
        (&envelope, sent("a", &[], Some("no JSON")), "invalid_json", "set `value.converter`"),
        (
            &envelope,
            sent("a", &[], Some("Struct{payload={},eventType=Paid}")),
            "invalid_payload",
            "StringConverter",
        ),
        (
            &envelope,
            sent("a", &[], Some(r#"{"payload":{}}"#)),
            "missing_type",
            "the router sends a type only",
        ),
        (
            &schemas,
            sent("a", &typed, Some("{}")),
            "invalid_payload",
            "`value.converter.schemas.enable`",
        ),
        (&json, sent("a", &typed, Some("{")), "invalid_json", "`value.converter`"),
        (&[], sent("a", &[("type", &long)], Some("{}")), "invalid_header", "is 300 bytes long"),
        (
            &[("payload.encoding", "base64"), json[0]],
            sent("a", &typed, Some("\"?\"")),
            "invalid_payload",
            "`payload.encoding`",
        ),
    ] {
        let error = read(&reader(settings, None), &placed).unwrap_err();
        assert_eq!(error.reason(), reason, "{error}");
        assert!(error.to_string().contains(told), "{error}");
    }
}

#[test]
fn settings_are_the_routers_own() {
    for (name, value) in [
        ("table.op.invalid.behavior", "fatal"),
        ("table.json.payload.null.behavior", "optional_bytes"),
        ("tracing.span.context.field", "trace"),
        ("collection.expand.json.payload", "true"),
        ("transforms.outbox.type", "io.debezium.transforms.outbox.EventRouter"),
        ("table.fields.additional.placement", "a:header, b:envelope:c,p:partition"),
    ] {
        assert!(DebeziumRouter::new([(name, value)]).is_ok(), "{name}");
    }
    for (name, value, told) in [
        ("table.field.evnt.id", "id", "`table.field.evnt.id` is not a setting of Debezium's"),
        ("table.expand.json.payload", "yes", "is one of true, false"),
        ("table.fields.additional.placement", "type", "is not one of `column:header`"),
        ("table.fields.additional.placement", "type:footer", "is not one of `column:header`"),
        ("route.topic.replacement", "a b.${routedByValue}", "does not produce a topic name"),
        ("route.by.field", "", "is empty"),
    ] {
        let error = DebeziumRouter::new([(name, value)]).unwrap_err().to_string();
        assert!(error.contains(told), "{error}");
    }
    let both =
        [("value.converter", STRING), ("table.fields.additional.placement", "type:envelope")];
    let error = DebeziumRouter::new(both).unwrap_err().to_string();
    assert!(error.contains("JsonConverter"), "{error}");

    let bare = r#"{"table": {"fields": {"additional": {"placement": "type:envelope"}}}, "value.converter": "x.JsonConverter", "value.converter.schemas.enable": false}"#;
    let router: DebeziumRouter = serde_json::from_str(bare).unwrap();
    let written = serde_json::to_string(&router).unwrap();
    assert_eq!(serde_json::from_str::<DebeziumRouter>(&written).unwrap(), router);
    assert!(
        written.contains("\"table.fields.additional.placement\":\"type:envelope\""),
        "{written}"
    );
}
