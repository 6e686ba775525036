//! A transaction came back: settle, retry, park, back off, or take the partition over again.

use crate::{
    Batch, BatchOutcome, Doom, Engine, Failure, Item, Lane, Limits, Mode, Offset, PartitionId,
    Rule, Standstill, Tally, Time, TransactionFault,
    lone_faults::LoneFaults,
    partition::{LaneQueue, Partition, Phase},
    size::Measurement,
};

impl<T> Engine<T> {
    /// A transaction ended. The batch comes back whole, events included.
    pub fn handle_outcome(&mut self, batch: Batch<T>, outcome: BatchOutcome, now: Time) {
        assert!(self.open > 0, "an outcome without a transaction");
        self.open -= 1;
        let id = batch.partition;
        self.left_behind_ended(id, batch.generation);
        if let Some(partition) = self.current(id, batch.generation) {
            partition.open = partition.open.saturating_sub(1);
            self.apply_outcome(batch, outcome, now);
            self.queue_lanes(id);
            self.limit_intake(id);
            self.drain_on(id, now);
            self.let_go();
        }
        self.start(now);
    }

    fn apply_outcome(&mut self, batch: Batch<T>, outcome: BatchOutcome, now: Time) {
        let id = batch.partition;
        match outcome {
            BatchOutcome::Committed(tally) => self.handle_commit(batch, tally, now),
            BatchOutcome::Failed(failures) => self.handle_failures(batch, &failures, now),
            BatchOutcome::Fault(fault) => self.apply_fault(batch, fault, now),
            BatchOutcome::Full(error) => self.handle_full(batch, error, now),
            BatchOutcome::Reused(index) => {
                let offset = batch.items[index].offset.0;
                self.hold(
                    id,
                    Standstill::Reused(format!(
                        "the record at offset {offset} has an id that was never seen, although its \
                     lane has passed that offset: the log holds other records than before; \
                     compare the topic with the database before you continue"
                    )),
                    now,
                );
            }
        }
    }

    fn apply_fault(&mut self, batch: Batch<T>, fault: TransactionFault, now: Time) {
        match fault {
            TransactionFault::Blocked(_) if Rule::FaultsBeforeHandlersUncounted.on() => {
                self.shrink(&batch, now);
                self.give_back(batch);
            }
            TransactionFault::Unreached(error) if Rule::FaultsBeforeHandlersUncounted.on() => {
                self.wait_for_database(batch, error, now);
            }
            TransactionFault::Conflict(error) | TransactionFault::Blocked(error) => {
                self.handle_conflict(batch, error, now);
            }
            TransactionFault::Locked { route, error } => {
                self.handle_locked(batch, route, error, now);
            }
            TransactionFault::Broken(error) => self.handle_broken_session(batch, error, now),
            TransactionFault::Outage(error) | TransactionFault::Unreached(error) => {
                self.handle_outage(batch, error, now);
            }
            TransactionFault::Unknown(error) if !Rule::UnknownCommitResyncs.on() => {
                self.handle_failures(batch, &[Failure::retry(0, error)], now);
            }
            TransactionFault::Unknown(_) | TransactionFault::Fenced => {
                self.resync(batch.partition, now);
            }
        }
    }

    fn handle_commit(&mut self, batch: Batch<T>, tally: Tally, now: Time) {
        let applied = tally.applied;
        self.commits += 1;
        self.note_handlers(&batch, applied);
        self.clear_full_lanes(&batch);
        let id = batch.partition;
        let Some(partition) = self.partitions.get_mut(&id) else { return };
        // Its lanes began together.
        let took = batch.lanes.first().map_or(0, |step| partition.elapsed(step.lane, now));
        let measured = Measurement { items: batch.items.len(), applied, took };
        partition.settle(batch, measured, &self.limits);
        if tally.woken > 0 {
            partition.look_at = now;
        }
        self.learn_event_time(applied, took);
        self.note_commit(id, now);
    }

    /// Nothing was committed, and handlers are answerable.
    fn handle_failures(&mut self, batch: Batch<T>, failures: &[Failure], now: Time) {
        assert!(!failures.is_empty(), "a failed transaction says what failed");
        let alone = batch.items.len() == 1;
        let index = |failure: &Failure| failure.index.or(alone.then_some(0));
        if let Some(failure) = failures.iter().find(|f| batch.only_parks(index(f))) {
            // Parking itself failed, and no handler is answerable for that: it is tried again, with a
            // reason that people see.
            let error = failure.error.clone();
            let Some(batch) = self.count_lone_fault(batch, &error, self.commits, now) else {
                return;
            };
            return self.wait_for_database(batch, error, now);
        }
        let at: Vec<At> = failures.iter().map(|failure| batch.at(index(failure))).collect();
        if at.contains(&None) {
            self.run_carefully(&batch, now);
        }
        let id = batch.partition;
        self.give_back(batch);
        self.count_failures(id, failures, &at, now);
    }

    /// Nobody knows which event it was: all of them are run with savepoints. If they were already,
    /// half of them are.
    fn run_carefully(&mut self, batch: &Batch<T>, now: Time) {
        if batch.mode == Mode::Careful {
            return self.shrink(batch, now);
        }
        let Some(partition) = self.partitions.get_mut(&batch.partition) else { return };
        for step in &batch.lanes {
            let mut of_lane = batch.items.iter().filter(|item| item.lane == step.lane);
            if let Some(first) = of_lane.next() {
                let last = of_lane.next_back().unwrap_or(first);
                partition.lane(step.lane).careful(first.offset, last.offset);
            }
        }
    }

    /// Counts failures against their events: they are tried again later, or doomed to be parked.
    fn count_failures(&mut self, id: PartitionId, failures: &[Failure], at: &[At], now: Time) {
        let limits = self.limits;
        let Some(partition) = self.partitions.get_mut(&id) else { return };
        for (failure, at) in failures.iter().zip(at) {
            let Some((lane, offset)) = *at else { continue };
            let queue = partition.lane(lane);
            let Some(item) = queue.queue.iter_mut().find(|item| item.offset == offset) else {
                continue;
            };
            item.attempts += 1;
            if let Some(reason) = failure.park_reason(item.attempts, limits.attempts_max) {
                item.doomed = Some(Doom { reason, error: failure.error.clone() });
                continue;
            }
            let (min, max) = (limits.retry_delay_min, limits.retry_delay_max);
            let wait = self.jitter.delay(min, max, item.attempts - 1);
            queue.waits.push((offset, now.after(wait)));
            queue.careful(offset, offset);
            partition.wake_at(now.after(wait));
        }
    }

    /// A deadlock or its like: the same again at once with half the events, and no attempt is spent.
    fn handle_conflict(&mut self, batch: Batch<T>, error: String, now: Time) {
        let Some(batch) = self.count_lone_fault(batch, &error, self.commits, now) else { return };
        if !Rule::ConflictUncounted.on() {
            return self.handle_failures(batch, &[Failure::retry(0, error)], now);
        }
        self.shrink(&batch, now);
        self.give_back(batch);
    }

    /// Its session broke while another one worked: only its lanes wait, but as long as for a database that is
    /// away, so that nothing is blamed within moments.
    fn handle_broken_session(&mut self, batch: Batch<T>, error: String, now: Time) {
        // What the other session committed is a commit of others.
        self.commits += 1;
        let Some(batch) = self.count_lone_fault(batch, &error, self.commits, now) else { return };
        self.rest(&batch, self.limits.outage_delay(), now);
        self.give_back(batch);
    }

    /// The lanes of a batch go on after a moment, with half its events.
    fn shrink(&mut self, batch: &Batch<T>, now: Time) {
        self.rest(batch, self.limits.conflict_delay(), now);
    }

    pub(crate) fn rest(&mut self, batch: &Batch<T>, (min, max): (u64, u64), now: Time) {
        let Some(partition) = self.partitions.get_mut(&batch.partition) else { return };
        let tries = batch.lanes.iter().map(|step| partition.lane(step.lane).conflicts).max();
        let wait = self.jitter.delay(min, max, tries.unwrap_or(0));
        for step in &batch.lanes {
            let queue = partition.lane(step.lane);
            queue.conflicts += 1;
            queue.rest = Some(now.after(wait));
        }
        partition.wake_at(now.after(wait));
        partition.halve(batch);
    }

    /// The database is not there: the partition waits, and no attempt is spent.
    fn handle_outage(&mut self, batch: Batch<T>, error: String, now: Time) {
        let Some(batch) = self.count_lone_fault(batch, &error, self.commits, now) else { return };
        if !Rule::OutageUncounted.on() {
            return self.handle_failures(batch, &[Failure::retry(0, error)], now);
        }
        self.wait_for_database(batch, error, now);
    }

    fn wait_for_database(&mut self, batch: Batch<T>, error: String, now: Time) {
        let id = batch.partition;
        let Some(partition) = self.partitions.get_mut(&id) else { return };
        partition.halve(&batch);
        self.give_back(batch);
        self.outage(id, error, now);
    }

    pub(crate) fn give_back(&mut self, batch: Batch<T>) {
        if let Some(partition) = self.partitions.get_mut(&batch.partition) {
            partition.give_back(batch);
        }
    }

    /// Pauses a partition with growing waits. When one is over the lanes are checked at once: on an
    /// idle partition nothing else would notice that the database is back.
    pub(crate) fn outage(&mut self, id: PartitionId, error: String, now: Time) {
        let (min, max) = self.limits.outage_delay();
        let Some(partition) = self.partitions.get_mut(&id) else { return };
        if partition.out(now) || partition.phase == Phase::Stopped {
            return;
        }
        let until = now.after(self.jitter.delay(min, max, partition.outages));
        partition.outages += 1;
        partition.outage_until = Some(until);
        (partition.watermark_due, partition.check_due) = (until, until);
        self.report(id, Some(Standstill::Outage(error)));
    }

    /// A fault that one event meets alone, again and again, while other transactions commit, is not
    /// the infrastructure's: it counts as the handler's. Only faults with such a commit since the one
    /// before are counted, so that no outage ever is; `latest` is the number of the last one. Gives the batch back
    /// when it is not so.
    pub(crate) fn count_lone_fault(
        &mut self,
        batch: Batch<T>,
        error: &str,
        latest: u64,
        now: Time,
    ) -> Option<Batch<T>> {
        let (commits, max) = (self.commits, self.limits.alone_max);
        let [Item { ref doomed, bare, lane, .. }] = *batch.items.as_slice() else {
            return Some(batch);
        };
        let parks = doomed.is_some();
        if parks && (bare || !Rule::RefusedIsParkedBare.on()) {
            return Some(batch);
        }
        let queue = self.partitions.get_mut(&batch.partition)?.lane(lane);
        if !queue.alone.count(latest, commits, max) || !Rule::RepeatedAloneCounts.on() {
            return Some(batch);
        }
        if parks {
            self.park_bare(batch, now);
            return None;
        }
        queue.alone.count_soon(max);
        let text = format!("conflicted {max} times alone while others committed: {error}");
        self.handle_failures(batch, &[Failure::retry(0, text)], now);
        None
    }

    /// The one event of a batch is parked with less of it: nothing else of it can be at fault.
    fn park_bare(&mut self, mut batch: Batch<T>, now: Time) {
        batch.items.iter_mut().for_each(|item| item.bare = true);
        self.shrink(&batch, now);
        self.give_back(batch);
    }

    /// Lanes whose wait is over can start again.
    pub(crate) fn end_waits(&mut self, id: PartitionId, now: Time) {
        let Some(partition) = self.partitions.get_mut(&id) else { return };
        partition.outage_until = partition.outage_until.filter(|until| *until > now);
        partition.end_full_wait(now);
        if partition.wake.is_none_or(|wake| wake > now) {
            return;
        }
        for queue in &mut partition.lanes {
            queue.end_waits(now);
        }
        partition.wake = partition.lanes.iter().filter_map(LaneQueue::next_timeout).min();
        self.queue_lanes(id);
    }

    pub(crate) fn queue_lanes(&mut self, id: PartitionId) {
        let sequence = self.next_sequence();
        if let Some(partition) = self.partitions.get_mut(&id) {
            for lane in 0..partition.lanes.len() {
                let lane = Lane(u16::try_from(lane).unwrap_or(u16::MAX));
                partition.queue_lane(lane, sequence);
            }
        }
    }
}

/// Where a failure was, if its event is known.
type At = Option<(Lane, Offset)>;

impl<T> Batch<T> {
    fn at(&self, index: Option<usize>) -> At {
        let item = self.items.get(index?)?;
        Some((item.lane, item.offset))
    }

    /// Whether nothing can have failed but parking: the item, or each one, was not to be run.
    pub(crate) fn only_parks(&self, index: Option<usize>) -> bool {
        match index.and_then(|index| self.items.get(index)) {
            Some(item) => item.doomed.is_some(),
            None => self.items.iter().all(|item| item.doomed.is_some()),
        }
    }
}

impl<T> Partition<T> {
    /// Puts a batch that did not commit back to the heads of its lanes.
    pub(crate) fn give_back(&mut self, batch: Batch<T>) {
        for step in &batch.lanes {
            self.lane(step.lane).busy = false;
        }
        for item in batch.items.into_iter().rev() {
            self.lane(item.lane).queue.push_front(item);
        }
    }

    /// The lanes of a batch go on with half its events.
    pub(crate) fn halve(&mut self, batch: &Batch<T>) {
        for step in &batch.lanes {
            self.lane(step.lane).cap = Some((batch.items.len() / 2).max(1));
        }
    }

    /// Moves the lanes of a committed batch.
    fn settle(&mut self, batch: Batch<T>, measured: Measurement, limits: &Limits) {
        for step in &batch.lanes {
            let queue = self.lane(step.lane);
            assert_eq!(queue.state.last, step.prev, "nobody else moves a lane of this generation");
            queue.busy = false;
            (queue.alone, queue.conflicts) = (LoneFaults::default(), 0);
        }
        for item in &batch.items {
            let queue = self.lane(item.lane);
            queue.unproven = queue.unproven.saturating_sub(1);
            self.undone -= 1;
            self.bytes = self.bytes.saturating_sub(u64::from(item.bytes));
            self.reclaims.remove(&item.offset);
            self.lane(item.lane).advance(item);
        }
        let whole =
            |step: &crate::LaneMove| self.lanes[usize::from(step.lane.0)].state.last == step.new;
        assert!(batch.lanes.iter().all(whole), "a commit moves each lane to where its batch said");
        let calm = self.bytes < limits.partition_bytes_max / 4;
        for step in &batch.lanes {
            let queue = self.lane(step.lane);
            queue.cap = Some(limits.next_cap(queue.cap, measured, calm));
        }
    }
}

impl<T> LaneQueue<T> {
    /// Runs these offsets with savepoints, besides those that are already.
    fn careful(&mut self, from: Offset, to: Offset) {
        let (first, last) = self.careful.unwrap_or((from, to));
        self.careful = Some((first.min(from), last.max(to)));
    }

    fn advance(&mut self, item: &Item<T>) {
        if item.offset > self.state.last {
            self.state.last = item.offset;
            self.state.leader_epoch = item.leader_epoch;
        }
        if self.careful.is_some_and(|(_, to)| to <= item.offset) {
            self.careful = None;
        }
    }
}
