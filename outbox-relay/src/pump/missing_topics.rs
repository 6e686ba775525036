//! Topics that are missing, and partitions without a leader: asked for again and again, ever more seldom, until they are
//! there. And topics that may not be written: whether they may is learnt by writing, which breaks a transaction off each
//! time.

use std::{
    collections::{BTreeSet, HashMap},
    time::{Duration, Instant},
};

use super::Pump;
use crate::{
    port::Rounds,
    sink::{Forbidden, TopicStatus, TopicWait},
    telemetry::Signal,
};

/// Brokers forget topics for moments: the first question comes soon.
const FIRST: Duration = Duration::from_millis(400);
const LAST: Duration = Duration::from_secs(10);

/// What is missing, and when it is asked for next: topics, and partitions as `topic/number`, which no topic is named.
#[derive(Debug, Default)]
pub(super) struct MissingTopics(HashMap<String, Retry>);

/// What is missing, by the name that rows wait under.
pub(super) fn missing(topic: &str, what: TopicWait) -> String {
    match what {
        TopicWait::Presence | TopicWait::Permission => topic.to_owned(),
        TopicWait::Leader(partition) => format!("{topic}/{partition}"),
    }
}

/// The topic of what is missing.
fn topic(missing: &str) -> &str {
    missing.split_once('/').map_or(missing, |(topic, _)| topic)
}

#[derive(Debug)]
struct Retry {
    waits: TopicWait,
    at: Instant,
    wait: Duration,
}

impl MissingTopics {
    /// What a topic waits for, as it was when it was last asked for.
    pub(super) fn waits(&self, topic: &str) -> Option<TopicWait> {
        self.0.get(topic).map(|retry| retry.waits)
    }

    /// One more; `false` if that is known.
    pub(super) fn add(&mut self, topic: &str, waits: TopicWait, now: Instant) -> bool {
        let missing = missing(topic, waits);
        if self.waits(&missing).is_some() {
            return false;
        }
        let wait = match waits {
            TopicWait::Presence | TopicWait::Leader(_) => FIRST,
            TopicWait::Permission => LAST,
        };
        self.0.insert(missing, Retry { waits, at: now + wait, wait });
        true
    }

    /// The topics that are asked for now. The next time is later in any case.
    pub(super) fn due(&mut self, now: Instant) -> Vec<String> {
        let due = self.0.iter_mut().filter(|(_, retry)| retry.at <= now);
        let topics: BTreeSet<String> = due
            .map(|(missing, retry)| {
                retry.wait = (retry.wait * 2).min(LAST);
                retry.at = now + retry.wait;
                topic(missing).to_owned()
            })
            .collect();
        topics.into_iter().collect()
    }

    /// When the next one is due.
    pub(super) fn next(&self) -> Option<Instant> {
        self.0.values().map(|retry| retry.at).min()
    }

    /// A topic was asked for. Answers what is missing no longer, as far as is known, and what rows have waited for.
    pub(super) fn found(&mut self, name: &str, status: &TopicStatus) -> Vec<(String, TopicWait)> {
        let is_over = |waits: TopicWait| match (status, waits) {
            (TopicStatus::Unknown(_), _) => false,
            (TopicStatus::Missing, waits) => matches!(waits, TopicWait::Leader(_)),
            (TopicStatus::There(partitions), TopicWait::Leader(partition)) => {
                !partitions.leaderless.contains(&partition)
            }
            // What is wrong with a topic that is refused, the row says that meets it.
            (TopicStatus::There(_) | TopicStatus::Refused(_), _) => true,
        };
        let over =
            self.0.extract_if(|missing, retry| topic(missing) == name && is_over(retry.waits));
        over.map(|(missing, retry)| (missing, retry.waits)).collect()
    }
}

impl<F: Rounds> Pump<F> {
    /// Rows of a topic wait, by what it answered to one of them.
    pub(super) fn note_wait(&self, missing: &mut MissingTopics, topic: &str, what: TopicWait) {
        if !missing.add(topic, what, Instant::now()) {
            return;
        }
        match what {
            TopicWait::Presence => Signal::TopicMissing { topic: topic.to_owned() }.emit(),
            TopicWait::Permission => self.note_forbidden(Forbidden::topic(topic)),
            TopicWait::Leader(partition) => {
                Signal::PartitionLeaderless { topic: topic.to_owned(), partition }.emit();
            }
        }
    }

    /// Records of these topics were sent, where something is forbidden.
    pub(super) fn note_sent(&self, topics: Vec<String>) {
        for topic in topics {
            self.meters.note_allowed("cluster", None);
            if self.meters.note_allowed("topic", Some(&topic)) {
                Signal::TopicFound { topic }.emit();
            }
        }
    }

    /// Says once what the user may not do.
    pub(super) fn note_forbidden(&self, forbidden: Forbidden) {
        let reason = forbidden.to_string();
        if self.meters.note_forbidden(forbidden) {
            Signal::Forbidden { reason }.emit();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kafka_kit::internal::producer::Partitions;

    #[test]
    fn a_topic_is_asked_for_ever_more_seldom_and_at_once_after_a_person_did_something() {
        let begin = Instant::now();
        let at = |millis| begin + Duration::from_millis(millis);
        let mut missing_topics = MissingTopics::default();
        let waits = TopicWait::Presence;
        assert!(missing_topics.add("a", waits, begin) && !missing_topics.add("a", waits, at(100)));
        assert_eq!(missing_topics.due(at(399)), [""; 0]);
        assert_eq!(missing_topics.due(at(400)), ["a"]);
        assert_eq!(missing_topics.next(), Some(at(1_200)), "twice as long");
        for _ in 0..10 {
            let next = missing_topics.next().unwrap();
            assert_eq!(missing_topics.due(next), ["a"]);
            assert!(missing_topics.next().unwrap() <= next + LAST);
        }
        let there = TopicStatus::There(Partitions { count: 2, leaderless: vec![1] });
        assert_eq!(missing_topics.found("a", &there), [("a".to_owned(), waits)]);
        assert!(missing_topics.waits("a").is_none() && missing_topics.next().is_none());
        assert!(missing_topics.add("a", TopicWait::Permission, begin));
        assert_eq!(missing_topics.next(), Some(begin + LAST), "each try breaks a transaction off");

        for partition in [0, 1] {
            assert!(missing_topics.add("b", TopicWait::Leader(partition), begin));
        }
        assert_eq!(missing_topics.due(at(400)), ["b"]);
        assert_eq!(missing_topics.found("b", &TopicStatus::Unknown(String::new())), []);
        let led = [("b/0".to_owned(), TopicWait::Leader(0))];
        assert_eq!(missing_topics.found("b", &there), led);
        assert!(missing_topics.waits("b/1").is_some());
    }
}
