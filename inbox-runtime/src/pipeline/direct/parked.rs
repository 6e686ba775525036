//! What is parked of direct events: released when it is due, by whichever process comes first.

use std::{
    collections::HashMap,
    sync::{MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use inbox_engine::internal::{
    Generation, LeaderEpoch, NextOffset, Offset, PartitionId, Release, ReleaseOutcome,
    TransactionFault,
};
use inbox_store::internal::port::{Owners, deadline, release::DueQueue};

use super::Direct;
use crate::pipeline::sessions::Session;

/// Queues of one look.
const DUE_MAX: usize = 16;
/// Events of one release.
const RELEASE_MAX: usize = 32;
/// Releases of one queue before the others have their turn.
const ROUNDS_MAX: usize = 100;
/// A queue that could not be released is looked past for so long: its time stays what it was, and the look begins with
/// the oldest.
const REST: Duration = Duration::from_secs(10);
/// Queues that are looked past.
const RESTING_MAX: usize = 1_000;

/// Queues that are due, and could not be released a moment ago: when each is looked at again, by its aggregate.
#[derive(Debug, Default)]
pub(super) struct Resting(HashMap<[u8; 16], Instant>);

impl Resting {
    /// How many still rest.
    fn count(&mut self, now: Instant) -> usize {
        self.0.retain(|_, until| *until > now);
        self.0.len()
    }

    /// Looks past a queue from now on. Of too many the look begins anew with all.
    fn add(&mut self, aggregate: [u8; 16], now: Instant) {
        if self.0.len() >= RESTING_MAX {
            self.0.clear();
        }
        self.0.insert(aggregate, now + REST);
    }

    fn contains(&self, aggregate: &[u8; 16]) -> bool {
        self.0.contains_key(aggregate)
    }
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
                let scope = partition.scope();
                let mut first = Ok(());
                for queue in &due {
                    let lane = queue.lane;
                    let release = Release {
                        partition: PartitionId(0),
                        generation: Generation(0),
                        epoch: partition.epoch,
                        lane,
                        last: Offset(-1),
                        leader_epoch: LeaderEpoch::UNKNOWN,
                        aggregate: queue.aggregate,
                        events_max: RELEASE_MAX,
                        unproven: false,
                        blamed: None,
                    };
                    // A queue that nobody can release now keeps no other one waiting.
                    let released = self.release(scope, release).await;
                    if !matches!(released, Ok(Released::Done)) {
                        self.resting().add(queue.aggregate, Instant::now());
                    }
                    first = first.and(released.map(drop));
                }
                first.map(|()| due.len() == DUE_MAX)
            }
            Err(error) => {
                let error = self.work.sessions.explain(&error);
                self.work.sessions.give_up(conn).await;
                Err(format!("looking for parked events of the intake that are due failed: {error}"))
            }
        }
    }

    async fn look(&self, conn: &mut Session<DB>) -> Result<Vec<DueQueue>, sqlx::Error> {
        let Some(partition) = self.known() else { return Ok(Vec::new()) };
        let owner = &self.settings.owner.name;
        DB::settle_lanes(conn, partition.partition_ref, owner).await?;
        let looks = [(partition.scope(), NextOffset(0))];
        let past = self.resting().count(Instant::now());
        let mut found = DB::find_due(conn, &looks, DUE_MAX + past).await?.pop().unwrap_or_default();
        let resting = self.resting();
        found.retain(|queue| !resting.contains(&queue.aggregate));
        found.truncate(DUE_MAX);
        Ok(found)
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
    use super::*;

    #[test]
    fn what_could_not_be_released_is_looked_past_for_a_while() {
        let (mut resting, now) = (Resting::default(), Instant::now());
        resting.add([1; 16], now);
        assert!(resting.contains(&[1; 16]) && !resting.contains(&[2; 16]));
        assert_eq!(resting.count(now + REST / 2), 1);
        assert_eq!(resting.count(now + REST), 0);
        for queue in 0..=RESTING_MAX {
            let number = u128::try_from(queue).unwrap();
            resting.add(number.to_be_bytes(), now);
        }
        assert_eq!(resting.count(now), 1, "of too many the look begins anew");
    }
}
