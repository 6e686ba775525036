//! Dead letters: what nobody can take goes to a topic of its own, through the outbox, in the transaction that settles it.

use std::slice;

use inbox_engine::internal::{Doom, ParkReason};
use inbox_store::internal::port::Transactions;
use outbox_core::{Aggregate, EventId, OutboxEvent, Text};
use serde_json::json;
use sha2::{Digest as _, Sha256};

use super::{
    Delivered,
    disposition::Disposition,
    document::document,
    transaction::{EarlyEnd, Transaction},
};

/// The type of the events.
const DEAD_LETTER: &str = "DeadLetter";
/// Of an error, in characters, where the record itself does not fit.
const ERROR_MAX: usize = 300;

/// What happens to what nobody can take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unwanted {
    /// It is parked, as any failure.
    Park,
    /// It is settled and counted.
    Ignore,
    /// It is settled, and appended to the outbox for the topic of dead letters.
    DeadLetter,
}

/// What becomes of what nobody can take, as the configuration says.
#[derive(Clone, Debug)]
pub struct UnwantedRules {
    /// Of an event that no route takes.
    pub unknown_type: Unwanted,
    /// Of a record that cannot be read as an event.
    pub undecodable: Unwanted,
    /// The topic of dead letters.
    pub topic: Option<Text>,
    /// A larger record is not sent on.
    pub bytes_max: usize,
}

impl UnwantedRules {
    /// For what would be parked for this reason.
    pub(super) fn of(&self, reason: ParkReason) -> Unwanted {
        match reason {
            ParkReason::UnknownType => self.unknown_type,
            ParkReason::Undecodable => self.undecodable,
            _ => Unwanted::Park,
        }
    }
}

impl<DB: Transactions> Transaction<'_, DB> {
    /// What becomes of a doomed event.
    pub(super) fn dispose(&self, item: &Delivered, doom: Doom) -> Disposition {
        match self.work.intake.unwanted.of(doom.reason) {
            Unwanted::Park => Disposition::Park(doom),
            Unwanted::Ignore => Disposition::Ignore,
            Unwanted::DeadLetter => match self.letter(item, &doom) {
                Some(letter) => Disposition::DeadLetter(Box::new(letter)),
                None => Disposition::Park(doom),
            },
        }
    }

    /// Written where the other effects of the transaction are.
    pub(super) async fn send_letters(&mut self, letters: &[OutboxEvent]) -> Result<(), EarlyEnd> {
        if letters.is_empty() {
            return Ok(());
        }
        let outbox = self.work.outbox.prepared(DB::names_statements(self.conn));
        let sent = DB::append_rows(self.conn, &outbox, letters).await;
        sent.map(drop).map_err(|error| self.statement_failed("appending dead letters", &error))
    }

    /// At its release: what stays parked of an event that nobody can take.
    pub(super) async fn give_up(
        &mut self,
        at: usize,
        doom: Doom,
    ) -> Result<Option<Doom>, EarlyEnd> {
        match self.dispose(&self.batch.items[at], doom) {
            Disposition::DeadLetter(letter) => self.send_letters(&[*letter]).await.map(|()| None),
            Disposition::Park(doom) => Ok(Some(doom)),
            _ => Ok(None),
        }
    }

    /// The whole record where it fits, else where it is. `None` where not even that fits.
    fn letter(&self, item: &Delivered, doom: &Doom) -> Option<OutboxEvent> {
        let rules = &self.work.intake.unwanted;
        let fits = |letter: &OutboxEvent| self.work.outbox.check(slice::from_ref(letter)).is_ok();
        let whole = item.event.excerpt.is_none() && item.event.record.size() <= rules.bytes_max;
        let whole = whole.then(|| self.make_letter(item, whole_record(item, doom))).flatten();
        let make = |text| self.make_letter(item, text).filter(fits);
        whole.filter(fits).or_else(|| make(place_of(item, doom)))
    }

    /// Letters of one aggregate have its order: they are of one aggregate, too. The id is the same whenever the
    /// record is read, so that a database that went back sends the same letter.
    fn make_letter(&self, item: &Delivered, payload: String) -> Option<OutboxEvent> {
        let delivery = &*item.event;
        let aggregate = format!("{:032x}", u128::from_be_bytes(item.aggregate));
        let aggregate = Aggregate::new(String::from(&*delivery.partition.topic), aggregate).ok()?;
        let id = EventId::from(item.id);
        let time = id.time_ms().or(delivery.record.timestamp_ms).unwrap_or_default();
        let id = EventId::derived(&self.work.meters.consumer, id, 0, time);
        let letter = OutboxEvent::encoded(DEAD_LETTER, &aggregate, payload.into()).ok()?;
        letter.with_id(id).with_topic(self.work.intake.unwanted.topic.clone()?).ok()
    }
}

/// What a parked row would hold, and why.
fn whole_record(item: &Delivered, doom: &Doom) -> String {
    let document = document(item, &doom.error);
    // An object that is not empty.
    format!("{{\"reason\":\"{}\",{}", doom.reason.as_str(), &document[1..])
}

/// Where the record is, and what tells whether it is still the same.
fn place_of(item: &Delivered, doom: &Doom) -> String {
    let delivery = &*item.event;
    let payload = delivery.record.payload.as_deref().unwrap_or_default();
    let (bytes, sha256) = match &delivery.excerpt {
        Some(part) => (part.payload_bytes.unwrap_or_default(), part.payload_sha256.clone()),
        None => (payload.len(), Some(format!("{:x}", Sha256::digest(payload)))),
    };
    json!({
        "reason": doom.reason.as_str(),
        "topic": &*delivery.partition.topic,
        "partition": delivery.partition.partition,
        "offset": delivery.offset.0,
        "timestamp_ms": delivery.record.timestamp_ms,
        "error": doom.error.chars().take(ERROR_MAX).collect::<String>(),
        "payload_bytes": bytes,
        "payload_sha256": sha256,
    })
    .to_string()
}
