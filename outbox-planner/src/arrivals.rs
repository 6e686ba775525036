//! Rows that come into memory, or are parked.

use std::{sync::Arc, time::Duration};

use crate::{
    lane::Lane,
    planner::Planner,
    types::{Fate, Incoming, Item, LaneKey, Park, ParkState, Time},
};

impl<T> Planner<T> {
    /// A read has ended. `earlier`: rows that still wait up to where it began; `full`: there may be more behind it.
    pub fn handle_page(
        &mut self,
        earlier: &[i64],
        rows: Vec<Incoming<T>>,
        (last, full): (Option<i64>, bool),
        now: Time,
    ) {
        let late = |seq: &&i64| !self.memory.knows(**seq) && !self.store.stored(**seq);
        if let Some(first) = earlier.iter().filter(late).min() {
            return self.reading.rewind(*first);
        }
        for row in rows {
            // Stored since the read began: it shows what was before.
            if !self.memory.knows(row.key.seq) && !self.store.stored(row.key.seq) {
                self.arrive(row, now);
            }
        }
        self.reading.end(last, full);
    }

    /// Parked rows were claimed; with `whole` there may be more.
    pub fn handle_claimed(&mut self, rows: Vec<Incoming<T>>, whole: bool, now: Time) {
        self.dues.end_claim(whole, now);
        for row in rows {
            let seq = row.key.seq;
            if !self.memory.knows(seq) && !self.store.stored(seq) {
                self.arrive(row, now);
            } else if self.store.park_again(seq, now) {
                self.memory.know(seq);
            }
        }
    }

    /// A row comes into memory, or is parked.
    pub(crate) fn arrive(&mut self, row: Incoming<T>, now: Time) {
        let Incoming { key, aggregate, blocked, claimed, attempts, bytes, destination, fate } = row;
        self.memory.know(key.seq);
        let queue = self.queues.get(&aggregate);
        let behind = blocked || self.store.parks_before(&aggregate, key.seq);
        let is_first = queue.is_none();
        let has_tail = queue.is_some_and(|queue| !queue.tail.is_empty());
        let (state, after, error) = match fate {
            _ if behind || has_tail => (ParkState::Behind, Duration::ZERO, None),
            // What is before it may be in the feed alone: it must not be parked before that.
            Fate::Send(lane, content) if claimed || !is_first || !self.is_full(&lane) => {
                let item = Item { key, aggregate, lane, attempts, claimed, bytes, content };
                return self.take_in(item, now);
            }
            Fate::Send(lane, _) => self.postponed(&lane),
            Fate::Later(after) => (ParkState::Scheduled, after, None),
            Fate::Awaits(error) => {
                self.dues.close(&destination);
                (ParkState::Waiting, Duration::ZERO, Some(error))
            }
            Fate::Unsendable(error) => (ParkState::Parked, Duration::ZERO, Some(error)),
        };
        let park =
            Park { key, aggregate, state, after, destination, attempts, error, claimed: false };
        match self.queues.get_mut(&park.aggregate).filter(|_| !behind) {
            Some(queue) => queue.tail.push(park),
            None => self.store.park(park, now),
        }
    }

    /// Whether a lane takes no new rows into memory: those that are parked come first.
    pub(crate) fn is_full(&self, key: &LaneKey) -> bool {
        self.lanes.get(key).is_some_and(|lane| lane.is_limited)
    }

    /// Why and how a row of a lane without room is parked.
    pub(crate) fn postponed(&self, key: &LaneKey) -> (ParkState, Duration, Option<String>) {
        let out = self.lanes.get(key).and_then(Lane::outage).map(|(_, why)| why);
        let down = self.destinations.is_down(key.destination).map(|(_, why)| why.as_str());
        match out.or(down) {
            Some(why) => (ParkState::Waiting, Duration::ZERO, Some(why.to_owned())),
            None => (ParkState::Ready, Duration::ZERO, None),
        }
    }

    pub(crate) fn take_in(&mut self, item: Item<T>, now: Time) {
        self.memory.bytes += item.bytes;
        let lane = self.lanes.entry(item.lane.clone()).or_default();
        lane.rows += 1;
        lane.bytes += item.bytes;
        let aggregate = Arc::clone(&item.aggregate);
        let queue = self.queues.entry(Arc::clone(&aggregate)).or_default();
        // A claimed row may come behind later ones of its aggregate, which were claimed before.
        let at = queue.items.partition_point(|other| other.key.seq < item.key.seq);
        queue.items.insert(at, item);
        self.line_up(&aggregate, now);
    }
}
