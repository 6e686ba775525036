//! `CloudEvents` over Kafka in both modes, and requests of HTTP that hold one.

use outbox_core::{
    Envelope, EventId, Preset, ReadError, Reader, Record, RuleKeys, cloud_event_of_request,
};

const STRUCTURED: (&str, &str) = ("content-type", "application/cloudevents+json; charset=utf-8");
const WHOLE: &str = r#"{"specversion":"1.0","id":"17","source":"/shop","type":"OrderPaid","time":"2026-01-31T09:30:00Z",
    "subject":"order-7","dataschema":"https://example.com/paid.json","tenant":"acme","retries":3,"replayed":true,"absent":null,
    "partitionkey":"order-7","datacontenttype":"application/json","data":{"total": 12.50}}"#;

fn reader() -> Reader {
    Reader::preset(Preset::CloudEvents, &RuleKeys::default(), crate::BYTES_MAX).unwrap()
}

fn read(record: &Record) -> Result<Envelope, ReadError> {
    reader().read("orders", 3, 7, record)
}

fn structured(value: &str) -> Record {
    crate::record("order-7", &[STRUCTURED], value)
}

#[test]
fn binary_mode_is_headers_and_a_value() {
    let headers = [
        ("ce_specversion", "1.0"),
        ("ce_id", "17"),
        ("ce_source", "/shop"),
        ("ce_type", "OrderPaid"),
        ("ce_time", "2026-01-31T09:30:00Z"),
        ("content-type", "application/json"),
    ];
    let event = read(&crate::record("order-7", &headers, r#"{"total": 12.50}"#)).unwrap();
    assert_eq!(event.event_id, EventId::foreign("/shop", "17").unwrap());
    assert_eq!(event.source_id.as_deref(), Some("17"));
    assert_eq!(event.event_type, "OrderPaid");
    assert_eq!(event.aggregate.to_string(), "orders/order-7");
    assert_eq!(event.occurred_at_ms, Some(1_769_851_800_000));
    assert_eq!(event.payload.as_deref(), Some(&br#"{"total": 12.50}"#[..]));
    assert_eq!(reader().unfold("orders", &crate::record("", &headers, "{}")), None);
}

#[test]
fn structured_mode_gives_the_same_event() {
    let record = structured(WHOLE);
    let event = read(&record).unwrap();
    let unfolded = reader().unfold("orders", &record).unwrap();
    assert_eq!(read(&unfolded).unwrap(), event);
    assert_eq!(event.event_id, EventId::foreign("/shop", "17").unwrap());
    assert_eq!(event.payload.as_deref(), Some(&br#"{"total": 12.50}"#[..]));
    for (name, value) in [
        ("ce_tenant", "acme"),
        ("ce_retries", "3"),
        ("ce_replayed", "true"),
        ("ce_subject", "order-7"),
        ("ce_dataschema", "https://example.com/paid.json"),
        ("content-type", "application/json"),
    ] {
        assert_eq!(unfolded.header(name).map(|value| &value[..]), Some(value.as_bytes()), "{name}");
    }
    assert_eq!(unfolded.header("ce_absent"), None);
    assert!(unfolded.size() < record.size());
}

#[test]
fn a_value_without_a_content_type_is_told_by_its_version() {
    let event = read(&crate::record("order-7", &[], WHOLE)).unwrap();
    assert_eq!(event, read(&structured(WHOLE)).unwrap());
    let other =
        crate::record("order-7", &[("ce_id", "1"), ("ce_source", "a"), ("ce_type", "b")], WHOLE);
    assert_eq!(read(&other).unwrap().payload.as_deref(), Some(WHOLE.as_bytes()), "it is the data");
}

/// A version within the data makes no event of it: its payload would be lost.
#[test]
fn only_a_member_of_its_own_tells_a_value_without_a_content_type() {
    let mut keys = RuleKeys::default();
    keys.id = Some(crate::source("header:number").into());
    keys.event_type = Some(crate::source("value:Seen").into());
    keys.id_source = Some(crate::source("topic").into());
    let by_rules = Reader::preset(Preset::CloudEvents, &keys, crate::BYTES_MAX).unwrap();
    for value in [
        r#"{"seen":{"specversion":"1.0","id":"1"},"n":1}"#,
        r#"{"specversion":null,"seen":{},"data":2}"#,
        r#"{"kind":"specversion","data":2}"#,
    ] {
        let record = crate::record("order-7", &[("number", "17")], value);
        let event = by_rules.read("orders", 3, 7, &record).unwrap();
        assert_eq!(event.payload.as_deref(), Some(value.as_bytes()));
        assert_eq!(by_rules.unfold("orders", &record), None);
        assert_eq!(read(&record).unwrap_err().reason(), "missing_id");
    }
}

#[test]
fn the_old_version_says_base64_in_an_attribute() {
    let with = |data: &str| {
        structured(&format!(r#"{{"specversion":"0.3","id":"1","source":"a","type":"b",{data}}}"#))
    };
    for (data, payload) in [
        (r#""datacontentencoding":"Base64","data":"aGk=""#, "hi"),
        (r#""datacontentencoding":"base64","data":{"n":1}"#, r#"{"n":1}"#),
        (r#""data":"aGk=""#, r#""aGk=""#),
        (r#""datacontenttype":"","data":"aGk=""#, r#""aGk=""#),
    ] {
        let event = read(&with(data)).unwrap();
        assert_eq!(event.payload.as_deref(), Some(payload.as_bytes()), "{data}");
        let unfolded = reader().unfold("orders", &with(data)).unwrap();
        assert_eq!(read(&unfolded).unwrap(), event);
    }
    let error = read(&with(r#""datacontentencoding":"base64","data":"?""#)).unwrap_err();
    assert!(error.to_string().contains("`datacontentencoding`"), "{error}");
    let new = r#"{"specversion":"1.0","id":"1","source":"a","type":"b","datacontentencoding":"base64","data":"aGk="}"#;
    assert_eq!(read(&structured(new)).unwrap().payload.as_deref(), Some(&br#""aGk=""#[..]));
}

#[test]
fn a_payload_is_what_its_type_says() {
    let with = |data: &str| structured(&format!(r#"{{"id":"1","source":"a","type":"b"{data}}}"#));
    for (data, payload) in [
        (r#","data":{"n": 1}"#, Some(&br#"{"n": 1}"#[..])),
        (r#","data":"text""#, Some(br#""text""#)),
        (r#","datacontenttype":"application/vnd.a+json","data":"text""#, Some(br#""text""#)),
        (r#","datacontenttype":"text/plain","data":"t\u00e4xt""#, Some("täxt".as_bytes())),
        (r#","datacontenttype":"text/plain","data":[1]"#, Some(b"[1]")),
        (
            r#","data_base64":"AAEC/v8=","datacontenttype":"application/octet-stream""#,
            Some(&[0, 1, 2, 254, 255]),
        ),
        (r#","data":null"#, None),
        ("", None),
    ] {
        assert_eq!(read(&with(data)).unwrap().payload.as_deref(), payload, "{data}");
    }
}

#[test]
fn the_key_goes_before_the_partition_key() {
    let mut keyless = structured(WHOLE);
    keyless.key = None;
    let unfolded = reader().unfold("orders", &keyless).unwrap();
    assert_eq!(read(&keyless).unwrap().aggregate.aggregate_id(), "order-7");
    assert_eq!(reader().order_key("orders", &unfolded), Some(&b"order-7"[..]));
    let mut keys = RuleKeys::default();
    keys.aggregate_id = Some(crate::source("header:ce_subject").into());
    let by_subject = Reader::preset(Preset::CloudEvents, &keys, crate::BYTES_MAX).unwrap();
    let event = by_subject.read("orders", 0, 0, &structured(WHOLE)).unwrap();
    assert_eq!(event.aggregate.aggregate_id(), "order-7");
}

#[test]
fn order_is_kept_where_rules_stand_for_an_attribute() {
    let mut keys = RuleKeys::default();
    keys.id = Some(crate::source("position").into());
    keys.event_type = Some(crate::source("value:OrderPaid").into());
    keys.id_source = Some(crate::source("topic").into());
    let reader = Reader::preset(Preset::CloudEvents, &keys, crate::BYTES_MAX).unwrap();
    let keyless = |value: &str, headers: &[(&'static str, &str)]| Record {
        key: None,
        ..crate::record("", headers, value)
    };
    // The data looks like an event itself, and must not be opened, too.
    let inner = r#"{"specversion":"1.0","id":"1","partitionkey":"other"}"#;
    let named = format!(r#"{{"partitionkey":"order-7","data":{inner}}}"#);
    let unnamed = format!(r#"{{"specversion":"1.0","partitionkey":"order-7","data":{inner}}}"#);
    for record in [keyless(&named, &[STRUCTURED]), keyless(&unnamed, &[])] {
        let unfolded = reader.unfold("orders", &record).unwrap();
        assert_eq!(reader.order_key("orders", &unfolded), Some(&b"order-7"[..]));
        let event = reader.read("orders", 3, 7, &record).unwrap();
        assert_eq!(event.aggregate.aggregate_id(), "order-7");
        assert_eq!(event.payload.as_deref(), Some(inner.as_bytes()));
        assert_eq!(reader.read("orders", 3, 7, &unfolded).unwrap(), event);
        assert_eq!(reader.unfold("orders", &unfolded), None, "once");
    }
    // Nothing to keep order by, and nothing by which it would be told from its data.
    let bare = keyless(&format!(r#"{{"data":{inner}}}"#), &[STRUCTURED]);
    assert_eq!(reader.unfold("orders", &bare), None);
    // What only looks so stays as it is.
    let other = keyless(r#"{"kind":"specversion","n":1}"#, &[]);
    assert_eq!(reader.unfold("orders", &other), None);
}

#[test]
fn what_is_no_event_is_told() {
    let batch = ("content-type", "application/cloudevents-batch+json");
    let avro = ("Content-Type", "application/cloudevents+avro");
    let required = [("ce_id", "1"), ("ce_source", "a"), ("ce_type", "b")];
    let tombstone = Record { payload: None, ..structured("") };
    let attribute = structured(r#"{"id":"1","source":"a","type":"b","tenant":{"c4n4ry":1}}"#);
    for (record, reason, told) in [
        (crate::record("a", &[batch], "[]"), "batch", "is a batch of CloudEvents"),
        (crate::record("a", &[avro], ""), "unknown_format", "in a format other than JSON"),
        (structured("no JSON"), "invalid_json", "it is a CloudEvent in structured mode"),
        (structured("[]"), "invalid_json", "it is a CloudEvent in structured mode"),
        (tombstone, "tombstone", "without a value"),
        (structured(r#"{"source":"a","type":"b"}"#), "missing_id", "`ce_id`"),
        (crate::record("a", &required[1..], ""), "missing_id", "`ce_id`"),
        (crate::record("a", &required[..2], ""), "missing_type", "`ce_type`"),
        (crate::record("a", &[required[0], required[2]], ""), "missing_part", "`ce_source`"),
        (crate::record("", &required, ""), "missing_aggregate", "`partitionkey`"),
        (attribute, "invalid_attribute", "one of its attributes is neither"),
        (
            structured(r#"{"id":"1","source":"a","type":"b","data":1,"data_base64":""}"#),
            "invalid_payload",
            "`data_base64`",
        ),
        (
            structured(r#"{"id":"1","source":"a","type":"b","data_base64":"?"}"#),
            "invalid_payload",
            "not base64",
        ),
        (
            structured(r#"{"specversion":"2.0","id":"1","source":"a","type":"b"}"#),
            "unknown_version",
            "`specversion`",
        ),
    ] {
        let error = read(&record).unwrap_err();
        assert_eq!(error.reason(), reason, "{error}");
        assert!(error.to_string().contains(told), "{error}");
        assert!(!error.to_string().contains("c4n4ry"), "{error}");
    }
    let closed = structured(r#"{"id":"1","source":"a","type":"b","data_base64":"?"}"#);
    assert_eq!(reader().unfold("orders", &closed), None, "what cannot be opened stays as it is");
}

#[test]
fn a_request_is_a_record_in_binary_mode() {
    let headers = [
        ("Ce-Id", "17"),
        ("ce-source", "/shop"),
        ("ce-type", "Order%20Paid%zz"),
        ("ce-partitionkey", "order-7"),
        ("Content-Type", "application/json"),
    ];
    let headers = headers.map(|(name, value)| (name, value.as_bytes()));
    let record = cloud_event_of_request(headers, "{}".into()).unwrap();
    let event = read(&record).unwrap();
    assert_eq!(
        (event.event_type.as_str(), event.aggregate.aggregate_id()),
        ("Order Paid%zz", "order-7")
    );
    let structured = [("content-type", &b"application/cloudevents+json"[..])];
    let record = cloud_event_of_request(structured, WHOLE.into()).unwrap();
    assert_eq!(
        (record.key.as_deref(), record.header("ce_tenant").is_some()),
        (Some(&b"order-7"[..]), true)
    );
    let batch = [("content-type", &b"application/cloudevents-batch+json"[..])];
    assert_eq!(cloud_event_of_request(batch, "[]".into()).unwrap_err().reason(), "batch");
}

#[test]
fn a_sentence_names_the_attribute_and_what_its_values_are() {
    let object = r#"{"specversion":"1.0","id":"1","source":"a","type":"b","confluentRouting":{"route":"x"}}"#;
    let structured =
        crate::record("k", &[("content-type", "application/cloudevents+json")], object);
    let error = read(&structured).unwrap_err().to_string();
    assert!(error.contains("\"confluentRouting\""), "{error}");
    let headers = |version: &'static [u8]| {
        let mut record =
            crate::record("k", &[("ce_id", "1"), ("ce_source", "a"), ("ce_type", "b")], "{}");
        record.headers.push(outbox_core::Header {
            name: "ce_specversion".into(),
            value: Some(bytes::Bytes::from_static(version)),
        });
        record
    };
    let error = read(&headers(b"\xa1\x031.0")).unwrap_err().to_string();
    assert!(error.contains("AMQP values"), "{error}");
    assert!(read(&headers(b"1.0.2")).is_ok());
    assert!(read(&headers(b"2.0")).unwrap_err().to_string().contains("neither 1.x nor 0.3"));
}
