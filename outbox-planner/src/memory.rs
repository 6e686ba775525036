//! What is in memory: events come, stand in line, leave it, or are parked.

use std::{sync::Arc, time::Duration};

use crate::{
    planner::Planner,
    queue::Queue,
    types::{Fate, Incoming, Item, Park, ParkState, Time},
};

impl<T> Planner<T> {
    /// A row comes into memory, or is parked.
    pub(crate) fn arrive(&mut self, row: Incoming<T>, now: Time) {
        let Incoming { key, aggregate, blocked, claimed, attempts, bytes, destination, fate } = row;
        self.known.insert(key.seq);
        let queue = self.queues.get(&aggregate);
        let behind = blocked
            || self.store.parks_before(&aggregate, key.seq)
            || (!claimed && queue.is_some_and(Queue::has_claimed));
        let (state, after, error) = match fate {
            _ if behind => (ParkState::Behind, Duration::ZERO, None),
            Fate::Send(lane, content) if !self.is_full(&lane) => {
                let item = Item { key, aggregate, lane, attempts, claimed, bytes, content };
                return self.take_in(item);
            }
            Fate::Send(lane, _) => {
                let (state, error) = self.postponed(&lane);
                (state, Duration::ZERO, error)
            }
            Fate::Later(after) => (ParkState::Scheduled, after, None),
            Fate::Awaits(error) => {
                self.dues.close(&destination);
                (ParkState::Waiting, Duration::ZERO, Some(error))
            }
            Fate::Unsendable(error) => (ParkState::Parked, Duration::ZERO, Some(error)),
        };
        let park = Park { key, aggregate, state, after, destination, attempts, error };
        self.store.park(park, now);
    }

    pub(crate) fn take_in(&mut self, item: Item<T>) {
        self.bytes += item.bytes;
        let lane = self.lanes.entry(item.lane.clone()).or_default();
        lane.rows += 1;
        lane.bytes += item.bytes;
        let aggregate = Arc::clone(&item.aggregate);
        let queue = self.queues.entry(Arc::clone(&aggregate)).or_default();
        // A claimed row may come behind later ones of its aggregate, which were claimed before.
        let at = queue.items.partition_point(|other| other.key.seq < item.key.seq);
        queue.items.insert(at, item);
        self.line_up(&aggregate);
    }

    /// The next event of an aggregate stands in its lane.
    pub(crate) fn line_up(&mut self, aggregate: &Arc<str>) {
        let Some(queue) = self.queues.get_mut(aggregate) else { return };
        if queue.is_over() {
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
        self.bytes -= item.bytes;
        if let Some(lane) = self.lanes.get_mut(&item.lane) {
            lane.rows -= 1;
            lane.bytes -= item.bytes;
        }
    }

    /// It goes on waiting at its place, or behind one of its aggregate that was parked meanwhile.
    pub(crate) fn put_back(&mut self, item: Item<T>, now: Time) {
        let aggregate = Arc::clone(&item.aggregate);
        if self.store.parks_before(&aggregate, item.key.seq) {
            self.leave(&item);
            self.park_behind(item, now);
            return self.line_up(&aggregate);
        }
        if let Some(queue) = self.queues.get_mut(&aggregate) {
            queue.put_back(item);
        }
        self.line_up(&aggregate);
    }

    /// Parks what is in memory behind a row that is parked.
    pub(crate) fn park_rest(&mut self, aggregate: &Arc<str>, kept: usize, now: Time) {
        let Some(queue) = self.queues.get_mut(aggregate) else { return };
        let rest = queue.items.split_off(kept.min(queue.items.len()));
        if queue.items.is_empty() && std::mem::take(&mut queue.lined_up) {
            let lane = rest.front().and_then(|item| self.lanes.get_mut(&item.lane));
            if let Some(lane) = lane {
                lane.leave(aggregate);
            }
        }
        for item in rest {
            self.discount(&item);
            self.park_behind(item, now);
        }
        self.line_up(aggregate);
    }

    pub(crate) fn park_behind(&mut self, item: Item<T>, now: Time) {
        let park = park_of(&item, ParkState::Behind, (self.name(&item.lane), None));
        self.store.park(park, now);
    }
}

/// What a park says of an event.
pub(crate) fn park_of<T>(
    item: &Item<T>,
    state: ParkState,
    (destination, error): (String, Option<String>),
) -> Park {
    Park {
        key: item.key,
        aggregate: Arc::clone(&item.aggregate),
        state,
        after: Duration::ZERO,
        destination,
        attempts: item.attempts,
        error,
    }
}
