//! What an append came to.

use std::collections::HashSet;

use crate::OutboxEvent;

/// What was appended: everything, but for events whose dedup key
/// ([`OutboxEvent::with_dedup_key`]) was there already.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Appended {
    rows: usize,
    left_out: Vec<usize>,
}

impl Appended {
    /// How many events are new.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// The places, among the events that were given, of those whose key was there already; in their order.
    pub fn left_out(&self) -> &[usize] {
        &self.left_out
    }

    /// Of so many rows that the statement says it wrote, with these keys among them. Of events with one key the
    /// first is written. An error: an event without a key is missing, something in the database swallows rows.
    pub(super) fn of(
        events: &[OutboxEvent],
        written: u64,
        keys: Vec<String>,
    ) -> Result<Self, sqlx::Error> {
        let mut new: HashSet<String> = keys.into_iter().collect();
        let mut is_left_out =
            |event: &OutboxEvent| event.dedup_key().is_some_and(|key| !new.remove(key));
        let places = events.iter().enumerate();
        let left_out: Vec<usize> =
            places.filter(|(_, event)| is_left_out(event)).map(|(place, _)| place).collect();
        let rows = events.len() - left_out.len();
        if usize::try_from(written) == Ok(rows) {
            return Ok(Self { rows, left_out });
        }
        Err(sqlx::Error::Protocol(format!(
            "{written} of {rows} events were written to outbox_events; remove the trigger or rule \
             that drops its rows"
        )))
    }
}

/// What a statement has to do besides writing: the least that the events ask for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Form {
    /// Nothing.
    Plain,
    /// It says when events are delivered.
    Delayed,
    /// It leaves out events whose key is there, and may say when others are delivered.
    Keyed,
}

impl Form {
    pub(super) fn of(events: &[OutboxEvent]) -> Self {
        if events.iter().any(|event| event.dedup_key().is_some()) {
            Self::Keyed
        } else if events.iter().any(|event| event.deliver_after_ms().is_some()) {
            Self::Delayed
        } else {
            Self::Plain
        }
    }
}
