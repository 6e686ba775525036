//! What a parked row keeps, as JSON text, so that people and the release can read it: everything, but of a record that
//! is too large.

use bytes::Bytes;
use inbox_engine::internal::{LeaderEpoch, Offset};
use inbox_store::internal::record_text::{self, Coded, Name};
use kafka_kit::internal::{Arrival, Flaw};
use outbox_core::{Header, Record, TopicPartition, internal::Excerpt};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Delivered;

/// What a row keeps, as JSON.
#[derive(Serialize)]
struct Document<'d> {
    topic: &'d str,
    partition: i32,
    offset: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    event_type: Option<&'d str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    aggregate_type: Option<&'d str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    aggregate_id: Option<&'d str>,
    #[serde(skip_serializing_if = "str::is_empty")]
    error: &'d str,
    #[serde(skip_serializing_if = "Option::is_none")]
    excerpt: Option<&'d Excerpt>,
    timestamp_ms: Option<i64>,
    key: Option<Coded<'d>>,
    #[serde(flatten)]
    payload: Payload<'d>,
    headers: Vec<(Name<'d>, Option<Coded<'d>>)>,
}

/// A beginning has a name of its own: an older build must not take it for all.
#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum Payload<'d> {
    Payload(Option<Coded<'d>>),
    PayloadBegins(Option<Coded<'d>>),
}

/// The same of a part of it, in ASCII alone.
pub(super) fn bare(
    item: &Delivered,
    error: &str,
    (record, excerpt): (&Record, &Excerpt),
) -> String {
    let coded = |bytes: Option<&Bytes>| bytes.map(|bytes| Coded::base64(bytes));
    let name = |header: &Header| Name::Coded(Coded::base64(header.name.as_bytes()));
    let headers = record.headers.iter().map(|header| (name(header), coded(header.value.as_ref())));
    let document = Document {
        topic: &item.event.partition.topic,
        partition: item.event.partition.partition,
        offset: item.offset.0,
        event_type: None,
        aggregate_type: None,
        aggregate_id: None,
        error,
        excerpt: Some(excerpt),
        timestamp_ms: record.timestamp_ms,
        key: coded(record.key.as_ref()),
        payload: Payload::PayloadBegins(coded(record.payload.as_ref())),
        headers: headers.collect(),
    };
    serde_json::to_string(&document).unwrap_or_default()
}

fn coded(bytes: Option<&Bytes>) -> Option<Coded<'_>> {
    bytes.map(|bytes| Coded::of(bytes))
}

pub(super) fn document(item: &Delivered, error: &str) -> String {
    let delivery = &*item.event;
    let event = delivery.event.as_ref().ok();
    let record = &delivery.record;
    let document = Document {
        topic: &delivery.partition.topic,
        partition: delivery.partition.partition,
        offset: delivery.offset.0,
        event_type: event.map(|event| event.event_type.as_str()),
        aggregate_type: event.map(|event| event.aggregate.aggregate_type()),
        aggregate_id: event.map(|event| event.aggregate.aggregate_id()),
        error: &plain(error),
        excerpt: delivery.excerpt.as_deref(),
        timestamp_ms: record.timestamp_ms,
        key: coded(record.key.as_ref()),
        payload: match delivery.excerpt {
            None => Payload::Payload(coded(record.payload.as_ref())),
            Some(_) => Payload::PayloadBegins(coded(record.payload.as_ref())),
        },
        headers: record
            .headers
            .iter()
            .map(|h| (Name::of(&h.name), coded(h.value.as_ref())))
            .collect(),
    };
    // Texts, numbers and lists of them: nothing that JSON does not have.
    serde_json::to_string(&document).unwrap_or_default()
}

/// The same as it arrived.
pub(crate) fn arrival(
    document: &str,
    offset: Offset,
    leader_epoch: LeaderEpoch,
) -> Option<Arrival> {
    let flaw = excerpt(document).map(|excerpt| Box::new(Flaw::TooLarge(excerpt)));
    Some(Arrival { offset, leader_epoch, record: record_text::record(document)?, flaw })
}

/// What says that it is only a part.
#[derive(Deserialize)]
struct Part {
    excerpt: Option<Excerpt>,
}

/// What is known of a record that such a text has only a part of.
pub(crate) fn excerpt(document: &str) -> Option<Excerpt> {
    // Nearly always not. Inside of another text its quotes would be escaped.
    if !document.contains("\"excerpt\":{") {
        return None;
    }
    serde_json::from_str::<Part>(document).ok()?.excerpt
}

/// No database takes a NUL in text (B10).
pub(super) fn plain(text: &str) -> String {
    text.replace('\0', "\u{fffd}")
}

/// Where the event of such a text was.
pub(super) fn place(document: &str) -> Option<(TopicPartition, Offset)> {
    let document: Value = serde_json::from_str(document).ok()?;
    let topic = document.get("topic")?.as_str()?.into();
    let partition = document.get("partition")?.as_i64()?.try_into().ok()?;
    Some((TopicPartition { topic, partition }, Offset(document.get("offset")?.as_i64()?)))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use inbox_engine::internal::{Item, Kind, Lane};
    use outbox_core::{ReadError, ReadRules};

    use super::{super::Delivery, *};
    use kafka_kit::internal::Excerpts;

    /// A record that no rule can read, as it comes out of the intake.
    fn read(record: Record, excerpts: Excerpts) -> Delivered {
        let (record, excerpt) = match excerpts.of_whole(&record) {
            Some((record, excerpt)) => (record, Some(Box::new(excerpt))),
            None => (record, None),
        };
        let event = Err(ReadError::TooLarge { bytes: 0, max: 0 });
        let partition = TopicPartition { topic: "orders".into(), partition: 3 };
        let delivery = Delivery {
            partition,
            offset: Offset(7),
            record,
            excerpt,
            event,
            read_as: outbox_core::internal::ReadAs::default(),
        };
        Item {
            offset: Offset(7),
            leader_epoch: LeaderEpoch(0),
            lane: Lane(0),
            id: [1; 16],
            fingerprint: [2; 16],
            aggregate: [3; 16],
            kind: Kind { route: 0, whole_run: false, one_per_aggregate: false },
            bytes: 0,
            attempts: 0,
            doomed: None,
            bare: false,
            suspect: false,
            event: Arc::new(delivery),
        }
    }

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
                let item = read(record.clone(), Excerpts::default());
                assert_eq!(record_text::record(&document(&item, "")), Some(record));
            }
        }
    }

    /// Whatever a record is made of: of one above the limit a few kilobytes, of another one twice its size and what
    /// belongs to a header.
    #[test]
    fn what_a_row_takes_is_bounded_by_what_its_record_has() {
        let fills: [&[u8]; 6] = [b"\x01", b"\0", b"\"", b"a", &[0xff], "\u{7f}\u{1b}".as_bytes()];
        let small =
            |fill: &[u8], size: usize| fill.iter().copied().cycle().take(size).collect::<Vec<u8>>();
        for fill in fills {
            let (long, short) = (small(fill, 60_000), small(fill, 30));
            let name = String::from_utf8_lossy(&short).into_owned();
            let record = Record {
                key: Some(long.clone().into()),
                headers: (0..1_000).map(|_| header(&name, Some(&short))).collect(),
                payload: Some(long.clone().into()),
                timestamp_ms: Some(i64::MIN),
            };
            let size = record.size();
            let whole = document(&read(record.clone(), Excerpts::default()), "");
            assert!(whole.len() <= 2 * size + 1_000 * 40 + 300, "{fill:?}: {}", whole.len());
            let cut = document(&read(record, Excerpts::of([&ReadRules::own()], 1_000)), "");
            assert!(cut.len() <= 200_000, "{fill:?}: {}", cut.len());
            // Older builds read `payload`, and would take a part for all of it.
            assert!(cut.contains("\"payload_begins\":") && !cut.contains("\"payload\":"), "{cut}");
            let excerpt = excerpt(&cut).unwrap();
            assert_eq!((excerpt.bytes, excerpt.headers), (size, 1_000));
            assert_eq!(excerpt.payload_bytes, Some(long.len()));
        }
    }
}
