//! Rows become records to send; what is no event, or has no topic, is set aside before anything is sent.

#[cfg(test)]
mod tests;

use std::{
    collections::HashSet,
    time::{Duration, Instant},
};

use inbox_engine::internal::Rule;

use super::{
    dispatch::{Dispatch, Item, LaneKey, no_room},
    missing_topics::MissingTopics,
};
use crate::{
    destination::{Delivery, Destination},
    format::{Format, Formatted},
    port::{Row, RowFailure, RowId},
    routes::{Routes, Way},
    sink::{Forbidden, OutgoingRecord, TopicWait},
};

/// Written on a row that is not sent before a time of its own.
const NOT_YET: &str = "scheduled for later (`deliver_after`); sent automatically";

/// What decides where rows go.
pub(super) struct Sorter<'a> {
    pub(super) format: &'a Format,
    pub(super) routes: &'a Routes,
    pub(super) missing_topics: &'a MissingTopics,
    /// Whether Kafka takes any now; otherwise what is for Kafka is passed over.
    pub(super) kafka: bool,
    /// So many rows of a batch for Kafka at most.
    pub(super) kafka_max: usize,
    pub(super) destinations: &'a [Destination],
}

/// A batch, sorted out.
#[derive(Debug, Default)]
pub(super) struct OutgoingBatch {
    /// The rows to send to Kafka, in order, and what to send for each.
    pub(super) rows: Vec<SentRow>,
    pub(super) records: Vec<OutgoingRecord>,
    /// When the oldest of them was appended.
    pub(super) appended: Option<Instant>,
    /// The rows to set aside.
    pub(super) failed: Vec<RowFailure>,
    /// The rows to hold.
    pub(super) blocked: Vec<RowId>,
    /// Rows that other destinations take.
    pub(super) taken: usize,
    /// Rows that nothing becomes of now.
    pub(super) passed: usize,
    /// The first of these of each aggregate that waits for room or for Kafka: where they hide others they wait in the
    /// database.
    pub(super) overflow: Vec<Overflow>,
}

/// A row that is passed over.
#[derive(Debug)]
pub(super) struct Overflow {
    pub(super) id: RowId,
    pub(super) aggregate: String,
    pub(super) attempts: u32,
    /// The lane that has no room; `None`: it is for Kafka.
    pub(super) lane: Option<LaneKey>,
}

/// A row that is sent to Kafka.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct SentRow {
    pub(super) id: RowId,
    /// It waited for its time, set aside.
    pub(super) waited: bool,
    /// How often it was tried in vain.
    pub(super) attempts: u32,
}

/// Where a row goes now.
enum Place {
    /// Into the batch for Kafka, or aside.
    Batch,
    /// Another destination has taken it in.
    Taken,
    /// It is passed over.
    Nowhere(Option<Overflow>),
}

impl OutgoingBatch {
    /// Whether it has a record of an aggregate.
    fn has(&self, aggregate: &str) -> bool {
        self.records.iter().any(|record| record.aggregate == aggregate)
    }
}

impl Sorter<'_> {
    /// Sorts rows out; what is for other destinations than Kafka is taken in there. Rows behind one of their aggregate
    /// that nothing becomes of now wait for it.
    pub(super) fn sort(
        &self,
        rows: Vec<Row>,
        dispatch: &mut Dispatch,
        now: Instant,
    ) -> OutgoingBatch {
        let mut batch = OutgoingBatch::default();
        let (mut held, mut in_batch) = (HashSet::new(), HashSet::new());
        for row in rows {
            let Row { id, aggregate, blocked, delay, .. } = &row;
            if *blocked {
                match dispatch.count_held(aggregate) {
                    None => batch.blocked.push(*id),
                    Some(name) => batch.failed.push(Overflow::of(&row, None).failure(name)),
                }
                continue;
            }
            if dispatch.knows(id.seq) {
                continue;
            }
            if held.contains(aggregate) {
                batch.passed += 1;
                continue;
            }
            if let Some(after) = delay.filter(|_| Rule::DelayKept.on()) {
                // Only the first of its aggregate waits set aside: what is due is sent, whatever is before it.
                if !dispatch.has(aggregate) && !batch.has(aggregate) {
                    batch.failed.push(not_yet(&row, after));
                } else {
                    batch.passed += 1;
                }
                held.insert(row.aggregate);
                continue;
            }
            let full = batch.records.len() >= self.kafka_max;
            match self.place(&row, dispatch, (in_batch.contains(aggregate), full), now) {
                Place::Batch => {}
                Place::Taken => {
                    batch.taken += 1;
                    continue;
                }
                Place::Nowhere(overflow) => {
                    batch.passed += 1;
                    batch.overflow.extend(overflow);
                    held.insert(row.aggregate);
                    continue;
                }
            }
            match self.record(&row) {
                Ok(record) => {
                    if dispatch.is_used() {
                        in_batch.insert(row.aggregate);
                    }
                    let Row { id, waited, attempts, age, .. } = row;
                    let appended = now.checked_sub(age);
                    batch.appended = batch.appended.into_iter().chain(appended).min();
                    batch.rows.push(SentRow { id, waited, attempts });
                    batch.records.push(record);
                }
                Err(failure) => {
                    batch.failed.push(failure);
                    held.insert(row.aggregate);
                }
            }
        }
        batch
    }

    /// Where a row goes now.
    fn place(
        &self,
        row: &Row,
        dispatch: &mut Dispatch,
        (in_batch, full): (bool, bool),
        now: Instant,
    ) -> Place {
        let overflow = |lane| Place::Nowhere(Some(Overflow::of(row, lane)));
        match self.way(row) {
            Ok(Way::Kafka) if dispatch.has(&row.aggregate) => {
                dispatch.note_behind(&row.aggregate, true);
                let lane = dispatch.lane_of(&row.aggregate);
                Place::Nowhere(lane.map(|lane| Overflow::of(row, Some(lane))))
            }
            Ok(Way::Kafka) if !self.kafka => overflow(None),
            Ok(Way::Kafka) if full => Place::Nowhere(None),
            Ok(Way::Sink(_)) if in_batch => Place::Nowhere(None),
            Ok(Way::Sink(sink)) => {
                match self.item(sink, row, now).map(|item| dispatch.take_in(item)) {
                    Some(Ok(())) => Place::Taken,
                    Some(Err(item)) => {
                        dispatch.note_behind(&row.aggregate, false);
                        overflow(Some(item.lane()))
                    }
                    None => Place::Nowhere(None),
                }
            }
            Ok(Way::Kafka | Way::Nowhere) | Err(()) => Place::Batch,
        }
    }

    fn way(&self, row: &Row) -> Result<Way, ()> {
        let envelope = row.event.as_ref().map_err(drop)?.envelope();
        Ok(self.routes.way(&envelope.event_type, envelope.aggregate.aggregate_type()))
    }

    fn item(&self, sink: usize, row: &Row, now: Instant) -> Option<Item> {
        let (Ok(event), Some(destination)) = (&row.event, self.destinations.get(sink)) else {
            return None;
        };
        let topic = self.format.topic(event).ok();
        let bytes = row.bytes();
        let attempt = row.attempts.saturating_add(1);
        let delivery = Delivery { event: event.clone(), topic, attempt };
        let scope = destination.sink.scope(&delivery);
        Some(Item {
            id: row.id,
            aggregate: row.aggregate.clone(),
            sink,
            scope,
            delivery,
            late: row.waited,
            bytes,
            read: (now, row.age),
        })
    }

    /// What Kafka is sent for a row, or what is wrong with it.
    fn record(&self, row: &Row) -> Result<OutgoingRecord, RowFailure> {
        let Row { id, aggregate, attempts, event, .. } = row;
        let failure = |event, error| RowFailure::new(*id, event, *attempts, error);
        let event = event.as_ref().map_err(|error| failure(aggregate.clone(), error.clone()))?;
        let envelope = event.envelope();
        let kind = envelope.aggregate.aggregate_type();
        let event_type = &envelope.event_type;
        if self.routes.way(event_type, kind) == Way::Nowhere {
            let error = format!(
                "no route matches events of type {event_type} of the aggregate type {kind}; add \
                 one to [[routes]], then retry the row"
            );
            return Err(failure(label(aggregate, *id), error));
        }
        let refused = |error| failure(label(aggregate, *id), error);
        let topic = self.format.topic(event).map_err(refused)?;
        if let Some(what) = self.missing_topics.waits(&topic) {
            let event = label(aggregate, *id);
            return Err(waits(*id, event, *attempts, topic, what));
        }
        let Formatted { topic, partition, record } =
            self.format.record(event, topic).map_err(refused)?;
        Ok(OutgoingRecord { topic, partition, aggregate: aggregate.clone(), record })
    }
}

/// A row whose time has not come.
fn not_yet(row: &Row, after: Duration) -> RowFailure {
    let event = label(&row.aggregate, row.id);
    RowFailure::new(row.id, event, row.attempts, NOT_YET.into()).retried_after(after)
}

/// What the log calls an event.
pub(super) fn label(aggregate: &str, id: RowId) -> String {
    format!("{aggregate} {}", id.event)
}

impl Overflow {
    fn of(row: &Row, lane: Option<LaneKey>) -> Self {
        let Row { id, aggregate, attempts, .. } = row;
        Self { id: *id, aggregate: aggregate.clone(), attempts: *attempts, lane }
    }

    /// It waits in the database under this name.
    pub(super) fn failure(self, name: String) -> RowFailure {
        let Self { id, aggregate, attempts, .. } = self;
        RowFailure::new(id, label(&aggregate, id), attempts, no_room(&name)).waiting_for(name)
    }
}

/// A row that waits for its topic.
pub(super) fn waits(
    id: RowId,
    event: String,
    attempts: u32,
    topic: String,
    what: TopicWait,
) -> RowFailure {
    let error = match what {
        TopicWait::Presence => format!(
            "topic {topic} does not exist; create it, and the row is sent automatically, or \
             correct `kafka.topic` or the row's own topic"
        ),
        TopicWait::Permission => Forbidden::topic(&topic).to_string(),
    };
    RowFailure::new(id, event, attempts, error).waiting_for(topic)
}
