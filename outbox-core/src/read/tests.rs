//! Reading: what is found where, what is refused, and that nothing panics.

use proptest::prelude::*;

use super::*;
use crate::Header;

fn record(key: Option<&str>, headers: &[(&str, &str)], payload: &str) -> Record {
    let header = |(name, value): &(&str, &str)| Header {
        name: (*name).into(),
        value: Some(value.to_string().into()),
    };
    Record {
        key: key.map(|key| key.to_owned().into()),
        headers: headers.iter().map(header).collect(),
        payload: Some(payload.to_owned().into()),
        timestamp_ms: None,
    }
}

fn rules(toml: serde_json::Value) -> Reader {
    Reader::new(serde_json::from_value(toml).unwrap(), 1 << 20)
}

#[test]
fn our_own_headers_are_read_and_the_key_is_the_aggregate() {
    let id = EventId::new().to_string();
    let sent = record(
        Some("42"),
        &[("event_id", &id), ("event_type", "Paid"), ("occurred_at", "1970-01-01T00:00:01.5Z")],
        "{}",
    );
    let read = Reader::own(1 << 20).read("orders", 0, 5, &sent).unwrap();
    assert_eq!(read.event_id.to_string(), id);
    assert_eq!((&*read.event_type, read.aggregate.to_string().as_str()), ("Paid", "orders/42"));
    assert_eq!(read.occurred_at_ms, Some(1500));
}

/// B11, E8.
#[test]
fn what_is_missing_or_wrong_is_said_with_its_place() {
    let read = |headers: &[(&str, &str)]| {
        let error = Reader::own(100).read("orders", 0, 5, &record(Some("42"), headers, "{}"));
        error.unwrap_err().to_string()
    };
    assert!(read(&[]).starts_with("the record has no event id at header:event_id"));
    assert!(read(&[("event_id", "")]).starts_with("the record has no event id"));
    assert!(
        read(&[("event_id", "x")]).starts_with("the record has no event type at header:event_type")
    );
    let wrong = read(&[("event_id", "x"), ("event_type", "a\0b")]);
    assert_eq!(wrong, "the event type at header:event_type contains a NUL character");
    let wrong = read(&[("event_id", "x"), ("event_type", "a"), ("schema_version", "two")]);
    assert_eq!(
        wrong,
        "the schema version at header:schema_version is not a whole number within range"
    );
    let large = read(&[("event_id", &"x".repeat(200))]);
    assert!(large.contains("more than the 100 of events.event_bytes_max"), "{large}");
}

#[test]
fn values_are_taken_from_where_the_rules_say() {
    let reader = rules(serde_json::json!({
        "id": "pointer:/meta/id", "type": "value:Paid", "aggregate_id": "pointer:/order",
        "aggregate_type": "value:Order",
    }));
    let sent = record(None, &[], r#"{"meta":{"id":"abc"},"order":17}"#);
    let read = reader.read("orders", 0, 5, &sent).unwrap();
    assert_eq!(read.source_id.as_deref(), Some("abc"));
    assert_eq!(read.event_id, EventId::foreign("orders", "abc").unwrap());
    assert_eq!(read.aggregate.to_string(), "Order/17");
    assert_eq!(reader.order_key("orders", &sent), None, "it would need the payload");
    assert_eq!(reader.lane_rule(), "pointer:/order");
    let broken = reader.read("orders", 0, 5, &record(None, &[], "{")).unwrap_err().to_string();
    assert!(broken.starts_with("the payload is not JSON"), "{broken}");
}

#[test]
fn producers_that_send_no_id_are_known_by_position() {
    let reader = rules(serde_json::json!({ "id": "position", "type": "value:Ping" }));
    let sent = record(Some("k"), &[], "");
    let id = |partition, offset| reader.read("t", partition, offset, &sent).unwrap().event_id;
    assert_eq!(id(0, 1), id(0, 1));
    assert_ne!(id(0, 1), id(1, 0));
}

#[test]
fn a_rule_that_is_no_place_says_what_places_there_are() {
    let error =
        serde_json::from_value::<ReadRules>(serde_json::json!({ "id": "headr:x", "type": "key" }));
    let text = error.unwrap_err().to_string();
    assert!(text.contains("`headr:x` is no place in a record; write header:NAME"), "{text}");
}

/// C4.
#[test]
fn a_record_without_a_key_is_an_aggregate_of_its_own() {
    let reader = rules(serde_json::json!({ "id": "position", "type": "value:Ping" }));
    let read = |offset| reader.read("t", 0, offset, &record(None, &[], "")).unwrap().aggregate;
    assert_ne!(read(1), read(2));
}

#[test]
fn times_are_read_in_both_forms() {
    for (text, millis) in [
        ("1700000000000", Some(1_700_000_000_000)),
        ("2026-01-02T03:04:05.678901Z", Some(1_767_323_045_678)),
        ("2026-01-02T05:04:05+02:00", Some(1_767_323_045_000)),
        ("1969-12-31T23:59:59Z", Some(-1000)),
        ("2026-13-02T05:04:05Z", None),
        ("yesterday", None),
        ("", None),
    ] {
        assert_eq!(time::millis(text), millis, "{text}");
    }
}

fn any_bytes() -> impl Strategy<Value = Option<Bytes>> {
    proptest::option::of(proptest::collection::vec(any::<u8>(), 0..40).prop_map(Bytes::from))
}

proptest! {
    /// C4, B10, E8: keys, headers and payloads are anybody's bytes.
    #[test]
    fn no_record_makes_the_reader_panic(key in any_bytes(), id in any_bytes(), kind in any_bytes(),
        payload in any_bytes(), time in any_bytes()) {
        let header = |name: &str, value| Header { name: name.into(), value };
        let sent = Record {
            key,
            headers: vec![header("event_id", id), header("event_type", kind), header("occurred_at", time)],
            payload,
            timestamp_ms: None,
        };
        let pointers = serde_json::json!({ "id": "pointer:/a", "type": "pointer:/b" });
        let _ = Reader::own(1 << 20).read("t", 0, 1, &sent);
        let _ = rules(pointers).read("t", 0, 1, &sent);
    }

    /// C4: equal keys from different buffers have one order, and the aggregate goes with it.
    #[test]
    fn equal_keys_have_equal_places(key in proptest::collection::vec(any::<u8>(), 0..20)) {
        let sent = |key: &[u8]| Record { key: Some(Bytes::copy_from_slice(key)), ..Record::default() };
        let reader = Reader::own(1 << 20);
        let (one, two) = (sent(&key), sent(&key));
        prop_assert_eq!(reader.order_key("a", &one), reader.order_key("b", &two));
    }
}
