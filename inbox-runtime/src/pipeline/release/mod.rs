//! Releases: events of one parked queue, run in its order in a transaction of their own.
//!
//! One story: its files know each other.
//!
//! The lane is reserved, so no live transaction of it runs beside. The transaction is fenced by a claim
//! at its begin and by an advance that moves nothing at its end: a release moves no lane, so only the
//! epoch separates it from what an older owner still has under way (finding 4). What it runs is `plan`ned
//! from the queue, made deliveries again by `redeliver`, run by `execute`, in `turns`; what cannot be settled in
//! that transaction, because it is broken, is written down by `record_separately`.

mod audit;
mod execute;
mod new_ids;
mod plan;
mod record_separately;
mod redeliver;
mod report;
mod turns;
mod waiting;

use std::sync::Arc;

use inbox_engine::internal::{
    Batch, BatchOutcome, LaneMove, Mode, NextOffset, Offset, Release, ReleaseOutcome,
    TransactionFault,
};

pub(crate) use report::Report;

use inbox_store::internal::port::{
    ClaimRequest, ClaimResult, Scope, Transactions, release::Queued,
};
use kafka_kit::internal::Broker;
use outbox_core::TopicPartition;

use self::plan::ReleasePlan;
use super::{
    Delivered, Delivery, fault_point,
    sessions::Session,
    transaction::{EarlyEnd, Transaction, Work},
};

/// A release, and where it runs.
#[derive(Clone, Copy)]
pub(super) struct ReleaseJob<'a> {
    pub(super) scope: Scope,
    pub(super) place: &'a TopicPartition,
    pub(super) release: &'a Release,
    /// The most events to run.
    pub(super) max: usize,
    /// A process has run the head that one may have ended with, and lives.
    pub(super) tried: bool,
    /// A process has run the head, and ended.
    pub(super) crashed: bool,
    /// Codecs have fetched what they lacked.
    pub(super) prepared: bool,
    /// What its row would be if it had all of its record, by its offset; or why that cannot be had.
    pub(super) whole: Option<&'a (Offset, Result<String, String>)>,
    /// Where the lane is, if others move it beside this process: it is locked when the transaction begins.
    pub(super) lane: LaneAt,
}

/// Who knows where the lane of a release is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum LaneAt {
    /// Its one owner, this process.
    Owned,
    /// The database: the lane is locked before anything is read.
    Locked(Offset),
}

impl<'a> ReleaseJob<'a> {
    /// Nothing was found out about it yet.
    fn of(scope: Scope, place: &'a TopicPartition, release: &'a Release, lane: LaneAt) -> Self {
        Self {
            scope,
            place,
            release,
            max: release.events_max.clamp(1, Mode::CAREFUL_MAX),
            tried: false,
            crashed: false,
            prepared: false,
            whole: None,
            lane,
        }
    }
}

impl<DB: Transactions> Work<DB> {
    /// Runs a release to its end; see [`Work::transact`].
    pub(crate) async fn release(
        &self,
        scope: Scope,
        place: &TopicPartition,
        release: &Release,
        broker: &dyn Broker,
    ) -> (ReleaseOutcome, Report) {
        let lane = if self.shared { LaneAt::Locked(release.last) } else { LaneAt::Owned };
        let job = ReleaseJob::of(scope, place, release, lane);
        match self.execute(job).await {
            execute::JobOutcome::Part(row, excerpt) => {
                let whole =
                    redeliver::read_whole(self, broker, place, release, (&row, &excerpt)).await;
                let whole = (row.offset, whole);
                self.execute_with_trial(ReleaseJob { whole: Some(&whole), ..job }).await
            }
            outcome => self.try_head(job, outcome).await,
        }
    }

    /// What codecs lack is fetched between two transactions: which events there are, only the first one tells.
    async fn execute(&self, job: ReleaseJob<'_>) -> execute::JobOutcome {
        match self.execute_beside_others(job).await {
            execute::JobOutcome::Unprepared(items) => match self.prepare(&items).await {
                Ok(()) => self.execute_beside_others(ReleaseJob { prepared: true, ..job }).await,
                Err(fault) => execute::JobOutcome::NotCommitted(fault),
            },
            outcome => outcome,
        }
    }

    /// Nothing runs beside an event that a process ended with, and a release may end one as well. Only a transaction is
    /// kept from it: Kafka and codecs are waited for outside.
    async fn execute_beside_others(&self, job: ReleaseJob<'_>) -> execute::JobOutcome {
        let _beside_others = self.state.aside.read().await;
        self.execute_once(job).await
    }

    async fn execute_with_trial(&self, job: ReleaseJob<'_>) -> (ReleaseOutcome, Report) {
        let outcome = self.execute(job).await;
        self.try_head(job, outcome).await
    }

    /// Has the head tried, if a process ended with it.
    async fn try_head(
        &self,
        job: ReleaseJob<'_>,
        outcome: execute::JobOutcome,
    ) -> (ReleaseOutcome, Report) {
        let ReleaseJob { release, max, .. } = job;
        match outcome {
            execute::JobOutcome::Suspect(document) => match self.try_beside_others(&document).await
            {
                Ok(Some(error)) => {
                    let blamed = Release { blamed: Some(error), ..release.clone() };
                    self.execute_and_conclude(ReleaseJob { release: &blamed, crashed: true, ..job })
                        .await
                }
                Ok(None) => self.execute_and_conclude(ReleaseJob { tried: true, ..job }).await,
                Err(error) => {
                    (ReleaseOutcome::Fault(TransactionFault::Unreached(error)), Report::default())
                }
            },
            // Nobody knows which event it was: the head alone will tell.
            execute::JobOutcome::Unnamed if max > 1 => {
                self.execute_and_conclude(ReleaseJob { max: 1, ..job }).await
            }
            outcome => self.conclude(job, outcome).await,
        }
    }

    /// What a trial has shown against an event. A trial may end this process, too, where memory is short.
    async fn try_beside_others(&self, document: &str) -> Result<Option<String>, String> {
        let _beside_others = self.state.aside.read().await;
        self.run_trial(document, None).await
    }

    async fn execute_and_conclude(&self, job: ReleaseJob<'_>) -> (ReleaseOutcome, Report) {
        let outcome = self.execute(job).await;
        self.conclude(job, outcome).await
    }

    async fn conclude(
        &self,
        job: ReleaseJob<'_>,
        outcome: execute::JobOutcome,
    ) -> (ReleaseOutcome, Report) {
        match outcome {
            execute::JobOutcome::Done { more, removed, report } => {
                (ReleaseOutcome::Done { more, removed }, report)
            }
            execute::JobOutcome::RecordSeparately(broken) => {
                self.record_separately(job, broken).await
            }
            execute::JobOutcome::Part(..)
            | execute::JobOutcome::Suspect(_)
            | execute::JobOutcome::Unprepared(_)
            | execute::JobOutcome::Unnamed => {
                let text = "a failure of the transaction names no event; it is retried";
                (ReleaseOutcome::Fault(TransactionFault::Conflict(text.into())), Report::default())
            }
            execute::JobOutcome::NotCommitted(fault) => {
                (ReleaseOutcome::Fault(fault), Report::default())
            }
        }
    }

    /// Begins, locks the lane where it has no owner, fences, reads the queue.
    async fn read(
        &self,
        job: &mut ReleaseJob<'_>,
    ) -> Result<(Session<DB>, String, Vec<Queued>), TransactionFault> {
        let mut conn = self.begin().await.map_err(TransactionFault::before_handlers)?;
        fault_point::pass("release.after_begin");
        let batch = job.batch(Vec::new());
        let mut transaction = Transaction::new(self, job.scope, &batch, &mut conn);
        let mut read = Ok(());
        if job.lane != LaneAt::Owned {
            read = transaction.lock_lane(job.release.lane).await.map(|last| {
                job.lane = LaneAt::Locked(last);
            });
        }
        let batch = job.batch(Vec::new());
        let mut transaction = Transaction::new(self, job.scope, &batch, &mut conn);
        let read = match read {
            Ok(()) => transaction.fence_and_read(*job).await,
            Err(end) => Err(end),
        };
        match read {
            Ok((tx, rows)) => {
                fault_point::pass("release.after_read");
                Ok((conn, tx, rows))
            }
            Err(end) => {
                let ended: Result<(), _> = self.end(conn, Err(end)).await;
                let fault = |outcome: BatchOutcome| release_fault(outcome.before_handlers());
                Err(ended.err().map_or(TransactionFault::Fenced, fault))
            }
        }
    }
}

impl ReleaseJob<'_> {
    /// The lane, which stays where it is.
    fn lane(&self) -> LaneMove {
        let Release { lane, mut last, leader_epoch, .. } = *self.release;
        if let LaneAt::Locked(at) = self.lane {
            last = at;
        }
        LaneMove { lane, prev: last, new: last, leader_epoch }
    }

    /// What the transaction works on, in the form of a live one.
    fn batch(&self, items: Vec<Delivered>) -> Batch<Arc<Delivery>> {
        Batch {
            partition: self.release.partition,
            generation: self.release.generation,
            epoch: self.scope.epoch,
            watermark: NextOffset(0),
            remapped_below: NextOffset(0),
            mode: Mode::Careful,
            whole: true,
            marked: false,
            lanes: vec![self.lane()],
            items,
        }
    }
}

impl<DB: Transactions> Transaction<'_, DB> {
    /// A claim of nothing looks at the lane and names the transaction; then the queue is locked.
    async fn fence_and_read(
        &mut self,
        job: ReleaseJob<'_>,
    ) -> Result<(String, Vec<Queued>), EarlyEnd> {
        let request = ClaimRequest { lanes: self.batch.lanes.clone(), ..ClaimRequest::default() };
        let claimed = DB::claim(self.conn, &self.scope, &request).await;
        let ClaimResult { tx, lanes_mine, .. } =
            claimed.map_err(|error| self.statement_failed("checking the lane", &error))?;
        if lanes_mine != 1 {
            return Err(EarlyEnd::RolledBack(BatchOutcome::Fault(TransactionFault::Fenced)));
        }
        // One more than will run, to know whether the queue goes on.
        let aggregate = &job.release.aggregate;
        let rows = DB::queue(self.conn, &self.scope, aggregate, job.max + 1).await;
        let rows = rows.map_err(|error| self.statement_failed("reading the queue", &error))?;
        Ok((tx, rows))
    }
}

/// What an outcome without a commit means for a release.
fn release_fault(outcome: BatchOutcome) -> TransactionFault {
    match outcome {
        BatchOutcome::Fault(fault) => fault,
        BatchOutcome::Failed(failures) => {
            let text = failures.into_iter().map(|failure| failure.error).next();
            TransactionFault::Conflict(text.unwrap_or_default())
        }
        // None of the others is a release's; the lane is looked at anew.
        BatchOutcome::Committed(_) | BatchOutcome::Full(_) | BatchOutcome::Reused(_) => {
            TransactionFault::Fenced
        }
    }
}

impl ReleasePlan {
    /// Its events, in the form of live ones.
    fn items<DB: Transactions>(&self, work: &Work<DB>, job: ReleaseJob<'_>) -> Vec<Delivered> {
        let item = |row| redeliver::item(work, job, row);
        self.run.iter().map(item).collect()
    }
}
