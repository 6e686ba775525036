//! A release executed in its transaction: mark, run in order up to the first failure, remove, promote.

use inbox_engine::internal::{BatchOutcome, Doom, Failure, ParkReason, Rule, TransactionFault};
use inbox_store::internal::port::{
    Transactions,
    release::{Queued, Requeued},
};
use outbox_core::internal::Excerpt;

use super::{
    ReleaseJob,
    plan::{ReleasePlan, plan},
    release_fault,
    report::{FailedRelease, Report},
    turns::{ReleaseFailure, Turn},
};
use crate::pipeline::{
    Delivered, fault_point, parked,
    transaction::{EarlyEnd, Transaction, Work},
};

/// How the execution of a release ended.
pub(super) enum JobOutcome {
    /// Committed.
    Done { more: bool, removed: u64, report: Report },
    /// Not committed, and what is to blame has to be written down in another transaction.
    RecordSeparately(BrokenRelease),
    /// Not committed, and nobody knows which event is to blame.
    Unnamed,
    /// Nothing was begun: a process has ended with the head, which this text holds, and it has to be tried first.
    Suspect(String),
    /// Nothing was begun: the row of the head has only a part of its record.
    Part(Box<Queued>, Excerpt),
    /// Nothing was begun: codecs have to fetch something for these events first.
    Unprepared(Vec<Delivered>),
    /// Not committed, and no event is to blame.
    NotCommitted(TransactionFault),
}

/// A release whose transaction an event broke, or ended.
pub(super) struct BrokenRelease {
    /// What was to be run.
    pub(super) run: Vec<Queued>,
    /// A handler ended the transaction.
    pub(super) torn: bool,
    /// Places of what had its turn in it.
    pub(super) tried: Vec<usize>,
    /// The culprit among it, and what is wrong with it.
    pub(super) failure: Failure,
}

impl BrokenRelease {
    /// Whether the culprit was run after what is behind it in the queue. It would be before that again, and past its
    /// gap.
    pub(super) fn is_past(&self) -> bool {
        self.failure.index.is_some_and(|index| self.tried.iter().any(|at| *at > index))
    }
}

impl<DB: Transactions> Work<DB> {
    pub(super) async fn execute_once(&self, mut job: ReleaseJob<'_>) -> JobOutcome {
        let (mut conn, tx, rows) = match self.read(&mut job).await {
            Ok(read) => read,
            Err(fault) => return JobOutcome::NotCommitted(fault),
        };
        let plan = match plan(rows, job.max).with_whole_record(job) {
            Ok(plan) => plan,
            Err(part) => {
                let ended: Result<(), _> = self.end(conn, Err(nothing_done())).await;
                drop(ended); // nothing was done
                return part;
            }
        };
        let crashed = |row: &Queued| row.reason == ParkReason::Crashed.as_str();
        let suspect = match plan.run.iter().position(crashed) {
            None if job.release.unproven => Some(0),
            place => place,
        };
        let plan = match (suspect, plan.run.first()) {
            // Of a queue whose head is to blame already, nothing else is touched.
            _ if job.release.blamed.is_some() => plan.cut(1),
            (Some(0), Some(head)) if !job.tried => {
                let document = head.record.clone();
                let ended: Result<(), _> = self.end(conn, Err(nothing_done())).await;
                drop(ended); // nothing was done
                return JobOutcome::Suspect(document);
            }
            // A process ends with it: what is before it goes first.
            (Some(place), _) => plan.cut(place.max(1)),
            (None, _) => plan,
        };
        let batch = job.batch(plan.items(self, job));
        if !job.prepared && job.release.blamed.is_none() && !self.is_prepared(&batch.items) {
            let ended: Result<(), _> = self.end(conn, Err(nothing_done())).await;
            drop(ended); // nothing was done
            return JobOutcome::Unprepared(batch.items);
        }
        let mut transaction = Transaction::new(self, job.scope, &batch, &mut conn);
        transaction.tx = tx;
        let ran = transaction.run_plan(&plan, job).await;
        let (torn, handled, woken) = (transaction.torn, transaction.handled, transaction.woken);
        let tried = std::mem::take(&mut transaction.tried);
        match self.end(conn, ran).await {
            Ok(report) => {
                // What was woken has joined this very queue.
                let more = (plan.more || woken > 0) && report.failed.is_empty();
                let removed = report.released + report.stale + report.discarded;
                JobOutcome::Done { more, removed, report }
            }
            Err(outcome) if !handled => {
                JobOutcome::NotCommitted(release_fault(outcome.before_handlers()))
            }
            Err(BatchOutcome::Failed(failures)) => attribute(plan.run, (torn, tried), failures),
            Err(outcome) => JobOutcome::NotCommitted(release_fault(outcome)),
        }
    }

    /// What is new about an event that failed, and what to tell.
    pub(super) fn requeue_row(
        &self,
        row: &Queued,
        reason: ParkReason,
        error: String,
        attempted: bool,
    ) -> (Requeued, FailedRelease) {
        let attempts = row.attempts.saturating_add(attempted.into());
        let releases = row.releases.saturating_add(1);
        let again = reason == ParkReason::Exhausted;
        let delay = if again { self.delay(&row.event_type, releases) } else { None };
        let errors = parked::with_error(&row.errors, attempts, &error);
        let requeued = Requeued { seq: row.seq, reason, attempts, releases, delay, errors };
        (requeued, FailedRelease { offset: row.offset, attempt: attempts, reason, error, delay })
    }
}

pub(super) fn nothing_done() -> EarlyEnd {
    EarlyEnd::RolledBack(BatchOutcome::Fault(TransactionFault::Conflict(String::new())))
}

/// Who is to blame for a transaction that failed.
fn attribute(
    run: Vec<Queued>,
    (torn, tried): (bool, Vec<usize>),
    failures: Vec<Failure>,
) -> JobOutcome {
    let Some(failure) = failures.into_iter().next() else { return JobOutcome::Unnamed };
    let broken = BrokenRelease { run, torn, tried, failure };
    if (broken.failure.index.is_none() || broken.is_past()) && !torn {
        return JobOutcome::Unnamed;
    }
    JobOutcome::RecordSeparately(broken)
}

impl<DB: Transactions> Transaction<'_, DB> {
    async fn run_plan(
        &mut self,
        plan: &ReleasePlan,
        job: ReleaseJob<'_>,
    ) -> Result<Report, EarlyEnd> {
        self.discard(&plan.discard).await?;
        if let Some(report) = self.end_wait(plan).await? {
            return Ok(report);
        }
        self.mark(&plan.run).await?;
        fault_point::pass("release.after_mark");
        let turns = match &job.release.blamed {
            Some(error) => {
                // What it did before its turn, nobody can blame it for: it may lack what is before it.
                self.read_versions().await?;
                let early = plan.run.first().and_then(|head| self.turn_by_version(head, 0));
                let turn = early.or_else(|| blame_head(plan, error, job.crashed));
                turn.map(|turn| (0, turn)).into_iter().collect()
            }
            None => self.run_in_order(plan).await?,
        };
        let (mut done, mut aside, mut failures_found) = (Vec::new(), Vec::new(), Vec::new());
        for (at, turn) in turns {
            match turn {
                Turn::Done => done.push(at),
                Turn::Waits => aside.push(at),
                Turn::Failed(fault) => failures_found.push(fault),
            }
        }
        self.remove(plan, &done, &job.release.aggregate).await?;
        self.set_aside(plan, &aside).await?;
        fault_point::pass("release.after_remove");
        let left = [&done[..], &aside].concat();
        let failed = self.put_back(plan, &left, failures_found).await?;
        let promoted = DB::promote(self.conn, &self.scope, &job.release.aggregate).await;
        promoted.map_err(|error| self.statement_failed("promoting the next event", &error))?;
        fault_point::pass("release.after_promote");
        self.commit_fenced().await?;
        let discarded = plan.discard.len() as u64;
        let released = (done.len() as u64).saturating_sub(self.stale);
        Ok(Report { released, stale: self.stale, discarded, failed })
    }

    pub(super) async fn commit_fenced(&mut self) -> Result<(), EarlyEnd> {
        if Rule::ReleaseFenced.on() {
            self.advance().await?;
        }
        fault_point::pass("release.before_commit");
        self.commit().await?;
        fault_point::pass("release.after_commit");
        Ok(())
    }

    async fn discard(&mut self, rows: &[Queued]) -> Result<(), EarlyEnd> {
        if rows.is_empty() {
            return Ok(());
        }
        self.remove_rows(rows.iter()).await?;
        self.audit(rows.iter().map(|row| (row, "discarded", ""))).await
    }

    /// Whoever ends the transaction from here on: what runs in it is not due any more.
    async fn mark(&mut self, run: &[Queued]) -> Result<(), EarlyEnd> {
        if run.is_empty() || !Rule::ReleaseMarks.on() {
            return Ok(());
        }
        let seqs: Vec<i64> = run.iter().map(|row| row.seq).collect();
        let marked = DB::mark(self.conn, &self.scope, &seqs).await;
        let marked =
            marked.map_err(|error| self.statement_failed("marking parked events", &error))?;
        check_count(marked, seqs.len())
    }

    async fn remove(
        &mut self,
        plan: &ReleasePlan,
        done: &[usize],
        aggregate: &[u8; 16],
    ) -> Result<(), EarlyEnd> {
        if done.is_empty() || !Rule::ReleaseRemoves.on() {
            return Ok(());
        }
        self.remove_rows(done.iter().map(|&at| &plan.run[at])).await?;
        for &at in done {
            self.settle_copies(&plan.run[at], at, aggregate).await?;
        }
        let asked = done.iter().map(|&at| &plan.run[at]).filter(|row| row.intent.is_some());
        self.audit(asked.map(|row| (row, "released", ""))).await
    }

    /// What has the id of another event has no inbox row of its own, so nothing else would know its copies.
    async fn settle_copies(
        &mut self,
        row: &Queued,
        at: usize,
        aggregate: &[u8; 16],
    ) -> Result<(), EarlyEnd> {
        if row.reason != ParkReason::Mismatch.as_str() || !Rule::ReleaseSettlesCopies.on() {
            return Ok(());
        }
        let other = self.work.intake.other_fingerprint(&self.batch.items[at], row.sha256);
        let copies = DB::copies(self.conn, &self.scope, aggregate, row, &other).await;
        let copies =
            copies.map_err(|error| self.statement_failed("the lookup of duplicates", &error))?;
        if copies.is_empty() {
            return Ok(());
        }
        self.remove_rows(copies.iter()).await?;
        let why = format!("of the event at offset {}, which was released", row.offset.0);
        let by = |copy: Queued| Queued { intent: row.intent.clone(), ..copy };
        let copies: Vec<Queued> = copies.into_iter().map(by).collect();
        self.audit(copies.iter().map(|copy| (copy, "copy", &*why))).await
    }

    pub(super) async fn remove_rows(
        &mut self,
        rows: impl Iterator<Item = &Queued>,
    ) -> Result<(), EarlyEnd> {
        let events: Vec<(i64, [u8; 16])> = rows.map(|row| (row.seq, row.id)).collect();
        let removed = DB::remove(self.conn, &self.scope, &events).await;
        let removed =
            removed.map_err(|error| self.statement_failed("removing parked events", &error))?;
        check_count(removed, events.len())
    }

    /// What failed gets its error and its next time; what was marked and not run follows it again.
    async fn put_back(
        &mut self,
        plan: &ReleasePlan,
        left: &[usize],
        failures_found: Vec<ReleaseFailure>,
    ) -> Result<Vec<FailedRelease>, EarlyEnd> {
        if failures_found.is_empty() {
            return Ok(Vec::new());
        }
        let failed_at: Vec<usize> = failures_found.iter().map(|fault| fault.at).collect();
        let work = self.work;
        let (requeued, failed): (Vec<Requeued>, Vec<FailedRelease>) = failures_found
            .into_iter()
            .map(|ReleaseFailure { at, doom: Doom { reason, error }, attempted }| {
                work.requeue_row(&plan.run[at], reason, error, attempted)
            })
            .unzip();
        let wrote = DB::requeue(self.conn, &self.scope, &requeued).await;
        wrote.map_err(|error| self.statement_failed("rescheduling parked events", &error))?;
        let rest: Vec<i64> = (0..plan.run.len())
            .filter(|at| !left.contains(at) && !failed_at.contains(at))
            .map(|at| plan.run[at].seq)
            .collect();
        if !rest.is_empty() {
            let unmarked = DB::unmark(self.conn, &self.scope, &rest).await;
            unmarked.map_err(|error| self.statement_failed("restoring parked events", &error))?;
        }
        let asked = failed_at.iter().zip(&failed).map(|(&at, failed)| (&plan.run[at], failed));
        let asked = asked.filter(|(row, _)| row.intent.is_some());
        self.audit(asked.map(|(row, failed)| (row, "release_failed", &*failed.error))).await?;
        Ok(failed)
    }
}

/// The head is not run again: it was, alone, and met the same fault each time.
fn blame_head(plan: &ReleasePlan, error: &str, crashed: bool) -> Option<Turn> {
    let fault = |head: &Queued| {
        // By a schedule it would be tried again and again.
        let crashed = crashed || head.reason == ParkReason::Crashed.as_str();
        let reason = if crashed { ParkReason::Crashed } else { ParkReason::Exhausted };
        let doom = Doom { reason, error: error.to_owned() };
        Turn::Failed(ReleaseFailure { at: 0, doom, attempted: true })
    };
    plan.run.first().map(fault)
}

/// Rows are locked, so anything else says that this is not the transaction it began as.
pub(super) fn check_count(rows: u64, wanted: usize) -> Result<(), EarlyEnd> {
    let fenced = BatchOutcome::Fault(TransactionFault::Fenced);
    if rows == wanted as u64 { Ok(()) } else { Err(EarlyEnd::RolledBack(fenced)) }
}
