//! The content of an event. Two events with one id must have it in common, or their producer reuses ids.

use std::collections::BTreeMap;

use outbox_core::Envelope;
use serde_json::value::RawValue;
use xxhash_rust::xxh3::Xxh3;

use crate::config::Content;

/// What is nested deeper is taken as it is written: payloads come from strangers, and a stack has an end.
const DEPTH_MAX: u32 = 64;

/// Type, aggregate and payload; not headers or timestamps, which a producer that sends again may set anew
/// (finding 9).
pub(super) fn fingerprint(envelope: &Envelope, content: Content) -> [u8; 16] {
    let payload = envelope.payload.as_deref().unwrap_or_default();
    let sorted = (content == Content::Json).then(|| sorted(payload)).flatten();
    let mut hash = Xxh3::new();
    for part in [
        envelope.event_type.as_bytes(),
        envelope.aggregate.aggregate_type().as_bytes(),
        envelope.aggregate.aggregate_id().as_bytes(),
        sorted.as_deref().unwrap_or(payload),
    ] {
        hash.update(&part.len().to_be_bytes());
        hash.update(part);
    }
    hash.digest128().to_be_bytes()
}

/// JSON with the members of objects in the order of their names and without white space; numbers stay as they
/// are written, since they may be longer than any number of the machine. `None` for what is no JSON.
fn sorted(payload: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(payload.len());
    write(serde_json::from_slice(payload).ok()?, DEPTH_MAX, &mut out)?;
    Some(out)
}

fn write(value: &RawValue, depth: u32, out: &mut Vec<u8>) -> Option<()> {
    let text = value.get();
    match text.as_bytes().first()? {
        b'{' if depth > 0 => {
            let members: BTreeMap<String, &RawValue> = serde_json::from_str(text).ok()?;
            out.push(b'{');
            for (name, value) in members {
                serde_json::to_writer(&mut *out, &name).ok()?;
                out.push(b':');
                write(value, depth - 1, out)?;
                out.push(b',');
            }
            out.push(b'}');
        }
        b'[' if depth > 0 => {
            let elements: Vec<&RawValue> = serde_json::from_str(text).ok()?;
            out.push(b'[');
            for value in elements {
                write(value, depth - 1, out)?;
                out.push(b',');
            }
            out.push(b']');
        }
        b'"' => {
            let text: String = serde_json::from_str(text).ok()?;
            serde_json::to_writer(&mut *out, &text).ok()?;
        }
        _ => out.extend_from_slice(text.as_bytes()),
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use outbox_core::{Aggregate, EventId};

    use super::*;

    fn of(payload: &str, content: Content) -> [u8; 16] {
        let envelope = Envelope {
            event_id: EventId::from(uuid::Uuid::nil()),
            source_id: None,
            event_type: "OrderPaid".into(),
            aggregate: Aggregate::new("Order", "7").unwrap(),
            aggregate_version: None,
            occurred_at_ms: None,
            schema_version: None,
            payload: Some(Bytes::copy_from_slice(payload.as_bytes())),
        };
        fingerprint(&envelope, content)
    }

    #[test]
    fn the_order_of_json_keys_counts_unless_a_setting_says_so() {
        let (one, other) = (
            r#"{"a":{"x":1,"y":[{"p":1.50,"q":"\u00e9"}]},"b":2}"#,
            r#"{ "b": 2, "a": {"y":[{"q":"é","p":1.50}],"x":1} }"#,
        );
        assert_ne!(of(one, Content::Bytes), of(other, Content::Bytes));
        assert_eq!(of(one, Content::Json), of(other, Content::Json));
    }

    #[test]
    fn other_json_is_other_content() {
        let all = [
            r#"{"a":1}"#,
            r#"{"a":2}"#,
            r#"{"a":"1"}"#,
            r#"{"a":[1,2]}"#,
            r#"{"a":[2,1]}"#,
            r#"{"a":12345678901234567890123}"#,
            r#"{"a":12345678901234567890124}"#,
            r#"{"a":[{"b":1}]}"#,
            r#"{"a":{"b":1}}"#,
            "no json",
            "no  json",
        ];
        let prints: std::collections::BTreeSet<_> =
            all.iter().map(|payload| of(payload, Content::Json)).collect();
        assert_eq!(prints.len(), all.len());
    }

    #[test]
    fn what_is_nested_without_end_is_taken_as_it_is() {
        let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
        assert_ne!(of(&deep, Content::Json), of("[]", Content::Json));
    }
}
