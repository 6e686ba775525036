//! A change of the lanes that waits: it is brought about by settling everything up to a barrier.
//!
//! Lanes may mean something else only where none of them is ahead of the watermark: what a lane alone
//! knows to be settled (a copy, an ignored event) would be forgotten with it (finding 24). So deliveries
//! from the barrier on are left out, the others are settled, the watermark is written, and the partition
//! is taken over once more; that take-over changes the lanes, and reads on at the watermark.

use crate::{
    Engine, NextOffset, Offset, PartitionId, Time,
    partition::{Drain, Partition},
};

impl<T> Partition<T> {
    /// Whether a delivery is left for the next take-over. Everything before the first of them has arrived.
    pub(crate) fn leaves_out(&mut self, offset: Offset) -> bool {
        let Some(barrier) = &mut self.barrier else { return false };
        if offset.0 < barrier.reach.0 {
            return false;
        }
        barrier.left_out.get_or_insert(offset);
        self.position = self.readable(offset.next());
        true
    }

    /// So far nothing is still to come: what was left out is.
    pub(crate) fn readable(&self, position: NextOffset) -> NextOffset {
        let left_out = self.barrier.and_then(|barrier| barrier.left_out);
        let most = left_out.map_or(position, |offset| position.min(NextOffset(offset.0)));
        self.position.max(most)
    }

    /// Whether nothing more is to be fetched before the lanes have changed.
    pub(crate) fn at_barrier(&self) -> bool {
        self.barrier.is_some_and(|barrier| barrier.left_out.is_some())
    }

    /// Has the watermark written as soon as everything up to the barrier is settled.
    pub(crate) fn hasten_remap(&mut self) {
        let Some(barrier) = self.barrier else { return };
        self.settle_prefix();
        if self.settled >= barrier.reach {
            self.watermark_due = Time(0);
        }
    }

    /// Whether no lane is ahead of the watermark that the database holds.
    fn drained(&self) -> bool {
        self.barrier.is_some_and(|barrier| self.watermark >= barrier.reach)
    }
}

impl<T> Engine<T> {
    /// A watermark was written. When no lane is ahead of it, the partition is taken over again; one that is
    /// let go leaves that to its next owner.
    pub(crate) fn remap(&mut self, id: PartitionId, now: Time) {
        let Some(partition) = self.partitions.get_mut(&id) else { return };
        if partition.drain != Drain::No {
            return;
        }
        if partition.drained() {
            self.resync(id, now);
        } else {
            partition.hasten_remap();
        }
    }
}
