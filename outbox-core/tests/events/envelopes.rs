//! Messages of Spring, `MassTransit` and Eventuate Tram. What each looks like is in docs/formats.md, which a test reads.

use outbox_core::{Envelope, EventId, Preset, ReadError, Reader, Record, RuleKeys};

fn read(preset: Preset, record: &Record) -> Result<Envelope, ReadError> {
    let reader = Reader::preset(preset, &RuleKeys::default(), crate::BYTES_MAX).unwrap();
    reader.read("orders", 3, 7, record)
}

#[test]
fn headers_of_spring_are_texts_in_quotes_or_without() {
    for (id, event_type) in [("\"e-1\"", "\"Paid\""), ("e-1", "Paid")] {
        let record =
            crate::record("7", &[("event_id", id), ("event_type", event_type)], "\"text\"");
        let event = read(Preset::SpringCloudStream, &record).unwrap();
        assert_eq!(event.event_id, EventId::foreign("orders", "e-1").unwrap());
        assert_eq!(
            (event.event_type.as_str(), event.payload.as_deref()),
            ("Paid", Some(&b"\"text\""[..]))
        );
    }
    let class = [("event_id", "1"), ("__TypeId__", "shop.OrderPaid")];
    let event = read(Preset::SpringCloudStream, &crate::record("7", &class, "{}")).unwrap();
    assert_eq!(event.event_type, "shop.OrderPaid");
}

#[test]
fn masstransit_has_headers_or_an_envelope() {
    let id = "0190a5c8-7c2e-7d64-9b6e-0c9f5d9b2a11";
    let raw =
        [("MessageId", id), ("MT-MessageType", "urn:message:Shop:Paid;urn:message:Shop:Event")];
    let event = read(Preset::MassTransit, &crate::record("7", &raw, r#"{"total": 1}"#)).unwrap();
    assert_eq!(
        (event.event_id.to_string().as_str(), event.event_type.as_str()),
        (id, "urn:message:Shop:Paid")
    );
    assert_eq!(event.payload.as_deref(), Some(&br#"{"total": 1}"#[..]));
    let none = crate::record("7", &raw, r#"{"messageId":"1","message":null}"#);
    assert_eq!(read(Preset::MassTransit, &none).unwrap().payload, None);
    let other = read(Preset::MassTransit, &crate::record("7", &raw, "no JSON")).unwrap();
    assert_eq!(other.payload.as_deref(), Some(&b"no JSON"[..]));
}

#[test]
fn a_raw_payload_of_masstransit_may_have_a_message_of_its_own() {
    let raw = [("MessageId", "e-1"), ("MT-MessageType", "urn:message:Shop:Paid")];
    let named = |content_type: &'static str| [raw[0], raw[1], ("Content-Type", content_type)];
    let value = r#"{"message":{"n": 1},"total":1}"#;
    let whole = Some(value.as_bytes());
    let inner = Some(&br#"{"n": 1}"#[..]);
    for (record, payload) in [
        (crate::record("7", &raw, value), whole),
        (crate::record("7", &named("application/json"), value), whole),
        (crate::record("7", &named("application/vnd.masstransit+json"), value), inner),
        (
            crate::record("7", &named("Application/vnd.MassTransit+JSON; charset=utf-8"), value),
            inner,
        ),
        (crate::record("7", &raw, r#"{"messageId":"e-1","message":{"n": 1}}"#), inner),
        (crate::record("7", &raw, r#"{"messageType":["a"],"message":{"n": 1}}"#), inner),
    ] {
        let event = read(Preset::MassTransit, &record).unwrap();
        assert_eq!(event.payload.as_deref(), payload, "{record:?}");
        assert_eq!(event.source_id.as_deref(), Some("e-1"));
    }
}

/// The raw serializer names the type of what it sends, whose members may be called as those of the envelope.
#[test]
fn a_named_content_type_of_masstransit_is_believed() {
    let raw = [("MessageId", "e-1"), ("MT-MessageType", "urn:message:Shop:Paid")];
    let value = r#"{"messageId":"7","message":{"n": 1},"total":1}"#;
    let sent = |content_type| {
        let headers = [raw[0], raw[1], ("Content-Type", content_type)];
        read(Preset::MassTransit, &crate::record("7", &headers, value)).unwrap()
    };
    let json = sent("application/json");
    assert_eq!(json.payload.as_deref(), Some(value.as_bytes()));
    assert_eq!(json.source_id.as_deref(), Some("e-1"));
    let envelope = sent("application/vnd.masstransit+json");
    assert_eq!(envelope.payload.as_deref(), Some(&br#"{"n": 1}"#[..]));
    // Without headers it is the envelope by its looks, under whatever name.
    let value = r#"{"messageId":"1","messageType":["a"],"message":{"n": 1}}"#;
    let record = crate::record("7", &[("Content-Type", "application/json")], value);
    let event = read(Preset::MassTransit, &record).unwrap();
    assert_eq!(event.payload.as_deref(), Some(&br#"{"n": 1}"#[..]));

    let named = [("Content-Type", "application/vnd.masstransit+json")];
    for (value, reason, told) in [
        (r#"{"messageId":"1","messageType":["a"]}"#, "invalid_payload", "the member `message`"),
        ("no JSON", "invalid_json", "by its content type it is the envelope"),
    ] {
        let error = read(Preset::MassTransit, &crate::record("7", &named, value)).unwrap_err();
        assert_eq!(error.reason(), reason, "{error}");
        assert!(error.to_string().contains(told), "{error}");
    }
}

#[test]
fn eventuate_has_everything_in_its_value() {
    let value = r#"{"payload":"{\"n\":1}","headers":{"ID":"18-f2","event-type":"Paid","event-aggregate-type":"Order"}}"#;
    let event = read(Preset::EventuateTram, &crate::record("7", &[], value)).unwrap();
    assert_eq!(event.source_id.as_deref(), Some("18-f2"));
    assert_eq!(
        (event.event_type.as_str(), event.aggregate.to_string().as_str()),
        ("Paid", "Order/7")
    );
    assert_eq!(event.payload.as_deref(), Some(&br#"{"n":1}"#[..]));
}

#[test]
fn what_fits_no_way_is_told() {
    let command = r#"{"payload":"{}","headers":{"ID":"1","command_type":"Pay"}}"#;
    for (preset, value, reason, told) in [
        (Preset::SpringCloudStream, "{}", "missing_id", "Spring does not send the id"),
        (Preset::MassTransit, "{}", "missing_id", "MassTransit has it in the header `MessageId`"),
        (Preset::MassTransit, r#"{"messageId":"1","message":{}}"#, "missing_type", "`messageType`"),
        (Preset::EventuateTram, command, "missing_type", "commands and replies"),
        (
            Preset::EventuateTram,
            "no JSON",
            "invalid_json",
            "a JSON object with `payload` and `headers`",
        ),
        (Preset::EventuateTram, "{}", "invalid_payload", "without the member `payload`"),
    ] {
        let error = read(preset, &crate::record("7", &[], value)).unwrap_err();
        assert_eq!(error.reason(), reason, "{error}");
        assert!(error.to_string().contains(told), "{error}");
    }
    let spring = crate::record("7", &[("event_id", "1")], "{}");
    let error = read(Preset::SpringCloudStream, &spring).unwrap_err();
    assert!(error.to_string().contains("`__TypeId__`"), "{error}");
}
