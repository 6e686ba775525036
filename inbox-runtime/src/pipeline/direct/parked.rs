//! What is parked of direct events: released when it is due, by whichever process comes first.

use std::{
    collections::{BTreeSet, HashMap},
    sync::{MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use inbox_engine::internal::{
    Generation, LeaderEpoch, NextOffset, Offset, PartitionId, Release, ReleaseOutcome,
    TransactionFault,
};
use inbox_store::internal::port::{IntakePartition, Owners, deadline, release::DueQueue};

use super::Direct;
use crate::pipeline::sessions::Session;

/// Queues of one look.
const DUE_MAX: usize = 16;
/// Events of one release.
const RELEASE_MAX: usize = 32;
/// Releases of one queue before the others have their turn.
const ROUNDS_MAX: usize = 100;
/// A queue that could not be released is looked past for so long at least: its time stays what it was, and the look
/// begins with the oldest.
const REST: Duration = Duration::from_secs(10);
/// Queues that are looked past.
const RESTING_MAX: usize = 1_000;

/// Queues that are due, and could not be released the last time: when each may be looked at again, by its aggregate.
/// Those whose time has come are kept, since others have their turn before them.
#[derive(Debug, Default)]
pub(super) struct Resting(HashMap<[u8; 16], Instant>);

impl Resting {
    fn count(&self) -> usize {
        self.0.len()
    }

    /// Looks past a queue until then. Of too many the look begins anew with all.
    fn add(&mut self, aggregate: [u8; 16], until: Instant) {
        if self.0.len() >= RESTING_MAX {
            self.0.clear();
        }
        self.0.insert(aggregate, until);
    }

    fn remove(&mut self, aggregate: &[u8; 16]) {
        self.0.remove(aggregate);
    }

    /// Those whose turn it is: first the ones that have not been met, then the ones that have rested longest.
    fn choose(&self, mut found: Vec<DueQueue>, now: Instant) -> Vec<DueQueue> {
        let until = |queue: &DueQueue| self.0.get(&queue.aggregate).copied();
        found.retain(|queue| until(queue).is_none_or(|until| until <= now));
        found.sort_by_key(until);
        found.truncate(DUE_MAX);
        found
    }
}

/// How long queues rest after a look that took so long: where each waits for a lock in vain, the look takes longer than
/// the least rest, and others would have no time.
fn rest_after(look: Duration) -> Duration {
    REST.max(2 * look)
}

/// How the releases of one queue ended.
enum Released {
    /// Its head is not due any more, or the others have their turn.
    Done,
    /// Nothing was done, and its head is as due as before.
    Left,
}

impl<DB: Owners> Direct<DB> {
    /// Releases what is due, and raises the watermark up to which inbox rows may be pruned; answers whether there was
    /// more than one look finds. Two processes may do the same: the second finds nothing left.
    ///
    /// # Errors
    /// What kept it from that, for people.
    pub async fn maintain(&self) -> Result<bool, String> {
        self.open().await.map_err(|fault| fault.to_string())?;
        let Some(partition) = self.known() else { return Ok(false) };
        let mut conn = self.work.sessions.take().await.map_err(|error| error.to_string())?;
        match self.look(&mut conn).await {
            Ok(due) => {
                self.work.sessions.give_back(conn).await;
                self.release_all(&partition, &due).await.map(|()| due.len() == DUE_MAX)
            }
            Err(error) => {
                let error = self.work.sessions.explain(&error);
                self.work.sessions.give_up(conn).await;
                Err(format!("looking for parked events of the intake that are due failed: {error}"))
            }
        }
    }

    /// Releases the queues of one look, and answers with the first error. One that nobody can release now keeps no other
    /// one waiting.
    async fn release_all(
        &self,
        partition: &IntakePartition,
        due: &[DueQueue],
    ) -> Result<(), String> {
        let begun = Instant::now();
        let mut first = Ok(());
        let (mut failed, mut passed, mut blocked) = (Vec::new(), Vec::new(), BTreeSet::new());
        for queue in due {
            // Each of its lane would wait for the same lock.
            if blocked.contains(&queue.lane) {
                passed.push(queue.aggregate);
                continue;
            }
            let release = Release {
                partition: PartitionId(0),
                generation: Generation(0),
                epoch: partition.epoch,
                lane: queue.lane,
                last: Offset(-1),
                leader_epoch: LeaderEpoch::UNKNOWN,
                aggregate: queue.aggregate,
                events_max: RELEASE_MAX,
                unproven: false,
                blamed: None,
            };
            let released = self.release(partition.scope(), release).await;
            match &released {
                Ok(Released::Done) => self.resting().remove(&queue.aggregate),
                Ok(Released::Left) => {
                    blocked.insert(queue.lane);
                    failed.push(queue.aggregate);
                }
                Err(_) => failed.push(queue.aggregate),
            }
            first = first.and(released.map(drop));
        }
        let (now, rest) = (Instant::now(), rest_after(begun.elapsed()));
        let mut resting = self.resting();
        for aggregate in failed {
            resting.add(aggregate, now + rest);
        }
        // They were not tried: next time they are before the one that was.
        for aggregate in passed {
            resting.add(aggregate, now + rest / 2);
        }
        first
    }

    async fn look(&self, conn: &mut Session<DB>) -> Result<Vec<DueQueue>, sqlx::Error> {
        let Some(partition) = self.known() else { return Ok(Vec::new()) };
        let owner = &self.settings.owner.name;
        DB::settle_lanes(conn, partition.partition_ref, owner).await?;
        let looks = [(partition.scope(), NextOffset(0))];
        let past = self.resting().count();
        let found = DB::find_due(conn, &looks, DUE_MAX + past).await?.pop().unwrap_or_default();
        Ok(self.resting().choose(found, Instant::now()))
    }

    fn resting(&self) -> MutexGuard<'_, Resting> {
        self.resting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Releases one queue, as long as its head is due.
    async fn release(
        &self,
        scope: inbox_store::internal::port::Scope,
        release: Release,
    ) -> Result<Released, String> {
        let (work, place) = (&self.work, &self.settings.place);
        let mut release = release;
        for _ in 0..ROUNDS_MAX {
            let released = work.release_locked(scope, place, &release);
            let (outcome, report) = deadline::with::<DB, _>(&work.limits, released).await;
            if matches!(outcome, ReleaseOutcome::Done { .. }) {
                report.tell(place, &work.meters.counters);
            }
            match outcome {
                ReleaseOutcome::Done { more: true, .. } => release.blamed = None,
                ReleaseOutcome::Done { more: false, .. } => return Ok(Released::Done),
                ReleaseOutcome::Fault(fault) => {
                    work.meters.counters.count_fault(&fault);
                    match fault {
                        // What it met may be over in the next round; a newer epoch is read then.
                        TransactionFault::Blocked(_) | TransactionFault::Fenced => {
                            return Ok(Released::Left);
                        }
                        // It ran, and met a conflict: with fewer events it meets less.
                        TransactionFault::Conflict(_) if release.events_max > 1 => {
                            release.events_max = 1;
                        }
                        // The head alone meets it: that counts as its handler's failure.
                        TransactionFault::Conflict(error) | TransactionFault::Broken(error)
                            if release.blamed.is_none() =>
                        {
                            release.blamed = Some(error);
                        }
                        TransactionFault::Conflict(error)
                        | TransactionFault::Broken(error)
                        | TransactionFault::Outage(error)
                        | TransactionFault::Unreached(error)
                        | TransactionFault::Unknown(error) => return Err(error),
                    }
                }
            }
        }
        Ok(Released::Done)
    }
}

#[cfg(test)]
mod tests {
    use inbox_engine::internal::Lane;

    use super::*;

    fn queue(number: usize) -> DueQueue {
        let aggregate = u128::try_from(number).unwrap().to_be_bytes();
        DueQueue { lane: Lane(0), aggregate, offset: Offset(0), record: None }
    }

    fn choose(resting: &Resting, numbers: std::ops::Range<usize>, now: Instant) -> Vec<DueQueue> {
        resting.choose(numbers.map(queue).collect(), now)
    }

    #[test]
    fn what_could_not_be_released_is_looked_past_for_a_while() {
        let (mut resting, now) = (Resting::default(), Instant::now());
        resting.add(queue(0).aggregate, now + REST);
        resting.add(queue(1).aggregate, now + REST / 2);
        assert_eq!(resting.count(), 2);
        assert_eq!(choose(&resting, 0..3, now), [queue(2)]);
        assert_eq!(choose(&resting, 0..3, now + REST / 2), [queue(2), queue(1)]);
        assert_eq!(choose(&resting, 0..3, now + REST), [queue(2), queue(1), queue(0)]);
        resting.remove(&queue(0).aggregate);
        assert_eq!(choose(&resting, 0..2, now), [queue(0)]);
        for number in 0..=RESTING_MAX {
            resting.add(queue(number).aggregate, now);
        }
        assert!(resting.count() < 3, "of too many the look begins anew");
    }

    #[test]
    fn each_has_its_turn_behind_many_that_each_wait_for_a_lock() {
        let (mut resting, mut now) = (Resting::default(), Instant::now());
        let look = Duration::from_secs(2) * u32::try_from(DUE_MAX).unwrap();
        for _ in 0..100 / DUE_MAX {
            let past = resting.count();
            let due = choose(&resting, 0..DUE_MAX + past, now);
            now += look;
            for queue in due {
                resting.add(queue.aggregate, now + rest_after(look));
            }
        }
        let past = resting.count();
        assert!(past >= 96, "{past} were looked at");
        assert!(rest_after(look) >= 2 * look && rest_after(Duration::ZERO) == REST);
    }
}
