//! What a round asks of the database for many partitions, asked together: watermarks and looks for parked
//! queues. One transaction and one query a second serve a process with a thousand partitions.

use std::sync::Arc;

use inbox_engine::internal::{Generation, PartitionId, WatermarkWrite, Written};
use inbox_store::internal::port::{Owners, Scope, Taken};
use outbox_core::TopicPartition;

use super::driver::{Done, Driver};

/// Partitions of one transaction: all of them wait for its end, and a lost answer is about all of them. With
/// 128 lanes each, PostgreSQL thinks twice as many worth compiling.
pub(super) const TOGETHER_MAX: usize = 64;

/// What has gathered in a round.
#[derive(Debug, Default)]
pub(super) struct Together {
    pub(super) writes: Vec<WatermarkWrite>,
    pub(super) looks: Vec<(PartitionId, Generation)>,
}

/// A look for parked queues of one partition.
pub(super) struct Look {
    pub(super) id: PartitionId,
    pub(super) generation: Generation,
    pub(super) place: TopicPartition,
    pub(super) taken: Taken,
}

impl<DB: Owners> Driver<DB> {
    /// Sends what has gathered.
    pub(super) fn send_together(&mut self) {
        let mut writes = std::mem::take(&mut self.together.writes);
        while !writes.is_empty() {
            let rest = writes.split_off(writes.len().min(self.control.together()));
            self.write_together(std::mem::replace(&mut writes, rest));
        }
        let looks = std::mem::take(&mut self.together.looks);
        for looks in looks.chunks(TOGETHER_MAX) {
            self.look_together(looks);
        }
    }

    fn write_together(&mut self, mut writes: Vec<WatermarkWrite>) {
        if writes.len() < 2 {
            return writes.drain(..).for_each(|write| self.write_watermark(write));
        }
        let scoped = writes.into_iter().filter_map(|write| {
            let scope = self.scope(write.partition)?;
            Some((Scope { epoch: write.epoch, ..scope }, write))
        });
        let scoped: Vec<_> = scoped.collect();
        let control = Arc::clone(&self.control);
        self.spawn(async move {
            let moved = control.write_watermarks(&scoped).await;
            let (mut written, mut rest) = (Vec::with_capacity(scoped.len()), Vec::new());
            for (index, (_, write)) in scoped.into_iter().enumerate() {
                match &moved {
                    Ok(moved) if moved[index] => written.push((write, Written::Yes)),
                    // It is locked, or fenced: that is told by a statement of its own.
                    Ok(_) => rest.push(write),
                    Err(error) => written.push((write, Written::Outage(error.clone()))),
                }
            }
            Done::Watermarks(written, rest)
        });
    }

    fn look_together(&self, looks: &[(PartitionId, Generation)]) {
        let looks = looks.iter().filter_map(|(id, generation)| {
            let known = self.known.get(id)?;
            let (_, taken) = known.taken.as_ref()?;
            let (place, taken) = (known.place.clone(), taken.clone());
            Some(Look { id: *id, generation: *generation, place, taken })
        });
        let looks: Vec<Look> = looks.collect();
        let control = Arc::clone(&self.control);
        let max = self.engine.limits().due_max;
        self.spawn(async move {
            let found = control.find_due(&looks, max).await;
            let answer = |index: usize| match &found {
                Ok(found) => Ok(found[index].clone()),
                Err(error) => Err(error.clone()),
            };
            let looks = looks.iter().enumerate();
            Done::Due(looks.map(|(at, look)| (look.id, look.generation, answer(at))).collect())
        });
    }
}
