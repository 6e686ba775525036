//! Topics that are missing: asked for again and again, ever more seldom, until they are there. And those that may
//! not be written: whether they may is learnt by writing, which breaks a transaction off each time.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use super::Pump;
use crate::{
    port::Rounds,
    sink::{Forbidden, TopicWait},
    telemetry::Signal,
};

/// Brokers forget topics for moments: the first question comes soon.
const FIRST: Duration = Duration::from_millis(400);
const LAST: Duration = Duration::from_secs(10);

/// The topics that are missing, and when each is asked for next.
#[derive(Debug, Default)]
pub(super) struct MissingTopics(HashMap<String, Retry>);

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
        if self.waits(topic).is_some() {
            return false;
        }
        let wait = match waits {
            TopicWait::Presence => FIRST,
            TopicWait::Permission => LAST,
        };
        self.0.insert(topic.to_owned(), Retry { waits, at: now + wait, wait });
        true
    }

    /// Those that are asked for now. Whatever comes of it, the next time is later.
    pub(super) fn due(&mut self, now: Instant) -> Vec<String> {
        let due = self.0.iter_mut().filter(|(_, retry)| retry.at <= now);
        due.map(|(topic, retry)| {
            retry.wait = (retry.wait * 2).min(LAST);
            retry.at = now + retry.wait;
            topic.clone()
        })
        .collect()
    }

    /// When the next one is due.
    pub(super) fn next(&self) -> Option<Instant> {
        self.0.values().map(|retry| retry.at).min()
    }

    /// It may be written to, as far as is known. Answers what it has waited for.
    pub(super) fn remove(&mut self, topic: &str) -> Option<TopicWait> {
        self.0.remove(topic).map(|retry| retry.waits)
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
        missing_topics.remove("a");
        assert!(missing_topics.waits("a").is_none() && missing_topics.next().is_none());
        assert!(missing_topics.add("a", TopicWait::Permission, begin));
        assert_eq!(missing_topics.next(), Some(begin + LAST), "each try breaks a transaction off");
    }
}
