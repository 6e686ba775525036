//! What goes with the next call.

use crate::{
    planner::{Call, Planner},
    types::{CallId, Item, LaneKey, Time},
};

impl<T> Planner<T> {
    /// Takes the next call out of the lanes.
    pub(crate) fn begin_call(&mut self, now: Time) -> Option<(CallId, usize)> {
        for destination in self.destinations.free() {
            let lanes = self
                .lanes
                .iter()
                .filter(|(key, lane)| key.destination == destination && lane.may_go(now) > 0);
            let mut open: Vec<(usize, LaneKey)> =
                lanes.map(|(key, lane)| (lane.calls, key.clone())).collect();
            open.sort_unstable();
            for (_, key) in open {
                let items = self.take_call(&key, now);
                if items.is_empty() {
                    continue;
                }
                self.destinations.begin_call(destination);
                let id = CallId(self.next_call);
                self.next_call += 1;
                self.calls.insert(id, Call { lane: key, items, is_stale: false });
                return Some((id, destination));
            }
        }
        None
    }

    /// The events of the next call of a lane.
    pub(crate) fn take_call(&mut self, key: &LaneKey, now: Time) -> Vec<Item<T>> {
        let most = self.destinations.batch(key.destination);
        let takes_runs = self.destinations.takes_runs(key.destination);
        let Some(lane) = self.lanes.get_mut(key) else { return Vec::new() };
        let mut aggregates = lane.may_go(now);
        let (mut items, mut bytes, mut goes_alone) = (Vec::new(), 0, false);
        while items.len() < most
            && aggregates > 0
            && bytes < self.settings.batch_bytes
            && !goes_alone
        {
            let queues = &self.queues;
            let first = |aggregate: &str| queues.get(aggregate)?.items.front().map(|it| it.key.seq);
            let Some((aggregate, alone)) = lane.next(first, items.is_empty()) else { break };
            let run = if takes_runs && !alone { most - items.len() } else { 1 };
            let Some(queue) = self.queues.get_mut(&aggregate) else { continue };
            let taken = queue.take(key, run);
            bytes += taken.iter().map(|item| item.bytes).sum::<usize>();
            items.extend(taken);
            (goes_alone, aggregates) = (alone, aggregates - 1);
        }
        if !items.is_empty() {
            lane.begin_call(goes_alone);
        }
        if takes_runs {
            items.sort_unstable_by_key(|item| item.key.seq);
        }
        items
    }
}
