//! What a round asks of the database for many partitions, asked together: watermarks and looks for parked
//! queues. One transaction and one query a second serve a process with a thousand partitions.

use std::sync::Arc;

use inbox_engine::internal::{Generation, PartitionId, WatermarkWrite, Written};
use inbox_store::internal::port::{Owners, Scope, Taken};
use outbox_core::TopicPartition;

use super::driver::{Driver, TaskResult};

/// Partitions of one transaction: all of them wait for its end, and a lost answer is about all of them. With
/// 128 lanes each, PostgreSQL thinks twice as many worth compiling.
pub(super) const GROUP_MAX: usize = 64;

/// What has gathered in a round.
#[derive(Debug, Default)]
pub(super) struct GroupedQueries {
    pub(super) writes: Vec<WatermarkWrite>,
    pub(super) due_queries: Vec<(PartitionId, Generation)>,
}

/// A look for parked queues of one partition.
pub(super) struct DueQuery {
    pub(super) id: PartitionId,
    pub(super) generation: Generation,
    pub(super) place: TopicPartition,
    pub(super) taken: Taken,
}

impl<DB: Owners> Driver<DB> {
    /// Sends what has gathered.
    pub(super) fn send_grouped(&mut self) {
        let mut writes = std::mem::take(&mut self.grouped.writes);
        while !writes.is_empty() {
            let rest = writes.split_off(writes.len().min(self.control.group_max()));
            self.write_grouped(std::mem::replace(&mut writes, rest));
        }
        let due_queries = std::mem::take(&mut self.grouped.due_queries);
        for due_queries in due_queries.chunks(GROUP_MAX) {
            self.find_due_grouped(due_queries);
        }
    }

    fn write_grouped(&mut self, mut writes: Vec<WatermarkWrite>) {
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
            TaskResult::Watermarks(written, rest)
        });
    }

    fn find_due_grouped(&self, due_queries: &[(PartitionId, Generation)]) {
        let due_queries = due_queries.iter().filter_map(|(id, generation)| {
            let tracked = self.partitions.get(id)?;
            let (_, taken) = tracked.taken.as_ref()?;
            let (place, taken) = (tracked.place.clone(), taken.clone());
            Some(DueQuery { id: *id, generation: *generation, place, taken })
        });
        let due_queries: Vec<DueQuery> = due_queries.collect();
        let control = Arc::clone(&self.control);
        let max = self.engine.limits().due_max;
        self.spawn(async move {
            let found = control.find_due(&due_queries, max).await;
            let answer = |index: usize| match &found {
                Ok(found) => Ok(found[index].clone()),
                Err(error) => Err(error.clone()),
            };
            let due_queries = due_queries.iter().enumerate();
            TaskResult::Due(
                due_queries.map(|(at, query)| (query.id, query.generation, answer(at))).collect(),
            )
        });
    }
}
