//! Payloads of schema registries: the wire format, Avro and Protobuf. An input is a digit, which chooses one of the
//! schemas below, and behind it a payload without its first five bytes.

use std::sync::LazyLock;

use inbox_schemas::internal::{Fetched, Format, Schema, framed};
use outbox_core::Payload;

const TREE: &str = r#"{"type": "record", "name": "a.Node", "fields": [
    {"name": "value", "type": ["null", "string", {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}]},
    {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
    {"name": "next", "type": ["null", "Node", {"type": "array", "items": "Node"}]}]}"#;
const FLAT: &str = r#"{"type": "record", "name": "All", "fields": [
    {"name": "a", "type": {"type": "array", "items": {"type": "array", "items": "null"}}},
    {"name": "b", "type": {"type": "map", "values": "double"}},
    {"name": "c", "type": {"type": "enum", "name": "E", "symbols": ["A", "B"]}},
    {"name": "d", "type": {"type": "fixed", "name": "F", "size": 3}},
    {"name": "e", "type": {"type": "bytes", "logicalType": "big-decimal"}},
    {"name": "f", "type": {"type": "int", "logicalType": "date"}},
    {"name": "g", "type": {"type": "string", "logicalType": "uuid"}}]}"#;
const MESSAGES: &str = r#"syntax = "proto3"; import "google/protobuf/any.proto"; import "google/protobuf/struct.proto";
    message A { repeated A a = 1; map<string, B> b = 2; google.protobuf.Any any = 3; message C { bytes raw = 1; } }
    message B { oneof of { string text = 1; double rate = 2; google.protobuf.Value value = 3; } repeated int64 n = 4; }"#;

static SCHEMAS: LazyLock<[Schema; 3]> = LazyLock::new(|| {
    [(Format::Avro, TREE), (Format::Avro, FLAT), (Format::Protobuf, MESSAGES)].map(
        |(format, text)| {
            let fetched = Fetched { format, text: text.to_owned(), references: Vec::new() };
            Schema::read(&fetched).expect("a schema of this target")
        },
    )
});

/// Whatever a payload is, it is read or refused, and what is read is JSON that all that comes behind can read.
///
/// # Panics
/// When it is not.
pub fn check(input: &[u8]) {
    _ = framed(None, input);
    _ = framed(Some(input), b"payload");
    let Some((choice, body)) = input.split_first() else { return };
    let schema = &SCHEMAS[usize::from(*choice) % SCHEMAS.len()];
    if let Ok(value) = schema.decode::<serde_json::Value>(&Payload::new(body), None) {
        let json = value.to_string();
        let again: serde_json::Value = serde_json::from_str(&json).expect("JSON of a payload");
        assert_eq!(again.to_string(), json);
        // Bounded by what there was: no value is longer than its names and the digits of its numbers.
        assert!(json.len() <= (body.len() + 64) * 512, "{} bytes of {}", json.len(), body.len());
    }
}
