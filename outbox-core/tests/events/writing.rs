//! Events about to be written.

use outbox_core::{Aggregate, EventId, Json, OutboxEvent, header_names};

fn account() -> Aggregate {
    Aggregate::new("Account", "42").unwrap()
}

#[test]
fn an_event_fills_its_headers() {
    let id = EventId::from([9; 16]);
    let event = OutboxEvent::with_codec("Credited", &account(), &5_u8, &Json)
        .unwrap()
        .with_id(id)
        .with_aggregate_version(3)
        .with_schema_version(2)
        .with_occurred_at_ms(-1)
        .with_header("tenant", "a")
        .unwrap();
    let record = event.record();
    let headers: Vec<_> = record
        .headers
        .iter()
        .map(|h| format!("{}={}", h.name, String::from_utf8_lossy(h.value.as_ref().unwrap())))
        .collect();
    assert_eq!(
        headers,
        [
            "event_id=09090909-0909-0909-0909-090909090909",
            "event_type=Credited",
            "aggregate_type=Account",
            "aggregate_version=3",
            "occurred_at=-1",
            "schema_version=2",
            "tenant=a",
        ]
    );
    assert_eq!(record.key.unwrap(), "42");
    assert_eq!(record.payload.unwrap(), "5");
    assert_eq!(event.id(), id);
    assert_eq!(event.headers().len(), 1);
}

#[test]
fn each_event_is_new_and_a_clone_is_the_same() {
    let one = OutboxEvent::new("Credited", &account(), &5).unwrap();
    let two = OutboxEvent::new("Credited", &account(), &5).unwrap();
    assert_ne!(one.id(), two.id());
    assert_eq!(one.id(), one.clone().id());
    assert_eq!(one.envelope().occurred_at_ms, one.id().made_at_ms());
}

#[test]
fn the_events_own_headers_cannot_be_set_by_hand() {
    for name in header_names::RESERVED {
        let event = OutboxEvent::new("Credited", &account(), &5).unwrap();
        let sentence = event.with_header(name, "x").unwrap_err().to_string();
        assert!(sentence.starts_with(&format!("the header `{name}` is filled")), "{sentence}");
    }
    let event = OutboxEvent::tombstone("Deleted", &account()).unwrap();
    assert_eq!(event.record().payload, None);
    let sentence = event.clone().with_header("", "x").unwrap_err().to_string();
    assert_eq!(sentence, "the name of a header is empty");
    assert!(event.with_header(header_names::TRACEPARENT, "00-1-2-01").is_ok());
}

#[test]
fn texts_that_no_database_or_reader_takes_are_refused() {
    let said = |a: &str, b: &str| Aggregate::new(a, b).unwrap_err().to_string();
    assert_eq!(said("", "1"), "the aggregate type is empty");
    assert_eq!(said("A", "1\0"), "the aggregate id contains a NUL character");
    assert_eq!(
        said("A", &"x".repeat(1025)),
        "the aggregate id is 1025 bytes long, more than the 1024 that are allowed"
    );
    let error = OutboxEvent::new("x".repeat(256), &account(), &5).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the event type is 256 bytes long, more than the 255 that are allowed"
    );
}
