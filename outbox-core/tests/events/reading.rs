//! Records to events.

use outbox_core::{
    EventId, Header, IdScope, OutboxEvent, ReadError, Reader, Record, SOURCE_ID_BYTES_MAX,
};

use crate::{reader, record};

const ID: &str = "0190a5c8-7c2e-7d64-9b6e-0c9f5d9b2a11";

fn own() -> Reader {
    Reader::own(crate::BYTES_MAX).with_topics(["orders"])
}

fn said(reader: &Reader, record: &Record) -> (&'static str, String) {
    let error = reader.read("orders", 1, 2, record).unwrap_err();
    (error.reason(), error.to_string())
}

#[test]
fn our_own_headers_are_read() {
    let sent = record(
        "1001",
        &[
            ("event_id", ID),
            ("event_type", "OrderPaid"),
            ("aggregate_type", "Order"),
            ("aggregate_version", "7"),
            ("occurred_at", "2026-01-31T08:30:00.250Z"),
            ("schema_version", "2"),
            ("tenant", "a"),
        ],
        "not even JSON",
    );
    let event = own().read("orders", 1, 2, &sent).unwrap();
    assert_eq!(event.event_id.to_string(), ID);
    assert_eq!(event.source_id, None);
    assert_eq!(event.event_type, "OrderPaid");
    assert_eq!(event.aggregate.to_string(), "Order/1001");
    assert_eq!(event.aggregate_version, Some(7));
    assert_eq!(event.occurred_at_ms, Some(1_769_848_200_250));
    assert_eq!(event.schema_version, Some(2));
    assert_eq!(event.payload, sent.payload);
}

#[test]
fn reading_our_own_headers_copies_nothing() {
    let names = [("event_id", "foreign"), ("event_type", "OrderPaid"), ("aggregate_type", "Order")];
    let sent = record("1001", &names, "{}");
    let event = own().read("orders", 1, 2, &sent).unwrap();
    let same = |text: &[u8], bytes: Option<&bytes::Bytes>| {
        assert_eq!(text.as_ptr(), bytes.unwrap().as_ptr());
    };
    same(event.aggregate.aggregate_id().as_bytes(), sent.key.as_ref());
    same(event.aggregate.aggregate_type().as_bytes(), sent.header("aggregate_type"));
    same(event.event_type.as_bytes(), sent.header("event_type"));
    same(event.source_id.unwrap().as_bytes(), sent.header("event_id"));
    assert_eq!(event.payload.unwrap().as_ptr(), sent.payload.unwrap().as_ptr());

    let reader = own();
    let untyped = record("1001", &names[..2], "{}");
    let one = reader.read("orders", 1, 2, &untyped).unwrap();
    let two = reader.read("orders", 1, 3, &untyped).unwrap();
    let topic = |event: &outbox_core::Envelope| event.aggregate.aggregate_type().as_ptr();
    assert_eq!(topic(&one), topic(&two), "the topic's name is shared");
}

#[test]
fn an_aggregate_header_goes_before_the_key_and_the_topic_stands_in_for_a_type() {
    let headers = [("event_id", ID), ("event_type", "T"), ("aggregate_id", "of header")];
    let event = own().read("orders", 1, 2, &record("of key", &headers, "")).unwrap();
    assert_eq!(event.aggregate.to_string(), "orders/of header");
    let event = own().read("returns", 1, 2, &record("of key", &headers[..2], "")).unwrap();
    assert_eq!(event.aggregate.to_string(), "returns/of key");
}

/// B11.
#[test]
fn what_is_missing_is_named() {
    let all = [("event_id", ID), ("event_type", "T")];
    assert_eq!(
        said(&own(), &record("k", &all[1..], "")),
        (
            "missing_id",
            "the record has no event id: the header `event_id` is missing or empty; have its \
             producer send one for each event, or set `events.rules.id` to its place, with \
             `events.format` custom"
                .to_owned()
        )
    );
    let (reason, sentence) = said(&own(), &record("k", &all[..1], ""));
    assert_eq!(reason, "missing_type");
    assert!(sentence.contains("the header `event_type` is missing or empty"), "{sentence}");
    let (reason, sentence) = said(&own(), &record("", &all, ""));
    assert_eq!(reason, "missing_aggregate");
    assert!(sentence.contains("the header `aggregate_id` or the record key is"), "{sentence}");
    let empty = record("k", &[("event_id", ""), ("event_type", "T")], "");
    assert_eq!(said(&own(), &empty).0, "missing_id");
}

/// B10, E8: the last header of a name counts, and a null one counts as absent.
#[test]
fn duplicate_and_null_headers_have_one_meaning() {
    let mut sent = record("k", &[("event_id", "first"), ("event_id", ID), ("event_type", "T")], "");
    assert_eq!(own().read("orders", 1, 2, &sent).unwrap().event_id.to_string(), ID);
    sent.headers.push(Header { name: "event_id".into(), value: None });
    assert_eq!(said(&own(), &sent).0, "missing_id");
}

/// B10.
#[test]
fn ids_of_any_text_are_read_and_shown() {
    for (id, shown) in [
        (&b"order-1"[..], "order-1".to_owned()),
        (b"a\0b", "a\u{fffd}b".to_owned()),
        ("é".repeat(200).as_bytes(), "é".repeat(SOURCE_ID_BYTES_MAX / 2)),
    ] {
        let mut sent = record("k", &[("event_type", "T")], "");
        sent.headers.push(Header { name: "event_id".into(), value: Some(id.to_vec().into()) });
        let event = own().read("orders", 1, 2, &sent).unwrap();
        assert_eq!(event.event_id, EventId::foreign("orders", id).unwrap());
        assert_eq!(event.source_id.unwrap(), *shown);
    }
    let mut sent = record("k", &[("event_type", "T")], "");
    sent.headers.push(Header { name: "event_id".into(), value: Some(b"\xffz".to_vec().into()) });
    assert_eq!(
        said(&own(), &sent),
        (
            "invalid_header",
            "the header `event_id`, read as the event id, is not UTF-8 text".to_owned()
        )
    );
    let long = "x".repeat(1025);
    let sent = record("k", &[("event_id", &long), ("event_type", "T")], "");
    assert_eq!(
        said(&own(), &sent),
        (
            "invalid_header",
            "the header `event_id`, read as the event id, is 1025 bytes long, more than the allowed 1024"
                .to_owned()
        )
    );
}

#[test]
fn what_is_wrong_is_named_and_not_shown() {
    for (name, value, expected) in [
        (
            "event_type",
            "secret\0",
            "the header `event_type`, read as the event type, contains a NUL character",
        ),
        (
            "aggregate_version",
            "secret",
            "the header `aggregate_version`, read as the aggregate version, is not an integer within range",
        ),
        (
            "schema_version",
            "2147483648",
            "the header `schema_version`, read as the schema version, is not an integer within range",
        ),
        (
            "occurred_at",
            "secret",
            "the header `occurred_at`, read as the time of the event, is neither milliseconds since 1970 nor an RFC 3339 time such as 2026-01-31T09:30:00Z",
        ),
    ] {
        let headers = [("event_id", ID), ("event_type", "T"), (name, value)];
        assert_eq!(
            said(&own(), &record("k", &headers, "")),
            ("invalid_header", expected.to_owned())
        );
    }
    let mut sent = record("", &[("event_id", ID), ("event_type", "T")], "");
    for (key, problem) in [
        (&[0xff][..], "is not UTF-8 text; `key:hex` reads keys that are not text"),
        (
            &42_i64.to_be_bytes(),
            "contains a NUL character, as binary keys do; `key:hex` reads keys that are not text (`events.rules.aggregate_id`)",
        ),
    ] {
        sent.key = Some(key.to_vec().into());
        let wanted = format!("the record key, read as the aggregate id, {problem}");
        assert_eq!(said(&own(), &sent).1, wanted);
    }
}

/// E9: refused by its size before anything of it is looked at.
#[test]
fn a_record_above_the_limit_is_refused_unparsed() {
    let reader = reader(r#"{"id": "pointer:/id", "type": "value:T", "aggregate_id": "key"}"#);
    let sized = |bytes: usize| record("k", &[], &"x".repeat(bytes - 1));
    let max = 1 << 20;
    assert_eq!(said(&reader, &sized(max)).0, "invalid_json", "at the limit it is parsed");
    assert_eq!(said(&reader, &sized(max - 1)).0, "invalid_json");
    let huge = sized(20_000_000);
    let error = reader.read("orders", 0, 0, &huge).unwrap_err();
    assert_eq!(error, ReadError::TooLarge { bytes: 20_000_000, max });
    assert_eq!(said(&reader, &sized(max + 1)).0, "too_large");
    assert_eq!(reader.order_key("orders", &huge), Some(&b"k"[..]), "it keeps its place in line");
}

#[test]
fn parts_come_from_where_the_rules_say() {
    let reader = reader(
        r#"{
            "id": ["header:ce_id", "pointer:/meta/id"], "id_source": "header:ce_source",
            "type": "pointer:/meta/type", "aggregate_id": "pointer:/order/0/no", "aggregate_type": "value:Order",
            "aggregate_version": "pointer:/meta/v", "occurred_at": "pointer:/meta/at", "schema_version": "value:3"
        }"#,
    );
    let payload = r#"{"order": [{"no": 18446744073709551615}], "meta":
        {"id": "\u0061-1", "type": "Paid", "v": -2, "at": 1769848200250, "deep": [[{}]]}}"#;
    let event = reader.read("t", 0, 0, &record("k", &[("ce_source", "/shop")], payload)).unwrap();
    assert_eq!(event.event_id, EventId::foreign("/shop", "a-1").unwrap());
    assert_eq!(event.source_id.unwrap(), "a-1");
    assert_eq!(event.event_type, "Paid");
    assert_eq!(event.aggregate.to_string(), "Order/18446744073709551615");
    assert_eq!(event.aggregate_version, Some(-2));
    assert_eq!(event.occurred_at_ms, Some(1_769_848_200_250));
    assert_eq!(event.schema_version, Some(3));
}

/// I1.
#[test]
fn a_payload_that_does_not_have_it_is_told_by_its_pointer() {
    let reader = reader(r#"{"id": "pointer:/id", "type": "value:T", "aggregate_id": "key"}"#);
    for (payload, reason, expected) in [
        (
            r#"{"id": "secret""#,
            "invalid_json",
            "the payload is not JSON: EOF while parsing an object at line 1 column 15",
        ),
        (
            r#"{"id": 1} secret"#,
            "invalid_json",
            "the payload is not JSON: trailing characters at line 1 column 11",
        ),
        (
            r#"{"id": ["secret"]}"#,
            "invalid_pointer",
            "the payload at `/id`, read as the event id, is neither a string nor an integer",
        ),
        (
            r#"{"id": 1.5}"#,
            "invalid_pointer",
            "the payload at `/id`, read as the event id, is neither a string nor an integer",
        ),
        (
            r#"{"id": null}"#,
            "missing_id",
            "the record has no event id: the payload at `/id` is missing or empty; have its \
             producer send one for each event, or set `events.rules.id` to its place, with \
             `events.format` custom",
        ),
        (
            r#"["secret"]"#,
            "missing_id",
            "the record has no event id: the payload at `/id` is missing or empty; have its \
             producer send one for each event, or set `events.rules.id` to its place, with \
             `events.format` custom",
        ),
    ] {
        assert_eq!(said(&reader, &record("k", &[], payload)), (reason, expected.to_owned()));
    }
}

/// E8.
#[test]
fn a_tombstone_is_an_event_unless_its_parts_are_in_the_payload() {
    let mut sent = record("k", &[("event_id", ID), ("event_type", "T")], "");
    sent.payload = None;
    assert_eq!(own().read("orders", 1, 2, &sent).unwrap().payload, None);
    sent.payload = Some(bytes::Bytes::new());
    assert_eq!(own().read("orders", 1, 2, &sent).unwrap().payload.unwrap(), "");

    sent.payload = None;
    let reader =
        reader(r#"{"id": ["header:x", "pointer:/id"], "type": "value:T", "aggregate_id": "key"}"#);
    assert_eq!(
        said(&reader, &sent),
        (
            "tombstone",
            "the record is a tombstone (it has no payload), so it has no event id in the payload \
             at `/id`; set `events.rules.id` to a header or the key as well"
                .to_owned()
        )
    );
}

/// B11: a producer that sends no ids.
#[test]
fn a_position_stands_in_for_an_id() {
    let reader = reader(
        r#"{"id": ["header:id", "position"], "type": "value:T", "aggregate_id": "key:hex"}"#,
    );
    let mut sent = record("", &[], "");
    sent.key = Some(vec![0, 255].into());
    let event = reader.read("orders", 3, 17, &sent).unwrap();
    assert_eq!(event.event_id, EventId::at("orders", 3, 17).unwrap());
    assert_eq!(event.source_id, None);
    assert_eq!(event.aggregate.aggregate_id(), "00ff");
    sent.headers.push(Header { name: "id".into(), value: Some(ID.into()) });
    assert_eq!(reader.read("orders", 3, 17, &sent).unwrap().event_id.to_string(), ID);
}

/// Whatever names an event, and wherever the rules take an id's source from: the topic is part of the id.
#[test]
fn ids_within_a_topic_are_met_by_no_other_topic() {
    let rules = r#"{"id": ["header:id", "position"], "id_source": "header:source", "type": "value:T", "aggregate_id": "key"}"#;
    let shared = reader(rules);
    let scoped = shared.clone().with_id_scope(IdScope::Topic);
    let read = |reader: &Reader, topic: &str, headers: &[(&'static str, &str)]| {
        reader.read(topic, 3, 17, &record("k", headers, "")).unwrap()
    };
    for id in [&[("id", ID)][..], &[("id", "order-1"), ("source", "shop")], &[("source", "shop")]] {
        let of_consumer = read(&shared, "orders", id);
        let event = read(&scoped, "orders", id);
        assert_eq!(event.event_id, of_consumer.event_id.within("orders").unwrap());
        assert_eq!(event.source_id.as_deref(), id[0].0.eq("id").then_some(id[0].1));
        // What the other topic's producer can send: the same, and the made id in clear.
        let text = of_consumer.event_id.to_string();
        assert_eq!(read(&shared, "refunds", &[("id", &text)]).event_id, of_consumer.event_id);
        for claim in [id, &[("id", &text)], &[("id", &event.event_id.to_string())]] {
            assert_ne!(read(&scoped, "refunds", claim).event_id, event.event_id);
        }
    }
}

#[test]
fn what_was_written_is_read() {
    let account = outbox_core::Aggregate::new("Account", "42").unwrap();
    let sent = OutboxEvent::new("Credited", &account, &5).unwrap().with_schema_version(1);
    let read = own().read("accounts", 0, 0, &sent.record()).unwrap();
    assert_eq!(&read, sent.envelope());
}

#[test]
fn nothing_of_a_payload_is_in_debug() {
    let sent = record("k", &[("event_id", ID), ("event_type", "T"), ("token", "secret")], "secret");
    let event = own().read("orders", 1, 2, &sent).unwrap();
    assert!(!format!("{sent:?} {event:?}").contains("secret"));
    assert!(format!("{event:?}").contains("payload: 6 bytes"));
}

/// A key of a schema may look like a text, with its length or quotes around it: `__key_schema_id` says that it is none.
#[test]
fn a_key_of_a_schema_is_no_text() {
    let headers = [("event_id", "0198c5a0-7b5e-7c3d-8000-000000000001"), ("event_type", "Paid")];
    for key in ["\u{e}order-7", "\"order-7\""] {
        let plain = record(key, &headers, "{}");
        assert!(own().read("orders", 1, 2, &plain).is_ok(), "{key:?} without the header");
        let with = |more: (&'static str, &'static str)| {
            record(key, &[&headers[..], &[("__key_schema_id", "\u{1}..."), more]].concat(), "{}")
        };
        let (reason, error) = said(&own(), &with(("x", "y")));
        assert!(reason == "invalid_key" && error.contains("`__key_schema_id`"), "{error}");
        let named = own().read("orders", 1, 2, &with(("aggregate_id", "7"))).unwrap();
        assert_eq!(named.aggregate.aggregate_id(), "7");
    }
}
