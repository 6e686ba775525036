//! Letting go: finish what is open, write the watermark, commit, answer; or give up at the deadline.

use crate::{
    Effect, Engine, Generation, PartitionId, Rule, Time,
    partition::{Drain, Phase},
};

/// Open transactions of a partition that was let go, lost, or is being taken over anew. They hold ids,
/// which whoever takes the partition over waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct LeftBehind {
    partition: PartitionId,
    generation: Generation,
    open: usize,
    /// When they are given up.
    pub(crate) until: Time,
}

impl<T> Engine<T> {
    /// Takes a draining partition one step further, if it can go.
    pub(crate) fn drain_on(&mut self, id: PartitionId, now: Time) {
        let Some(partition) = self.partitions.get_mut(&id) else { return };
        let live = partition.phase == Phase::Live;
        match partition.drain {
            // Open transactions that miss the deadline are given up: the epoch fences them, and their
            // ids shall not keep the next owner waiting.
            Drain::Finishing { deadline }
            | Drain::Writing { deadline }
            | Drain::Committing { deadline }
                if deadline <= now =>
            {
                partition.drain = Drain::Done;
                self.leave_behind(id, now);
                self.abort_left_behind(now);
            }
            Drain::Finishing { deadline } | Drain::Writing { deadline } if !live => {
                partition.drain = Drain::Done;
                self.leave_behind(id, deadline);
            }
            Drain::Finishing { deadline } if partition.open == 0 && !partition.writing => {
                partition.drain = Drain::Writing { deadline };
                self.write_last_watermark(id);
            }
            Drain::Writing { deadline } if !partition.writing => {
                self.drain_commit(id, deadline);
            }
            // Nothing to do, or not yet.
            _ => {}
        }
    }

    fn drain_commit(&mut self, id: PartitionId, deadline: Time) {
        let Some(partition) = self.partitions.get_mut(&id) else { return };
        if partition.commit_due().is_none() {
            partition.drain = Drain::Done;
            return;
        }
        // The caller commits what is due, of all partitions at once.
        partition.drain = Drain::Committing { deadline };
    }

    /// Answers the revocations whose partitions are all drained.
    pub(crate) fn let_go(&mut self) {
        let partitions = &self.partitions;
        let drained = |id: &PartitionId| partitions.get(id).is_none_or(|p| p.drain == Drain::Done);
        let (whole, rest) = std::mem::take(&mut self.revocations)
            .into_iter()
            .partition(|ids: &Vec<PartitionId>| ids.iter().all(drained));
        self.revocations = rest;
        for ids in whole {
            for id in &ids {
                self.partitions.remove(id);
            }
            if !ids.is_empty() {
                self.effects.push_back(Effect::LetGo(ids));
            }
        }
        if self.closing && !self.closed && self.partitions.is_empty() {
            self.closed = true;
            self.abort_left_behind(Time(u64::MAX));
            self.effects.push_back(Effect::Close);
        }
    }

    /// Notes the open transactions of a partition that nobody will hear of.
    pub(crate) fn leave_behind(&mut self, id: PartitionId, until: Time) {
        let Some(partition) = self.partitions.get(&id).filter(|it| it.open > 0) else { return };
        let (generation, open) = (partition.generation, partition.open);
        let known = self.left_behind.iter().any(|it| it.generation == generation);
        if !known && Rule::GivenUpAborted.on() {
            self.left_behind.push(LeftBehind { partition: id, generation, open, until });
        }
    }

    /// One of them ended by itself.
    pub(crate) fn left_behind_ended(&mut self, id: PartitionId, generation: Generation) {
        for left in &mut self.left_behind {
            if left.partition == id && left.generation == generation {
                left.open = left.open.saturating_sub(1);
            }
        }
        self.left_behind.retain(|left| left.open > 0);
    }

    /// Gives up those whose time is over.
    pub(crate) fn abort_left_behind(&mut self, now: Time) {
        let effects = &mut self.effects;
        self.left_behind.retain(|left| {
            if left.until <= now {
                effects.push_back(Effect::Abort(left.partition, left.generation));
            }
            left.until > now
        });
    }

    /// The partition was taken over anew: what is left of before can commit no more.
    pub(crate) fn abort_earlier(&mut self, id: PartitionId) {
        for left in self.left_behind.iter_mut().filter(|left| left.partition == id) {
            left.until = Time(0);
        }
        self.abort_left_behind(Time(0));
    }
}
