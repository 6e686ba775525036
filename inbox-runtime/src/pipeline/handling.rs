//! Handlers run on the transaction: together, or one by one with savepoints.

use std::{borrow::Cow, collections::VecDeque, time::Instant};

use inbox_engine::internal::{
    BatchOutcome, Doom, Failure, HandlerFault, Mode, ParkReason, Rule, Run, TransactionFault,
};
use inbox_handler::{
    Fault, Tx,
    internal::{CallFailure, DecodedPayloads, DecodedRun, RunEnd, RunEvent},
};
use inbox_store::internal::port::{StoreFault, Transactions};

use super::{
    Delivered,
    disposition::{Disposition, Dispositions},
    transaction::{EarlyEnd, Transaction},
    versions::Verdict,
};

/// How the call for one event of a careful transaction ended.
pub(super) enum EventEnd {
    Applied,
    /// Its handler cannot take it.
    Doomed(Doom),
    Failed(Failure),
}

impl<DB: Transactions> Transaction<'_, DB> {
    /// Everything or nothing: the first failure ends the transaction.
    pub(super) async fn handle_together(
        &mut self,
        dispositions: &mut Dispositions<'_>,
        payloads: &mut DecodedPayloads,
    ) -> Result<(), EarlyEnd> {
        for run in dispositions.runs() {
            self.handle_run(run, dispositions, payloads).await?;
            self.handle_ready(dispositions, payloads).await?;
        }
        Ok(())
    }

    /// What has waited for events that were behind it.
    async fn handle_ready(
        &mut self,
        dispositions: &mut Dispositions<'_>,
        payloads: &mut DecodedPayloads,
    ) -> Result<(), EarlyEnd> {
        loop {
            let ready = self.versions.ready();
            if ready.is_empty() {
                return Ok(());
            }
            for run in dispositions.runs_of(&ready) {
                self.handle_run(run, dispositions, payloads).await?;
            }
        }
    }

    async fn handle_run(
        &mut self,
        run: Run,
        dispositions: &mut Dispositions<'_>,
        payloads: &mut DecodedPayloads,
    ) -> Result<(), EarlyEnd> {
        let mut rest = run.items;
        // Events that are passed over, and what is behind each: both have their turn after `rest`.
        let mut later: Vec<(usize, Vec<usize>)> = Vec::new();
        loop {
            rest.retain(|&index| !dispositions.follow(index));
            if rest.is_empty() {
                let Some((passed, behind)) = later.pop() else { return Ok(()) };
                self.versions.pass(passed);
                rest = behind;
                continue;
            }
            let verdicts = self.judge(&rest)?;
            let called = to_call(&rest, &verdicts);
            let of_run = payloads.run(run.kind.route, &called);
            let end = match *called {
                [] => RunEnd::Done,
                _ => self.call(run.kind.route, &called, of_run).await,
            };
            let done = match end {
                RunEnd::Done => rest.len(),
                RunEnd::Undecodable { at, ran, error } => {
                    let index = called[at];
                    let passed = self.doom_undecodable(index, error, dispositions);
                    let place = rest.iter().position(|one| *one == index).unwrap_or_default();
                    drop(called);
                    if passed && ran != at && self.versions.looks_at(index) {
                        // What is before it and has not run would be stale behind it.
                        later.push((index, rest.split_off(place + 1)));
                    } else if passed {
                        self.versions.pass(index);
                    }
                    rest.remove(place);
                    // What was judged behind events that have not run is judged anew.
                    if ran == at { place } else { 0 }
                }
                RunEnd::Unavailable(error) => return Err(unavailable(error)),
                RunEnd::Failed(failure) => {
                    let alone = (called.len() == 1).then_some(0);
                    let index = failure.at.or(alone).map(|at| called[at]);
                    // What went past the guard may have broken the transaction for an event after it.
                    let index = index.filter(|_| !self.unguarded_used);
                    return Err(self.call_failed(index, failure));
                }
            };
            self.still_inside(None)?;
            for (place, index) in rest.drain(..done).enumerate() {
                let verdict = verdicts.get(place).copied().unwrap_or(Verdict::Run);
                self.settle(index, verdict, dispositions);
            }
        }
    }

    /// An event is done with, at least for now.
    fn settle(&mut self, index: usize, verdict: Verdict, dispositions: &mut Dispositions<'_>) {
        match verdict {
            Verdict::Run => {
                dispositions.set(index, Disposition::Applied);
                self.versions.pass(index);
            }
            Verdict::Stale(last) => dispositions.set(index, Disposition::Stale(last)),
            Verdict::Wait(_) => {
                dispositions.set(index, Disposition::Wait);
                self.versions.wait(index);
            }
        }
    }

    /// Whether the configuration passes over it: it is behind then, as what was applied. One that is parked has
    /// changed nothing.
    fn doom_undecodable(
        &mut self,
        index: usize,
        error: String,
        dispositions: &mut Dispositions<'_>,
    ) -> bool {
        let disposition = self.dispose(&self.batch.items[index], undecodable(error));
        !dispositions.decide(index, disposition)
    }

    /// One savepoint per event; goes on in the other lanes after a failure, to name every culprit.
    pub(super) async fn handle_carefully(
        &mut self,
        dispositions: &mut Dispositions<'_>,
    ) -> Result<(), EarlyEnd> {
        let mut indices: VecDeque<usize> = dispositions.to_run().collect();
        let mut failures: Vec<Failure> = Vec::new();
        let batch = self.batch;
        while let Some(index) = indices.pop_front() {
            let lane = batch.items[index].lane;
            let behind = |f: &Failure| f.index.is_some_and(|i| batch.items[i].lane == lane);
            if failures.iter().any(behind) || dispositions.follow(index) {
                continue;
            }
            if let [verdict @ (Verdict::Stale(_) | Verdict::Wait(_))] = *self.judge(&[index])? {
                self.settle(index, verdict, dispositions);
                continue;
            }
            match self.handle_single(index).await? {
                EventEnd::Applied => self.settle(index, Verdict::Run, dispositions),
                EventEnd::Doomed(doom) => {
                    if self.doom_undecodable(index, doom.error, dispositions) {
                        self.versions.pass(index);
                    }
                }
                EventEnd::Failed(failure) => failures.push(failure),
            }
            for ready in self.versions.ready() {
                dispositions.set(ready, Disposition::Run);
                indices.push_front(ready);
            }
        }
        if failures.is_empty() {
            return Ok(());
        }
        Err(EarlyEnd::RolledBack(BatchOutcome::Failed(failures)))
    }

    pub(super) async fn handle_single(&mut self, index: usize) -> Result<EventEnd, EarlyEnd> {
        let opened = DB::savepoint(self.conn, 0).await;
        opened.map_err(|error| self.statement_failed("SAVEPOINT", &error))?;
        let route = self.batch.items[index].kind.route;
        match self.call(route, &[index], DecodedRun::none()).await {
            RunEnd::Done => self.release_single(index).await,
            RunEnd::Undecodable { error, .. } => {
                self.undo_single().await?;
                Ok(EventEnd::Doomed(undecodable(error)))
            }
            RunEnd::Unavailable(error) => Err(unavailable(error)),
            RunEnd::Failed(failure) => {
                let end = self.call_failed(Some(index), failure);
                self.still_inside(Some(index))?;
                match end {
                    EarlyEnd::RolledBack(BatchOutcome::Failed(failures)) => {
                        self.undo_single().await?;
                        let [failure] = failures.as_slice() else {
                            return Err(EarlyEnd::RolledBack(BatchOutcome::Failed(failures)));
                        };
                        Ok(EventEnd::Failed(failure.clone()))
                    }
                    end => Err(end),
                }
            }
        }
    }

    /// RELEASE fails when the handler ended the transaction, rolled back past the savepoint or
    /// swallowed an error; deferred constraints are made to speak first, or COMMIT would fail for
    /// nobody in particular (finding 14).
    async fn release_single(&mut self, index: usize) -> Result<EventEnd, EarlyEnd> {
        self.still_inside(Some(index))?;
        let released = match DB::constraints_immediate(self.conn).await {
            Ok(()) => DB::release(self.conn, 0).await,
            Err(error) => Err(error),
        };
        let Err(error) = released else { return Ok(EventEnd::Applied) };
        match DB::fault(&error) {
            StoreFault::Statement => {
                self.undo_single().await?;
                Ok(EventEnd::Failed(Failure::retry(index, self.work.sessions.explain(&error))))
            }
            StoreFault::TransactionEnded => Err(EarlyEnd::Closed(self.handler_ended(Some(index)))),
            StoreFault::Broken
            | StoreFault::Outage
            | StoreFault::Conflict
            | StoreFault::Locked
            | StoreFault::Stale
            | StoreFault::Saturated => Err(self.statement_failed("RELEASE", &error)),
        }
    }

    async fn undo_single(&mut self) -> Result<(), EarlyEnd> {
        let undone = DB::rollback_to(self.conn, 0).await;
        undone.map_err(|error| self.statement_failed("ROLLBACK TO", &error))
    }

    /// No round trip, and no proof: the driver counts begin, commit and rollback that went through it,
    /// and does not look at what the server answers. A COMMIT that a handler sent as text is found by
    /// the next savepoint, by the read-only session, and in the end by the advance.
    fn still_inside(&mut self, index: Option<usize>) -> Result<(), EarlyEnd> {
        if DB::in_transaction(self.conn) {
            return Ok(());
        }
        Err(EarlyEnd::Closed(self.handler_ended(index)))
    }

    async fn call(&mut self, route: u32, indices: &[usize], payloads: DecodedRun<'_>) -> RunEnd {
        let items = &self.batch.items;
        let events: Vec<RunEvent<'_>> =
            indices.iter().map(|&index| run_event(&items[index])).collect();
        // The careful run sends one by one: what it finds is the statement's own fault.
        let snapshot = self.conn.snapshot.clone().filter(|_| self.batch.mode == Mode::Together);
        let deadline = self.work.attempt_deadline;
        let open = self.work.meters.calls.begin(self.scope.partition_ref, deadline);
        let tx = Tx::<DB>::new(self.conn, self.savepoints_taken).with_run(&open);
        let tx = tx.with_outbox(self.work.outbox).with_origin(&self.work.meters.consumer, &events);
        let mut tx = tx.with_registry(&self.work.registry, snapshot.as_ref(), self.named);
        self.handled = true;
        let begun = Instant::now();
        let end = self.work.routes.run(route, &events, payloads, &mut tx, deadline).await;
        let (handled, failed) = match &end {
            RunEnd::Done => (events.len(), false),
            RunEnd::Undecodable { ran, .. } => (*ran, false),
            RunEnd::Unavailable(_) => (0, false),
            RunEnd::Failed(failure) => (0, matches!(failure.fault, Fault::Retry | Fault::Reject)),
        };
        self.work.meters.run(route, begun.elapsed(), handled, failed);
        self.savepoints_taken = tx.savepoints_taken();
        self.named = tx.named_round_trips();
        self.unguarded_used |= tx.unguarded_used();
        let stays = tx.stays() && Rule::SessionReset.on();
        self.conn.stays |= stays;
        end
    }

    fn call_failed(&mut self, index: Option<usize>, failure: CallFailure) -> EarlyEnd {
        let CallFailure { fault, error, hung, .. } = failure;
        let outcome = match fault {
            Fault::Outage if hung => {
                return EarlyEnd::Closed(BatchOutcome::Fault(TransactionFault::Broken(error)));
            }
            Fault::Outage => {
                return EarlyEnd::Closed(BatchOutcome::Fault(TransactionFault::Outage(error)));
            }
            Fault::Conflict => BatchOutcome::Fault(TransactionFault::Conflict(error)),
            Fault::Locked => BatchOutcome::Fault(self.locked(error)),
            Fault::Retry => self.handler_failed(index, HandlerFault::Retry, error),
            Fault::Reject => self.handler_failed(index, HandlerFault::Reject, error),
        };
        // What was dropped half-way still runs on the server: nobody waits for it.
        if hung { EarlyEnd::Closed(outcome) } else { EarlyEnd::RolledBack(outcome) }
    }
}

/// Those of these events whose handler is called.
fn to_call<'r>(rest: &'r [usize], verdicts: &[Verdict]) -> Cow<'r, [usize]> {
    if verdicts.iter().all(|verdict| *verdict == Verdict::Run) {
        return Cow::Borrowed(rest);
    }
    let run = rest.iter().zip(verdicts).filter(|(_, verdict)| **verdict == Verdict::Run);
    run.map(|(index, _)| *index).collect()
}

pub(super) fn run_event(item: &Delivered) -> RunEvent<'_> {
    RunEvent { delivery: &item.event, attempt: item.attempts + 1 }
}

/// What a codec had fetched is gone again: no event is at fault, and it is fetched before the next transaction.
fn unavailable(error: String) -> EarlyEnd {
    EarlyEnd::RolledBack(BatchOutcome::Fault(TransactionFault::Unreached(error)))
}

pub(super) fn undecodable(error: String) -> Doom {
    Doom { reason: ParkReason::Undecodable, error }
}
