//! The end of the settled prefix of what arrived, and when it is written.

use crate::{
    Commit, Effect, Engine, LeaderEpoch, LogPoint, NextOffset, PartitionId, Rule, Standstill, Time,
    WatermarkWrite, Written,
    partition::{Drain, Partition, Phase},
};

impl<T> Partition<T> {
    /// Takes settled deliveries from the front of what arrived, and moves `settled` behind them.
    ///
    /// Offsets that never arrive (compaction, transaction markers) hold nothing back: the prefix is
    /// one of deliveries, not of integers (E1). Before an unsettled delivery it ends behind the last
    /// settled one, whose leader epoch is known; only when everything has arrived does it move to the
    /// position, and the leader epoch there is not known. A guess would be taken for a truncated log
    /// by the client's validation. So the last record is kept beside it: that one can be validated.
    pub(crate) fn settle_prefix(&mut self) {
        let gaps = Rule::WatermarkPassesGaps.on();
        while let Some(first) = self.arrived.front().copied() {
            let state = self.lanes[usize::from(first.lane.0)].state;
            let settled = first.offset <= state.last && !self.reclaims.contains(&first.offset);
            let reached = gaps || first.offset.0 <= self.settled.0;
            if !reached || (!settled && Rule::WatermarkIsPrefix.on()) {
                break;
            }
            self.move_settled(first.offset.next(), first.leader_epoch);
            if first.offset.next() > self.record.next {
                let (next, leader_epoch) = (first.offset.next(), first.leader_epoch);
                self.record = LogPoint { next, leader_epoch };
            }
            self.arrived.pop_front();
        }
        if gaps && self.arrived.is_empty() {
            self.move_settled(self.position, LeaderEpoch::UNKNOWN);
        }
    }

    fn move_settled(&mut self, next: NextOffset, leader_epoch: LeaderEpoch) {
        if next > self.settled {
            (self.settled, self.settled_leader_epoch) = (next, leader_epoch);
        }
    }

    /// What to commit to Kafka: more than it has acknowledged, and not less than it may have.
    pub(crate) fn commit_due(&self) -> Option<Commit> {
        let follows = Rule::KafkaFollowsWatermark.on();
        let (next, leader_epoch) = if follows {
            (self.watermark, self.watermark_leader_epoch)
        } else {
            (self.settled, self.settled_leader_epoch)
        };
        let more = next > self.kafka && next >= self.sent;
        let Self { id: partition, generation, .. } = *self;
        let commit = Commit { partition, generation, next, leader_epoch };
        (more && self.phase == Phase::Live).then_some(commit)
    }

    /// The write that is due, if any; `old == new` is the idle check.
    fn watermark_write(&mut self) -> WatermarkWrite {
        self.settle_prefix();
        assert!(
            self.settled >= self.watermark,
            "the watermark never goes back within a generation"
        );
        self.asked = self.settled;
        WatermarkWrite {
            partition: self.id,
            generation: self.generation,
            epoch: self.epoch,
            old: self.watermark,
            new: self.settled,
            leader_epoch: self.settled_leader_epoch,
            record: self.record,
            expected: self.lanes.iter().map(|lane| lane.state.last).collect(),
        }
    }
}

impl<T> Engine<T> {
    /// Emits the watermark writes that are due at `now`: changed ones by the short interval, idle
    /// checks by the long one.
    ///
    /// When one is due, those that would be soon go with it, and so they stay: the caller writes what comes
    /// together in one transaction.
    pub(crate) fn write_watermarks(&mut self, now: Time) {
        let limits = self.limits;
        let may = |p: &Partition<T>| {
            p.phase == Phase::Live && !p.writing && p.drain == Drain::No && !p.out(now)
        };
        if !self.partitions.values().any(|p| may(p) && p.watermark_due <= now) {
            return;
        }
        let soon = now.after(limits.watermark_interval / 2);
        for partition in self.partitions.values_mut() {
            if !may(partition) || partition.watermark_due > soon {
                continue;
            }
            partition.watermark_due = now.after(limits.watermark_interval);
            let write = partition.watermark_write();
            let idle = write.old == write.new;
            if idle && (!Rule::IdleCheck.on() || partition.check_due > soon) {
                continue;
            }
            partition.check_due = now.after(limits.idle_check_interval);
            partition.writing = true;
            self.effects.push_back(Effect::WriteWatermark(write));
        }
    }

    /// Emits the last watermark of a draining partition.
    pub(crate) fn write_last_watermark(&mut self, id: PartitionId) {
        let Some(partition) = self.partitions.get_mut(&id) else { return };
        let write = partition.watermark_write();
        partition.writing = true;
        self.effects.push_back(Effect::WriteWatermark(write));
    }

    /// A watermark write ended.
    pub fn handle_watermark(&mut self, write: &WatermarkWrite, written: Written, now: Time) {
        let Some(partition) = self.current(write.partition, write.generation) else { return };
        partition.writing = false;
        match written {
            Written::Yes => self.confirm_watermark(write, now),
            Written::Fenced => self.resync(write.partition, now),
            Written::Outage(error) => self.outage(write.partition, error, now),
        }
        self.drain_on(write.partition, now);
        self.commit_offsets();
        self.let_go();
    }

    fn confirm_watermark(&mut self, write: &WatermarkWrite, now: Time) {
        // A transaction of this process that committed, for those who wonder whether others do.
        self.commits += 1;
        let Some(partition) = self.partitions.get_mut(&write.partition) else { return };
        partition.watermark = write.new;
        partition.watermark_leader_epoch = write.leader_epoch;
        partition.resyncs = 0;
        self.note_commit(write.partition, now);
        self.remap(write.partition, now);
    }

    /// The database answered well: an outage that is not waited out any more is over.
    pub(crate) fn note_commit(&mut self, id: PartitionId, now: Time) {
        let Some(partition) = self.partitions.get_mut(&id) else { return };
        if partition.out(now) {
            return;
        }
        partition.outages = 0;
        if matches!(partition.standstill, Some(Standstill::Outage(_))) {
            self.report_parked_limit(id);
        }
    }

    /// Commits what the database holds, unless a commit is in flight.
    pub(crate) fn commit_offsets(&mut self) {
        if self.committing && Rule::OneCommitInFlight.on() {
            return;
        }
        let mut commits = Vec::new();
        for partition in self.partitions.values_mut() {
            if let Some(commit) = partition.commit_due() {
                partition.sent = commit.next;
                commits.push(commit);
            }
        }
        if !commits.is_empty() {
            self.committing = true;
            self.effects.push_back(Effect::Commit(commits));
        }
    }

    /// A Kafka commit ended; `refused` are those of its partitions that were not taken. What was written
    /// while it was in flight follows at once: partitions write at their own times, and one of them would
    /// make all others wait for their next write. A failed one is a hint that came late: the next one
    /// carries more.
    pub fn handle_committed(&mut self, commits: &[Commit], refused: &[PartitionId]) {
        self.committing = false;
        let mut ok = false;
        for commit in commits {
            let Some(partition) = self.partitions.get_mut(&commit.partition) else { continue };
            if !refused.contains(&commit.partition) {
                ok = true;
                partition.kafka = partition.kafka.max(commit.next);
            }
            let draining = matches!(partition.drain, Drain::Committing { .. });
            let tried = commit.next >= partition.watermark;
            if draining && (tried || partition.commit_due().is_none()) {
                partition.drain = Drain::Done;
            }
        }
        let drains = |p: &Partition<T>| matches!(p.drain, Drain::Committing { .. });
        if ok || self.partitions.values().any(drains) {
            self.commit_offsets();
        }
        self.let_go();
    }
}
