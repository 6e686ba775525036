//! What the thread that owns the consumer lets others see of itself, and of topics and logs.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
    time::{Duration, Instant},
};

use inbox_engine::internal::NextOffset;
use outbox_core::TopicPartition;

use crate::{
    forbidden::Forbidden,
    topic_state::{TopicState, missing},
};

/// Brokers are asked every few seconds, and one that has just learned of a topic may be behind the others: so
/// long a topic has to be missing.
const MISSING_MIN: Duration = Duration::from_secs(4);

/// What the thread that owns the consumer lets others see of itself.
#[derive(Clone, Debug, Default)]
pub struct BrokerHealth {
    /// An assignment arrived, possibly an empty one.
    pub joined: bool,
    /// For how long no broker has answered what it is asked every few seconds; zero while one does.
    pub brokers_silence: Duration,
    /// Since the thread's last round.
    pub silence: Duration,
    /// Where the logs of the assigned partitions end, as the last fetches said.
    pub ends: HashMap<TopicPartition, NextOffset>,
    /// The same as brokers answered when they were asked last, a few seconds ago.
    pub asked: HashMap<TopicPartition, LogEnds>,
    /// Batches that cannot be read, however often.
    pub unread: HashMap<TopicPartition, Unread>,
    /// The topics that are consumed, as far as brokers have answered.
    pub topics: HashMap<Arc<str>, TopicPresence>,
    /// What the brokers forbid.
    pub forbidden: BTreeSet<Forbidden>,
    /// Topics that are consumed, are there, and that no member of the group was given.
    pub unassigned: Vec<Arc<str>>,
}

/// A batch that cannot be read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Unread {
    /// Where it was to be read from.
    pub at: NextOffset,
    /// What is to be said of it.
    pub sentence: String,
}

/// Where a log ends, as its broker says; `None` when it did not answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LogEnds {
    /// Behind the last record that can be read: before the first transaction of a producer that is open.
    pub stable: Option<NextOffset>,
    /// Behind the last record.
    pub high: Option<NextOffset>,
}

/// Whether a topic is there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TopicPresence {
    /// It is, as brokers answered then.
    There(TopicState, Instant),
    /// It is not, and was not since then.
    Missing(Instant),
}

impl TopicPresence {
    /// Whether brokers have said so for long enough to be believed.
    fn is_missing(&self, now: Instant) -> bool {
        matches!(self, Self::Missing(since) if now.saturating_duration_since(*since) >= MISSING_MIN)
    }
}

impl BrokerHealth {
    /// What is to be said of a partition whose topic is not there, or has fewer. One that was added may have been
    /// assigned since brokers were asked.
    pub fn missing(
        &self,
        topic_partition: &TopicPartition,
        begun: Instant,
        now: Instant,
    ) -> Option<String> {
        match self.topics.get(&topic_partition.topic)? {
            TopicPresence::There(state, at) => state.lacks(topic_partition).filter(|_| *at > begun),
            sight @ TopicPresence::Missing(_) => {
                sight.is_missing(now).then(|| missing(&topic_partition.topic))
            }
        }
    }

    /// Whether a topic has another id than this.
    pub fn is_other_topic(&self, topic: &str, id: [u8; 16]) -> bool {
        matches!(self.topics.get(topic), Some(TopicPresence::There(state, _)) if state.is_other(id))
    }

    /// What is forbidden of a topic, or of the group that it is read in.
    pub fn forbidden_to(&self, topic: &str) -> Option<&Forbidden> {
        let group = || self.forbidden.iter().find(|it| it.resource == "group");
        self.forbidden(topic).or_else(group)
    }

    /// What is forbidden of a topic.
    pub fn forbidden(&self, topic: &str) -> Option<&Forbidden> {
        self.forbidden.iter().find(|it| it.resource == "topic" && &*it.name == topic)
    }

    /// Topics that are consumed and are not there.
    pub fn topics_missing(&self, now: Instant) -> Vec<Arc<str>> {
        let missing = self.topics.iter().filter(|(_, sight)| sight.is_missing(now));
        let mut missing: Vec<_> = missing.map(|(topic, _)| Arc::clone(topic)).collect();
        missing.sort();
        missing
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A broker that lags behind the others for a moment proves nothing.
    #[test]
    fn a_topic_is_missing_after_some_seconds_and_a_partition_at_once() {
        let (topic, begun): (Arc<str>, _) = ("orders".into(), Instant::now());
        let topic_partition = |partition| TopicPartition { topic: Arc::clone(&topic), partition };
        let with = |sight| BrokerHealth {
            topics: [(Arc::clone(&topic), sight)].into(),
            ..BrokerHealth::default()
        };
        let gone = with(TopicPresence::Missing(begun));
        assert_eq!(gone.missing(&topic_partition(0), begun, begun), None);
        assert!(gone.topics_missing(begun).is_empty());
        assert!(gone.missing(&topic_partition(0), begun, begun + MISSING_MIN).is_some());
        assert_eq!(gone.topics_missing(begun + MISSING_MIN), [Arc::clone(&topic)]);
        let two = TopicState { id: [2; 16], partitions: Some(2), ..TopicState::UNKNOWN };
        let asked = begun + Duration::from_secs(1);
        let smaller = with(TopicPresence::There(two, asked));
        assert_eq!(smaller.missing(&topic_partition(1), begun, asked), None);
        assert_eq!(
            smaller.missing(&topic_partition(2), asked, asked),
            None,
            "it may have been added"
        );
        let text = smaller.missing(&topic_partition(2), begun, asked).unwrap();
        assert!(text.contains("has 2 partitions and no partition 2"), "{text}");
        assert!(smaller.is_other_topic("orders", [1; 16]));
        assert!(!smaller.is_other_topic("orders", [2; 16]));
        assert!(!smaller.is_other_topic("orders", TopicState::UNKNOWN.id));
        assert!(!smaller.is_other_topic("bills", [1; 16]));
    }
}
