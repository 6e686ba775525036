//! The content of an event. Two events with one id must have it in common, or their producer reuses ids.

use std::collections::BTreeMap;

use inbox_engine::internal::Rule;
use outbox_core::Envelope;
use ring::digest::{Context, SHA256};
use serde_json::value::RawValue;
use xxhash_rust::xxh3::Xxh3;

/// How payloads of events with one id are compared.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Content {
    /// Byte by byte.
    Bytes,
    /// As JSON: the order of keys and white space do not count.
    Json,
}

/// What is nested deeper is taken as it is written: payloads come from strangers, and a stack has an end.
const DEPTH_MAX: u32 = 64;

/// What a fingerprint is made by. Each row tells which.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Hash {
    /// The first 128 bits of SHA-256: nobody finds two contents with one fingerprint. Of what is usual here, some
    /// hundred bytes, it is faster than BLAKE3 where processors know it. By ring, which takes 6 tenths of sha2's time
    /// where they do not.
    Sha256,
    /// XXH3 of 128 bits, by builds before the column `sha256`. Whoever wants to makes two contents with one
    /// fingerprint at once, so only rows that have nothing better are compared by it.
    Xxh3,
}

impl Hash {
    /// What new rows are made by.
    pub(super) fn now() -> Self {
        Self::of_row(Rule::StrongFingerprint.on())
    }

    /// Which one a row was made by.
    pub(super) fn of_row(sha256: bool) -> Self {
        if sha256 { Self::Sha256 } else { Self::Xxh3 }
    }

    /// Of parts one after the other.
    pub(super) fn of<'p>(self, parts: impl IntoIterator<Item = &'p [u8]>) -> [u8; 16] {
        match self {
            Self::Sha256 => {
                let mut hash = Context::new(&SHA256);
                parts.into_iter().for_each(|part| hash.update(part));
                let mut half = [0; 16];
                half.copy_from_slice(&hash.finish().as_ref()[..16]);
                half
            }
            Self::Xxh3 => {
                let mut hash = Xxh3::new();
                parts.into_iter().for_each(|part| hash.update(part));
                hash.digest128().to_be_bytes()
            }
        }
    }
}

/// Type, aggregate and payload; not headers or timestamps, which a producer that sends again may set anew
/// (finding 9).
pub(super) fn fingerprint(envelope: &Envelope, content: Content, hash: Hash) -> [u8; 16] {
    let payload = envelope.payload.as_deref().unwrap_or_default();
    let sorted = (content == Content::Json).then(|| sort_keys(payload)).flatten();
    let parts = [
        envelope.event_type.as_bytes(),
        envelope.aggregate.aggregate_type().as_bytes(),
        envelope.aggregate.aggregate_id().as_bytes(),
        sorted.as_deref().unwrap_or(payload),
    ];
    let lengths = parts.map(|part| part.len().to_be_bytes());
    hash.of(lengths.iter().zip(parts).flat_map(|(length, part)| [&length[..], part]))
}

/// JSON with the members of objects in the order of their names and without white space; numbers stay as they
/// are written, since they may be longer than any number of the machine. `None` for what is no JSON.
fn sort_keys(payload: &[u8]) -> Option<Vec<u8>> {
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

    fn envelope(payload: &str) -> Envelope {
        Envelope {
            event_id: EventId::from(uuid::Uuid::nil()),
            source_id: None,
            event_type: "Counted".into(),
            aggregate: Aggregate::new("Order", "7").unwrap(),
            aggregate_version: None,
            occurred_at_ms: None,
            schema_version: None,
            payload: Some(Bytes::copy_from_slice(payload.as_bytes())),
        }
    }

    fn of(payload: &str, content: Content) -> [u8; 16] {
        fingerprint(&envelope(payload), content, Hash::now())
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

    /// Two payloads that XXH3 has one fingerprint of, made by hand. Its long path adds up, for each eight bytes, the
    /// product of their halves, each under a mask that everybody knows: where one half is the mask, the product is
    /// nothing, whatever the other half is. At two such places a digit is exchanged, and the sum stays.
    #[test]
    fn payloads_made_to_collide_under_the_old_hash_are_two_contents() {
        let pair = [
            include_str!("../../tests/colliding/one.json"),
            include_str!("../../tests/colliding/other.json"),
        ];
        assert_ne!(pair[0], pair[1]);
        let of = |hash| pair.map(|payload| fingerprint(&envelope(payload), Content::Bytes, hash));
        let [[one, other], [old, same]] = [of(Hash::Sha256), of(Hash::Xxh3)];
        assert_eq!(old, same);
        assert_ne!(one, other);
        assert_ne!(one, old);
    }

    /// Golden values: rows hold them.
    #[test]
    fn a_fingerprint_stays_what_it_is() {
        let of =
            |hash| u128::from_be_bytes(fingerprint(&envelope(r#"{"n":1}"#), Content::Bytes, hash));
        assert_eq!(format!("{:032x}", of(Hash::Sha256)), "ba7eef140e0b6a56c4e82444ff125dbf");
        assert_eq!(format!("{:032x}", of(Hash::Xxh3)), "d9b5050c630c5267b310ad9ef37e6e73");
    }

    #[test]
    fn what_is_nested_without_end_is_taken_as_it_is() {
        let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
        assert_ne!(of(&deep, Content::Json), of("[]", Content::Json));
    }
}
