//! The limit on parked events: a partition that has too many of them parks no more.

use crate::{
    Batch, Engine, PartitionId, Rule, Standstill, Time,
    partition::{Full, Partition, Phase},
};

impl<T> Engine<T> {
    /// A transaction would have parked more than may be parked. It comes back with nothing spent, and
    /// live transactions wait; releases go on, since they are what makes room.
    pub(crate) fn handle_full(&mut self, batch: Batch<T>, error: String, now: Time) {
        let (min, max) = (self.limits.outage_delay_min, self.limits.outage_delay_max);
        let id = batch.partition;
        let Some(partition) = self.partitions.get_mut(&id) else { return };
        for step in &batch.lanes {
            partition.lane(step.lane).full = true;
        }
        partition.halve(&batch);
        partition.give_back(batch);
        if !partition.full_at(now) && partition.phase != Phase::Stopped {
            let tries = partition.full.as_ref().map_or(0, |full| full.tries);
            let until = now.after(self.jitter.delay(min, max, tries));
            partition.full = Some(Full { error, until: Some(until), tries: tries + 1 });
        }
        let stood = self.partitions.get(&id).and_then(|partition| partition.standstill.as_ref());
        let known = stood.filter(|reason| !reason.seen_from_outside());
        if matches!(known, None | Some(Standstill::ParkedLimit(_))) {
            self.report_parked_limit(id);
        }
    }

    /// A release removed parked events: there may be room, so live transactions are tried soon.
    pub(crate) fn retry_soon(&mut self, id: PartitionId, now: Time) {
        let soon = now.after(self.limits.outage_delay_min);
        let full = self.partitions.get_mut(&id).and_then(|partition| partition.full.as_mut());
        if let Some(full) = full {
            full.tries = 0;
            full.until = full.until.map(|until| until.min(soon));
        }
    }

    /// A live transaction committed. When every lane that met the limit has, the partition moves.
    pub(crate) fn clear_full_lanes(&mut self, batch: &Batch<T>) {
        let Some(partition) = self.partitions.get_mut(&batch.partition) else { return };
        if partition.full.is_none() {
            return;
        }
        for step in &batch.lanes {
            partition.lane(step.lane).full = false;
        }
        if !partition.lanes.iter().any(|lane| lane.full) {
            partition.full = None;
            if matches!(partition.standstill, Some(Standstill::ParkedLimit(_))) {
                self.report_parked_limit(batch.partition);
            }
        }
    }

    /// Says that a partition stands still for the limit, or moves.
    pub(crate) fn report_parked_limit(&mut self, id: PartitionId) {
        let full = self.partitions.get(&id).and_then(|partition| partition.full.as_ref());
        let reason = full.map(|full| Standstill::ParkedLimit(full.error.clone()));
        self.report(id, reason);
    }
}

impl<T> Partition<T> {
    /// Whether live transactions wait for room at this time.
    pub(crate) fn full_at(&self, now: Time) -> bool {
        self.full_until().is_some_and(|until| until > now) && Rule::ParkedLimitWaits.on()
    }

    /// When live transactions are tried again.
    pub(crate) fn full_until(&self) -> Option<Time> {
        self.full.as_ref().and_then(|full| full.until)
    }

    /// Ends the wait that is over.
    pub(crate) fn end_full_wait(&mut self, now: Time) {
        if let Some(full) = &mut self.full {
            full.until = full.until.filter(|until| *until > now);
        }
    }
}
