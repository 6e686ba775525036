//! A record becomes an item of the engine: read as an event, given its lane and its keys.

use std::{borrow::Cow, sync::Arc};

use inbox_engine::internal::{Doom, Item, Kind, Lane, ParkReason};
use inbox_handler::internal::{RouteLookup, RouteTable};
use inbox_store::internal::port::InboxRow;
use kafka_kit::internal::{Arrival, Excerpts, Flaw};
use outbox_core::{
    Aggregate, Envelope, EventId, ReadError, Reader, Record, TopicPartition, internal::ReadAs,
};

use super::{
    Delivered, Delivery,
    content::{self, Content, Hash},
    dead_letter::{Unwanted, UnwantedRules},
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
pub struct Intake {
    /// Which records are kept in part.
    pub excerpts: Excerpts,
    /// Reads them as events.
    pub reader: Reader,
    /// What becomes of what nobody can take.
    pub unwanted: UnwantedRules,
    /// What two events with one id must have in common.
    pub content: Content,
}

impl Intake {
    /// Gives an arrival the form that has everything in headers: before it gets its lane, and whenever it is read.
    pub(super) fn unfold(&self, topic: &str, arrival: &mut Arrival) {
        if arrival.flaw.is_none()
            && let Some(record) = self.reader.unfold(topic, &arrival.record)
        {
            arrival.record = record;
        }
    }

    /// Makes an item of an arrival.
    pub(crate) fn item<DB: sqlx::Database>(
        &self,
        partition: &TopicPartition,
        arrival: Arrival,
        (lane, aggregate): (Lane, [u8; 16]),
        routes: &RouteTable<DB>,
    ) -> Delivered {
        let mut arrival = self.cut(arrival);
        self.unfold(&partition.topic, &mut arrival);
        let bytes = u32::try_from(arrival.weight() + ITEM_OVERHEAD).unwrap_or(u32::MAX);
        let Arrival { offset, leader_epoch, record, flaw } = arrival;
        let topic = &*partition.topic;
        let read = match &flaw {
            None => self.reader.read_as(topic, partition.partition, offset.0, &record),
            Some(flaw) => Err(flaw.error(self.excerpts.bytes_max())),
        };
        let (event, read_as) = match read {
            Ok((event, read_as)) => (Ok(event), read_as),
            Err(error) => (Err(error), ReadAs::default()),
        };
        let excerpt = flaw.and_then(|flaw| match *flaw {
            Flaw::TooLarge(excerpt) => Some(Box::new(excerpt)),
            Flaw::Headers(_) => None,
        });
        let (kind, doomed) = self.kind(&event, routes);
        let id = match &event {
            Ok(envelope) => *envelope.event_id.as_bytes(),
            Err(_) => unreadable_id(topic, partition.partition, offset.0),
        };
        let partition = partition.clone();
        let delivery = Delivery { partition, offset, record, excerpt, event, read_as };
        let fingerprint = fingerprint(&delivery, self.content, Hash::now());
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

    /// Whether a row is of the content of an item. It may be by the other setting, or by another hash: of those
    /// then, and by no hash but the row's own.
    pub(super) fn is_same_content(row: &InboxRow, item: &Delivered) -> bool {
        if row.fingerprint == item.fingerprint && row.sha256 {
            return true;
        }
        let hash = Hash::of_row(row.sha256);
        let is = |content| fingerprint(&item.event, content, hash) == row.fingerprint;
        // Builds before this one did not leave out what an event alone is called.
        let whole =
            |event: &Envelope| content::fingerprint(event, Content::Bytes, hash) == row.fingerprint;
        is(Content::Bytes) || is(Content::Json) || item.event.event.as_ref().is_ok_and(whole)
    }

    /// The fingerprint of an item as a row of the other hash would have it.
    pub(super) fn other_fingerprint(&self, item: &Delivered, sha256: bool) -> [u8; 16] {
        fingerprint(&item.event, self.content, Hash::of_row(!sha256))
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

    fn kind<DB: sqlx::Database>(
        &self,
        event: &Result<Envelope, ReadError>,
        routes: &RouteTable<DB>,
    ) -> (Kind, Option<Doom>) {
        let ignored = |reason| self.unwanted.of(reason) == Unwanted::Ignore;
        let envelope = match event {
            Ok(envelope) => envelope,
            Err(ReadError::NoEvent { .. }) => return (IGNORED, None),
            Err(_) if ignored(ParkReason::Undecodable) => return (IGNORED, None),
            Err(error) => return (PARKED, Some(doom(ParkReason::Undecodable, error.to_string()))),
        };
        match routes.lookup(&envelope.event_type) {
            RouteLookup::Route(kind) => {
                let policy = routes.versions(kind.route);
                let refusal = policy.and_then(|policy| policy.refusal(envelope.aggregate_version));
                let rejected = |error: &str| doom(ParkReason::Rejected, error.to_owned());
                (kind, refusal.map(rejected))
            }
            RouteLookup::Ignored => (IGNORED, None),
            RouteLookup::Unknown if ignored(ParkReason::UnknownType) => (IGNORED, None),
            RouteLookup::Unknown => {
                let error = format!(
                    "no handler is registered for events of type `{}`; {}",
                    envelope.event_type,
                    routes.remedy()
                );
                (PARKED, Some(doom(ParkReason::UnknownType, error)))
            }
        }
    }
}

fn doom(reason: ParkReason, error: String) -> Doom {
    Doom { reason, error }
}

/// The id of an unreadable record is its place in the log: nothing in it can be trusted.
fn unreadable_id(topic: &str, partition: i32, offset: i64) -> [u8; 16] {
    // A topic's name is never empty, so there is always an id.
    EventId::at(topic, partition, offset).map_or([0; 16], |id| *id.as_bytes())
}

/// The fingerprint of an event, or of the record that is none.
fn fingerprint(delivery: &Delivery, content: Content, hash: Hash) -> [u8; 16] {
    let Record { key, payload, .. } = &delivery.record;
    match &delivery.event {
        Ok(envelope) => {
            let mut event = Cow::Borrowed(envelope);
            if delivery.read_as.told_by_id {
                event.to_mut().payload = None;
            }
            // What is its own aggregate is called by where the record is, and a duplicate is elsewhere.
            if delivery.read_as.is_alone
                && let Ok(aggregate) = Aggregate::new(envelope.aggregate.aggregate_type(), "@")
            {
                event.to_mut().aggregate = aggregate;
            }
            content::fingerprint(&event, content, hash)
        }
        Err(_) => {
            // Of one that is kept in part, the whole payload's hash stands for what is missing.
            let whole = delivery.excerpt.as_ref().and_then(|it| it.payload_sha256.as_deref());
            let parts = [key, payload].map(|part| part.as_deref().unwrap_or_default());
            hash.of(parts.into_iter().chain([whole.unwrap_or_default().as_bytes()]))
        }
    }
}
