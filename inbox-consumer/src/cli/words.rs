//! Parked events in words: why they are parked, when their turn comes, and text that comes from
//! strangers.

use std::time::Duration;

use inbox_store::internal::port::{Intent, ParkedRow};
use service_kit::printed;
pub(super) use service_kit::printed::counted;

/// A reason for which events are parked.
pub(super) struct Reason {
    /// As the table has it.
    pub(super) name: &'static str,
    /// What it means.
    pub(super) means: &'static str,
    /// What to do.
    pub(super) advice: &'static str,
}

/// Every reason. The operations page has a section for each.
pub(super) const REASONS: &[Reason] = &[
    Reason {
        name: "by_hand",
        means: "an operator parked it before it was settled",
        advice: "finish what it was parked for, then release it; or discard it",
    },
    Reason {
        name: "crashed",
        means: "processes died while they ran it",
        advice: "fix the handler, which kills the process on this event, then release it; or \
                 discard it",
    },
    Reason {
        name: "exhausted",
        means: "retries exhausted",
        advice: "it is retried automatically, with growing delays; fix what the error names, then \
                 release it to retry at once",
    },
    Reason {
        name: "follower",
        means: "an earlier event of its aggregate is parked",
        advice: "handle the event that it follows: once that one is released or discarded, this \
                 one runs next",
    },
    Reason {
        name: "gap",
        means: "an earlier version of its aggregate has not been applied yet",
        advice: "it runs once that version is applied; find out why it does not arrive, then \
                 release it to run it without, or discard it",
    },
    Reason {
        name: "gap_over",
        means: "an earlier version of its aggregate did not arrive in time",
        advice: "it runs without that version, after all waiting events with lower versions",
    },
    Reason {
        name: "mismatch",
        means: "an earlier event had the same id and different content",
        advice: "fix the producer that uses one id for two events; discard this one if the first \
                 is enough, otherwise have it sent again under a new id, then discard it",
    },
    Reason {
        name: "rejected",
        means: "its handler rejected it permanently",
        advice: "fix the handler or the data that it reads, then release it; or discard it",
    },
    Reason {
        name: "releasing",
        means: "a handler ended the transaction during its release: its effect may be committed",
        advice: "check the tables that its handler writes to: discard it if its effect is there, \
                 otherwise release it, either with --force",
    },
    Reason {
        name: "torn",
        means: "a handler ended the transaction in the middle of its batch: its effect may be \
                committed",
        advice: "check the tables that its handler writes to: discard it if its effect is there, \
                 otherwise release it, either with --force",
    },
    Reason {
        name: "undecodable",
        means: "the record could not be read as an event, or its payload did not fit the \
                handler's type",
        advice: "extend the handler's type to read it, or fix its producer and discard it",
    },
    Reason {
        name: "unknown_type",
        means: "no handler is registered for its type",
        advice: "register a handler and release it, or discard it; to ignore a type, set \
                 `events.unknown_type` or a route",
    },
];

/// Whether the effect of such an event may be there already.
pub(super) fn doubtful(reason: &str) -> bool {
    matches!(reason, "releasing" | "torn")
}

/// What a reason means, and what to do.
pub(super) fn reason(name: &str) -> (&'static str, &'static str) {
    let known = REASONS.iter().find(|reason| reason.name == name);
    known.map_or(
        ("a reason unknown to this build", "use this command from a newer build"),
        |reason| (reason.means, reason.advice),
    )
}

/// When its turn comes.
pub(super) fn turn(row: &ParkedRow) -> String {
    if let Some(intent) = &row.intent {
        return format!("{intent} requested");
    }
    match (&row.due_at, row.due_seconds) {
        (None, _) => format!("follows {}", row.head),
        (Some(_), Some(seconds)) if seconds <= 0.0 => "now".into(),
        (Some(_), Some(seconds)) => format!("in {}", seconds_in_words(seconds)),
        (Some(_), None) => "manual action required".into(),
    }
}

/// Seconds as people say them: whole ones.
pub(super) fn seconds_in_words(seconds: f64) -> String {
    let whole = Duration::try_from_secs_f64(seconds.max(0.0).ceil()).unwrap_or_default();
    humantime::format_duration(whole).to_string()
}

/// Text from outside on one line of a terminal: nothing in it moves the cursor.
pub(super) fn plain(text: &str, longest: usize) -> String {
    let mut short: String = text.chars().take(longest).map(printed::visible).collect();
    if text.chars().nth(longest).is_some() {
        short.pop();
        short.push('…');
    }
    short
}

/// The verb, as sentences use it.
pub(super) fn verb(intent: Intent) -> (&'static str, &'static str) {
    match intent {
        Intent::Discard => ("discard", "discarded"),
        Intent::Release => ("release", "released"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_from_outside_moves_no_cursor_and_is_cut() {
        assert_eq!(plain("a\u{1b}[2Jb\nc", 20), "a\u{fffd}[2Jb\u{fffd}c");
        assert_eq!(plain("abcdef", 6), "abcdef");
        assert_eq!(plain("abcdefg", 6), "abcde…");
        assert_eq!(plain("", 6), "");
    }

    #[test]
    fn every_reason_of_the_engine_has_its_words() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../inbox-engine/src/fault.rs");
        let source = std::fs::read_to_string(path).unwrap();
        let names = source.lines().filter_map(|line| line.trim().strip_prefix("Self::"));
        let names = names.filter_map(|line| line.split("=> \"").nth(1)?.split('"').next());
        let names: Vec<&str> = names.collect();
        assert!(names.len() >= 7, "{names:?}");
        for name in names {
            assert!(REASONS.iter().any(|reason| reason.name == name), "{name} has no words");
        }
    }

    #[test]
    fn seconds_are_whole() {
        assert_eq!(seconds_in_words(59.2), "1m");
        assert_eq!(seconds_in_words(-3.0), "0s");
        assert_eq!(counted(1, "event") + &counted(2, "event"), "1 event2 events");
    }
}
