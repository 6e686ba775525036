//! Letting go: finish what is open, write the watermark, commit, answer; or give up at the deadline.

use crate::{
    Effect, Engine, PartitionId, Time,
    partition::{Drain, Phase},
};

impl<T> Engine<T> {
    /// Takes a draining partition one step further, if it can go.
    pub(crate) fn drain_on(&mut self, id: PartitionId, now: Time) {
        let Some(partition) = self.partitions.get_mut(&id) else { return };
        let live = partition.phase == Phase::Live;
        match partition.drain {
            // Open transactions that miss the deadline are given up: the epoch fences them.
            Drain::Finishing { deadline }
            | Drain::Writing { deadline }
            | Drain::Committing { deadline }
                if deadline <= now =>
            {
                partition.drain = Drain::Done;
            }
            Drain::Finishing { .. } | Drain::Writing { .. } if !live => {
                partition.drain = Drain::Done;
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
            self.effects.push_back(Effect::Close);
        }
    }
}
