//! Where a row goes: its destination and what that is given, or why it cannot go.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use inbox_engine::internal::Rule;
use outbox_core::OutboxEvent;
use outbox_planner::internal::{Fate, Incoming, LaneKey};
use xxhash_rust::xxh3::xxh3_64;

use super::missing_topics::MissingTopics;
use crate::{
    destination::{Delivery, Destination},
    format::{Format, Formatted},
    port::{Row, TOPIC},
    routes::{KAFKA, Routes, Way},
    sink::{Forbidden, OutgoingRecord, TopicWait},
};

/// The number that Kafka has among the planner's destinations; the others follow in their order.
pub(super) const KAFKA_NUMBER: usize = 0;
/// The longest part of a scope that is written on rows.
const SCOPE_CHARS: usize = 200;

/// What a destination is given for an event, and when that was appended.
#[derive(Clone, Debug)]
pub(super) struct Content {
    pub(super) what: ContentKind,
    pub(super) appended: Option<Instant>,
}

/// What a destination is given.
#[derive(Clone, Debug)]
pub(super) enum ContentKind {
    Record(OutgoingRecord),
    Delivery(Box<Delivery>),
}

/// What decides where rows go.
pub(super) struct Router<'a> {
    pub(super) format: &'a Format,
    pub(super) routes: &'a Routes,
    pub(super) missing_topics: &'a MissingTopics,
    pub(super) destinations: &'a [Destination],
}

impl Router<'_> {
    /// A row as the planner takes it.
    pub(super) fn route(&self, row: Row, now: Instant) -> Incoming<Content> {
        let bytes = row.bytes();
        let Row { id: key, aggregate, blocked, claimed, attempts, delay, age, event } = row;
        let appended = now.checked_sub(age);
        let (destination, fate) = match &event {
            Err(error) => (KAFKA.to_owned(), Fate::Unsendable(error.clone())),
            Ok(event) => self.fate(event, &aggregate, attempts, appended),
        };
        let fate = match delay.filter(|_| Rule::DelayKept.on()) {
            // Blocked rows come without their payload, and are parked in any case.
            _ if blocked => Fate::Later(Duration::ZERO),
            Some(after) => Fate::Later(after),
            None => fate,
        };
        let aggregate = aggregate.into();
        Incoming { key, aggregate, blocked, claimed, attempts, bytes, destination, fate }
    }

    fn fate(
        &self,
        event: &OutboxEvent,
        aggregate: &str,
        attempts: u32,
        appended: Option<Instant>,
    ) -> (String, Fate<Content>) {
        let envelope = event.envelope();
        let (event_type, kind) = (&envelope.event_type, envelope.aggregate.aggregate_type());
        match self.routes.way(event_type, kind) {
            Way::Nowhere => {
                let error = format!(
                    "no route matches events of type {event_type} of the aggregate type {kind}; \
                     add one to [[routes]], then retry the row"
                );
                (KAFKA.to_owned(), Fate::Unsendable(error))
            }
            Way::Kafka => self.record(event, aggregate, appended),
            Way::Sink(number) => {
                let Some(destination) = self.destinations.get(number) else {
                    return (KAFKA.to_owned(), Fate::Unsendable("its destination is gone".into()));
                };
                let topic = self.format.topic(event).ok();
                let attempt = attempts.saturating_add(1);
                let delivery = Delivery { event: event.clone(), topic, attempt };
                let scope = printable(&destination.sink.scope(&delivery));
                let slash = if scope.is_empty() { "" } else { "/" };
                let name = format!("{}{slash}{scope}", destination.name);
                let lane = LaneKey { destination: number + 1, scope: scope.into() };
                let what = ContentKind::Delivery(Box::new(delivery));
                (name, Fate::Send(lane, Content { what, appended }))
            }
        }
    }

    /// What Kafka is sent for an event, or what is wrong with it.
    fn record(
        &self,
        event: &OutboxEvent,
        aggregate: &str,
        appended: Option<Instant>,
    ) -> (String, Fate<Content>) {
        let kafka = || KAFKA.to_owned();
        let topic = match self.format.topic(event) {
            Ok(topic) => topic,
            Err(error) => return (kafka(), Fate::Unsendable(error)),
        };
        if let Some(what) = self.missing_topics.waits(&topic) {
            return (topic_name(&topic), Fate::Awaits(awaits(&topic, what)));
        }
        match self.format.record(event, topic) {
            Err(error) => (kafka(), Fate::Unsendable(error)),
            Ok(Formatted { topic, partition, record }) => {
                let aggregate = aggregate.to_owned();
                let what =
                    ContentKind::Record(OutgoingRecord { topic, partition, aggregate, record });
                let lane = LaneKey { destination: KAFKA_NUMBER, scope: Arc::default() };
                (kafka(), Fate::Send(lane, Content { what, appended }))
            }
        }
    }
}

/// Under which name rows wait for a topic, or for a partition of one.
pub(super) fn topic_name(topic: &str) -> String {
    format!("{TOPIC}{topic}")
}

/// Why rows of a topic wait.
pub(super) fn awaits(topic: &str, what: TopicWait) -> String {
    match what {
        TopicWait::Presence => format!(
            "topic {topic} does not exist; create it, and the row is sent automatically, or \
             correct `kafka.topic` or the row's own topic"
        ),
        TopicWait::Permission => Forbidden::topic(topic).to_string(),
        TopicWait::Leader(partition) => format!(
            "partition {partition} of topic {topic} has no leader: the brokers with its replicas \
             are down; start one of them, and the row is sent automatically"
        ),
    }
}

/// A scope that can be written and compared: short enough for an index.
fn printable(scope: &str) -> String {
    let plain: String = scope.chars().filter(|c| !c.is_control()).take(SCOPE_CHARS).collect();
    if plain == scope {
        return plain;
    }
    // The same in every build: a relay of the next one compares it with what this one has written.
    format!("{plain}…{:x}", xxh3_64(scope.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_scope_has_the_same_name_in_every_build() {
        let long = "x".repeat(SCOPE_CHARS + 1);
        let plain = &long[..SCOPE_CHARS];
        assert_eq!(printable(&long), format!("{plain}…32df31caf6566da7"));
        assert_eq!(printable(plain), plain);
        assert!(!printable("a\nb").contains('\n'));
    }
}
