//! Cutting transactions: the lanes that have waited longest, together, up to a limit.

use crate::{
    Batch, Effect, Engine, Item, Lane, LaneMove, Limits, Mode, Offset, PartitionId, Rule, Time,
    partition::{LaneQueue, LaneWork, Partition},
};

/// Items that an empty queue keeps room for.
const ROOM_MIN: usize = 32;

impl<T> Engine<T> {
    /// Starts transactions while a connection is free and a lane can start, live or release, and asks
    /// for due queues when it is time to.
    pub(crate) fn start(&mut self, now: Time) {
        self.start_transactions(now);
        self.find_due(now);
    }

    /// While a transaction runs, events gather in their lanes, so an idle consumer runs transactions
    /// of one event and a loaded one commits in groups; there is no timer.
    fn start_transactions(&mut self, now: Time) {
        while self.open < self.permits() {
            match self.longest_waiting(now) {
                Some((id, lane, LaneWork::Live)) => self.start_live(id, lane, now),
                Some((id, lane, LaneWork::Release)) => self.release(id, lane, now),
                None => return,
            }
        }
    }

    fn start_live(&mut self, id: PartitionId, lane: Lane, now: Time) {
        let (limits, first) = (self.limits, self.first_cap());
        let Some(partition) = self.partitions.get_mut(&id) else { return };
        let batch = partition.cut(lane, &limits, first, now);
        partition.open += 1;
        self.open += 1;
        self.effects.push_back(Effect::Start(batch));
    }

    fn longest_waiting(&self, now: Time) -> Option<(PartitionId, Lane, LaneWork)> {
        let releases = self.limits.releases_per_live;
        // Beside one of its partition it would get what that one has left: little.
        let alone = self.limits.oldest_first;
        let may = |partition: &&Partition<T>| partition.open == 0 || !alone;
        let next = |partition: &Partition<T>| {
            let (sequence, lane, turn) = partition.next_work(now, releases)?;
            Some((sequence, (partition.id, lane, turn)))
        };
        let first = self
            .partitions
            .values()
            .filter(may)
            .filter_map(next)
            .min_by_key(|(sequence, _)| *sequence);
        first.map(|(_, turn)| turn)
    }
}

/// How far the batch that is being cut goes.
struct Reach {
    mode: Mode,
    /// Events that a lane with due queues may have in it.
    draining: usize,
    /// Events it may have: the smallest cap of its lanes.
    cap: usize,
    /// The cap of a lane that has none yet.
    first_cap: usize,
    /// Events it has.
    events: usize,
    /// Bytes left.
    bytes: u64,
    /// Events from this offset on are for later transactions.
    end: Offset,
}

impl Reach {
    fn new(mode: Mode, limits: &Limits, first_cap: usize) -> Self {
        let cap = match mode {
            Mode::Together => limits.batch_events_max,
            Mode::Careful => Mode::CAREFUL_MAX.min(limits.batch_events_max),
        };
        let (draining, bytes) = (limits.release_events_max, limits.batch_bytes_max);
        Self { mode, draining, cap, first_cap, events: 0, bytes, end: Offset(i64::MAX) }
    }

    /// Lets nothing join that arrived later than a full transaction after the head of its first lane. What
    /// is older joins whole, so that a lane that was held back catches up at once.
    fn oldest_first<T>(mut self, first: &LaneQueue<T>) -> Self {
        let full = i64::try_from(self.cap_with(first)).unwrap_or(i64::MAX);
        let end = |head: &Item<T>| Offset(head.offset.0.saturating_add(full));
        self.end = first.queue.front().map_or(self.end, end);
        self
    }

    /// Whether a lane can join. The first one always can: an event larger than the limit goes alone.
    fn admits<T>(&self, queue: &LaneQueue<T>) -> bool {
        let suspect = queue.queue.front().is_some_and(Item::is_suspect);
        let room = self.events < self.cap_with(queue) && !suspect;
        self.events == 0 || (room && queue.queue.front().is_none_or(|head| self.holds(head)))
    }

    /// Events it may have with this lane in it.
    fn cap_with<T>(&self, queue: &LaneQueue<T>) -> usize {
        self.cap.min(queue.cap.unwrap_or(self.first_cap)).max(1)
    }

    /// Whether an event is within the bytes that are left, and not for later.
    fn holds<T>(&self, item: &Item<T>) -> bool {
        u64::from(item.bytes) <= self.bytes && item.offset < self.end
    }
}

impl<T> Partition<T> {
    /// What the ready lane that has waited longest does, if it may start.
    fn next_work(&self, now: Time, releases_per_live: u32) -> Option<(u64, Lane, LaneWork)> {
        if !self.may_start(now) {
            return None;
        }
        let live_waits = self.full_at(now);
        self.ready.iter().find_map(|(sequence, lane)| {
            let turn = self.lanes[usize::from(lane.0)].next_work(live_waits, releases_per_live)?;
            Some((*sequence, *lane, turn))
        })
    }

    /// Cuts a live transaction, beginning with a lane; those before it in the row are to release.
    fn cut(&mut self, first: Lane, limits: &Limits, first_cap: usize, now: Time) -> Batch<T> {
        let mode = self.mode(first);
        let mut reach = Reach::new(mode, limits, first_cap);
        if limits.oldest_first {
            reach = reach.oldest_first(self.lane(first));
        }
        let mut taken: Vec<(LaneMove, Vec<Item<T>>)> = Vec::new();
        let mut waiting = std::mem::take(&mut self.ready);
        let mut later = std::collections::VecDeque::new();
        while let Some((sequence, lane)) = waiting.pop_front() {
            let queue = &self.lanes[usize::from(lane.0)];
            let live = queue.next_work(false, limits.releases_per_live) == Some(LaneWork::Live);
            if live && self.mode(lane) == mode && reach.admits(queue) {
                self.lane(lane).began = now;
                taken.push(self.take_lane(lane, &mut reach));
            } else {
                later.push_back((sequence, lane));
            }
        }
        let emptied =
            |(step, _): &(LaneMove, _)| self.lanes[usize::from(step.lane.0)].queue.is_empty();
        let whole = later.is_empty() && taken.iter().all(emptied);
        let unproven =
            |(step, _): &(LaneMove, _)| self.lanes[usize::from(step.lane.0)].unproven > 0;
        let suspect = |(_, items): &(_, Vec<Item<T>>)| items.iter().any(Item::is_suspect);
        let marked = taken.iter().any(unproven) || taken.iter().any(suspect);
        self.ready = later;
        taken.sort_by_key(|(step, _)| step.lane);
        Batch { whole, marked, ..self.batch(mode, taken) }
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
            whole: false,
            marked: false,
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
        reach.cap = reach.cap_with(queue);
        let draining = !queue.due.is_empty() && Rule::ReleaseDrains.on();
        let lane_max = if draining { reach.draining } else { usize::MAX };
        let room = reach.cap.saturating_sub(reach.events).min(lane_max);
        queue.released = 0;
        let mut items = Vec::with_capacity(room.min(queue.queue.len()));
        while let Some(head) = queue.queue.front() {
            let fits = items.len() < room && reach.holds(head);
            let inside = queue.careful_at(head.offset) == (reach.mode == Mode::Careful);
            let belongs = (inside || head.doomed.is_some()) && !queue.waits(head.offset);
            if !(items.is_empty() || (fits && belongs && !head.is_suspect())) {
                break;
            }
            reach.bytes = reach.bytes.saturating_sub(u64::from(head.bytes));
            let alone = head.is_suspect();
            items.extend(queue.queue.pop_front());
            if alone {
                // Nothing else joins.
                reach.cap = 0;
                break;
            }
        }
        reach.events += items.len();
        queue.give_room_back();
        (queue.step(lane, &items), items)
    }
}

impl<T> LaneQueue<T> {
    /// A queue keeps the room of its longest hour, and a consumer has hundreds of them.
    fn give_room_back(&mut self) {
        let room = (self.queue.len() * 2).max(ROOM_MIN);
        if self.queue.capacity() > room * 2 {
            self.queue.shrink_to(room);
        }
    }

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
