//! Events that a process may have ended with: written down before they run, tried apart, run alone, parked.

use std::sync::Arc;

use futures::future::Either;
use inbox_engine::internal::{
    Batch, BatchOutcome, Doom, Item, Offset, ParkReason, Rule, TransactionFault,
};
use inbox_store::internal::port::{IntakePartition, Scope, Suspect, Transactions};
use tokio::sync::{RwLockReadGuard, RwLockWriteGuard};

use super::{Delivered, Delivery, transaction::Work};

/// So many processes in a row do not end with one event by chance: from the second on it was the only one that ran.
/// A trial needs fewer; this is for an event that ends the process only where it is run for good, and for a system
/// that ends the process together with that of the trial. Kills at random meet one event three times in a row too
/// easily: it is the first thing that each process runs.
const DEATHS_MAX: u32 = 5;

/// Nothing runs beside a transaction, or others do.
pub(super) type Admission<'w> = Either<RwLockWriteGuard<'w, ()>, RwLockReadGuard<'w, ()>>;

/// What is known of an event before it is run: a person wants it parked, or processes have ended with it. Suspects are
/// in the order of offsets.
pub(super) fn judge(item: &mut Delivered, suspects: &[Suspect]) {
    let found = suspects.binary_search_by_key(&item.offset, |it| it.offset);
    let Some(suspect) = found.ok().and_then(|at| suspects.get(at)) else { return };
    item.suspect = true;
    if item.doomed.is_some() {
        return;
    }
    if let Some(error) = suspect.doom.clone() {
        item.doomed = Some(Doom { reason: ParkReason::ByHand, error });
    } else if suspect.deaths >= DEATHS_MAX {
        let deaths = suspect.deaths;
        let error = format!(
            "{deaths} processes died while they ran it, the last ones running nothing else: the \
             handler kills the process on this event; fix it, then release the event"
        );
        item.doomed = Some(Doom { reason: ParkReason::Crashed, error });
    }
}

impl<DB: Transactions> Work<DB> {
    /// Runs a batch to its end. The caller spawns it and lets it finish, or drops it, and with it its
    /// connection, once what it does does not count any more.
    pub(crate) async fn transact(
        &self,
        scope: Scope,
        batch: &Batch<Arc<Delivery>>,
    ) -> BatchOutcome {
        match self.admit(scope, batch).await {
            Ok(_admission) => self.run(scope, batch).await,
            Err(outcome) => outcome,
        }
    }

    /// What a transaction waits for before it begins, and holds until it ends: those that run beside it, or all of them
    /// where a process has ended with its event. That one is tried before. What is marked is written down: whoever comes
    /// after this process knows what it ran.
    pub(super) async fn admit(
        &self,
        scope: Scope,
        batch: &Batch<Arc<Delivery>>,
    ) -> Result<Admission<'_>, BatchOutcome> {
        let suspect = batch.marked && batch.items.iter().any(Item::is_suspect);
        // What a codec fetches it may read in this process, which may end with it: after an unclean end that is written
        // down as well, and a suspect is tried before. Neither keeps others: a registry may be slow.
        let fetches = batch.marked && !self.is_prepared(&batch.items) && Rule::FetchIsMarked.on();
        if fetches {
            self.write_down(scope, batch).await?;
            if suspect && let Some(outcome) = self.try_suspect(scope, batch).await {
                return Err(outcome);
            }
        }
        self.prepare(&batch.items).await.map_err(BatchOutcome::Fault)?;
        let admission = if suspect && Rule::SuspectRunsAlone.on() {
            Either::Left(self.state.aside.write().await)
        } else {
            Either::Right(self.state.aside.read().await)
        };
        if suspect
            && !fetches
            && let Some(outcome) = self.try_suspect(scope, batch).await
        {
            return Err(outcome);
        }
        if batch.marked {
            self.write_down(scope, batch).await?;
        }
        Ok(admission)
    }

    async fn write_down(
        &self,
        scope: Scope,
        batch: &Batch<Arc<Delivery>>,
    ) -> Result<(), BatchOutcome> {
        let marked = self.mark(scope, batch, true).await;
        marked.map_err(|error| BatchOutcome::Fault(TransactionFault::Unreached(error)))
    }

    /// What was written down is forgotten, however it ended. A failure to do so costs a trial, no more.
    pub(super) async fn unmark(&self, scope: Scope, batch: &Batch<Arc<Delivery>>) {
        if batch.marked {
            drop(self.mark(scope, batch, false).await);
        }
    }

    pub(super) async fn mark(
        &self,
        scope: Scope,
        batch: &Batch<Arc<Delivery>>,
        runs: bool,
    ) -> Result<(), String> {
        let run = batch.items.iter().filter(|item| item.doomed.is_none());
        let place = |item: &Delivered| {
            if self.shared { IntakePartition::place_of(&item.id) } else { item.offset }
        };
        let offsets: Vec<Offset> = run.map(place).collect();
        let mut conn = self.sessions.take().await.map_err(|error| error.to_string())?;
        let marked = if runs {
            DB::suspect(&mut conn, &scope, self.incarnation, &offsets).await
        } else {
            DB::acquit(&mut conn, &scope, self.incarnation, &offsets).await
        };
        match marked {
            Ok(()) => {
                self.sessions.give_back(conn).await;
                Ok(())
            }
            Err(error) => {
                conn.close_hard().await;
                Err(format!(
                    "recording the running events failed: {}",
                    self.sessions.explain(&error)
                ))
            }
        }
    }
}
