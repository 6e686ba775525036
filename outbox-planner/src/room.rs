//! Room in memory: lanes that cannot go, or that fill it while others could be read, keep a few rows.

use std::{sync::Arc, time::Duration};

use crate::{
    lane::Lane,
    memory::park_of,
    planner::Planner,
    queue::{QUEUE_KEEPS, Queue},
    reading::STALL_PATIENCE,
    types::{LaneKey, ParkState, PlannerSettings, Time},
};

/// A lane that is out for longer keeps no more than [`PROBES`], where it could hide others.
const OUT_PATIENCE: Duration = Duration::from_secs(1);
/// A destination that connects may be away for longer.
const DOWN_PATIENCE: Duration = Duration::from_secs(2);
/// Aggregates of a lane that is out which stay in memory.
const PROBES: usize = 8;
/// Aggregates of such a lane which stay in memory.
const LIMITED_KEEPS: usize = 64;

impl<T> Planner<T> {
    /// When a lane that cannot be used makes room for others.
    pub(crate) fn patience(&self, key: &LaneKey, lane: &Lane<T>) -> Option<Time> {
        let down = self.destinations.down(key.destination);
        let down = down.map(|(since, _)| since + DOWN_PATIENCE);
        let out = lane.outage().map(|(since, _)| since + OUT_PATIENCE);
        down.into_iter().chain(out).min().filter(|_| !self.settings.one_lane && lane.rows > PROBES)
    }

    /// Whether a lane keeps no more rows in memory.
    pub(crate) fn is_full(&self, key: &LaneKey) -> bool {
        let Some(lane) = self.lanes.get(key).filter(|lane| lane.is_limited) else { return false };
        lane.rows >= self.keeps(key, lane) || lane.bytes * 4 >= self.settings.bytes_max
    }

    pub(crate) fn keeps(&self, key: &LaneKey, lane: &Lane<T>) -> usize {
        let is_out = lane.outage().is_some() || self.destinations.down(key.destination).is_some();
        let most = if is_out { PROBES } else { LIMITED_KEEPS };
        most.min(self.settings.rows_max / 4).max(1)
    }

    /// Why and how a row of a lane without room is parked.
    pub(crate) fn postponed(&self, key: &LaneKey) -> (ParkState, Option<String>) {
        let out = self.lanes.get(key).and_then(Lane::outage).map(|(_, why)| why);
        let down = self.destinations.down(key.destination).map(|(_, why)| why);
        match out.or(down) {
            Some(why) => (ParkState::Waiting, Some(why.to_owned())),
            None => (ParkState::Ready, None),
        }
    }

    /// Parks rows of lanes that cannot go, or that fill the memory while others could be read.
    pub(crate) fn make_room(&mut self, now: Time) {
        let late = |since: &Time| now >= *since + STALL_PATIENCE;
        if self.reading.stalled.as_ref().is_some_and(late) {
            self.reading.stalled = Some(now);
            self.shorten_longest(now);
            if !self.settings.one_lane {
                self.limit_largest(now);
            }
        }
        let due = |(key, lane): &(&LaneKey, &Lane<T>)| {
            self.patience(key, lane).is_some_and(|at| at <= now)
        };
        let kept = |(key, lane): (&LaneKey, &Lane<T>)| (key.clone(), self.keeps(key, lane));
        let mut due: Vec<_> = self.lanes.iter().filter(due).map(kept).collect();
        // Another one may come through.
        let others =
            |key: &LaneKey| self.reading.stalled.is_some() || self.dues.has(&self.name(key), now);
        let stuck = self.lanes.iter().filter(|(key, lane)| lane.probes_fail() && others(key));
        due.extend(stuck.map(|(key, _)| (key.clone(), 0)));
        for (key, kept) in due {
            self.spill(&key, kept, now);
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
        let kept = |(key, lane): (&LaneKey, &Lane<T>)| {
            let fit = lane.rows * (bytes_max / 4) / lane.bytes.max(1);
            (key.clone(), self.keeps(key, lane).min(fit))
        };
        if let Some((key, kept)) = largest.map(kept) {
            self.spill(&key, kept, now);
        }
    }

    /// The aggregate with most events in memory keeps a few.
    pub(crate) fn shorten_longest(&mut self, now: Time) {
        let may_go = |(_, queue): &(&Arc<str>, &Queue<T>)| {
            queue.items.front().is_some_and(|item| self.is_single(&item.lane))
        };
        let longest = self
            .queues
            .iter()
            .filter(may_go)
            .max_by_key(|(name, queue)| (queue.items.len(), *name));
        let Some((aggregate, queue)) = longest else { return };
        if queue.items.len() > QUEUE_KEEPS {
            let aggregate = Arc::clone(aggregate);
            self.park_rest(&aggregate, QUEUE_KEEPS, now);
        }
    }

    /// Whether a lane works, and takes the events of an aggregate one by one.
    pub(crate) fn is_single(&self, key: &LaneKey) -> bool {
        let is_out = self.lanes.get(key).is_some_and(|lane| lane.outage().is_some());
        let is_down = self.destinations.down(key.destination).is_some();
        !(is_out || is_down || self.settings.destinations[key.destination].takes_runs)
    }

    /// Parks all but a few rows of a lane.
    pub(crate) fn spill(&mut self, key: &LaneKey, kept: usize, now: Time) {
        let (state, error) = self.postponed(key);
        let destination = self.name(key);
        let Some(lane) = self.lanes.get_mut(key) else { return };
        lane.is_limited = true;
        for aggregate in lane.spill(kept) {
            let Some(queue) = self.queues.get_mut(&aggregate) else { continue };
            queue.lined_up = false;
            if let Some(item) = queue.items.pop_front() {
                self.discount(&item);
                let said = (destination.clone(), error.clone());
                self.store.park(park_of(&item, state, said), now);
            }
            self.park_rest(&aggregate, 0, now);
        }
        // Of those that stay the first event is enough.
        let own = self.queues.iter().filter(|(_, queue)| {
            queue.items.len() > 1 && queue.items.back().is_some_and(|item| item.lane == *key)
        });
        for aggregate in own.map(|(aggregate, _)| Arc::clone(aggregate)).collect::<Vec<_>>() {
            let first = self.queues[&aggregate].items.iter().take_while(|item| item.lane != *key);
            let first = first.count().max(1);
            self.park_rest(&aggregate, first, now);
        }
    }
}
