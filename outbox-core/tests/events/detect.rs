//! Formats are told by a few records.

use outbox_core::{Record, internal::detect};

use crate::debezium;

/// What is proposed for a variant's records of orders: format, keys, whether a person has to decide something.
fn proposed(variant: &str) -> (&'static str, Vec<String>, bool) {
    let placed = debezium::records(variant);
    let topic = placed[0].topic.clone();
    let records: Vec<Record> = placed
        .into_iter()
        .filter(|placed| placed.topic == topic)
        .map(|placed| placed.record)
        .collect();
    let found = detect(&topic, &records).unwrap();
    assert_eq!(found.read, records.len(), "{variant}: {found:?}");
    (found.format, found.keys, found.note.is_some())
}

#[test]
fn the_router_is_recognised_in_each_of_its_configurations() {
    let topic = "rules.type = \"topic:outbox.event.*\"".to_owned();
    let placed = |place: &str| {
        format!("debezium.\"table.fields.additional.placement\" = \"type:{place}:eventType\"")
    };
    let json =
        "debezium.\"value.converter\" = \"org.apache.kafka.connect.json.JsonConverter\"".to_owned();
    let schemas = |on: bool| format!("debezium.\"value.converter.schemas.enable\" = \"{on}\"");
    for (variant, keys, decided) in [
        ("default-string", vec![topic.clone()], false),
        ("default-json", vec![topic.clone(), json.clone(), schemas(false)], false),
        ("default-json-schemas", vec![topic.clone(), json.clone(), schemas(true)], false),
        ("default-expand", vec![topic.clone()], false),
        ("default-type-header", vec![placed("header")], true),
        ("default-type-envelope", vec![placed("envelope")], true),
        ("mapped-string", vec![placed("header")], true),
        ("bytes-raw", vec![topic], false),
    ] {
        let (format, found, asks) = proposed(variant);
        assert_eq!((format, asks), ("debezium-outbox", !decided), "{variant}");
        assert_eq!(found, keys, "{variant}");
    }
}

/// The first record of each format's section in docs/formats.md, or one like it.
#[test]
fn every_format_is_tried() {
    let change = r#"{"before":null,"after":{"id":7},"source":{"connector":"postgresql","ts_ms":1,"schema":"public","table":"orders","txId":771,"lsn":2},"op":"c","ts_ms":1}"#;
    let masstransit = r#"{"messageId":"1","messageType":["urn:message:Shop:OrderPaid"],"message":{"total": 12.50}}"#;
    let eventuate =
        r#"{"payload":"{}","headers":{"event-aggregate-type":"a","event-type":"b","ID":"1"}}"#;
    let types = ("spring_json_header_types", "{}");
    let id = ("eventId", "\"1\"");
    let paid = ("event_type", "\"Paid\"");
    for (headers, value, format, keys, asks) in [
        (&[][..], change, "debezium-raw", &[][..], false),
        (&[], masstransit, "masstransit", &[], false),
        (&[("MessageId", "1"), ("MT-MessageType", "a")], "{}", "masstransit", &[], false),
        (&[], eventuate, "eventuate-tram", &[], false),
        (&[("event_id", "\"1\""), paid], "{}", "spring-cloud-stream", &[], false),
        (&[id, paid, types], "{}", "spring-cloud-stream", &["rules.id = \"header:eventId\""], true),
        (
            &[("__TypeId__", "a.Paid")],
            "{}",
            "spring-cloud-stream",
            &["rules.id = \"position\""],
            true,
        ),
    ] {
        let found = detect("orders", [&crate::record("{\"id\":7}", headers, value)]).unwrap();
        assert_eq!((found.format, found.read), (format, 1), "{found:?}");
        assert_eq!(
            (&found.keys[..], found.note.is_some()),
            (&keys.iter().map(ToString::to_string).collect::<Vec<_>>()[..], asks)
        );
    }
    // A deletion's tombstone is none of its changes, and no reason against the format.
    let change = crate::record("{\"id\":7}", &[], change);
    let tombstone = Record { payload: None, ..change.clone() };
    let found = detect("orders", [&change, &tombstone]).unwrap();
    assert_eq!((found.format, found.read, found.note), ("debezium-raw", 1, None));
}

#[test]
fn other_formats_are_recognised_by_their_headers() {
    let own = crate::record("7", &[("event_id", "1"), ("event_type", "Paid")], "{}");
    let cloud =
        crate::record("7", &[("ce_id", "1"), ("ce_source", "a"), ("ce_type", "Paid")], "{}");
    let structured =
        crate::record("7", &[], r#"{"specversion":"1.0","id":"1","source":"a","type":"b"}"#);
    for (record, format) in [(own, "own"), (cloud, "cloudevents"), (structured, "cloudevents")] {
        let found = detect("orders", [&record]).unwrap();
        assert_eq!((found.format, found.read, found.note), (format, 1, None));
    }
    assert_eq!(detect("orders", [&crate::record("7", &[], "{}")]), None);
    assert_eq!(detect("orders", []), None);
}
