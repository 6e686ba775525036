//! Events about to be written.

use outbox_core::{
    Aggregate, Cause, EVENT_BYTES_MAX, EventId, Header, Json, OutboxEvent, header_names,
};

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
        .unwrap()
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
    assert_eq!(record.timestamp_ms, None, "a broker deletes records by it");
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

/// What consumers would take for unreadable is refused where it is written, and where a row is read again.
#[test]
fn a_time_that_no_consumer_reads_is_refused() {
    let event = || OutboxEvent::new("Credited", &account(), &5).unwrap();
    // The year 10000 and before 0000; microseconds, seconds and days.
    for millis in
        [253_402_300_800_000, -62_167_219_200_001, 1_767_323_045_678_901, 1_767_323_045, 20_485]
    {
        let sentence = event().with_occurred_at_ms(millis).unwrap_err().to_string();
        assert!(sentence.contains("milliseconds since 1970"), "{sentence}");
        let mut envelope = event().envelope().clone();
        envelope.occurred_at_ms = Some(millis);
        assert!(OutboxEvent::restored(envelope, None, Vec::new()).is_err(), "{millis}");
    }
    for millis in [253_402_300_799_999, -62_167_219_200_000, 0, 1_767_323_045_678] {
        assert!(event().with_occurred_at_ms(millis).is_ok(), "{millis}");
    }
}

#[test]
fn the_events_own_headers_cannot_be_set_by_hand() {
    for name in header_names::RESERVED {
        let event = OutboxEvent::new("Credited", &account(), &5).unwrap();
        let sentence = event.with_header(name, "x").unwrap_err().to_string();
        assert!(sentence.starts_with(&format!("the header `{name}` is set")), "{sentence}");
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
        "the aggregate id is 1025 bytes long, more than the allowed 1024"
    );
    let error = OutboxEvent::new("x".repeat(256), &account(), &5).unwrap_err();
    assert_eq!(error.to_string(), "the event type is 256 bytes long, more than the allowed 255");
}

fn credited() -> OutboxEvent {
    OutboxEvent::new("Credited", &account(), &5).unwrap()
}

fn header(event: &OutboxEvent, name: &str) -> Option<String> {
    let record = event.record();
    let count = record.headers.iter().filter(|header| header.name == name).count();
    assert!(count <= 1, "{name} occurs {count} times");
    record.header(name).map(|value| String::from_utf8(value.to_vec()).unwrap())
}

const TRACEPARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

#[test]
fn an_event_says_what_it_follows_from() {
    let first = credited();
    let second = credited().caused_by(&first);
    let third = credited().caused_by(&second);
    let id = |event: &OutboxEvent| Some(event.id().to_string());
    assert_eq!(header(&second, header_names::CAUSATION_ID), id(&first));
    assert_eq!(header(&third, header_names::CAUSATION_ID), id(&second));
    for event in [&second, &third] {
        let name = header(event, header_names::CORRELATION_ID);
        assert_eq!(name, id(&first), "a conversation has the name of its first event");
    }
    assert_eq!(header(&second, header_names::TRACEPARENT), None);

    let named = credited().with_correlation("c-1").unwrap().with_trace_context(TRACEPARENT, "a=1");
    let named = named.unwrap();
    let follows = credited().caused_by(&named);
    assert_eq!(header(&follows, header_names::CORRELATION_ID).unwrap(), "c-1");
    assert_eq!(header(&follows, header_names::TRACEPARENT).unwrap(), TRACEPARENT);
    assert_eq!(header(&follows, header_names::TRACESTATE).unwrap(), "a=1");
}

#[test]
fn what_an_event_says_itself_stays() {
    let said = credited().with_correlation("mine").unwrap().caused_by(EventId::from([7; 16]));
    let later = said.clone().caused_by(&credited().with_correlation("other").unwrap());
    assert_eq!(said, later);
    let renamed = said.with_correlation("new").unwrap();
    assert_eq!(header(&renamed, header_names::CORRELATION_ID).unwrap(), "new");
    let traced = credited().with_trace_context(TRACEPARENT, "a=1").unwrap();
    let traced = traced.with_trace_context(TRACEPARENT, "").unwrap();
    assert_eq!(header(&traced, header_names::TRACESTATE), None);
}

#[test]
fn a_trace_context_that_is_not_well_formed_is_not_handed_on() {
    let header_of = |name: &'static str, value: &'static str| Header {
        name: name.into(),
        value: Some(value.into()),
    };
    let headers = [
        header_of(header_names::TRACEPARENT, "00-1-2-01"),
        header_of(header_names::TRACESTATE, "a=1"),
        header_of(header_names::CORRELATION_ID, ""),
    ];
    let id = EventId::from([7; 16]);
    let event = credited().caused_by(Cause::new(id, &headers));
    assert_eq!(header(&event, header_names::TRACEPARENT), None);
    assert_eq!(header(&event, header_names::TRACESTATE), None);
    assert_eq!(header(&event, header_names::CORRELATION_ID), Some(id.to_string()));
}

#[test]
fn what_no_header_or_topic_can_be_is_refused_in_a_sentence() {
    let says = |event: Result<OutboxEvent, _>, words: &str| {
        let sentence: String =
            event.map_err(|e: outbox_core::OutboxEventError| e.to_string()).unwrap_err();
        assert!(sentence.starts_with(words), "{sentence}");
    };
    says(credited().with_correlation(""), "the correlation id is empty");
    says(credited().with_correlation("a\0"), "the correlation id contains a NUL");
    says(credited().with_correlation("a".repeat(1025)), "the correlation id is 1025 bytes long");
    says(credited().with_trace_context("00-1-2-01", ""), "the traceparent does not follow");
    says(credited().with_trace_context(TRACEPARENT, "\n"), "the tracestate is longer");
    for topic in ["", ".", "..", "a/b", "ü", "a b", &"a".repeat(250)] {
        says(credited().with_topic(topic.to_owned()), "the topic name is invalid");
    }
    assert_eq!(credited().with_topic("a".repeat(249)).unwrap().topic().unwrap().len(), 249);
}

#[test]
fn an_event_is_restored_as_it_was() {
    let event = credited().with_topic("t").unwrap().with_header("a", "b").unwrap();
    let (envelope, headers) = (event.envelope().clone(), event.headers().to_vec());
    let topic = event.topic().map(Into::into);
    assert_eq!(OutboxEvent::restored(envelope.clone(), topic, headers).unwrap(), event);
    let reserved = Header { name: header_names::EVENT_ID.into(), value: None };
    let error = OutboxEvent::restored(envelope.clone(), None, vec![reserved]).unwrap_err();
    assert!(error.to_string().starts_with("the header `event_id` is set"), "{error}");
    let error = OutboxEvent::restored(envelope.clone(), Some("a b".into()), vec![]).unwrap_err();
    assert!(error.to_string().starts_with("the topic "), "{error}");
    let mut nameless = envelope;
    nameless.event_type = "".into();
    let error = OutboxEvent::restored(nameless, None, vec![]).unwrap_err();
    assert_eq!(error.to_string(), "the event type is empty");
}

#[test]
fn the_size_covers_what_a_reader_measures() {
    let event = credited().with_header("a", vec![0; 1000]).unwrap();
    let (size, read) = (event.size(), event.record().size());
    assert!(size > read && size < read + 300, "{size} against {read}");
    assert_eq!(EVENT_BYTES_MAX, 1 << 20);
}

/// The time is the outbox's own; the key goes to Kafka as a header, unless the event has such a header already.
#[test]
fn a_time_and_a_key_are_bounded_and_the_key_is_a_header() {
    let plain = OutboxEvent::new("Due", &account(), &5).unwrap();
    let longest = "k".repeat(255);
    let event = plain.clone().with_deliver_after_ms(17).unwrap();
    let event = event.with_dedup_key(longest.as_str()).unwrap();
    assert_eq!((event.deliver_after_ms(), event.dedup_key()), (Some(17), Some(&longest[..])));
    assert_eq!((plain.deliver_after_ms(), plain.dedup_key()), (None, None));
    assert_eq!(event.record().header(header_names::DEDUP_KEY).unwrap(), longest.as_str());
    let mut rest = event.record();
    rest.headers.retain(|header| header.name != header_names::DEDUP_KEY);
    assert_eq!(rest, plain.record());
    assert!(event.size() > plain.size() + 255);
    let own = event.clone().with_header(header_names::DEDUP_KEY, "own").unwrap().record();
    assert_eq!(own.header(header_names::DEDUP_KEY).unwrap(), "own");
    assert_ne!(event, plain);
    for micros in [-1, 1_764_000_000_000_000, i64::MAX] {
        let sentence = plain.clone().with_deliver_after_ms(micros).unwrap_err().to_string();
        assert!(sentence.contains("in milliseconds since 1970"), "{sentence}");
    }
    for (key, what) in [("", "is empty"), (&*format!("{longest}k"), "256 bytes"), ("a\0", "NUL")] {
        let sentence = plain.clone().with_dedup_key(key).unwrap_err().to_string();
        assert!(sentence.starts_with("the dedup key ") && sentence.contains(what), "{sentence}");
    }
}
