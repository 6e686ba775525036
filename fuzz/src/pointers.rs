//! JSON pointers: one pass over a payload finds what building the whole document would.
//!
//! An input is up to eight lines, each a pointer; then an empty line, and the payload.

use bytes::Bytes;
use outbox_core::{EVENT_TYPE_BYTES_MAX, Pointer, ReadRules, Reader, Record, Source, Sources};
use serde_json::Value;

use super::input::{CANARY, has_canary, head_and_rest};

/// Reads an event's type by the pointers, and looks for it in the document, too.
pub fn check(input: &[u8]) {
    let (lines, payload) = head_and_rest(input);
    let Ok(texts) =
        lines.iter().map(|line| std::str::from_utf8(line)).collect::<Result<Vec<_>, _>>()
    else {
        return;
    };
    let parsed: Vec<Pointer> = texts.iter().filter_map(|text| pointer(text)).collect();
    if parsed.len() != texts.len() {
        return;
    }
    let Ok(places) = Sources::new(parsed.into_iter().map(Source::Pointer)) else { return };
    let mut rules = ReadRules::new(Source::Position, places);
    rules.aggregate_id = Source::Topic.into();
    let reader = Reader::new(rules, usize::MAX).expect("pointers may be where a type is");
    let payload = Bytes::copy_from_slice(payload);
    let record = Record { payload: Some(payload.clone()), ..Record::default() };

    let read = reader.read("t", 0, 0, &record).map(|event| event.event_type.to_string());
    if let Err(error) = &read {
        let shown = error.to_string().contains(CANARY);
        assert!(!shown || texts.iter().any(|text| has_canary(text.as_bytes())), "{error}");
    }
    let read = read.map_err(|error| error.reason());
    // What is beside the way is skipped, so that some of what is no document has an answer, too.
    let Ok(document) = serde_json::from_slice(&payload) else { return };
    assert_eq!(read, found(&document, &texts));
}

/// A pointer, which is written as it was read.
fn pointer(text: &str) -> Option<Pointer> {
    // The first line would end the list; the whole payload is written as `#`.
    let text = if text == "#" { "" } else { text };
    let pointer: Pointer = text.parse().ok()?;
    assert_eq!(pointer.to_string(), text);
    Some(pointer)
}

/// What the first pointer has that has anything.
fn found(document: &Value, pointers: &[&str]) -> Result<String, &'static str> {
    for pointer in pointers {
        let pointer = if *pointer == "#" { "" } else { pointer };
        let text = match document.pointer(pointer) {
            None | Some(Value::Null) => continue,
            Some(Value::String(text)) if text.is_empty() => continue,
            Some(Value::String(text)) => text.clone(),
            Some(Value::Number(number)) if !number.is_f64() => number.to_string(),
            Some(_) => return Err("invalid_pointer"),
        };
        let fits = text.len() <= EVENT_TYPE_BYTES_MAX && !text.contains('\0');
        return if fits { Ok(text) } else { Err("invalid_pointer") };
    }
    Err("missing_type")
}
