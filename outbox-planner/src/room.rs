//! Room in memory: what cannot go, or fills it while others could, is parked.

use std::{sync::Arc, time::Duration};

use crate::{
    lane::Lane,
    planner::{Planner, park_of},
    queue::Queue,
    types::{Item, LaneKey, Park, ParkState, PlannerSettings, Time},
};

/// A lane that is out for longer keeps nothing in memory, where it could hide others: its probes are claimed.
const OUT_PATIENCE: Duration = Duration::from_secs(1);
/// A destination that connects may be away for longer.
const DOWN_PATIENCE: Duration = Duration::from_secs(2);
/// While the memory has no room for what could be read, the largest lane fills it alone for no longer.
const STALL_PATIENCE: Duration = Duration::from_secs(1);
/// Rows of such a lane that are claimed at once.
const LIMITED_KEEPS: usize = 64;
/// An aggregate with no more events in memory does not fill it, nor with less than a quarter of all.
const QUEUE_KEEPS: usize = 64;

impl<T> Planner<T> {
    /// How many rows may be claimed under a name.
    pub(crate) fn claimable(&self, name: &str, now: Time) -> usize {
        let PlannerSettings { rows_max, .. } = self.settings;
        let (room, _) = self.memory.room_for_claim();
        if self.destinations.is_name_down(name) {
            return 0;
        }
        let lane = self.lanes.iter().find(|(key, _)| self.name(key) == name);
        let Some((_, lane)) = lane else { return room };
        if lane.outage().is_some() {
            return usize::from(lane.lacks_probe(now)).min(room);
        }
        let most =
            if lane.is_limited { LIMITED_KEEPS.min(rows_max / 4).max(1) } else { rows_max / 2 };
        // Not one by one.
        if lane.rows * 2 > most { 0 } else { room.min(most - lane.rows) }
    }

    /// When a lane that cannot be used makes room for others.
    pub(crate) fn patience(&self, key: &LaneKey, lane: &Lane<T>) -> Option<Time> {
        let down = self.destinations.is_down(key.destination);
        let down = down.map(|(since, _)| *since + DOWN_PATIENCE);
        let out = lane.outage().map(|(since, _)| since + OUT_PATIENCE);
        down.into_iter().chain(out).min().filter(|_| !self.settings.one_lane && lane.rows > 0)
    }

    /// When room is made for what could be read.
    pub(crate) fn stall_ends(&self) -> Option<Time> {
        self.reading.stalled_for(STALL_PATIENCE)
    }

    /// A lane that works keeps more rows in memory again once few wait for it.
    pub(crate) fn end_limits(&mut self, now: Time) {
        let names: Vec<LaneKey> = self
            .lanes
            .iter()
            .filter(|(_, lane)| lane.is_limited)
            .map(|(key, _)| key.clone())
            .collect();
        for key in names {
            let name = self.name(&key);
            let Some(lane) = self.lanes.get_mut(&key) else { continue };
            let works =
                lane.outage().is_none() && self.destinations.is_down(key.destination).is_none();
            lane.is_limited = !works || lane.rows > QUEUE_KEEPS / 2 || self.dues.has(&name, now);
        }
    }

    /// Parks rows of lanes that cannot go, or that fill the memory while others could be read.
    pub(crate) fn make_room(&mut self, now: Time) {
        if self.stall_ends().is_some_and(|at| at <= now) {
            self.reading.restart_stall(now);
            self.shorten_longest(now);
            if !self.settings.one_lane {
                self.limit_largest(now);
            }
        }
        let due = |(key, lane): &(&LaneKey, &Lane<T>)| {
            self.patience(key, lane).is_some_and(|at| at <= now)
        };
        let due: Vec<LaneKey> = self.lanes.iter().filter(due).map(|(key, _)| key.clone()).collect();
        for key in due {
            self.spill(&key, now);
        }
    }

    /// The lane with most of what is in memory keeps a few rows.
    pub(crate) fn limit_largest(&mut self, now: Time) {
        let PlannerSettings { rows_max, bytes_max, .. } = self.settings;
        let large = |lane: &Lane<T>| lane.rows * 4 >= rows_max || lane.bytes * 4 >= bytes_max;
        let lanes = self.lanes.iter().filter(|(_, lane)| large(lane));
        let largest = lanes.max_by_key(|(_, lane)| {
            (lane.rows * 1_024 / rows_max.max(1)) + lane.bytes * 1_024 / bytes_max.max(1)
        });
        if let Some(key) = largest.map(|(key, _)| key.clone()) {
            self.spill(&key, now);
        }
    }

    /// The aggregate with most events in memory keeps a few.
    pub(crate) fn shorten_longest(&mut self, now: Time) {
        let may_go = |(_, queue): &(&Arc<str>, &Queue<T>)| {
            queue.items.back().is_some_and(|item| self.is_single(&item.lane))
        };
        let longest = self.queues.iter().filter(may_go).max_by_key(|(_, queue)| queue.items.len());
        let Some((aggregate, queue)) = longest else { return };
        if queue.items.len() <= QUEUE_KEEPS.min(self.settings.rows_max / 4) {
            return;
        }
        let aggregate = Arc::clone(aggregate);
        self.park_under_way(&aggregate, now);
        self.park_rest(&aggregate, now);
    }

    /// Parks what is under way of an aggregate; it stays in memory, claimed.
    pub(crate) fn park_under_way(&mut self, aggregate: &Arc<str>, now: Time) {
        let calls = self.calls.values_mut().flat_map(|call| &mut call.items);
        let doubts = self.lanes.values_mut().flat_map(Lane::doubted);
        let own = |item: &&mut Item<T>| item.aggregate == *aggregate && !item.claimed;
        for item in calls.chain(doubts).filter(own) {
            item.claimed = true;
            let destination = self.destinations.lane_name(&item.lane);
            let park = park_of(item, ParkState::Ready, (destination, String::new()));
            self.store.park(Park { error: None, claimed: true, ..park }, now);
        }
    }

    /// Whether a lane works, and takes the events of an aggregate one by one.
    pub(crate) fn is_single(&self, key: &LaneKey) -> bool {
        let is_out = self.lanes.get(key).is_some_and(|lane| lane.outage().is_some());
        let is_down = self.destinations.is_down(key.destination).is_some();
        !(is_out || is_down || self.destinations.takes_runs(key.destination))
    }

    /// Parks what is in memory of a lane, but for what is under way.
    pub(crate) fn spill(&mut self, key: &LaneKey, now: Time) {
        let (state, after, error) = self.postponed(key);
        let destination = self.name(key);
        let Some(lane) = self.lanes.get_mut(key) else { return };
        lane.is_limited = true;
        for aggregate in lane.take_ready() {
            let Some(queue) = self.queues.get_mut(&aggregate) else { continue };
            queue.lined_up = false;
            if let Some(item) = queue.items.pop_front() {
                self.discount(&item);
                let said = (destination.clone(), String::new());
                let error = error.clone();
                let park = Park { after, error, ..park_of(&item, state, said) };
                self.store.park(park, now);
            }
            self.park_rest(&aggregate, now);
        }
    }
}
