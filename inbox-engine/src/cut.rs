//! Cutting transactions: the lanes that have waited longest, together, up to a limit.

use crate::{
    Batch, Effect, Engine, Item, Lane, LaneMove, Mode, Offset, PartitionId, Rule, Time,
    partition::{LaneQueue, Partition},
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

/// How far the batch that is being cut goes.
struct Reach {
    mode: Mode,
    /// Events it may have: the smallest cap of its lanes.
    cap: usize,
    /// Events it has.
    events: usize,
    /// Bytes left.
    bytes: u64,
}

impl Reach {
    /// Whether a lane can join. The first one always can: an event larger than the limit goes alone.
    fn admits<T>(&self, queue: &LaneQueue<T>) -> bool {
        let bytes = queue.queue.front().map_or(0, |head| u64::from(head.bytes));
        self.events == 0 || (self.events < self.cap.min(queue.cap) && bytes <= self.bytes)
    }
}

impl<T> Partition<T> {
    fn cut(&mut self, events_max: usize, bytes_max: u64) -> Batch<T> {
        let mode = self.ready.front().map_or(Mode::Together, |(_, lane)| self.mode(*lane));
        let events = match mode {
            Mode::Together => events_max,
            Mode::Careful => Mode::CAREFUL_MAX.min(events_max),
        };
        let mut reach = Reach { mode, cap: events, events: 0, bytes: bytes_max };
        let mut taken: Vec<(LaneMove, Vec<Item<T>>)> = Vec::new();
        let mut waiting = std::mem::take(&mut self.ready);
        let mut later = std::collections::VecDeque::new();
        while let Some((sequence, lane)) = waiting.pop_front() {
            if self.mode(lane) == mode && reach.admits(&self.lanes[usize::from(lane.0)]) {
                taken.push(self.take_lane(lane, &mut reach));
            } else {
                later.push_back((sequence, lane));
            }
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
        match queue.queue.front() {
            Some(head) if queue.careful_at(head.offset) && head.doomed.is_none() => Mode::Careful,
            _ => Mode::Together,
        }
    }

    /// Reserves a lane and takes a prefix of it.
    fn take_lane(&mut self, lane: Lane, reach: &mut Reach) -> (LaneMove, Vec<Item<T>>) {
        let queue = self.lane(lane);
        assert!(!queue.busy || !Rule::LaneOrder.on(), "a lane is in at most one open transaction");
        queue.ready = false;
        queue.busy = Rule::LaneOrder.on();
        reach.cap = reach.cap.min(queue.cap).max(1);
        let room = reach.cap.saturating_sub(reach.events);
        let mut items = Vec::with_capacity(room.min(queue.queue.len()));
        while let Some(head) = queue.queue.front() {
            let fits = items.len() < room && u64::from(head.bytes) <= reach.bytes;
            let inside = queue.careful_at(head.offset) == (reach.mode == Mode::Careful);
            let belongs = (inside || head.doomed.is_some()) && !queue.waits(head.offset);
            if !(items.is_empty() || (fits && belongs)) {
                break;
            }
            reach.bytes = reach.bytes.saturating_sub(u64::from(head.bytes));
            items.extend(queue.queue.pop_front());
        }
        reach.events += items.len();
        (queue.step(lane, &items), items)
    }
}

impl<T> LaneQueue<T> {
    fn careful_at(&self, offset: Offset) -> bool {
        self.careful.is_some_and(|(from, to)| (from..=to).contains(&offset))
    }

    /// The move of a lane over these items. Claims repeated below `last` move it nowhere.
    fn step(&self, lane: Lane, items: &[Item<T>]) -> LaneMove {
        let (new, leader_epoch) = match items.last() {
            Some(item) if item.offset > self.state.last => (item.offset, item.leader_epoch),
            _ => (self.state.last, self.state.leader_epoch),
        };
        LaneMove { lane, prev: self.state.last, new, leader_epoch }
    }
}
