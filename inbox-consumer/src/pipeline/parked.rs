//! What a parked row keeps of a record: everything, as JSON text, so that people and the release can read it.

use std::time::{Duration, SystemTime};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
#[cfg(feature = "cli")]
use inbox_engine::Offset;
use inbox_engine::{Doom, ParkReason};
use outbox_core::{Header, Record};
use serde_json::{Map, Value, json};

#[cfg(feature = "cli")]
use super::port::TopicPartition;
use super::port::{Delivered, Parking};

/// The latest errors of an event that are kept.
const ERRORS_MAX: usize = 10;

/// The row for an item.
pub(crate) fn row(
    item: &Delivered,
    reason: ParkReason,
    error: &str,
    delay: Option<Duration>,
) -> Parking {
    Parking {
        lane: item.lane,
        aggregate: item.aggregate,
        id: item.id,
        fingerprint: item.fingerprint,
        offset: item.offset,
        leader_epoch: item.leader_epoch,
        reason,
        attempts: item.attempts,
        delay,
        event_type: event_type(item),
        aggregate_text: aggregate(item),
        errors: with_error("[]", item.attempts, error),
        record: document(item, error),
    }
}

/// The row for a doomed item.
pub(crate) fn doomed(item: &Delivered, doom: &Doom, delay: Option<Duration>) -> Parking {
    row(item, doom.reason, &doom.error, delay)
}

fn event_type(item: &Delivered) -> String {
    item.event.event.as_ref().map_or_else(|_| String::new(), |event| plain(&event.event_type))
}

/// `type/id`; of a record that could not be read, its topic and key.
fn aggregate(item: &Delivered) -> String {
    let delivery = &*item.event;
    match (&delivery.event, &delivery.record.key) {
        (Ok(event), _) => plain(&format!(
            "{}/{}",
            event.aggregate.aggregate_type(),
            event.aggregate.aggregate_id()
        )),
        (Err(_), Some(key)) => {
            plain(&format!("{}/{}", delivery.partition.topic, String::from_utf8_lossy(key)))
        }
        (Err(_), None) => String::new(),
    }
}

/// Which event a line of the log is about: its type, its producer's id, its aggregate, as far as the record says.
pub(super) fn named(item: &Delivered) -> [Option<String>; 3] {
    let id = item.event.event.is_ok().then(|| item.event.id());
    let present = |text: String| Some(text).filter(|text| !text.is_empty());
    [present(event_type(item)), id, present(aggregate(item))]
}

/// No database takes a NUL in text (B10).
fn plain(text: &str) -> String {
    text.replace('\0', "\u{fffd}")
}

/// The errors with one more, the oldest left out beyond [`ERRORS_MAX`]. Without an error nothing is added.
pub(crate) fn with_error(errors: &str, attempt: u32, error: &str) -> String {
    // What somebody wrote over by hand is begun anew.
    let mut all: Vec<Value> = serde_json::from_str(errors).unwrap_or_default();
    if !error.is_empty() {
        let at = humantime::format_rfc3339_millis(SystemTime::now()).to_string();
        all.push(json!({ "at": at, "attempt": attempt, "error": plain(error) }));
    }
    all.drain(..all.len().saturating_sub(ERRORS_MAX));
    Value::from(all).to_string()
}

pub(super) fn document(item: &Delivered, error: &str) -> String {
    let delivery = &*item.event;
    let mut document = json!({
        "topic": &*delivery.partition.topic,
        "partition": delivery.partition.partition,
        "offset": delivery.offset.0,
    });
    if let Some(fields) = document.as_object_mut() {
        if let Ok(event) = &delivery.event {
            fields.insert("event_type".into(), Value::from(event.event_type.as_str()));
            fields.insert("aggregate_type".into(), Value::from(event.aggregate.aggregate_type()));
            fields.insert("aggregate_id".into(), Value::from(event.aggregate.aggregate_id()));
        }
        if !error.is_empty() {
            fields.insert("error".into(), Value::from(plain(error)));
        }
        raw(fields, &delivery.record);
    }
    document.to_string()
}

fn raw(fields: &mut Map<String, Value>, record: &Record) {
    fields.insert("timestamp_ms".into(), Value::from(record.timestamp_ms));
    fields.insert("key".into(), bytes(record.key.as_deref()));
    fields.insert("payload".into(), bytes(record.payload.as_deref()));
    let header = |h: &Header| json!([&*h.name, bytes(h.value.as_deref())]);
    fields.insert("headers".into(), record.headers.iter().map(header).collect());
}

/// Text where it is text that every database takes (`jsonb` has no NUL, B10), base64 otherwise.
fn bytes(value: Option<&[u8]>) -> Value {
    match value.map(|bytes| (bytes, std::str::from_utf8(bytes))) {
        None => Value::Null,
        Some((_, Ok(text))) if !text.contains('\0') => json!({ "text": text }),
        Some((bytes, _)) => json!({ "base64": STANDARD.encode(bytes) }),
    }
}

/// The record that a row keeps; `None` when the text is not what [`document`] writes.
pub(crate) fn record(document: &str) -> Option<Record> {
    let document: Value = serde_json::from_str(document).ok()?;
    let header = |pair: &Value| {
        let name = pair.get(0)?.as_str()?;
        Some(Header { name: name.into(), value: read_bytes(pair.get(1)?).ok()? })
    };
    let headers = document.get("headers")?.as_array()?.iter().map(header);
    Some(Record {
        key: read_bytes(document.get("key")?).ok()?,
        headers: headers.collect::<Option<_>>()?,
        payload: read_bytes(document.get("payload")?).ok()?,
        timestamp_ms: document.get("timestamp_ms")?.as_i64(),
    })
}

/// Where the event of such a text was.
#[cfg(feature = "cli")]
pub(super) fn place(document: &str) -> Option<(TopicPartition, Offset)> {
    let document: Value = serde_json::from_str(document).ok()?;
    let topic = document.get("topic")?.as_str()?.into();
    let partition = document.get("partition")?.as_i64()?.try_into().ok()?;
    Some((TopicPartition { topic, partition }, Offset(document.get("offset")?.as_i64()?)))
}

/// What [`bytes`] has written; an error for everything else.
fn read_bytes(value: &Value) -> Result<Option<Bytes>, ()> {
    let text = |name| value.get(name).and_then(Value::as_str);
    match (text("text"), text("base64")) {
        (Some(text), None) => Ok(Some(Bytes::copy_from_slice(text.as_bytes()))),
        (None, Some(text)) => Ok(Some(STANDARD.decode(text).map_err(drop)?.into())),
        _ if value.is_null() => Ok(None),
        _ => Err(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(name: &str, value: Option<&[u8]>) -> Header {
        Header { name: name.into(), value: value.map(Bytes::copy_from_slice) }
    }

    /// B10: text, bytes that are none, NUL, nothing at all, and empty are five different things.
    #[test]
    fn a_record_comes_back_as_it_was_parked() {
        let values: [Option<&[u8]>; 5] =
            [None, Some(b""), Some("Grüße".as_bytes()), Some(b"a\0b"), Some(&[0xff, 0xfe])];
        for key in values {
            for payload in values {
                let record = Record {
                    key: key.map(Bytes::copy_from_slice),
                    headers: vec![header("a", payload), header("a", key), header("b", None)],
                    payload: payload.map(Bytes::copy_from_slice),
                    timestamp_ms: payload.map(|_| 1_700_000_000_123),
                };
                let mut fields = Map::new();
                raw(&mut fields, &record);
                assert_eq!(super::record(&Value::from(fields).to_string()), Some(record));
            }
        }
    }

    #[test]
    fn a_row_that_was_written_over_holds_no_record() {
        for text in ["", "{}", "[]", r#"{"key":3,"payload":null,"headers":[]}"#] {
            assert_eq!(record(text), None, "{text}");
        }
    }

    #[test]
    fn the_last_ten_errors_are_kept() {
        let all = (1..=12).fold("[]".to_owned(), |errors, attempt| {
            with_error(&errors, attempt, &format!("no {attempt}\0"))
        });
        let all: Vec<Value> = serde_json::from_str(&all).unwrap();
        assert_eq!(all.len(), 10);
        assert_eq!((&all[0]["attempt"], &all[9]["error"]), (&json!(3), &json!("no 12\u{fffd}")));
        assert_eq!(with_error("no JSON", 1, ""), "[]");
    }
}
