//! What makes room in memory and at the head of the outbox: rows that cannot go now wait in the database, under the
//! name of their destination.

use std::time::{Duration, Instant};

use super::{Dispatch, Item, Lane, LaneKey, Queue, name, no_room};
use crate::port::{DESTINATION, DestinationOutage};

/// So many events of a lane that is out stay in memory, to probe with.
pub(super) const PROBES: usize = 8;
/// A lane that is out for longer keeps no more than these.
const SPILL_AFTER: Duration = Duration::from_secs(1);
/// While looks find more than they take, the largest destination goes alone for no longer.
const LIMIT_AFTER: Duration = Duration::from_secs(10);
/// So many of its aggregates stay then.
const LIMIT_KEEPS: usize = 64;
/// Rows that hid others wait in the database for so long at least.
const OVERFLOW_LEAST: Duration = Duration::from_secs(1);

/// Rows of a lane that works wait in the database.
#[derive(Debug)]
pub(super) struct OverflowState {
    /// When some were last set aside.
    noted: Instant,
    /// When some were last let go.
    let_go: Instant,
    /// The lane had filled the memory: it has a smaller part of it.
    limited: bool,
}

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
            self.set_lane_aside(&key, PROBES, &why, now);
        }
        self.limit_largest(now);
    }

    /// A look has been, and there were more rows, or not.
    pub(in crate::pump) fn note_look(&mut self, full: bool, now: Instant) {
        self.full_since = full.then(|| self.full_since.unwrap_or(now));
    }

    /// Where a destination works and rows come behind its own for a while, others go no further than it does: what waits
    /// for it waits in the database, too, and comes back in parts.
    pub(in crate::pump) fn limit_largest(&mut self, now: Instant) {
        let late = self.full_since.is_some_and(|since| now >= since + LIMIT_AFTER);
        if !late || self.alone == Some(true) {
            return;
        }
        self.full_since = Some(now);
        let may_be = |(key, lane): &(&LaneKey, &Lane)| {
            let large = lane.rows() * 4 >= self.rows_max;
            large && lane.outage().is_none() && !self.has_limit(key)
        };
        let working = self.lanes.iter().filter(may_be);
        let Some((key, _)) = working.max_by_key(|(_, lane)| lane.rows()) else { return };
        let (key, why) = (key.clone(), no_room(&self.name(key)));
        let kept = LIMIT_KEEPS.min(self.rows_max / 8).max(1);
        self.set_lane_aside(&key, kept, &why, now);
        self.overflow.insert(key, OverflowState { noted: now, let_go: now, limited: true });
    }

    /// Whether a lane has a part of the memory alone.
    fn has_limit(&self, key: &LaneKey) -> bool {
        self.overflow.get(key).is_some_and(|overflow| overflow.limited)
    }

    /// Whether a lane has all of its part.
    pub(super) fn is_limited(&self, key: &LaneKey) -> bool {
        let rows = || self.lanes.get(key).map_or(0, Lane::rows);
        self.has_limit(key) && rows() >= self.queue_max()
    }

    /// When [`Dispatch::limit_largest`] has something to do, and when rows that wait in the database may come.
    pub(super) fn next_room_time(&self, now: Instant) -> Option<Instant> {
        let full = self.full_since.map(|since| since + LIMIT_AFTER);
        let room = self.overflow.values().map(|overflow| overflow.noted + OVERFLOW_LEAST);
        full.into_iter().chain(room.filter(|at| *at > now)).min()
    }

    /// All but so many aggregates of a lane wait in the database, and of these all but the first event.
    fn set_lane_aside(&mut self, key: &LaneKey, but: usize, why: &str, now: Instant) {
        let Some(lane) = self.lanes.get_mut(key) else { return };
        let (taken, name) = (lane.spill(but), self.name(key));
        for aggregate in taken {
            let Some(queue) = self.queues.get_mut(&aggregate) else { continue };
            if let Some(item) = queue.send() {
                let failure = item.failure(item.attempts(), why.to_owned());
                self.fail_with(&item, failure.waiting_for(name.clone()), now);
            }
        }
        let left = self.queues.iter().filter(|(_, queue)| queue.last_lane() == Some(key));
        for aggregate in left.map(|(aggregate, _)| aggregate.clone()).collect::<Vec<_>>() {
            let tail = self.queues.get_mut(&aggregate).map(Queue::cut);
            self.set_tail_aside(tail.into_iter().flatten(), why, &name, now);
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
            let failure = first.failure(first.attempts(), why.to_owned());
            self.write_failure(&first, failure.waiting_for(name.to_owned()), now);
        }
        for dropped in tail {
            self.forget_item(&dropped);
        }
    }

    /// What rows wait for that wait for this lane.
    pub(in crate::pump) fn name(&self, (sink, scope): &LaneKey) -> String {
        name(&self.bounds[*sink].name, scope)
    }

    /// The lane of the last event that is known of an aggregate.
    pub(in crate::pump) fn lane_of(&self, aggregate: &str) -> Option<LaneKey> {
        self.queues.get(aggregate)?.last_lane().cloned()
    }

    /// A row was passed over for others of its aggregate. When these are few, or gone where it is `for_kafka`, there is
    /// something to read.
    pub(in crate::pump) fn note_behind(&mut self, aggregate: &str, for_kafka: bool) {
        if self.queues.contains_key(aggregate) {
            let least = if for_kafka { 0 } else { self.queue_max() / 2 };
            self.behind.insert(aggregate.to_owned(), least);
        }
    }

    /// A look follows, which finds what was passed over.
    pub(in crate::pump) fn begin_look(&mut self) {
        self.behind.clear();
        self.wants_look = false;
    }

    /// An event of an aggregate has left the memory.
    pub(super) fn note_departure(&mut self, aggregate: &str) {
        let left = self.queues.get(aggregate).map_or(0, Queue::len);
        if self.behind.get(aggregate).is_some_and(|least| left <= *least) {
            self.behind.remove(aggregate);
            self.wants_look = true;
        }
    }

    /// Rows of this lane wait in the database though it works: they would hide those of others.
    pub(in crate::pump) fn note_overflow(&mut self, key: &LaneKey, aggregate: &str, now: Instant) {
        let new = OverflowState { noted: now, let_go: now, limited: false };
        self.overflow.entry(key.clone()).or_insert(new).noted = now;
        if self.queues.get(aggregate).is_some_and(|queue| queue.len() >= self.queue_max()) {
            self.long.insert(aggregate.to_owned(), (0, key.clone()));
        }
    }

    /// A row is about to be held behind others of its aggregate. Of one with very many each so many-th waits under the
    /// lane's name, which is answered: so a part of them can be let go that fits the memory.
    pub(in crate::pump) fn count_held(&mut self, aggregate: &str) -> Option<String> {
        let part = self.queue_max();
        let (held, key) = self.long.get_mut(aggregate)?;
        *held = (*held + 1) % part;
        let key = (*held == 0).then(|| key.clone())?;
        Some(self.name(&key))
    }

    /// Whether a lane works, and should have those of its rows that wait in the database: it has few, or it was a while
    /// ago, since newer rows may keep it busy for ever. Not at once: what they hid is read first.
    fn is_roomy(&self, key: &LaneKey, now: Instant) -> bool {
        let lane = self.lanes.get(key);
        let few = lane.is_none_or(|lane| lane.rows() * 2 <= self.queue_max());
        let noted = self.overflow.get(key).is_some_and(|state| {
            let rested = |since: Instant| now >= since + OVERFLOW_LEAST;
            rested(state.noted) && (few || rested(state.let_go))
        });
        noted && lane.is_none_or(|lane| lane.outage().is_none())
    }

    /// Whether there is something to read: rows that were passed over, or that wait in the database.
    pub(in crate::pump) fn has_room_again(&self, now: Instant) -> bool {
        self.wants_look || self.overflow.keys().any(|key| self.is_roomy(key, now))
    }

    /// A lane whose rows should come now, and how many of those that wait under its name, at most `rows`.
    pub(in crate::pump) fn next_room(
        &mut self,
        rows: usize,
        now: Instant,
    ) -> Option<(LaneKey, usize)> {
        let key = self.overflow.keys().find(|key| self.is_roomy(key, now))?.clone();
        if let Some(overflow) = self.overflow.get_mut(&key) {
            overflow.let_go = now;
        }
        let long = self.long.values().filter(|(_, of)| *of == key).count();
        let rows = if long > 0 { rows.min(long) } else { rows };
        let rows = if self.has_limit(&key) { rows.min(self.queue_max()) } else { rows };
        Some((key, rows))
    }

    /// No row of the lane waits in the database any more.
    pub(in crate::pump) fn end_overflow(&mut self, key: &LaneKey) {
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
        let out = |(key, lane): (&LaneKey, &Lane)| {
            let (_, why) = lane.outage()?;
            Some(format!("{}: {why}", self.name(key)))
        };
        let all = (0..self.bounds.len()).all(is_out);
        let why = self.lanes.iter().map(out).collect::<Option<Vec<_>>>()?;
        why.into_iter().next().filter(|_| all)
    }

    /// What of a destination is down.
    pub(in crate::pump) fn outages(&self, sink: usize) -> Vec<DestinationOutage> {
        let lanes = self.lanes.iter().filter(|((of, _), _)| *of == sink);
        let outage = |(key, lane): (&LaneKey, &Lane)| {
            let (since, why) = lane.outage()?;
            let destination = self.name(key).trim_start_matches(DESTINATION).to_owned();
            Some(DestinationOutage { destination, since, error: why.to_owned() })
        };
        lanes.filter_map(outage).collect()
    }
}
