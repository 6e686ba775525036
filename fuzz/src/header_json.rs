//! Headers as JSON text: what decodes is encoded to the same headers, and any headers come back.
//!
//! An input is both: a text to decode, and lines `NAME=VALUE` or `NAME` that are headers.

use outbox_core::{
    Header,
    internal::{headers_from_json, headers_to_json},
};

use super::input::pair;

/// Both ways.
pub fn check(input: &[u8]) {
    if let Ok(text) = std::str::from_utf8(input) {
        match headers_from_json(text) {
            Ok(headers) => come_back(&headers),
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }
    let headers = input.split(|byte| *byte == b'\n').filter_map(|line| match pair(line) {
        Some((name, value)) => Some(Header { name: name.into(), value: Some(value) }),
        None => {
            std::str::from_utf8(line).ok().map(|name| Header { name: name.into(), value: None })
        }
    });
    come_back(&headers.collect::<Vec<_>>());
}

fn come_back(headers: &[Header]) {
    let text = headers_to_json(headers);
    assert!(!text.contains(['\0', '\n']), "a database takes it: {text:?}");
    let back = headers_from_json(&text).expect("it was written here");
    assert_eq!(back, headers);
    assert_eq!(headers_to_json(&back), text, "one text for the same headers");
}
