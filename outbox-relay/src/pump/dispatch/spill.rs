//! What makes room in memory and at the head of the outbox: rows that cannot go now wait in the database, under the
//! name of their destination.

use std::time::{Duration, Instant};

use super::{Dispatch, Item, Lane, Queue, name};

/// So many events of a lane that is out stay in memory, to probe with.
pub(super) const PROBES: usize = 8;
/// A lane that is out for longer keeps no more than these.
const SPILL_AFTER: Duration = Duration::from_secs(1);
/// So many parts of aggregates with very many rows are let go at once.
const MILESTONES: usize = 8;

impl Dispatch {
    /// Makes room where a destination is out and others have work: what waits for it waits in the database, under the
    /// destination's name, but for some events to probe with.
    pub(in crate::pump) fn spill(&mut self, now: Instant) {
        let low = self.is_low();
        let out = self.lanes.iter().filter_map(|(key, lane)| {
            let (since, why) = lane.outage()?;
            let alone = self.alone.is_some_and(|one_scope| one_scope || key.1.is_empty());
            let late = !low || now >= since + SPILL_AFTER;
            (late && !alone).then(|| (key.clone(), why.to_owned()))
        });
        for (key, why) in out.collect::<Vec<_>>() {
            let Some(lane) = self.lanes.get_mut(&key) else { continue };
            let (taken, probes) = lane.spill(PROBES);
            let name = self.name(&key);
            for aggregate in taken {
                let Some(queue) = self.queues.get_mut(&aggregate) else { continue };
                if let Some(item) = queue.send() {
                    let attempts = item.attempts();
                    self.failure(&item, why.clone(), None, attempts, Some(name.clone()), now);
                }
            }
            for aggregate in probes {
                let tail = self.queues.get_mut(&aggregate).map(Queue::cut);
                self.set_tail_aside(tail.into_iter().flatten(), &why, &name, now);
            }
        }
    }

    /// The first waits in the database, the others are read again and held behind it.
    fn set_tail_aside(
        &mut self,
        tail: impl IntoIterator<Item = Item>,
        why: &str,
        name: &str,
        now: Instant,
    ) {
        let mut tail = tail.into_iter();
        if let Some(first) = tail.next() {
            let attempts = first.attempts();
            self.write_failure(&first, why.to_owned(), None, attempts, Some(name.to_owned()), now);
        }
        for dropped in tail {
            self.forget_item(&dropped);
        }
    }

    /// What rows wait for that wait for this lane.
    pub(in crate::pump) fn name(&self, (sink, scope): &(usize, String)) -> String {
        name(&self.bounds[*sink].name, scope)
    }

    /// The lane of the last event that is queued of an aggregate.
    pub(in crate::pump) fn lane_of(&self, aggregate: &str) -> Option<(usize, String)> {
        let last = self.queues.get(aggregate)?.last()?;
        Some((last.sink, last.scope.clone()))
    }

    /// Rows of this lane wait in the database though it works: they would hide those of others.
    pub(in crate::pump) fn note_overflow(&mut self, key: &(usize, String), aggregate: &str) {
        self.overflow.insert(key.clone());
        if self.queues.get(aggregate).is_some_and(|queue| queue.len() >= self.queue_max()) {
            self.long.insert(aggregate.to_owned(), (0, key.clone()));
        }
    }

    /// A row is about to be held behind others of its aggregate. Of one with very many each so many-th waits under the
    /// lane's name, which is answered: so a part of them can be let go that fits the memory.
    pub(in crate::pump) fn milestone(&mut self, aggregate: &str) -> Option<String> {
        let part = self.queue_max();
        let (held, key) = self.long.get_mut(aggregate)?;
        *held = (*held + 1) % part;
        let key = (*held == 0).then(|| key.clone())?;
        Some(self.name(&key))
    }

    /// Whether a lane works, and has so few rows that those that wait in the database should come.
    fn is_roomy(&self, key: &(usize, String)) -> bool {
        let lane = self.lanes.get(key);
        lane.is_none_or(|lane| lane.outage().is_none() && lane.rows() * 2 <= self.queue_max())
    }

    /// Whether rows that wait in the database should come now.
    pub(in crate::pump) fn has_room_again(&self) -> bool {
        self.overflow.iter().any(|key| self.is_roomy(key))
    }

    /// A lane whose rows should come now, and how many of those that wait under its name, at most `rows`.
    pub(in crate::pump) fn next_room(&self, rows: usize) -> Option<((usize, String), usize)> {
        let key = self.overflow.iter().find(|key| self.is_roomy(key))?;
        let long = self.long.values().any(|(_, of)| of == key);
        Some((key.clone(), if long { rows.min(MILESTONES) } else { rows }))
    }

    /// No row of the lane waits in the database any more.
    pub(in crate::pump) fn end_overflow(&mut self, key: &(usize, String)) {
        self.overflow.remove(key);
        self.long.retain(|_, (_, of)| of != key);
    }

    /// Whether rows that wait under this name wait for a destination that is out.
    pub(in crate::pump) fn is_out(&self, waits_for: &str) -> bool {
        let mut out = self.lanes.iter().filter(|(_, lane)| lane.outage().is_some());
        out.any(|(key, _)| self.name(key) == waits_for)
    }

    /// Why nothing goes anywhere, if each destination is out.
    pub(in crate::pump) fn standstill(&self) -> Option<String> {
        let is_out = |sink| {
            let mut lanes = self.lanes.iter().filter(|((of, _), _)| *of == sink);
            lanes.any(|(_, lane)| lane.outage().is_some())
        };
        let out = |(key, lane): (&(usize, String), &Lane)| {
            let (_, why) = lane.outage()?;
            Some(format!("{}: {why}", self.name(key)))
        };
        let all = (0..self.bounds.len()).all(is_out);
        let why = self.lanes.iter().map(out).collect::<Option<Vec<_>>>()?;
        why.into_iter().next().filter(|_| all)
    }

    /// Since when a destination is out, or a part of it, and why.
    pub(in crate::pump) fn outage(&self, sink: usize) -> Option<(Instant, String)> {
        let lanes = self.lanes.iter().filter(|((of, _), _)| *of == sink);
        let outages = lanes.filter_map(|(_, lane)| lane.outage());
        let (since, why) = outages.min_by_key(|(since, _)| *since)?;
        Some((since, why.to_owned()))
    }
}
