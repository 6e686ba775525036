//! A release carried out in its transaction: mark, run in order up to the first failure, remove, promote.

use std::collections::HashMap;

use inbox_engine::internal::{
    Doom, Failure, HandlerFault, Outcome, ParkReason, Released, Rule, distinct,
};
use inbox_store::internal::{
    port::{
        ClaimRequest, Transactions,
        release::{Queued, Requeued},
    },
    record_text,
};
use outbox_core::internal::Excerpt;

use super::{
    Errand, not_begun, not_settled,
    plan::{Plan, plan},
    report::{Failed, Report},
};
use crate::pipeline::{
    claim::copy_of,
    fault_point,
    handling::{Single, undecodable},
    intake::IGNORED,
    parked,
    transaction::{End, Transaction, Work},
    verdict::Verdict,
};

/// How a release was carried out.
pub(super) enum Carried {
    /// Committed.
    Done { more: bool, removed: u64, report: Report },
    /// Not committed, and what is to blame has to be written down in another transaction.
    Apart(Blame),
    /// Not committed, and nobody knows which event is to blame.
    Unnamed,
    /// Nothing was begun: a process has ended with the head, which this text holds, and it has to be tried first.
    Suspect(String),
    /// Nothing was begun: the row of the head has only a part of its record.
    Part(Box<Queued>, Excerpt),
    /// Not committed.
    Not(Released),
}

/// An event that broke its transaction, or ended it.
pub(super) struct Blame {
    /// What was to be run.
    pub(super) run: Vec<Queued>,
    /// The culprit among it.
    pub(super) at: Option<usize>,
    /// Its handler ended the transaction.
    pub(super) torn: bool,
    pub(super) fault: HandlerFault,
    pub(super) error: String,
}

/// A failure that stays in its transaction.
struct Fault {
    at: usize,
    reason: ParkReason,
    error: String,
    /// A handler was called.
    attempted: bool,
}

impl<DB: Transactions> Work<DB> {
    pub(super) async fn carry_out(&self, errand: Errand<'_>) -> Carried {
        let (mut conn, tx, rows) = match self.read(errand).await {
            Ok(read) => read,
            Err(answer) => return Carried::Not(answer),
        };
        let plan = match plan(rows, errand.max).whole(errand) {
            Ok(plan) => plan,
            Err(part) => {
                let ended: Result<(), _> = self.end(conn, Err(nothing_done())).await;
                drop(ended); // nothing was done
                return part;
            }
        };
        let crashed = |row: &Queued| row.reason == ParkReason::Crashed.as_str();
        let suspect = match plan.run.iter().position(crashed) {
            None if errand.release.unproven => Some(0),
            place => place,
        };
        let plan = match (suspect, plan.run.first()) {
            // Of a queue whose head is to blame already, nothing else is touched.
            _ if errand.release.blamed.is_some() => plan.cut(1),
            (Some(0), Some(head)) if !errand.tried => {
                let document = head.record.clone();
                let ended: Result<(), _> = self.end(conn, Err(nothing_done())).await;
                drop(ended); // nothing was done
                return Carried::Suspect(document);
            }
            // A process ends with it: what is before it goes first.
            (Some(place), _) => plan.cut(place.max(1)),
            (None, _) => plan,
        };
        let batch = errand.batch(plan.items(self, errand));
        let mut transaction = Transaction::new(self, errand.scope, &batch, &mut conn);
        transaction.tx = tx;
        let ran = transaction.carry(&plan, errand).await;
        let (torn, handled) = (transaction.torn, transaction.handled);
        match self.end(conn, ran).await {
            Ok(report) => {
                let more = plan.more && report.failed.is_empty();
                Carried::Done { more, removed: report.released + report.discarded, report }
            }
            Err(outcome) if !handled => Carried::Not(not_begun(outcome)),
            Err(Outcome::Failed(failures)) => blamed(plan.run, torn, failures),
            Err(outcome) => Carried::Not(not_settled(outcome)),
        }
    }

    /// What is new about an event that failed, and what to tell.
    pub(super) fn requeued(
        &self,
        row: &Queued,
        reason: ParkReason,
        error: String,
        attempted: bool,
    ) -> (Requeued, Failed) {
        let attempts = row.attempts.saturating_add(attempted.into());
        let releases = row.releases.saturating_add(1);
        let again = reason == ParkReason::Exhausted;
        let delay = if again { self.delay(&row.event_type, releases) } else { None };
        let errors = parked::with_error(&row.errors, attempts, &error);
        let requeued = Requeued { seq: row.seq, reason, attempts, releases, delay, errors };
        (requeued, Failed { offset: row.offset, attempt: attempts, reason, error, delay })
    }
}

fn nothing_done() -> End {
    End::RolledBack(Outcome::Conflict(String::new()))
}

/// Who is to blame for a transaction that failed.
fn blamed(run: Vec<Queued>, torn: bool, failures: Vec<Failure>) -> Carried {
    let Some(failure) = failures.into_iter().next() else { return Carried::Unnamed };
    let Failure { index: at, fault, error } = failure;
    if at.is_none() && !torn {
        return Carried::Unnamed;
    }
    Carried::Apart(Blame { run, at, torn, fault, error })
}

impl<DB: Transactions> Transaction<'_, DB> {
    async fn carry(&mut self, plan: &Plan, errand: Errand<'_>) -> Result<Report, End> {
        self.discard(&plan.discard).await?;
        self.mark(&plan.run).await?;
        fault_point::pass("release.after_mark");
        let (done, faults) = match &errand.release.blamed {
            Some(error) => (Vec::new(), blame_head(plan, error, errand.crashed)),
            None => self.run_in_order(plan).await?,
        };
        self.remove(plan, &done, &errand.release.aggregate).await?;
        fault_point::pass("release.after_remove");
        let failed = self.put_back(plan, &done, faults).await?;
        let promoted = DB::promote(self.conn, &self.scope, &errand.release.aggregate).await;
        promoted.map_err(|error| self.failed("promoting the next event", &error))?;
        fault_point::pass("release.after_promote");
        if Rule::ReleaseFenced.on() {
            self.advance().await?;
        }
        fault_point::pass("release.before_commit");
        self.commit().await?;
        fault_point::pass("release.after_commit");
        let discarded = plan.discard.len() as u64;
        Ok(Report { released: done.len() as u64, discarded, failed })
    }

    async fn discard(&mut self, rows: &[Queued]) -> Result<(), End> {
        if rows.is_empty() {
            return Ok(());
        }
        self.take_out(rows.iter()).await?;
        self.audit(rows.iter().map(|row| (row, "discarded", ""))).await
    }

    /// Whoever ends the transaction from here on: what runs in it is not due any more.
    async fn mark(&mut self, run: &[Queued]) -> Result<(), End> {
        if run.is_empty() || !Rule::ReleaseMarks.on() {
            return Ok(());
        }
        let seqs: Vec<i64> = run.iter().map(|row| row.seq).collect();
        let marked = DB::mark(self.conn, &self.scope, &seqs).await;
        let marked = marked.map_err(|error| self.failed("marking parked events", &error))?;
        as_many(marked, seqs.len())
    }

    /// Runs events up to the first failure; answers which are done, and what failed.
    async fn run_in_order(&mut self, plan: &Plan) -> Result<(Vec<usize>, Vec<Fault>), End> {
        let mut anew = self.claim_new_ids(plan).await?;
        let (mut done, mut faults) = (Vec::new(), Vec::new());
        for at in 0..plan.run.len() {
            let verdict = anew.remove(&at).unwrap_or(Verdict::Run);
            // A row without its record is for a person to put right.
            let readable = || record_text::record(&plan.run[at].record).is_some();
            let readable = self.batch.items[at].doomed.is_none() || readable();
            match self.run_one(at, verdict, readable).await? {
                None => done.push(at),
                Some(fault) => faults.push(fault),
            }
            if !faults.is_empty() && Rule::ReleaseStopsAtFailure.on() {
                break;
            }
        }
        Ok((done, faults))
    }

    async fn run_one(
        &mut self,
        at: usize,
        verdict: Verdict,
        readable: bool,
    ) -> Result<Option<Fault>, End> {
        let item = &self.batch.items[at];
        let without = |Doom { reason, error }| Fault { at, reason, error, attempted: false };
        if let Some(doom) = item.doomed.clone() {
            let stays = if readable { self.give_up(at, doom).await? } else { Some(doom) };
            return Ok(stays.map(without));
        }
        match verdict {
            Verdict::Park(doom) => return Ok(Some(without(doom))),
            Verdict::Duplicate => return Ok(None),
            _ if item.kind.route == IGNORED.route => return Ok(None),
            _ => {}
        }
        let single = self.handle_single(at).await?;
        fault_point::pass("release.after_handler");
        Ok(match single {
            Single::Applied => None,
            Single::Undecodable(error) => self.give_up(at, undecodable(error)).await?.map(without),
            Single::Failed(fault, error) => {
                Some(Fault { at, reason: reason(fault), error, attempted: true })
            }
        })
    }

    /// An event that could not be read when it was parked has an id of its own now; another copy of it
    /// may have been handled in the meantime.
    async fn claim_new_ids(&mut self, plan: &Plan) -> Result<HashMap<usize, Verdict>, End> {
        let batch = self.batch;
        let (items, old) = (&batch.items, |at: usize| plan.run[at].id);
        let mut verdicts = HashMap::new();
        // A person who releases it although its id is another event's wants it run.
        let decided = |at: usize| plan.run[at].reason == ParkReason::Mismatch.as_str();
        let fresh = items.iter().enumerate().filter(|(at, item)| {
            item.id != old(*at)
                && !decided(*at)
                && item.doomed.is_none()
                && item.kind.route != IGNORED.route
        });
        let places: Vec<usize> = fresh.map(|(at, _)| at).collect();
        if places.is_empty() || !Rule::ReleaseClaimsNewIds.on() {
            return Ok(verdicts);
        }
        let ours = |offset| places.iter().any(|&at| items[at].offset == offset);
        let distinct = distinct(items, |item| ours(item.offset));
        let request = self.request(&distinct.claimed);
        let request = ClaimRequest { aggregates: Vec::new(), ..request };
        let claimed = DB::claim(self.conn, &self.scope, &request).await;
        let mut claimed = claimed.map_err(|error| self.failed("the claim", &error))?;
        self.mine(claimed.lanes_mine)?;
        claimed.fresh.sort_unstable();
        let known = self.recheck(&request, &mut claimed).await?;
        for at in distinct.claimed {
            let item = &items[at];
            let own = known.iter().any(|known| {
                known.id == item.id
                    && known.partition_ref == self.scope.partition_ref
                    && known.offset == item.offset
            });
            // Its own row is there when an earlier release of it was torn: a person has looked at it.
            let runs = own || claimed.fresh.binary_search(&item.id).is_ok();
            verdicts.insert(at, if runs { Verdict::Run } else { self.known(item, &known).await? });
        }
        let copies = distinct.copies.into_iter();
        verdicts.extend(copies.map(|(copy, first)| (copy, copy_of(&items[copy], &items[first]))));
        Ok(verdicts)
    }

    async fn remove(
        &mut self,
        plan: &Plan,
        done: &[usize],
        aggregate: &[u8; 16],
    ) -> Result<(), End> {
        if done.is_empty() || !Rule::ReleaseRemoves.on() {
            return Ok(());
        }
        self.take_out(done.iter().map(|&at| &plan.run[at])).await?;
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
    ) -> Result<(), End> {
        if row.reason != ParkReason::Mismatch.as_str() || !Rule::ReleaseSettlesCopies.on() {
            return Ok(());
        }
        let other = self.work.intake.other_fingerprint(&self.batch.items[at], row.sha256);
        let copies = DB::copies(self.conn, &self.scope, aggregate, row, &other).await;
        let copies = copies.map_err(|error| self.failed("the look-up of copies", &error))?;
        if copies.is_empty() {
            return Ok(());
        }
        self.take_out(copies.iter()).await?;
        let why = format!("of the event at offset {}, which was released", row.offset.0);
        let by = |copy: Queued| Queued { intent: row.intent.clone(), ..copy };
        let copies: Vec<Queued> = copies.into_iter().map(by).collect();
        self.audit(copies.iter().map(|copy| (copy, "copy", &*why))).await
    }

    async fn take_out(&mut self, rows: impl Iterator<Item = &Queued>) -> Result<(), End> {
        let events: Vec<(i64, [u8; 16])> = rows.map(|row| (row.seq, row.id)).collect();
        let removed = DB::remove(self.conn, &self.scope, &events).await;
        let removed = removed.map_err(|error| self.failed("removing parked events", &error))?;
        as_many(removed, events.len())
    }

    /// What failed gets its error and its next time; what was marked and not run follows it again.
    async fn put_back(
        &mut self,
        plan: &Plan,
        done: &[usize],
        faults: Vec<Fault>,
    ) -> Result<Vec<Failed>, End> {
        if faults.is_empty() {
            return Ok(Vec::new());
        }
        let failed_at: Vec<usize> = faults.iter().map(|fault| fault.at).collect();
        let work = self.work;
        let (requeued, failed): (Vec<Requeued>, Vec<Failed>) = faults
            .into_iter()
            .map(|Fault { at, reason, error, attempted }| {
                work.requeued(&plan.run[at], reason, error, attempted)
            })
            .unzip();
        let wrote = DB::requeue(self.conn, &self.scope, &requeued).await;
        wrote.map_err(|error| self.failed("giving parked events a new time", &error))?;
        let rest: Vec<i64> = (0..plan.run.len())
            .filter(|at| !done.contains(at) && !failed_at.contains(at))
            .map(|at| plan.run[at].seq)
            .collect();
        if !rest.is_empty() {
            let unmarked = DB::unmark(self.conn, &self.scope, &rest).await;
            unmarked.map_err(|error| self.failed("putting parked events back", &error))?;
        }
        let asked = failed_at.iter().zip(&failed).map(|(&at, failed)| (&plan.run[at], failed));
        let asked = asked.filter(|(row, _)| row.intent.is_some());
        self.audit(asked.map(|(row, failed)| (row, "release_failed", &*failed.error))).await?;
        Ok(failed)
    }
}

/// The head is not run again: it was, alone, and met the same fault each time.
fn blame_head(plan: &Plan, error: &str, crashed: bool) -> Vec<Fault> {
    let fault = |head: &Queued| {
        // By a schedule it would be tried again and again.
        let crashed = crashed || head.reason == ParkReason::Crashed.as_str();
        let reason = if crashed { ParkReason::Crashed } else { ParkReason::Exhausted };
        Fault { at: 0, reason, error: error.to_owned(), attempted: true }
    };
    plan.run.first().map(fault).into_iter().collect()
}

/// Rows are locked, so anything else says that this is not the transaction it began as.
fn as_many(rows: u64, wanted: usize) -> Result<(), End> {
    if rows == wanted as u64 { Ok(()) } else { Err(End::RolledBack(Outcome::Fenced)) }
}

pub(super) fn reason(fault: HandlerFault) -> ParkReason {
    match fault {
        HandlerFault::Retry => ParkReason::Exhausted,
        HandlerFault::Reject => ParkReason::Rejected,
        HandlerFault::Crash => ParkReason::Crashed,
    }
}
