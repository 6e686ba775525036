//! Releases: a parked queue's own transactions, in the lane of its aggregate.
//!
//! Only the owner of a partition releases, and only with the lane reserved: a live transaction of the
//! same lane that saw "held" would otherwise queue a follower behind a head that is gone (finding 4).

use crate::{
    Effect, Engine, Lane, PartitionId, Release, ReleaseOutcome, Rule, Time, TransactionFault,
    parked_queue::DueQueue, partition::Partition,
};

impl<T> Engine<T> {
    /// Starts the release of the parked queue that is next in a lane.
    pub(crate) fn release(&mut self, id: PartitionId, lane: Lane, now: Time) {
        let sequence = self.next_sequence();
        let (events_max, first) = (self.limits.release_events_max, self.first_cap());
        let Some(partition) = self.partitions.get_mut(&id) else { return };
        let release = partition.release(lane, events_max, first, now);
        partition.open += 1;
        partition.queue_lane(lane, sequence);
        self.open += 1;
        self.effects.push_back(Effect::Release(release));
    }

    /// A release ended.
    pub fn handle_released(&mut self, release: &Release, released: ReleaseOutcome, now: Time) {
        assert!(self.open > 0, "an answer without a release");
        self.open -= 1;
        let id = release.partition;
        self.left_behind_ended(id, release.generation);
        if let Some(partition) = self.current(id, release.generation) {
            partition.open = partition.open.saturating_sub(1);
            let queue = partition.end_release(release);
            self.apply_release(release, queue, released, now);
            self.queue_lanes(id);
            self.drain_on(id, now);
            self.let_go();
        }
        self.start(now);
    }

    fn apply_release(
        &mut self,
        release: &Release,
        queue: DueQueue,
        end: ReleaseOutcome,
        now: Time,
    ) {
        let id = release.partition;
        match end {
            ReleaseOutcome::Done { more, removed } => {
                self.commits += 1;
                let partition = self.partitions.get(&id);
                let took = partition.map_or(0, |it| it.elapsed(release.lane, now));
                self.learn_event_time(removed, took);
                if more && !self.gives_way(release) {
                    let fit = (removed > 0).then(|| self.limits.drain_cap(removed, took));
                    self.remember(release, queue.after_commit(fit));
                }
                if removed > 0 {
                    self.note_removal(id, now);
                }
                self.note_commit(id, now);
            }
            ReleaseOutcome::Fault(fault) => self.apply_release_fault(release, queue, fault, now),
        }
    }

    fn apply_release_fault(
        &mut self,
        release: &Release,
        mut queue: DueQueue,
        fault: TransactionFault,
        now: Time,
    ) {
        match fault {
            TransactionFault::Blocked(_) if Rule::FaultsBeforeHandlersUncounted.on() => {
                self.release_again(release, queue, now);
            }
            TransactionFault::Unreached(error) if Rule::FaultsBeforeHandlersUncounted.on() => {
                self.release_at_outage(release, queue, error, now);
            }
            TransactionFault::Conflict(error) | TransactionFault::Blocked(error) => {
                self.blame_head(release, &mut queue, &error, self.commits);
                self.release_again(release, queue, now);
            }
            TransactionFault::Locked { route, error } => {
                let latest = self.last_applied(route);
                self.blame_head(release, &mut queue, &error, latest);
                self.release_after(release, queue, self.limits.outage_delay(), now);
            }
            TransactionFault::Broken(error) => {
                self.commits += 1;
                self.blame_head(release, &mut queue, &error, self.commits);
                self.release_after(release, queue, self.limits.outage_delay(), now);
            }
            TransactionFault::Outage(error) | TransactionFault::Unreached(error) => {
                if self.blame_head(release, &mut queue, &error, self.commits) {
                    queue.cap = Some((release.events_max / 2).max(1));
                    return self.remember(release, queue);
                }
                self.release_at_outage(release, queue, error, now);
            }
            TransactionFault::Unknown(error) if !Rule::UnknownCommitResyncs.on() => {
                self.blame_head(release, &mut queue, &error, self.commits);
                self.release_again(release, queue, now);
            }
            TransactionFault::Unknown(_) | TransactionFault::Fenced => {
                self.resync(release.partition, now);
            }
        }
    }

    fn note_removal(&mut self, id: PartitionId, now: Time) {
        if let Some(partition) = self.partitions.get_mut(&id) {
            partition.removed = true;
        }
        self.retry_soon(id, now);
    }

    /// A deadlock or its like: again after a moment, with half the events, and no attempt is spent.
    fn release_again(&mut self, release: &Release, queue: DueQueue, now: Time) {
        self.release_after(release, queue, self.limits.conflict_delay(), now);
    }

    fn release_after(
        &mut self,
        release: &Release,
        mut queue: DueQueue,
        (min, max): (u64, u64),
        now: Time,
    ) {
        let wait = self.jitter.delay(min, max, queue.conflicts);
        queue.conflicts += 1;
        queue.cap = Some((release.events_max / 2).max(1));
        queue.rest = Some(now.after(wait));
        if let Some(partition) = self.partitions.get_mut(&release.partition) {
            partition.wake_at(now.after(wait));
        }
        self.remember(release, queue);
    }

    /// The database is not there: the partition waits, and no attempt is spent.
    fn release_at_outage(
        &mut self,
        release: &Release,
        mut queue: DueQueue,
        error: String,
        now: Time,
    ) {
        queue.cap = Some((release.events_max / 2).max(1));
        self.remember(release, queue);
        self.outage(release.partition, error, now);
    }

    /// A fault that the head of a queue meets alone, again and again, while other transactions commit,
    /// is not the infrastructure's: the next release counts it against the head.
    fn blame_head(
        &self,
        release: &Release,
        queue: &mut DueQueue,
        error: &str,
        latest: u64,
    ) -> bool {
        let max = self.limits.alone_max;
        let at_fault = queue.is_at_fault(release.events_max, (latest, self.commits), max);
        if at_fault {
            let text = format!("conflicted {max} times alone while others committed: {error}");
            queue.blamed = Some(text);
        }
        at_fault
    }

    /// Whether a queue that is still due is to be found again instead of remembered: when no more can
    /// be, and its lane has others, or the queues of one lane would keep those of another unknown.
    fn gives_way(&self, release: &Release) -> bool {
        let due_max = self.limits.due_max;
        let partition = self.partitions.get(&release.partition);
        partition.is_some_and(|partition| {
            let others = !partition.lanes[usize::from(release.lane.0)].due.is_empty();
            others && partition.due + 1 >= due_max
        })
    }

    fn remember(&mut self, release: &Release, queue: DueQueue) {
        if let Some(partition) = self.partitions.get_mut(&release.partition) {
            partition.remember(release.lane, queue);
        }
    }
}

impl<T> Partition<T> {
    /// Reserves a lane for the parked queue that is next in it.
    fn release(&mut self, lane: Lane, events_max: usize, first_cap: usize, now: Time) -> Release {
        self.ready.retain(|(_, ready)| *ready != lane);
        let (partition, generation, epoch) = (self.id, self.generation, self.epoch);
        let of_lane = self.lane(lane);
        let place = of_lane.due.iter().position(|queue| queue.rest.is_none());
        let queue = place.and_then(|place| of_lane.due.remove(place));
        let queue = queue.expect("a lane that is to release has a queue that is due");
        (of_lane.ready, of_lane.began) = (false, now);
        let unproven = of_lane.releases_unproven > 0;
        of_lane.releases_unproven = of_lane.releases_unproven.saturating_sub(1);
        // One by one: so it is known which.
        let events_max = if unproven { 1 } else { events_max };
        of_lane.busy = Rule::ReleaseReservesLane.on();
        of_lane.released = of_lane.released.saturating_add(1);
        let release = Release {
            partition,
            generation,
            epoch,
            lane,
            last: of_lane.state.last,
            leader_epoch: of_lane.state.leader_epoch,
            aggregate: queue.aggregate,
            events_max: queue.cap.unwrap_or(first_cap).min(events_max),
            unproven,
            blamed: queue.blamed.clone(),
        };
        of_lane.releasing = Some(queue);
        self.due -= 1;
        release
    }

    /// Frees the lane of a release, and takes back what is known of its queue.
    fn end_release(&mut self, release: &Release) -> DueQueue {
        let lane = self.lane(release.lane);
        if Rule::ReleaseReservesLane.on() {
            assert!(lane.busy && lane.state.last == release.last, "its lane was reserved");
            lane.busy = false;
        }
        let queue = lane.releasing.take();
        queue.filter(|queue| queue.aggregate == release.aggregate).expect("it was released")
    }
}
