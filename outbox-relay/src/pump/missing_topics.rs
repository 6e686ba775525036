//! Topics that are missing: asked for again and again, ever more seldom, until they are there.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

/// Brokers forget topics for moments: the first question comes soon.
const FIRST: Duration = Duration::from_millis(400);
const LAST: Duration = Duration::from_secs(10);

/// The topics that are missing, and when each is asked for next.
#[derive(Debug, Default)]
pub(super) struct MissingTopics(HashMap<String, Retry>);

#[derive(Debug)]
struct Retry {
    at: Instant,
    wait: Duration,
}

impl MissingTopics {
    /// Whether a topic was missing when it was last asked for.
    pub(super) fn contains(&self, topic: &str) -> bool {
        self.0.contains_key(topic)
    }

    /// One more is missing; `false` if that is known.
    pub(super) fn add(&mut self, topic: &str, now: Instant) -> bool {
        if self.contains(topic) {
            return false;
        }
        self.0.insert(topic.to_owned(), Retry { at: now + FIRST, wait: FIRST });
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

    /// A person did something: they may all be there.
    pub(super) fn ask_now(&mut self, now: Instant) {
        for retry in self.0.values_mut() {
            *retry = Retry { at: now, wait: FIRST };
        }
    }

    /// It is not missing any more.
    pub(super) fn remove(&mut self, topic: &str) {
        self.0.remove(topic);
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
        assert!(missing_topics.add("a", begin) && !missing_topics.add("a", at(100)));
        assert_eq!(missing_topics.due(at(399)), [""; 0]);
        assert_eq!(missing_topics.due(at(400)), ["a"]);
        assert_eq!(missing_topics.next(), Some(at(1_200)), "twice as long");
        for _ in 0..10 {
            let next = missing_topics.next().unwrap();
            assert_eq!(missing_topics.due(next), ["a"]);
            assert!(missing_topics.next().unwrap() <= next + LAST);
        }
        missing_topics.ask_now(at(500));
        assert_eq!(missing_topics.due(at(500)), ["a"]);
        missing_topics.remove("a");
        assert!(!missing_topics.contains("a") && missing_topics.next().is_none());
    }
}
