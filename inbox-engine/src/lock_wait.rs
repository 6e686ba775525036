//! Lock time-outs: what one handler works on is locked, and the database is well.

use crate::{Batch, Engine, Rule, Time};

impl<T> Engine<T> {
    /// A table that a migration has locked keeps every event of its handler from being handled, which is no event's
    /// fault: it counts as one only where another event of that handler has been applied since. What is being parked
    /// waits for the runtime's own tables, which less of it would not help.
    pub(crate) fn handle_locked(&mut self, batch: Batch<T>, route: u32, error: String, now: Time) {
        let latest = self.last_applied(route);
        let counted = if batch.only_parks(Some(0)) {
            Some(batch)
        } else {
            self.count_lone_fault(batch, &error, latest, now)
        };
        let Some(batch) = counted else { return };
        self.rest(&batch, self.limits.outage_delay(), now);
        self.give_back(batch);
    }

    /// The number of the last commit that shows that what a handler works on is not locked for all of its events.
    pub(crate) fn last_applied(&mut self, route: u32) -> u64 {
        let last = *self.locked_out.entry(route).or_default();
        if Rule::LockMetBesideItsHandler.on() { last } else { self.commits }
    }

    /// Where not every event of a batch was applied, nobody knows which handlers were called.
    pub(crate) fn note_handlers(&mut self, batch: &Batch<T>, applied: u64) {
        if self.locked_out.is_empty() || applied != batch.items.len() as u64 {
            return;
        }
        let mut before = None;
        for route in batch.items.iter().map(|item| item.kind.route) {
            if before.replace(route) != Some(route)
                && let Some(last) = self.locked_out.get_mut(&route)
            {
                *last = self.commits;
            }
        }
    }
}
