//! A record becomes an item of the engine: read as an event, given its lane and its keys.

use std::sync::Arc;

use inbox_engine::{Doom, Item, Kind, Lane, ParkReason};
use outbox_core::{Envelope, EventId, ReadError, Reader, Record};
use xxhash_rust::xxh3::Xxh3;

use super::{
    Delivery,
    content::{self, fingerprint},
    document,
    port::{Arrival, Delivered, Excerpt, Excerpts, Flaw, Lanes, TopicPartition, release::DueQueue},
};
use crate::{
    config::Content,
    router::{Looked, RouteTable},
};

/// What an item takes besides its bytes, counted against the byte limits: resident memory grew by 2.2 KB
/// for each further event of 450 bytes.
const ITEM_OVERHEAD: usize = 1536;

/// The kind of events that nobody handles and the configuration ignores.
pub(crate) const IGNORED: Kind =
    Kind { route: u32::MAX, whole_run: false, one_per_aggregate: false };

/// The kind of events that are parked whatever happens.
const PARKED: Kind = Kind { route: u32::MAX - 1, whole_run: false, one_per_aggregate: false };

/// Reads records of a consumer.
#[derive(Debug)]
pub(crate) struct Intake {
    /// Which records are kept in part.
    pub(crate) excerpts: Excerpts,
    pub(crate) reader: Reader,
    /// Unknown types are settled and counted instead of parked.
    pub(crate) ignore_unknown: bool,
    /// What two events with one id must have in common.
    pub(crate) content: Content,
}

impl Intake {
    /// Makes an item of an arrival.
    pub(crate) fn item<DB: sqlx::Database>(
        &self,
        partition: &TopicPartition,
        arrival: Arrival,
        (lane, aggregate): (Lane, [u8; 16]),
        routes: &RouteTable<DB>,
    ) -> Delivered {
        let arrival = self.cut(arrival);
        let bytes = u32::try_from(arrival.weight() + ITEM_OVERHEAD).unwrap_or(u32::MAX);
        let Arrival { offset, leader_epoch, record, flaw } = arrival;
        let topic = &*partition.topic;
        let event = match &flaw {
            None => self.reader.read(topic, partition.partition, offset.0, &record),
            Some(flaw) => Err(flaw.error(self.excerpts.bytes_max())),
        };
        let excerpt = flaw.and_then(|flaw| match *flaw {
            Flaw::TooLarge(excerpt) => Some(excerpt),
            Flaw::Headers(_) => None,
        });
        let (kind, doomed) = self.kind(&event, routes);
        let (id, fingerprint) = match &event {
            Ok(envelope) => (*envelope.event_id.as_bytes(), fingerprint(envelope, self.content)),
            Err(_) => unread((topic, partition.partition, offset.0), &record, excerpt.as_ref()),
        };
        let delivery = Delivery { partition: partition.clone(), offset, record, excerpt, event };
        Item {
            offset,
            leader_epoch,
            lane,
            id,
            fingerprint,
            aggregate,
            kind,
            bytes,
            attempts: 0,
            doomed,
            bare: false,
            suspect: false,
            event: Arc::new(delivery),
        }
    }

    /// Kafka's thread has done it; a log in memory has not.
    fn cut(&self, arrival: Arrival) -> Arrival {
        match self.excerpts.of_whole(&arrival.record) {
            Some((record, excerpt)) => {
                Arrival { record, flaw: Some(Box::new(Flaw::TooLarge(excerpt))), ..arrival }
            }
            None => arrival,
        }
    }

    /// Whether a stored fingerprint is that of an item, by the other setting: it may have been another one then.
    pub(super) fn was(&self, fingerprint: [u8; 16], item: &Delivered) -> bool {
        let other = match self.content {
            Content::Bytes => Content::Json,
            Content::Json => Content::Bytes,
        };
        item.event
            .event
            .as_ref()
            .is_ok_and(|event| content::fingerprint(event, other) == fingerprint)
    }

    fn kind<DB: sqlx::Database>(
        &self,
        event: &Result<Envelope, ReadError>,
        routes: &RouteTable<DB>,
    ) -> (Kind, Option<Doom>) {
        let envelope = match event {
            Ok(envelope) => envelope,
            Err(error) => return (PARKED, Some(doom(ParkReason::Undecodable, error.to_string()))),
        };
        match routes.lookup(&envelope.event_type) {
            Looked::Route(kind) => (kind, None),
            Looked::Ignored => (IGNORED, None),
            Looked::Unknown if self.ignore_unknown => (IGNORED, None),
            Looked::Unknown => {
                let error = format!(
                    "no handler is registered for events of type `{}`; register one, or name the \
                     type with `routes.ignore(..)`",
                    envelope.event_type
                );
                (PARKED, Some(doom(ParkReason::UnknownType, error)))
            }
        }
    }
}

impl Lanes {
    /// The lane and the key of the aggregate of an arrival.
    pub(super) fn place(&self, partition: &TopicPartition, arrival: &Arrival) -> (Lane, [u8; 16]) {
        let Arrival { offset, record, .. } = arrival;
        self.placement.place(&partition.topic, offset.0, record, self.count)
    }

    /// The key of a parked row's aggregate; `None` when the row holds no record.
    pub(crate) fn parked_key(&self, topic: &str, offset: i64, record: &str) -> Option<[u8; 16]> {
        let record = document::record(record)?;
        Some(self.placement.place(topic, offset, &record, self.count).1)
    }

    /// The lane of a parked queue. A remap may have given its aggregate another one than was written with
    /// it; then its record is there to find it.
    pub(super) fn of_queue(&self, partition: &TopicPartition, queue: &DueQueue) -> Lane {
        let record = queue.record.as_deref().and_then(document::record);
        record.map_or(queue.lane, |record| {
            self.placement.place(&partition.topic, queue.offset.0, &record, self.count).0
        })
    }
}

fn doom(reason: ParkReason, error: String) -> Doom {
    Doom { reason, error }
}

/// The id of an unreadable record is its place in the log: nothing in it can be trusted.
fn unread(
    (topic, partition, offset): (&str, i32, i64),
    record: &Record,
    excerpt: Option<&Excerpt>,
) -> ([u8; 16], [u8; 16]) {
    let mut hash = Xxh3::new();
    hash.update(record.key.as_deref().unwrap_or_default());
    hash.update(record.payload.as_deref().unwrap_or_default());
    let all = excerpt.and_then(|excerpt| excerpt.payload_sha256.as_deref());
    hash.update(all.unwrap_or_default().as_bytes());
    // A topic's name is never empty, so there is always an id.
    let id = EventId::at(topic, partition, offset).map_or([0; 16], |id| *id.as_bytes());
    (id, hash.digest128().to_be_bytes())
}
