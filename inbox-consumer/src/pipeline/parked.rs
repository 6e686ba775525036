//! What a parked row keeps of a record: everything, as JSON text, so that people and the release can read it.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use inbox_engine::{Doom, ParkReason};
use outbox_core::Record;
use serde_json::{Map, Value, json};

use super::port::{Delivered, Parking};

/// The row for an item.
pub(crate) fn row(item: &Delivered, reason: ParkReason, error: &str) -> Parking {
    Parking {
        lane: item.lane,
        aggregate: item.aggregate,
        id: item.id,
        fingerprint: item.fingerprint,
        offset: item.offset,
        leader_epoch: item.leader_epoch,
        reason,
        attempts: item.attempts,
        record: document(item, error),
    }
}

/// The row for a doomed item.
pub(crate) fn doomed(item: &Delivered, doom: &Doom) -> Parking {
    row(item, doom.reason, &doom.error)
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
            fields.insert("error".into(), Value::from(error.replace('\0', "\u{fffd}")));
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
