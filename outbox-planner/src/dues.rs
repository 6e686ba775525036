//! Which destinations have parked rows that may go, as far as is known.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use crate::types::Time;

/// Between two claims of one destination that found less than they asked for.
const PAUSE: Duration = Duration::from_millis(100);

/// Which destinations have parked rows.
#[derive(Clone, Debug, Default)]
pub(crate) struct DueRows {
    /// When the next row of each may go.
    at: BTreeMap<String, Time>,
    /// Names under which nothing goes: topics that are missing.
    closed: BTreeSet<String>,
    /// When to ask the store.
    ask_at: Time,
    /// The answer is awaited.
    asking: bool,
    /// The name whose claim is awaited.
    claiming: Option<String>,
    /// Where the next claim begins to look.
    last: String,
}

impl DueRows {
    /// A row under this name may go at a time.
    pub(crate) fn expect(&mut self, name: &str, at: Time) {
        match self.at.get_mut(name) {
            Some(known) => *known = at.min(*known),
            None => {
                self.at.insert(name.to_owned(), at);
            }
        }
    }

    pub(crate) fn ask_now(&mut self, now: Time) {
        self.ask_at = self.ask_at.min(now);
    }

    pub(crate) fn is_closed(&self, name: &str) -> bool {
        self.closed.contains(name)
    }

    /// Answers whether that is new.
    pub(crate) fn close(&mut self, name: &str) -> bool {
        self.closed.insert(name.to_owned())
    }

    pub(crate) fn open(&mut self, name: &str, now: Time) {
        if self.closed.remove(name) {
            self.expect(name, now);
        }
    }

    /// Whether an answer of the store is awaited.
    pub(crate) fn is_awaited(&self) -> bool {
        self.asking || self.claiming.is_some()
    }

    #[cfg(test)]
    pub(crate) fn closed(&self) -> impl Iterator<Item = &str> {
        self.closed.iter().map(String::as_str)
    }

    /// Whether rows under this name are known to be due.
    pub(crate) fn has(&self, name: &str, now: Time) -> bool {
        self.at.get(name).is_some_and(|at| *at <= now)
    }

    /// Names whose rows are due, in turn.
    pub(crate) fn due(&self, now: Time) -> Vec<String> {
        if self.claiming.is_some() {
            return Vec::new();
        }
        let due = |(name, at): &(&String, &Time)| **at <= now && !self.is_closed(name);
        let names = self.at.iter().filter(due).map(|(name, _)| name);
        let (mut after, before): (Vec<_>, Vec<_>) =
            names.cloned().partition(|name| *name > self.last);
        after.extend(before);
        after
    }

    pub(crate) fn begin_claim(&mut self, name: &str) {
        name.clone_into(&mut self.last);
        self.claiming = Some(name.to_owned());
    }

    /// A claim has ended; with `whole` it found all that it asked for.
    pub(crate) fn end_claim(&mut self, whole: bool, now: Time) {
        let Some(name) = self.claiming.take() else { return };
        if !whole {
            self.at.remove(&name);
            self.ask_at = self.ask_at.min(now + PAUSE);
        }
    }

    /// A claim failed: it is made again later.
    pub(crate) fn fail_claim(&mut self, again: Time) {
        if let Some(name) = self.claiming.take() {
            self.at.insert(name, again);
        }
    }

    pub(crate) fn wants_answer(&self, now: Time) -> bool {
        !self.asking && now >= self.ask_at
    }

    pub(crate) fn begin_ask(&mut self) {
        self.asking = true;
        // An answer may not show what makes it ask once more meanwhile.
        self.ask_at = Time::MAX;
    }

    pub(crate) fn end_ask(
        &mut self,
        found: Option<Vec<(String, Duration)>>,
        next: Time,
        now: Time,
    ) {
        self.asking = false;
        self.ask_at = next.min(self.ask_at);
        for (name, after) in found.into_iter().flatten() {
            self.expect(&name, now + after);
        }
    }

    /// When something is due though nothing happens.
    pub(crate) fn next_time(&self, now: Time) -> Option<Time> {
        let ask = (!self.asking).then_some(self.ask_at);
        let later = self.at.iter().filter(|(name, at)| **at > now && !self.is_closed(name));
        ask.into_iter().chain(later.map(|(_, at)| *at)).min()
    }
}
