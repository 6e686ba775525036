//! What is parked of direct events: released when it is due, by whichever process comes first.

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
                    first = first.and(self.release(scope, release).await);
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
        let mut found = DB::find_due(conn, &looks, DUE_MAX).await?;
        Ok(found.pop().unwrap_or_default())
    }

    /// Releases one queue, as long as its head is due.
    async fn release(
        &self,
        scope: inbox_store::internal::port::Scope,
        release: Release,
    ) -> Result<(), String> {
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
                ReleaseOutcome::Done { more: false, .. } => return Ok(()),
                ReleaseOutcome::Fault(fault) => {
                    work.meters.counters.count_fault(&fault);
                    match fault {
                        // What it met may be over in the next round; a newer epoch is read then.
                        TransactionFault::Blocked(_) | TransactionFault::Fenced => return Ok(()),
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
        Ok(())
    }
}
