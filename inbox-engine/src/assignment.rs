//! Assignment, take-over, resync, revocation, loss: whose partition it is.

use crate::{
    Effect, Engine, Generation, Held, Mode, NextOffset, Ownership, PartitionId, Rule, Seek,
    Standstill, TakeOverFault, Time,
    barrier::Barrier,
    partition::{Drain, LaneQueue, Partition, Phase},
};

impl<T> Engine<T> {
    /// The group gave these partitions to this process. One that is shutting down leaves them alone.
    pub fn handle_assigned(&mut self, ids: &[PartitionId], _now: Time) {
        if self.closing {
            return;
        }
        self.unlist(ids);
        for &id in ids {
            let generation = self.next_generation();
            self.partitions.insert(id, Partition::new(id, generation));
            self.report(id, Some(Standstill::TakingOver));
            self.effects.push_back(Effect::TakeOver(id, generation, None));
        }
    }

    /// A take-over ended. `Ok` only after its COMMIT was acknowledged.
    pub fn handle_taken(
        &mut self,
        id: PartitionId,
        generation: Generation,
        taken: Result<Ownership, TakeOverFault>,
        now: Time,
    ) {
        let waited_for = |p: &mut Partition<T>| p.phase == Phase::Taking && p.drain == Drain::No;
        if !self.current(id, generation).is_some_and(waited_for) {
            return;
        }
        match taken {
            Ok(ownership) => {
                self.abort_earlier(id);
                self.own(id, &ownership);
            }
            Err(TakeOverFault::Stop(reason)) => self.stop(id, reason),
            Err(TakeOverFault::Wait(reason)) => {
                // The past of a process that came back under its own id is over in a moment.
                let soon = matches!(reason, Standstill::ForeignOwner(_));
                if let Some(partition) = self.partitions.get_mut(&id).filter(|_| soon) {
                    partition.resyncs = partition.resyncs.min(1);
                }
                self.report(id, Some(reason));
                self.wait_and_retake(id, now);
            }
            Err(TakeOverFault::Again(error)) => {
                self.report(id, Some(Standstill::Outage(error)));
                self.wait_and_retake(id, now);
            }
        }
    }

    fn own(&mut self, id: PartitionId, ownership: &Ownership) {
        let unproven = if ownership.unclean && Rule::UncleanEndIsMarked.on() {
            // As many as one transaction of each kind may have.
            (self.limits.batch_events_max, self.limits.release_events_max.min(Mode::CAREFUL_MAX))
        } else {
            (0, 0)
        };
        let Some(partition) = self.partitions.get_mut(&id) else { return };
        assert!(!ownership.lanes.is_empty(), "a partition has at least one lane");
        partition.phase = Phase::Seeking;
        partition.held = None;
        partition.asked = ownership.watermark;
        partition.epoch = ownership.epoch;
        partition.lanes =
            ownership.lanes.iter().map(|state| LaneQueue::new(*state, unproven)).collect();
        partition.watermark = ownership.watermark;
        partition.watermark_leader_epoch = ownership.watermark_leader_epoch;
        partition.settled = ownership.watermark;
        partition.settled_leader_epoch = ownership.watermark_leader_epoch;
        partition.record = ownership.record;
        partition.remapped_below = ownership.remapped_below;
        let waits = ownership.remap_waits && Rule::RemapUnderLoad.on();
        partition.barrier = waits.then(|| Barrier::above(&ownership.lanes));
        partition.position = ownership.resume;
        let seek = Seek {
            partition: id,
            generation: partition.generation,
            to: ownership.resume,
            leader_epoch: ownership.resume_leader_epoch,
        };
        self.effects.push_back(Effect::Seek(seek));
    }

    /// A seek ended. Deliveries are accepted only from here on.
    pub fn handle_sought(
        &mut self,
        id: PartitionId,
        generation: Generation,
        sought: Result<(), String>,
        now: Time,
    ) {
        let interval = self.limits.watermark_interval;
        let Some(partition) = self.current(id, generation) else { return };
        if partition.phase != Phase::Seeking || partition.drain != Drain::No {
            return;
        }
        if let Err(error) = sought {
            self.report(id, Some(Standstill::Outage(error)));
            self.wait_and_retake(id, now);
            return;
        }
        partition.phase = Phase::Live;
        partition.watermark_due = now.after(interval);
        partition.check_due = now.after(interval);
        let doubted = partition.doubted;
        if partition.paused {
            partition.paused = false;
            self.effects.push_back(Effect::Resume(id));
        }
        // The client's validation of the log may still be under way.
        if !doubted {
            self.report(id, None);
        }
    }

    /// Something was read: the log has what the client has said that it does not have.
    pub(crate) fn believe(&mut self, id: PartitionId) {
        let Some(partition) = self.partitions.get_mut(&id) else { return };
        if std::mem::take(&mut partition.doubted) && partition.phase == Phase::Live {
            self.report(id, None);
        }
    }

    /// The client says that the log does not have the offset it was to read. Whether that is so is
    /// decided by the next take-over, which asks where the log begins: a passing answer must not
    /// stop a partition for good. When that changes nothing, the client's words are the reason, until
    /// something is read: the log was cut, and is not the one that the watermark is of.
    ///
    /// Words about an earlier generation are about another seek.
    pub fn handle_offset_gone(
        &mut self,
        id: PartitionId,
        generation: Generation,
        error: &str,
        now: Time,
    ) {
        if self.current(id, generation).is_none() {
            return;
        }
        self.resync(id, now);
        let Some(partition) = self.partitions.get_mut(&id) else { return };
        partition.doubted |= partition.resyncs > 1;
        if partition.doubted && partition.phase != Phase::Stopped {
            // The take-over between has taken it back in the database.
            partition.standstill = None;
            self.report(id, Some(Standstill::OffsetGone(error.to_owned())));
        }
    }

    /// The topic has another id than at the take-over: its offsets mean other records. The next take-over says
    /// so by name. Words about an earlier generation are about another topic.
    pub fn handle_topic_changed(&mut self, id: PartitionId, generation: Generation, now: Time) {
        let live = |partition: &mut Partition<T>| partition.phase == Phase::Live;
        if self.current(id, generation).is_some_and(live) && Rule::TopicIdWatched.on() {
            self.resync(id, now);
        }
    }

    /// A batch that begins here cannot be read. Below the watermark nothing of it is missing: the next take-over
    /// begins behind it, once Kafka's offset has followed (a person has skipped it). Words about an earlier
    /// generation are about another place.
    pub fn handle_unread(
        &mut self,
        id: PartitionId,
        generation: Generation,
        at: NextOffset,
        now: Time,
    ) {
        let below = |partition: &mut Partition<T>| {
            partition.phase == Phase::Live && at < partition.watermark
        };
        if self.current(id, generation).is_some_and(below) && Rule::UnreadBelowIsPassed.on() {
            self.resync(id, now);
        }
    }

    /// What memory says of the lanes is not true any more: forget it, and take the partition over
    /// again, if the group still says that it is ours. One that waits for a person goes on waiting.
    pub(crate) fn resync(&mut self, id: PartitionId, now: Time) {
        let generation = self.next_generation();
        let Some(partition) = self.partitions.get_mut(&id) else { return };
        if partition.phase == Phase::Stopped {
            return;
        }
        self.leave_behind(id, now.after(self.limits.drain_deadline));
        let Some(partition) = self.partitions.get_mut(&id) else { return };
        partition.forget(generation);
        let doubted = partition.doubted;
        if !partition.paused {
            partition.paused = true;
            self.effects.push_back(Effect::Pause(id));
        }
        if !doubted {
            self.report(id, Some(Standstill::TakingOver));
        }
        self.wait_and_retake(id, now);
    }

    /// The log is not what it was, and a take-over would not see it again: the record may lie below the watermark
    /// by then. So the partition is forgotten, and waits until a person has moved its watermark (`skip`).
    pub(crate) fn hold(&mut self, id: PartitionId, reason: Standstill, now: Time) {
        let Some(partition) = self.partitions.get_mut(&id) else { return };
        if partition.phase == Phase::Stopped {
            return;
        }
        let watermark = partition.asked.max(partition.watermark);
        partition.held = Some(Box::new(Held { reason: reason.clone(), watermark }));
        self.report(id, Some(reason));
        self.resync(id, now);
    }

    /// Waits, longer each time in a row, then asks the group, then takes over: two owners that both
    /// believe would otherwise fence each other without end.
    pub(crate) fn wait_and_retake(&mut self, id: PartitionId, now: Time) {
        let generation = self.next_generation();
        let (min, max) = (self.limits.outage_delay_min, self.limits.outage_delay_max);
        let Some(partition) = self.partitions.get_mut(&id) else { return };
        let wait = match partition.resyncs {
            0 => 0,
            tries => self.jitter.delay(min, max, tries - 1),
        };
        partition.resyncs += 1;
        partition.generation = generation;
        partition.phase = Phase::Waiting { at: now.after(wait) };
        self.confirm_due(id, now);
    }

    /// Asks the group when the wait is over.
    pub(crate) fn confirm_due(&mut self, id: PartitionId, now: Time) {
        let Some(partition) = self.partitions.get_mut(&id) else { return };
        if let Phase::Waiting { at } = partition.phase
            && at <= now
            && partition.drain == Drain::No
        {
            partition.phase = Phase::Confirming;
            let generation = partition.generation;
            self.effects.push_back(Effect::Confirm(id, generation));
        }
    }

    /// The group answered whether the partition is still assigned.
    pub fn handle_confirmed(
        &mut self,
        id: PartitionId,
        generation: Generation,
        ours: bool,
        now: Time,
    ) {
        let Some(partition) = self.current(id, generation) else { return };
        if partition.phase != Phase::Confirming || partition.drain != Drain::No {
            return;
        }
        if ours {
            partition.phase = Phase::Taking;
            let held = partition.held.clone();
            self.effects.push_back(Effect::TakeOver(id, generation, held));
        } else {
            self.wait_and_retake(id, now);
        }
    }

    /// These partitions are gone already: nothing of them may be written any more.
    pub fn handle_lost(&mut self, ids: &[PartitionId], now: Time) {
        if !Rule::LostCommitsNothing.on() {
            self.revoke(ids.to_vec(), now);
            return;
        }
        for id in ids {
            self.leave_behind(*id, now.after(self.limits.drain_deadline));
            self.partitions.remove(id);
        }
        self.unlist(ids);
        self.let_go();
    }

    /// Takes partitions out of the revocations that wait for them: what is lost is answered already,
    /// and what the group wants back during a shutdown is answered to the group.
    fn unlist(&mut self, ids: &[PartitionId]) {
        for revoked in &mut self.revocations {
            revoked.retain(|id| !ids.contains(id));
        }
    }

    /// The group wants these partitions back; they are let go when drained.
    pub fn handle_revoked(&mut self, ids: &[PartitionId], now: Time) {
        self.revoke(ids.to_vec(), now);
    }

    /// Ends: everything is drained as if revoked, then [`Effect::Close`].
    pub fn handle_shutdown(&mut self, now: Time) {
        if !self.closing {
            self.closing = true;
            let draining = |id: &PartitionId| self.revocations.iter().flatten().any(|r| r == id);
            let ids = self.partitions.keys().copied().filter(|id| !draining(id)).collect();
            self.revoke(ids, now);
        }
    }

    fn revoke(&mut self, ids: Vec<PartitionId>, now: Time) {
        let deadline = if Rule::DrainDeadline.on() {
            now.after(self.limits.drain_deadline)
        } else {
            Time(u64::MAX)
        };
        self.unlist(&ids);
        for id in &ids {
            let Some(partition) = self.partitions.get_mut(id) else { continue };
            if partition.drain == Drain::No {
                partition.drain = Drain::Finishing { deadline };
            }
            if !partition.paused {
                partition.paused = true;
                self.effects.push_back(Effect::Pause(*id));
            }
        }
        self.revocations.push(ids.clone());
        for id in ids {
            self.drain_on(id, now);
        }
        self.let_go();
    }
}
