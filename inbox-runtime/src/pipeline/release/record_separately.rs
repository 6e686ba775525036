//! What broke its transaction is written down in another one: a handler that ran into its deadline, or
//! that ended the transaction.

use inbox_engine::internal::{Failure, ParkReason, ReleaseOutcome};
use inbox_store::internal::port::{
    Transactions,
    release::{Queued, RELEASING, Requeued},
};

use super::{
    ReleaseJob,
    execute::{BrokenRelease, nothing_done},
    release_fault,
    report::{FailedRelease, Report},
};
use crate::pipeline::transaction::{EarlyEnd, Transaction, Work};

/// What a transaction of its own writes.
struct FailureRecord {
    requeued: Vec<Requeued>,
    failed: Vec<FailedRelease>,
    /// Marked, but never run.
    follow: Vec<i64>,
    /// Those whose release an operator asked for.
    asked: Vec<Queued>,
}

impl BrokenRelease {
    /// Whether a handler's own COMMIT made the marks durable, and with them what ran before it.
    fn is_committed(&self, rows: &[Queued]) -> bool {
        let marked =
            |row: &Queued| rows.iter().any(|now| now.seq == row.seq && now.reason == RELEASING);
        self.run.iter().any(marked)
    }
}

impl<DB: Transactions> Work<DB> {
    /// Answers as if the release itself had: the head may have changed, so it is looked at again.
    pub(super) async fn record_separately(
        &self,
        mut job: ReleaseJob<'_>,
        broken: BrokenRelease,
    ) -> (ReleaseOutcome, Report) {
        let (mut conn, tx, rows) = match self.read(&mut job).await {
            Ok(read) => read,
            Err(fault) => return (ReleaseOutcome::Fault(fault), Report::default()),
        };
        let committed = broken.is_committed(&rows);
        if broken.is_past() && !committed {
            let ended: Result<(), _> = self.end(conn, Err(nothing_done())).await;
            drop(ended); // nothing was done
            // Alone it is no more than too early.
            return Box::pin(self.execute_and_conclude(ReleaseJob { max: 1, ..job })).await;
        }
        let head_is_due = broken.failure.index.is_some_and(|at| at > 0);
        let record = self.record(broken, &rows, committed);
        let batch = job.batch(Vec::new());
        let mut transaction = Transaction::new(self, job.scope, &batch, &mut conn);
        transaction.tx = tx;
        let written = transaction.write_down(&record, &job.release.aggregate).await;
        match self.end(conn, written).await {
            Ok(()) => {
                let report = Report { failed: record.failed, ..Report::default() };
                (ReleaseOutcome::Done { more: head_is_due, removed: 0 }, report)
            }
            Err(outcome) => (ReleaseOutcome::Fault(release_fault(outcome)), Report::default()),
        }
    }

    fn record(&self, broken: BrokenRelease, rows: &[Queued], committed: bool) -> FailureRecord {
        let BrokenRelease { run, torn, tried, failure } = broken;
        let Failure { index: at, fault, error } = failure;
        let now = |row: &Queued| rows.iter().find(|now| now.seq == row.seq);
        let mut record =
            FailureRecord { requeued: vec![], failed: vec![], follow: vec![], asked: vec![] };
        for (index, row) in run.iter().enumerate() {
            let Some(row) = now(row) else { continue };
            let culprit = at.is_none_or(|at| at == index);
            let doubtful = torn && committed && (at.is_none() || tried.contains(&index));
            if culprit || doubtful {
                let reason = if torn { ParkReason::Torn } else { fault.park_reason() };
                let (requeued, failed) = self.requeue_row(row, reason, error.clone(), true);
                record.requeued.push(requeued);
                record.failed.push(failed);
                record.asked.extend(row.intent.is_some().then(|| row.clone()));
            } else if row.reason == RELEASING {
                record.follow.push(row.seq);
            }
        }
        record
    }
}

impl<DB: Transactions> Transaction<'_, DB> {
    async fn write_down(
        &mut self,
        record: &FailureRecord,
        aggregate: &[u8; 16],
    ) -> Result<(), EarlyEnd> {
        if !record.requeued.is_empty() {
            let wrote = DB::requeue(self.conn, &self.scope, &record.requeued).await;
            wrote.map_err(|error| self.statement_failed("rescheduling parked events", &error))?;
        }
        if !record.follow.is_empty() {
            let wrote = DB::unmark(self.conn, &self.scope, &record.follow).await;
            wrote.map_err(|error| self.statement_failed("restoring parked events", &error))?;
            // One that waited for what is behind it in the queue may be its head now.
            let promoted = DB::promote(self.conn, &self.scope, aggregate).await;
            promoted.map_err(|error| self.statement_failed("promoting the next event", &error))?;
        }
        let error = record.failed.first().map_or("", |failed| &*failed.error);
        self.audit(record.asked.iter().map(|row| (row, "release_failed", error))).await?;
        self.advance().await?;
        self.commit().await
    }
}
