//! What producers and consumers of events rely on: ids, reading, writing, codecs.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod change;
mod cloud_events;
mod codec;
mod debezium;
mod detect;
mod envelopes;
mod fuzz;
mod ids;
mod order;
mod reading;
mod rules;
mod writing;

use outbox_core::{Header, ReadRules, Reader, Record, Source, Text};

const BYTES_MAX: usize = 1 << 20;

/// A record with a key, headers and a payload.
fn record(key: &str, headers: &[(&'static str, &str)], payload: &str) -> Record {
    let header = |(name, value): &(&'static str, &str)| Header {
        name: Text::from_static(name),
        value: Some((*value).to_owned().into()),
    };
    Record {
        key: Some(key.to_owned().into()),
        headers: headers.iter().map(header).collect(),
        payload: Some(payload.to_owned().into()),
        timestamp_ms: None,
    }
}

fn reader(rules: &str) -> Reader {
    Reader::new(serde_json::from_str::<ReadRules>(rules).unwrap(), BYTES_MAX).unwrap()
}

fn source(text: &str) -> Source {
    text.parse().unwrap()
}
