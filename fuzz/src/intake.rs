//! Any request of HTTP: events within the bounds, or a status and a sentence; and no signature but that of the secret.
//!
//! An input is lines: the pointer to a webhook's aggregate (or nothing known: `-`), then headers as `NAME=VALUE`; then
//! an empty line, and the body.

use bytes::Bytes;
use inbox_intake::internal::{reader, records, signed};
use outbox_core::{Envelope, EventId, IdScope, Reader, Record};
use serde_json::Value;

use super::input::{head_and_rest, pair};

/// Of the example that Standard Webhooks publishes.
const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const SIGNED_ID: &[u8] = b"msg_p5jXN8AQM9LWM0D4loKWxJek";
const SIGNED_AT: u64 = 1_614_265_330;
const SIGNED_BODY: &[u8] = br#"{"test": 2432232314}"#;

/// What an event may take beside what was sent of it: the names of its headers.
const NAMED_MORE: usize = 256;
/// A key is the id once more, where there is no aggregate.
const TIMES_MORE: usize = 2;

/// Reads a request twice, and looks at what came of it.
pub fn check(input: &[u8]) {
    let (lines, body) = head_and_rest(input);
    let mut lines = lines.into_iter();
    let Some(Ok(pointer)) = lines.next().map(std::str::from_utf8) else { return };
    let pointer = Some(pointer).filter(|pointer| pointer.starts_with('/'));
    let pairs: Vec<(&str, Bytes)> = lines.filter_map(pair).collect();
    let headers: Vec<(&str, &[u8])> =
        pairs.iter().map(|(name, value)| (*name, &value[..])).collect();
    let body = Bytes::copy_from_slice(body);

    not_signed(&headers, &body);
    let read = records(&headers, &body, pointer);
    assert_eq!(read, records(&headers, &body, pointer), "one answer");
    match read {
        Ok(records) => {
            let sent = input.len() * TIMES_MORE + records.len() * NAMED_MORE;
            let kept: usize = records.iter().map(Record::size).sum();
            assert!(kept <= sent, "{kept} bytes of {} events of {}", records.len(), input.len());
            let reader = reader(IdScope::Consumer, usize::MAX).expect("its rules are rules");
            for record in &records {
                event(&reader, record);
            }
            as_in_the_document(&headers, &body, &reader, &records);
        }
        Err((status, _, error)) => {
            assert!(matches!(status, 400 | 415), "{status}");
            assert!(!error.is_empty());
        }
    }
}

/// Whoever has signed something else has the secret.
fn not_signed(headers: &[(&str, &[u8])], body: &[u8]) {
    let Ok(()) = signed(SECRET, headers, body, (SIGNED_AT, u64::MAX)) else { return };
    let has = |name: &str, value: &[u8]| {
        headers.iter().any(|(own, held)| own.eq_ignore_ascii_case(name) && *held == value)
    };
    assert!(has("webhook-id", SIGNED_ID) && body == SIGNED_BODY, "a forged signature is taken");
    assert!(has("webhook-timestamp", SIGNED_AT.to_string().as_bytes()), "of another time");
}

/// What a record is, if it is an event: a reason names no header of the sender.
fn event(reader: &Reader, record: &Record) -> Option<Envelope> {
    match reader.read("http:events", 0, 0, record) {
        Ok(event) => {
            assert!(record.key.is_some(), "what asks for no order is named by its id");
            assert_eq!(event.payload, record.payload);
            Some(event)
        }
        Err(error) => {
            assert!(!error.to_string().is_empty());
            None
        }
    }
}

/// An envelope, and a `CloudEvent` in structured mode, hold what a parser of the whole document finds.
fn as_in_the_document(headers: &[(&str, &[u8])], body: &[u8], reader: &Reader, all: &[Record]) {
    let content = headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("content-type"));
    let structured = match content.map(|(_, value)| *value) {
        Some(b"application/cloudevents+json") => true,
        Some(b"application/vnd.inbox.events+json") => false,
        _ => return,
    };
    let (Ok(document), [record]) = (serde_json::from_slice::<Value>(body), all) else { return };
    let Some(event) = event(reader, record) else { return };
    let names = if structured { ["id", "type"] } else { ["event_id", "event_type"] };
    let [id, event_type] = names.map(|name| document.get(name).and_then(Value::as_str));
    if let Some(event_type) = event_type {
        assert_eq!(event.event_type, event_type);
    }
    if let (Some(id), false) = (id, structured) {
        let topic = "http:events";
        let own = EventId::from_uuid_text(id.as_bytes());
        let wanted = own.or_else(|| EventId::foreign(topic, id).ok());
        assert_eq!(Some(event.event_id), wanted);
    }
    if let (false, Some(payload)) = (structured, document.get("payload")) {
        let held = event.payload.as_deref().map(serde_json::from_slice::<Value>);
        assert_eq!(held.map_or(Value::Null, |held| held.expect("it is JSON")), *payload);
    }
}
