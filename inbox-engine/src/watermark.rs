//! The end of the settled prefix of what arrived, and when it is written.

use crate::{
    Commit, Effect, Engine, NextOffset, Rule, Time, WatermarkWrite, Written,
    partition::{Drain, Partition, Phase},
};

impl<T> Partition<T> {
    /// Takes settled deliveries from the front of what arrived, and moves `settled` behind them.
    ///
    /// Offsets that never arrive (compaction, transaction markers) hold nothing back: the prefix is
    /// one of deliveries, not of integers (E1).
    pub(crate) fn settle_prefix(&mut self) {
        let gaps = Rule::WatermarkPassesGaps.on();
        while let Some(first) = self.arrived.front().copied() {
            let state = self.lanes[usize::from(first.lane.0)].state;
            let settled = first.offset <= state.last && !self.reclaims.contains(&first.offset);
            let reached = gaps || first.offset.0 <= self.settled.0;
            if !reached || (!settled && Rule::WatermarkIsPrefix.on()) {
                break;
            }
            self.settled = self.settled.max(first.offset.next());
            self.settled_leader_epoch = first.leader_epoch;
            self.arrived.pop_front();
        }
        if gaps {
            let end = self.arrived.front().map_or(self.position, |a| NextOffset(a.offset.0));
            self.settled = self.settled.max(end);
        }
    }

    /// The write that is due, if any; `old == new` is the idle check.
    fn watermark_write(&mut self) -> WatermarkWrite {
        self.settle_prefix();
        assert!(
            self.settled >= self.watermark,
            "the watermark never goes back within a generation"
        );
        WatermarkWrite {
            partition: self.id,
            generation: self.generation,
            epoch: self.epoch,
            old: self.watermark,
            new: self.settled,
            leader_epoch: self.settled_leader_epoch,
            expected: self.lanes.iter().map(|lane| lane.state.last).collect(),
        }
    }
}

impl<T> Engine<T> {
    /// Emits the watermark writes that are due at `now`: changed ones by the short interval, idle
    /// checks by the long one.
    pub(crate) fn write_watermarks(&mut self, now: Time) {
        let limits = self.limits;
        for partition in self.partitions.values_mut() {
            if partition.phase != Phase::Live || partition.writing || partition.drain != Drain::No {
                continue;
            }
            if partition.watermark_due > now || partition.outage_until.is_some_and(|u| u > now) {
                continue;
            }
            partition.watermark_due = now.after(limits.watermark_interval);
            let write = partition.watermark_write();
            let idle = write.old == write.new;
            if idle && (!Rule::IdleCheck.on() || partition.check_due > now) {
                continue;
            }
            partition.check_due = now.after(limits.idle_check_interval);
            partition.writing = true;
            self.effects.push_back(Effect::WriteWatermark(write));
        }
    }

    /// Emits the last watermark of a draining partition.
    pub(crate) fn write_last_watermark(&mut self, id: crate::PartitionId) {
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
            Written::Yes => (partition.watermark, partition.resyncs) = (write.new, 0),
            Written::Fenced => self.resync(write.partition, now),
            Written::Outage(error) => self.outage(write.partition, error, now),
        }
        self.drain_on(write.partition, now);
        self.commit_offsets();
    }

    /// Commits what the database holds, unless a commit is in flight.
    pub(crate) fn commit_offsets(&mut self) {
        if self.committing && Rule::OneCommitInFlight.on() {
            return;
        }
        let mut commits = Vec::new();
        for partition in self.partitions.values_mut() {
            let live = partition.phase == Phase::Live;
            let follows = Rule::KafkaFollowsWatermark.on();
            let next = if follows { partition.watermark } else { partition.settled };
            if live && next > partition.kafka {
                commits.push(Commit {
                    partition: partition.id,
                    generation: partition.generation,
                    next,
                    leader_epoch: partition.settled_leader_epoch,
                });
            }
        }
        if !commits.is_empty() {
            self.committing = true;
            self.effects.push_back(Effect::Commit(commits));
        }
    }

    /// A Kafka commit ended. A failed one is a hint that came late: the next one carries more.
    pub fn handle_committed(&mut self, commits: &[Commit], ok: bool) {
        self.committing = false;
        for commit in commits {
            let Some(partition) = self.partitions.get_mut(&commit.partition) else { continue };
            if ok {
                partition.kafka = partition.kafka.max(commit.next);
            }
            let draining = matches!(partition.drain, Drain::Committing { .. });
            if draining && (!ok || partition.kafka >= partition.watermark) {
                partition.drain = Drain::Done;
            }
        }
        let drains = |p: &Partition<T>| matches!(p.drain, Drain::Committing { .. });
        if self.partitions.values().any(drains) {
            self.commit_offsets();
        }
        self.let_go();
    }
}
