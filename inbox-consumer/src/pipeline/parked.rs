//! What a parked row keeps of a record: everything, as JSON text, so that people and the release can read it.

use std::time::{Duration, SystemTime};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use inbox_engine::{Doom, ParkReason};
use outbox_core::Record;
use serde_json::{Map, Value, json};

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

fn document(item: &Delivered, error: &str) -> String {
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
    let header = |h: &outbox_core::Header| json!([&*h.name, bytes(h.value.as_deref())]);
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
