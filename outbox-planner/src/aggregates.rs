//! What is in memory of an aggregate: it stands in line, is put back, or is parked.

use std::{sync::Arc, time::Duration};

use crate::{
    planner::{Planner, park_of},
    types::{Item, Park, ParkState, Time},
};

impl<T> Planner<T> {
    /// The next event of an aggregate stands in its lane.
    pub(crate) fn line_up(&mut self, aggregate: &Arc<str>, now: Time) {
        let Some(queue) = self.queues.get_mut(aggregate) else { return };
        if queue.under_way == 0 && queue.items.is_empty() {
            for park in std::mem::take(&mut queue.tail) {
                self.store.park(park, now);
            }
            self.queues.remove(aggregate);
        } else if let Some(key) = queue.next_lane().cloned() {
            queue.lined_up = true;
            self.lanes.entry(key).or_default().line_up(Arc::clone(aggregate));
        }
    }

    /// An event that was under way has left the memory, or is in doubt no more.
    pub(crate) fn leave(&mut self, item: &Item<T>) {
        self.discount(item);
        if let Some(queue) = self.queues.get_mut(&item.aggregate) {
            queue.under_way -= 1;
        }
    }

    pub(crate) fn discount(&mut self, item: &Item<T>) {
        self.memory.bytes -= item.bytes;
        if let Some(lane) = self.lanes.get_mut(&item.lane) {
            lane.rows -= 1;
            lane.bytes -= item.bytes;
        }
    }

    /// It is read again.
    pub(crate) fn forget(&mut self, item: &Item<T>, now: Time) {
        self.leave(item);
        self.drop_item(item, now);
        self.drop_rest(&item.aggregate, now);
        self.reading.announce();
        self.line_up(&item.aggregate, now);
    }

    /// It is in memory no more, unless something is to be stored of it.
    pub(crate) fn drop_item(&mut self, item: &Item<T>, now: Time) {
        if !(item.claimed && self.store.end_claim(item.key.seq, now)) {
            self.memory.forget(item.key.seq);
        }
    }

    /// What is in memory of an aggregate and not under way is read again.
    pub(crate) fn drop_rest(&mut self, aggregate: &Arc<str>, now: Time) {
        let Some(queue) = self.queues.get_mut(aggregate) else { return };
        queue.lined_up = false;
        let (items, tail) = (std::mem::take(&mut queue.items), std::mem::take(&mut queue.tail));
        for item in items {
            self.discount(&item);
            self.drop_item(&item, now);
        }
        for park in tail {
            self.memory.forget(park.key.seq);
        }
    }

    /// It goes on waiting at its place, or behind one of its aggregate that was parked meanwhile.
    pub(crate) fn put_back(&mut self, item: Item<T>, now: Time) {
        if self.store.parks_before(&item.aggregate, item.key.seq) {
            self.leave(&item);
            let aggregate = Arc::clone(&item.aggregate);
            self.park_behind(item, now);
            return self.park_rest(&aggregate, now);
        }
        let aggregate = Arc::clone(&item.aggregate);
        if let Some(queue) = self.queues.get_mut(&aggregate) {
            queue.put_back(item);
        }
        self.line_up(&aggregate, now);
    }

    /// Parks what is in memory of an aggregate, behind a row that is parked.
    pub(crate) fn park_rest(&mut self, aggregate: &Arc<str>, now: Time) {
        let Some(queue) = self.queues.get_mut(aggregate) else { return };
        let (rest, tail) = (std::mem::take(&mut queue.items), std::mem::take(&mut queue.tail));
        if std::mem::take(&mut queue.lined_up) {
            let lane = rest.front().and_then(|item| self.lanes.get_mut(&item.lane));
            if let Some(lane) = lane {
                lane.leave(aggregate);
            }
        }
        for item in rest {
            self.discount(&item);
            self.park_behind(item, now);
        }
        for park in tail {
            // Behind it no time of its own counts: what is due and cannot go would be asked for again and again.
            let (state, after) = (ParkState::Behind, Duration::ZERO);
            self.store.park(Park { state, after, error: None, ..park }, now);
        }
        self.line_up(aggregate, now);
    }

    pub(crate) fn park_behind(&mut self, item: Item<T>, now: Time) {
        let destination = self.name(&item.lane);
        let park =
            Park { error: None, ..park_of(&item, ParkState::Behind, (destination, String::new())) };
        self.store.park(park, now);
    }
}
