//! Looking for parked queues that are due: by time, one look at a time, and not more than is remembered.

use crate::{
    Due, Effect, Engine, Generation, Lane, Limits, PartitionId, Standstill, Time,
    parked_queue::DueQueue,
    partition::{Drain, Partition, Phase},
};

impl<T> Engine<T> {
    /// Asks for parked queues where it is time to.
    pub(crate) fn find_due(&mut self, now: Time) {
        let limits = self.limits;
        let due = |p: &Partition<T>, by: Time| p.look_due(&limits).is_some_and(|due| due <= by);
        if !self.partitions.values().any(|partition| due(partition, now)) {
            return;
        }
        // Those that would look soon look with it: the caller asks for all in one query.
        let soon = now.after(limits.due_interval / 4);
        for partition in self.partitions.values_mut() {
            if due(partition, soon) && !partition.out(now) {
                partition.looking = true;
                (partition.more_due, partition.removed) = (false, false);
                partition.look_at = now.after(limits.due_interval);
                let (id, generation) = (partition.id, partition.generation);
                self.effects.push_back(Effect::FindDue(id, generation));
            }
        }
    }

    /// A transaction that this engine did not start has made parked events due: all partitions look at once.
    pub fn handle_woken(&mut self, now: Time) {
        for partition in self.partitions.values_mut() {
            partition.look_at = now;
        }
        self.start(now);
    }

    /// The database was asked which parked queues are due.
    ///
    /// `due` has [`Limits::due_max`] of them at most; when it has as many, there may be more.
    pub fn handle_due(
        &mut self,
        id: PartitionId,
        generation: Generation,
        due: Result<Vec<Due>, String>,
        now: Time,
    ) {
        let due_max = self.limits.due_max;
        let sequence = self.next_sequence();
        let Some(partition) = self.current(id, generation) else { return };
        partition.looking = false;
        if partition.phase != Phase::Live || partition.drain != Drain::No {
            return;
        }
        match due {
            Ok(due) => match partition.first_misplaced(&due) {
                Some(reason) => self.stop(id, reason),
                None => partition.take_in_due(&due, due_max, sequence),
            },
            Err(error) => {
                // When the outage is over, at once: releases stand still as long as nobody looks.
                partition.look_at = now;
                self.outage(id, error, now);
            }
        }
        self.start(now);
    }
}

impl<T> Partition<T> {
    /// When to look for parked queues next, unless one look is under way or enough are remembered.
    pub(crate) fn look_due(&self, limits: &Limits) -> Option<Time> {
        let live = self.phase == Phase::Live && self.drain == Drain::No;
        let full = self.due >= limits.due_max;
        if !live || self.looking || limits.due_interval == 0 || full {
            return None;
        }
        let at_once = self.more_due && self.removed && self.due == 0;
        let at = if at_once { Time(0) } else { self.look_at };
        Some(at.max(self.outage_until.unwrap_or_default()))
    }

    /// Remembers that a queue waits for its release.
    pub(crate) fn remember(&mut self, lane: Lane, queue: DueQueue) {
        self.lane(lane).due.push_back(queue);
        self.due += 1;
    }

    fn first_misplaced(&self, due: &[Due]) -> Option<Standstill> {
        let lanes = self.lanes.len();
        let misplaced = due.iter().find(|due| usize::from(due.lane.0) >= lanes)?;
        Some(Standstill::LaneRule(format!(
            "a parked queue is in lane {}, but the partition has {lanes} lanes: rows of the inbox \
             tables were changed by hand; make them consistent before you continue",
            misplaced.lane.0
        )))
    }

    /// Remembers queues per lane, in order, each once, as many as the limit allows.
    fn take_in_due(&mut self, due: &[Due], due_max: usize, sequence: u64) {
        let mut fresh = false;
        for &Due { lane, aggregate } in due {
            if self.due < due_max && !self.lane(lane).knows(&aggregate) {
                self.remember(lane, DueQueue::new(aggregate));
                self.queue_lane(lane, sequence);
                fresh = true;
            }
        }
        // A full answer with nothing new in it would be the same at once.
        self.more_due = fresh && due.len() >= due_max;
    }
}
