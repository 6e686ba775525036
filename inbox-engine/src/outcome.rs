//! A transaction came back: settle, retry, park, back off, or take the partition over again.

use crate::{
    Batch, Doom, Engine, Failure, HandlerFault, Item, Lane, Offset, Outcome, ParkReason,
    PartitionId, Rule, Standstill, Time,
    partition::{LaneQueue, Partition},
};

impl<T> Engine<T> {
    /// A transaction ended. The batch comes back whole, events included.
    pub fn handle_outcome(&mut self, batch: Batch<T>, outcome: Outcome, now: Time) {
        assert!(self.open > 0, "an outcome without a transaction");
        self.open -= 1;
        let id = batch.partition;
        if let Some(partition) = self.current(id, batch.generation) {
            partition.open = partition.open.saturating_sub(1);
            self.obey(batch, outcome, now);
            self.queue_lanes(id);
            self.bound(id);
            self.drain_on(id, now);
            self.let_go();
        }
        self.start(now);
    }

    fn obey(&mut self, batch: Batch<T>, outcome: Outcome, now: Time) {
        let id = batch.partition;
        match outcome {
            Outcome::Committed(_) => self.committed(batch),
            Outcome::Failed(failures) => self.failed(batch, &failures, now),
            Outcome::Conflict(error) => self.conflict(batch, error, now),
            Outcome::Outage(error) => self.cut_off(batch, error, now),
            Outcome::Unknown(error) if !Rule::UnknownCommitResyncs.on() => {
                self.failed(batch, &[Failure::retry(0, error)], now);
            }
            Outcome::Unknown(_) | Outcome::Fenced => self.resync(id, now),
            Outcome::Reused(index) => {
                let offset = batch.items[index].offset.0;
                self.stop(id, Standstill::Reused(format!(
                    "the record at offset {offset} has an id that was never seen, although its lane \
                     has passed that offset: the log holds other records than it did; compare the \
                     topic with the database before you go on"
                )));
            }
        }
    }

    fn committed(&mut self, batch: Batch<T>) {
        self.commits += 1;
        let id = batch.partition;
        let Some(partition) = self.partitions.get_mut(&id) else { return };
        (partition.conflicts, partition.outages, partition.resyncs) = (0, 0, 0);
        partition.cap = partition.cap.saturating_mul(2);
        partition.settle(batch);
        if matches!(partition.standstill, Some(Standstill::Outage(_))) {
            self.report(id, None);
        }
    }

    /// Nothing was committed, and handlers are answerable.
    fn failed(&mut self, batch: Batch<T>, failures: &[Failure], now: Time) {
        let id = batch.partition;
        let offsets = offsets_of(&batch, failures);
        let unnamed = failures.iter().any(|failure| failure.index.is_none());
        let Some(partition) = self.partitions.get_mut(&id) else { return };
        if unnamed {
            // Nobody knows which event it was: all of them are run with savepoints.
            for step in &batch.lanes {
                let mut of_lane = batch.items.iter().filter(|item| item.lane == step.lane);
                if let Some(first) = of_lane.next() {
                    let last = of_lane.next_back().unwrap_or(first);
                    partition.lane(step.lane).careful = Some((first.offset, last.offset));
                }
            }
        }
        partition.give_back(batch);
        self.blame(id, failures, &offsets, now);
    }

    /// Counts a failure against its event: it is tried again later, or doomed to be parked.
    fn blame(&mut self, id: PartitionId, failures: &[Failure], offsets: &[At], now: Time) {
        let limits = self.limits;
        for (failure, at) in failures.iter().zip(offsets) {
            let (Some((lane, offset)), Some(partition)) = (*at, self.partitions.get_mut(&id))
            else {
                continue;
            };
            let queue = partition.lane(lane);
            let Some(item) = queue.queue.iter_mut().find(|item| item.offset == offset) else {
                continue;
            };
            item.attempts += 1;
            let reason = match failure.fault {
                HandlerFault::Reject => Some(ParkReason::Rejected),
                HandlerFault::Retry if item.attempts >= limits.attempts_max => {
                    Some(ParkReason::Exhausted)
                }
                HandlerFault::Retry => None,
            };
            if let Some(reason) = reason {
                item.doomed = Some(Doom { reason, error: failure.error.clone() });
            } else {
                let (min, max) = (limits.retry_delay_min, limits.retry_delay_max);
                let tries = item.attempts - 1;
                let end = queue.careful.map_or(offset, |(_, to)| to.max(offset));
                queue.careful = Some((offset, end));
                queue.retry = Some((offset, now.after(self.jitter.grown(min, max, tries))));
            }
        }
    }

    /// A deadlock or its like: the same again at once with half the events, and no attempt is spent.
    fn conflict(&mut self, batch: Batch<T>, error: String, now: Time) {
        let Some(batch) = self.alone_too_often(batch, &error, now) else { return };
        if !Rule::ConflictUncounted.on() {
            return self.failed(batch, &[Failure::retry(0, error)], now);
        }
        let Some(partition) = self.partitions.get_mut(&batch.partition) else { return };
        let tries = partition.conflicts;
        partition.conflicts += 1;
        partition.cap = (batch.items.len() / 2).max(1);
        let wait = self.jitter.grown(1, self.limits.conflict_delay_max, tries);
        let lanes: Vec<Lane> = batch.lanes.iter().map(|step| step.lane).collect();
        partition.give_back(batch);
        for lane in lanes {
            let queue = partition.lane(lane);
            queue.retry = queue.queue.front().map(|head| (head.offset, now.after(wait)));
        }
    }

    /// The database is not there: the partition waits, and no attempt is spent.
    fn cut_off(&mut self, batch: Batch<T>, error: String, now: Time) {
        let Some(batch) = self.alone_too_often(batch, &error, now) else { return };
        if !Rule::OutageUncounted.on() {
            return self.failed(batch, &[Failure::retry(0, error)], now);
        }
        let id = batch.partition;
        let Some(partition) = self.partitions.get_mut(&id) else { return };
        partition.cap = (batch.items.len() / 2).max(1);
        partition.give_back(batch);
        self.outage(id, error, now);
    }

    /// Pauses a partition with growing waits.
    pub(crate) fn outage(&mut self, id: PartitionId, error: String, now: Time) {
        let (min, max) = (self.limits.outage_delay_min, self.limits.outage_delay_max);
        let Some(partition) = self.partitions.get_mut(&id) else { return };
        if partition.outage_until.is_some_and(|until| until > now) {
            return;
        }
        let wait = self.jitter.grown(min, max, partition.outages);
        partition.outages += 1;
        partition.outage_until = Some(now.after(wait));
        self.report(id, Some(Standstill::Outage(error)));
    }

    /// A fault that one event meets alone, again and again, while other transactions commit, is not
    /// the infrastructure's: it counts as the handler's. Gives the batch back when it is not so.
    fn alone_too_often(&mut self, batch: Batch<T>, error: &str, now: Time) -> Option<Batch<T>> {
        let (commits, max) = (self.commits, self.limits.alone_max);
        let [item] = batch.items.as_slice() else { return Some(batch) };
        let queue = self.partitions.get_mut(&batch.partition)?.lane(item.lane);
        if queue.alone == 0 {
            queue.alone_since = commits;
        }
        queue.alone += 1;
        if queue.alone < max || commits == queue.alone_since || !Rule::RepeatedAloneCounts.on() {
            return Some(batch);
        }
        (queue.alone, queue.alone_since) = (0, commits);
        let text = format!("met {max} times alone while others committed: {error}");
        self.failed(batch, &[Failure::retry(0, text)], now);
        None
    }

    /// Lanes whose wait is over can start again.
    pub(crate) fn retry_due(&mut self, id: PartitionId, now: Time) {
        let Some(partition) = self.partitions.get_mut(&id) else { return };
        if partition.outage_until.is_some_and(|until| until <= now) {
            partition.outage_until = None;
        }
        for queue in &mut partition.lanes {
            if queue.retry.is_some_and(|(_, at)| at <= now) {
                queue.retry = None;
            }
        }
        self.queue_lanes(id);
    }

    fn queue_lanes(&mut self, id: PartitionId) {
        let sequence = self.next_sequence();
        if let Some(partition) = self.partitions.get_mut(&id) {
            for lane in 0..partition.lanes.len() {
                let lane = Lane(u16::try_from(lane).unwrap_or(u16::MAX));
                partition.queue_lane(lane, sequence);
            }
        }
    }
}

/// Where a failure was, if it named its event.
type At = Option<(Lane, Offset)>;

fn offsets_of<T>(batch: &Batch<T>, failures: &[Failure]) -> Vec<At> {
    let at = |failure: &Failure| {
        let item = batch.items.get(failure.index?)?;
        Some((item.lane, item.offset))
    };
    failures.iter().map(at).collect()
}

impl<T> Partition<T> {
    /// Puts a batch that did not commit back to the heads of its lanes.
    fn give_back(&mut self, batch: Batch<T>) {
        for step in &batch.lanes {
            self.lane(step.lane).busy = false;
        }
        for item in batch.items.into_iter().rev() {
            self.lane(item.lane).queue.push_front(item);
        }
    }

    /// Moves the lanes of a committed batch.
    fn settle(&mut self, batch: Batch<T>) {
        for step in &batch.lanes {
            let queue = self.lane(step.lane);
            assert_eq!(queue.state.last, step.prev, "nobody else moves a lane of this generation");
            queue.busy = false;
            queue.alone = 0;
        }
        for item in &batch.items {
            self.bytes = self.bytes.saturating_sub(u64::from(item.bytes));
            self.reclaims.remove(&item.offset);
            self.lane(item.lane).moved(item);
        }
        let whole =
            |step: &crate::LaneMove| self.lanes[usize::from(step.lane.0)].state.last == step.new;
        assert!(batch.lanes.iter().all(whole), "a commit moves each lane to where its batch said");
    }
}

impl<T> LaneQueue<T> {
    fn moved(&mut self, item: &Item<T>) {
        if item.offset > self.state.last {
            self.state.last = item.offset;
            self.state.leader_epoch = item.leader_epoch;
        }
        if self.careful.is_some_and(|(_, to)| to <= item.offset) {
            self.careful = None;
        }
    }
}

impl Failure {
    /// A failure that counts as the handler's and may pass.
    pub fn retry(index: usize, error: String) -> Self {
        Self { index: Some(index), fault: HandlerFault::Retry, error }
    }
}
