//! Cutting transactions: the lanes that have waited longest, together, up to a limit.

use crate::{
    Batch, Effect, Engine, Item, Lane, LaneMove, Mode, PartitionId, Rule, Time,
    partition::Partition,
};

impl<T> Engine<T> {
    /// Starts transactions while a connection is free and a lane can start.
    ///
    /// While a transaction runs, events gather in their lanes, so an idle consumer runs transactions
    /// of one event and a loaded one commits in groups; there is no timer.
    pub(crate) fn start(&mut self, now: Time) {
        while self.open < self.limits.transactions_max {
            let Some(id) = self.longest_waiting(now) else { return };
            let (events, bytes) = (self.limits.batch_events_max, self.limits.batch_bytes_max);
            let Some(partition) = self.partitions.get_mut(&id) else { return };
            let batch = partition.cut(events, bytes);
            partition.open += 1;
            self.open += 1;
            self.effects.push_back(Effect::Start(batch));
        }
    }

    fn longest_waiting(&mut self, now: Time) -> Option<PartitionId> {
        self.partitions
            .values_mut()
            .filter(|partition| partition.may_start(now))
            .filter_map(|partition| Some((partition.ready.front()?.0, partition.id)))
            .min()
            .map(|(_, id)| id)
    }
}

/// How far one lane goes in the batch that is being cut.
struct Reach {
    mode: Mode,
    events: usize,
    bytes: u64,
}

impl<T> Partition<T> {
    fn cut(&mut self, events_max: usize, bytes_max: u64) -> Batch<T> {
        let mode = self.ready.front().map_or(Mode::Together, |(_, lane)| self.mode(*lane));
        let events = match mode {
            Mode::Together => events_max.min(self.cap),
            Mode::Careful => Mode::CAREFUL_MAX.min(self.cap),
        };
        let mut reach = Reach { mode, events: events.max(1), bytes: bytes_max };
        let mut taken: Vec<(LaneMove, Vec<Item<T>>)> = Vec::new();
        let mut waiting = std::mem::take(&mut self.ready);
        let mut later = std::collections::VecDeque::new();
        while let Some((sequence, lane)) = waiting.pop_front() {
            if reach.events == 0 || reach.bytes == 0 || self.mode(lane) != mode {
                later.push_back((sequence, lane));
                continue;
            }
            taken.push(self.take_lane(lane, &mut reach));
        }
        self.ready = later;
        taken.sort_by_key(|(step, _)| step.lane);
        self.batch(mode, taken)
    }

    fn batch(&self, mode: Mode, taken: Vec<(LaneMove, Vec<Item<T>>)>) -> Batch<T> {
        let lanes: Vec<LaneMove> = taken.iter().map(|(step, _)| *step).collect();
        let items: Vec<Item<T>> = taken.into_iter().flat_map(|(_, items)| items).collect();
        assert!(!items.is_empty(), "a lane that is ready has an event");
        assert!(lanes.is_sorted_by(|a, b| a.lane < b.lane), "one entry per lane, ascending");
        Batch {
            partition: self.id,
            generation: self.generation,
            epoch: self.epoch,
            watermark: self.watermark,
            remapped_below: self.remapped_below,
            mode,
            lanes,
            items,
        }
    }

    /// Whether the head of a lane is to be run with savepoints. A doomed head is only parked.
    fn mode(&self, lane: Lane) -> Mode {
        let queue = &self.lanes[usize::from(lane.0)];
        match (&queue.careful, queue.queue.front()) {
            (Some((from, to)), Some(head))
                if (*from..=*to).contains(&head.offset) && head.doomed.is_none() =>
            {
                Mode::Careful
            }
            _ => Mode::Together,
        }
    }

    /// Reserves a lane and takes a prefix of it.
    fn take_lane(&mut self, lane: Lane, reach: &mut Reach) -> (LaneMove, Vec<Item<T>>) {
        let queue = self.lane(lane);
        assert!(!queue.busy || !Rule::LaneOrder.on(), "a lane is in at most one open transaction");
        queue.ready = false;
        queue.busy = Rule::LaneOrder.on();
        let mut items = Vec::with_capacity(reach.events.min(queue.queue.len()));
        let (careful, retry) = (queue.careful, queue.retry);
        while let Some(head) = queue.queue.front() {
            let inside = careful.is_some_and(|(from, to)| (from..=to).contains(&head.offset));
            let fits = items.len() < reach.events && u64::from(head.bytes) <= reach.bytes;
            let waits = retry.is_some_and(|(offset, _)| offset == head.offset);
            let belongs = inside == (reach.mode == Mode::Careful) || head.doomed.is_some();
            if !(items.is_empty() || (fits && belongs && !waits)) {
                break;
            }
            reach.bytes = reach.bytes.saturating_sub(u64::from(head.bytes));
            items.extend(queue.queue.pop_front());
        }
        reach.events = reach.events.saturating_sub(items.len());
        (queue.step(lane, &items), items)
    }
}

impl<T> crate::partition::LaneQueue<T> {
    /// The move of a lane over these items. Claims repeated below `last` move it nowhere.
    fn step(&self, lane: Lane, items: &[Item<T>]) -> LaneMove {
        let (new, leader_epoch) = match items.last() {
            Some(item) if item.offset > self.state.last => (item.offset, item.leader_epoch),
            _ => (self.state.last, self.state.leader_epoch),
        };
        LaneMove { lane, prev: self.state.last, new, leader_epoch }
    }
}
