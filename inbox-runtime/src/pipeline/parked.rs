//! The row of a parked event.

use std::time::{Duration, SystemTime};

use inbox_engine::internal::{Doom, ParkReason};
use inbox_store::internal::port::Parking;
use kafka_kit::internal::Excerpts;
use outbox_core::AGGREGATE_ID_BYTES_MAX;
use serde_json::{Value, json};

use super::{
    Delivered,
    document::{self, document, plain},
};

/// The latest errors of an event that are kept.
const ERRORS_MAX: usize = 10;

/// The row for an item.
pub(crate) fn row(
    item: &Delivered,
    reason: ParkReason,
    error: &str,
    delay: Option<Duration>,
) -> Parking {
    if item.bare {
        return bare(item, reason, error);
    }
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

/// The row of what was refused again and again with more in it: nothing but ASCII, and a few kilobytes.
fn bare(item: &Delivered, reason: ParkReason, error: &str) -> Parking {
    let delivery = &*item.event;
    let cut = || Excerpts::default().cut_whole(&delivery.record);
    let known =
        delivery.excerpt.as_deref().map(|excerpt| (delivery.record.clone(), excerpt.clone()));
    let (record, excerpt) = known.unwrap_or_else(cut);
    let error = format!("{error}; the database refused the full record, so only a part is stored");
    let error = error.replace(|letter: char| !letter.is_ascii(), "?");
    Parking {
        lane: item.lane,
        aggregate: item.aggregate,
        id: item.id,
        fingerprint: item.fingerprint,
        offset: item.offset,
        leader_epoch: item.leader_epoch,
        reason,
        attempts: item.attempts,
        delay: None,
        event_type: String::new(),
        aggregate_text: String::new(),
        errors: with_error("[]", item.attempts, &error),
        record: document::bare(item, &error, (&record, &excerpt)),
    }
}

/// The row for a doomed item.
pub(crate) fn doomed_row(item: &Delivered, doom: &Doom, delay: Option<Duration>) -> Parking {
    row(item, doom.reason, &doom.error, delay)
}

pub(super) fn event_type(item: &Delivered) -> String {
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
            let key = String::from_utf8_lossy(&key[..key.len().min(AGGREGATE_ID_BYTES_MAX)]);
            plain(&format!("{}/{key}", delivery.partition.topic))
        }
        (Err(_), None) => String::new(),
    }
}

/// Which event a line of the log is about: its type, its producer's id, its aggregate, as far as the record says.
pub(super) fn event_labels(item: &Delivered) -> [Option<String>; 3] {
    let id = item.event.event.is_ok().then(|| item.event.id());
    let present = |text: String| Some(text).filter(|text| !text.is_empty());
    [present(event_type(item)), id, present(aggregate(item))]
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

#[cfg(test)]
mod tests {
    use super::*;

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
