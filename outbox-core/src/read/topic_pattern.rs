//! A part of a topic's name, such as the type in `outbox.event.order`.

use std::{fmt, ops::Range};

use crate::Text;

/// The longest name of a topic.
const NAME_BYTES_MAX: usize = 249;

/// A topic's name with one `*`, which stands for the part that is looked for: `outbox.event.*`. What is in front of
/// it begins the name or follows a dot, since tools that copy topics put the cluster's name there.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct TopicPattern {
    before: Text,
    behind: Text,
}

impl TopicPattern {
    /// Reads one; nothing when it is none.
    pub(super) fn new(text: &str) -> Option<Self> {
        let (before, behind) = text.split_once('*')?;
        let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
        let is_name =
            text.len() <= NAME_BYTES_MAX && before.chars().chain(behind.chars()).all(allowed);
        is_name.then(|| Self { before: before.into(), behind: behind.into() })
    }

    /// Where the part is in a topic's name; nothing when the name is another, or the part has no letters.
    pub(super) fn part(&self, topic: &str) -> Option<Range<usize>> {
        let end = topic.len().checked_sub(self.behind.len())?;
        if topic.as_bytes().get(end..)? != self.behind.as_bytes() {
            return None;
        }
        let mut starts = std::iter::once(0).chain(topic.match_indices('.').map(|(dot, _)| dot + 1));
        let begins = |start: &usize| topic.as_bytes()[*start..].starts_with(self.before.as_bytes());
        let start =
            if self.before.is_empty() { 0 } else { starts.find(begins)? + self.before.len() };
        (start < end).then_some(start..end)
    }
}

impl fmt::Display for TopicPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}*{}", self.before, self.behind)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_between_what_stands_around_it() {
        for (pattern, topic, part) in [
            ("outbox.event.*", "outbox.event.order", Some("order")),
            ("outbox.event.*", "outbox.event.order.line", Some("order.line")),
            ("outbox.event.*", "west.outbox.event.order", Some("order")),
            ("outbox.event.*", "myoutbox.event.order", None),
            ("outbox.event.*", "outbox.event.", None),
            ("outbox.event.*", "orders", None),
            ("*.events", "order.events", Some("order")),
            ("*.events", ".events", None),
            ("a.*.a.", "a.a.", None),
            ("*", "orders", Some("orders")),
        ] {
            let found = TopicPattern::new(pattern).unwrap().part(topic);
            assert_eq!(found.map(|part| &topic[part]), part, "{pattern} of {topic}");
        }
        for wrong in ["", "orders", "a*b*c", "a b*", "ä*", "a|*"] {
            assert!(TopicPattern::new(wrong).is_none(), "{wrong}");
        }
    }
}
