//! What makes room in memory and at the head of the outbox: rows that cannot go now wait in the database, under the
//! name of their destination.

use std::time::{Duration, Instant};

use super::{Dispatch, Item, Lane, name};

/// So many events of a lane that is out stay in memory, to probe with.
pub(super) const PROBES: usize = 8;
/// A lane that is out for longer keeps no more than these.
const SPILL_AFTER: Duration = Duration::from_secs(1);
/// A lane with fewer rows has room for those that wait in the database.
const ROOM: usize = 64;

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
                let tail = self.queues.get_mut(&aggregate).map(|queue| queue.cut());
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
    pub(in crate::pump) fn note_overflow(&mut self, key: (usize, String)) {
        self.overflow.insert(key);
    }

    /// Whether rows that wait in the database should come now.
    pub(in crate::pump) fn has_room_again(&self) -> bool {
        self.overflow.iter().any(|key| self.lanes.get(key).is_none_or(Lane::has_room))
    }

    /// The names under which rows wait that should come now.
    pub(in crate::pump) fn take_room(&mut self) -> Vec<String> {
        let lanes = &self.lanes;
        let roomy = self.overflow.extract_if(|key| lanes.get(key).is_none_or(Lane::has_room));
        let roomy: Vec<_> = roomy.collect();
        roomy.iter().map(|key| self.name(key)).collect()
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

impl Lane {
    /// Whether it works, and has few rows.
    fn has_room(&self) -> bool {
        self.outage().is_none() && self.rows() <= ROOM
    }
}
