//! Handlers run on the transaction: together, or one by one with savepoints.

use std::time::Instant;

use inbox_engine::internal::{Doom, Failure, HandlerFault, Mode, Outcome, ParkReason, Rule, Run};
use inbox_handler::{
    Fault, Tx,
    internal::{Ahead, AheadOfRun, RunEnd, RunEvent},
};
use inbox_store::internal::port::{StoreFault, Transactions};

use super::{
    Delivered,
    transaction::{End, Transaction},
    verdict::{Verdict, Verdicts},
};

/// How the call for one event of a careful transaction ended.
pub(super) enum Single {
    Applied,
    Undecodable(String),
    Failed(HandlerFault, String),
}

impl<DB: Transactions> Transaction<'_, DB> {
    /// Everything or nothing: the first failure ends the transaction.
    pub(super) async fn handle_together(
        &mut self,
        verdicts: &mut Verdicts<'_>,
        ahead: &mut Ahead,
    ) -> Result<(), End> {
        for run in verdicts.runs() {
            self.handle_run(run, verdicts, ahead).await?;
        }
        Ok(())
    }

    async fn handle_run(
        &mut self,
        run: Run,
        verdicts: &mut Verdicts<'_>,
        ahead: &mut Ahead,
    ) -> Result<(), End> {
        let mut rest = run.items;
        loop {
            rest.retain(|&index| !verdicts.follow(index));
            if rest.is_empty() {
                return Ok(());
            }
            let of_run = ahead.of_run(run.kind.route, &rest);
            let (done, next) = match self.call(run.kind.route, &rest, of_run).await {
                RunEnd::Done => (rest.len(), rest.len()),
                RunEnd::Undecodable { at, ran, error } => {
                    let index = rest[at];
                    let item = &self.batch.items[index];
                    verdicts.decide(index, self.doomed(item, undecodable(error)));
                    rest.remove(at);
                    (ran, ran)
                }
                RunEnd::Failed { at, fault, error, hung } => {
                    let index = at.or((rest.len() == 1).then_some(0)).map(|at| rest[at]);
                    // What went past the guard may have broken the transaction for an event after it.
                    let index = index.filter(|_| !self.unguarded_used);
                    return Err(self.call_failed(index, fault, error, hung));
                }
            };
            self.still_inside(None)?;
            rest[..done].iter().for_each(|&index| verdicts.set(index, Verdict::Applied));
            rest.drain(..next);
        }
    }

    /// One savepoint per event; goes on in the other lanes after a failure, to name every culprit.
    pub(super) async fn handle_carefully(
        &mut self,
        verdicts: &mut Verdicts<'_>,
    ) -> Result<(), End> {
        let indices: Vec<usize> = verdicts.to_run().collect();
        let mut failures: Vec<Failure> = Vec::new();
        let batch = self.batch;
        for index in indices {
            let lane = batch.items[index].lane;
            let behind = |f: &Failure| f.index.is_some_and(|i| batch.items[i].lane == lane);
            if failures.iter().any(behind) || verdicts.follow(index) {
                continue;
            }
            match self.handle_single(index).await? {
                Single::Applied => verdicts.set(index, Verdict::Applied),
                Single::Undecodable(error) => {
                    let doom = undecodable(error);
                    verdicts.decide(index, self.doomed(&batch.items[index], doom));
                }
                Single::Failed(fault, error) => {
                    failures.push(Failure { index: Some(index), fault, error });
                }
            }
        }
        if failures.is_empty() {
            return Ok(());
        }
        Err(End::RolledBack(Outcome::Failed(failures)))
    }

    pub(super) async fn handle_single(&mut self, index: usize) -> Result<Single, End> {
        let opened = DB::savepoint(self.conn, 0).await;
        opened.map_err(|error| self.failed("SAVEPOINT", &error))?;
        let route = self.batch.items[index].kind.route;
        match self.call(route, &[index], AheadOfRun::none()).await {
            RunEnd::Done => self.release_single(index).await,
            RunEnd::Undecodable { error, .. } => {
                self.undo_single().await?;
                Ok(Single::Undecodable(error))
            }
            RunEnd::Failed { fault, error, hung, .. } => {
                let end = self.call_failed(Some(index), fault, error, hung);
                self.still_inside(Some(index))?;
                match end {
                    End::RolledBack(Outcome::Failed(failures)) => {
                        self.undo_single().await?;
                        let [failure] = failures.as_slice() else {
                            return Err(End::RolledBack(Outcome::Failed(failures)));
                        };
                        Ok(Single::Failed(failure.fault, failure.error.clone()))
                    }
                    end => Err(end),
                }
            }
        }
    }

    /// RELEASE fails when the handler ended the transaction, rolled back past the savepoint or
    /// swallowed an error; deferred constraints are made to speak first, or COMMIT would fail for
    /// nobody in particular (finding 14).
    async fn release_single(&mut self, index: usize) -> Result<Single, End> {
        self.still_inside(Some(index))?;
        let released = match DB::constraints_immediate(self.conn).await {
            Ok(()) => DB::release(self.conn, 0).await,
            Err(error) => Err(error),
        };
        let Err(error) = released else { return Ok(Single::Applied) };
        match DB::fault(&error) {
            StoreFault::Statement => {
                self.undo_single().await?;
                Ok(Single::Failed(HandlerFault::Retry, self.work.sessions.said(&error)))
            }
            StoreFault::TransactionEnded => Err(End::Closed(self.ended(Some(index)))),
            StoreFault::Broken
            | StoreFault::Outage
            | StoreFault::Conflict
            | StoreFault::Stale
            | StoreFault::Saturated => Err(self.failed("RELEASE", &error)),
        }
    }

    async fn undo_single(&mut self) -> Result<(), End> {
        let undone = DB::rollback_to(self.conn, 0).await;
        undone.map_err(|error| self.failed("ROLLBACK TO", &error))
    }

    /// No round trip, and no proof: the driver counts begin, commit and rollback that went through it,
    /// and does not look at what the server answers. A COMMIT that a handler sent as text is found by
    /// the next savepoint, by the read-only session, and in the end by the advance.
    fn still_inside(&mut self, index: Option<usize>) -> Result<(), End> {
        if DB::in_transaction(self.conn) {
            return Ok(());
        }
        Err(End::Closed(self.ended(index)))
    }

    async fn call(&mut self, route: u32, indices: &[usize], ahead: AheadOfRun<'_>) -> RunEnd {
        let items = &self.batch.items;
        let events: Vec<RunEvent<'_>> =
            indices.iter().map(|&index| run_event(&items[index])).collect();
        // The careful run sends one by one: what it finds is the statement's own fault.
        let edition = self.conn.edition.clone().filter(|_| self.batch.mode == Mode::Together);
        let deadline = self.work.attempt_deadline;
        let open = self.work.meters.calls.begin(self.scope.partition_ref, deadline);
        let tx = Tx::<DB>::new(self.conn, self.savepoints_taken).with_run(&open);
        let tx = tx.with_outbox(self.work.outbox).with_origin(&self.work.meters.consumer, &events);
        let mut tx = tx.with_book(&self.work.book, edition.as_ref(), self.named);
        self.handled = true;
        let begun = Instant::now();
        let end = self.work.routes.run(route, &events, ahead, &mut tx, deadline).await;
        let (handled, failed) = match &end {
            RunEnd::Done => (events.len(), false),
            RunEnd::Undecodable { ran, .. } => (*ran, false),
            RunEnd::Failed { fault, .. } => (0, matches!(fault, Fault::Retry | Fault::Reject)),
        };
        self.work.meters.run(route, begun.elapsed(), handled, failed);
        self.savepoints_taken = tx.savepoints_taken();
        self.named = tx.named();
        self.unguarded_used |= tx.unguarded_used();
        let stays = tx.stays() && Rule::SessionReset.on();
        self.conn.stays |= stays;
        end
    }

    fn call_failed(
        &mut self,
        index: Option<usize>,
        fault: Fault,
        error: String,
        hung: bool,
    ) -> End {
        let outcome = match fault {
            Fault::Outage if hung => return End::Closed(Outcome::Broken(error)),
            Fault::Outage => return End::Closed(Outcome::Outage(error)),
            Fault::Conflict => Outcome::Conflict(error),
            Fault::Retry => self.handler_failed(index, HandlerFault::Retry, error),
            Fault::Reject => self.handler_failed(index, HandlerFault::Reject, error),
        };
        // What was dropped half-way still runs on the server: nobody waits for it.
        if hung { End::Closed(outcome) } else { End::RolledBack(outcome) }
    }
}

pub(super) fn run_event(item: &Delivered) -> RunEvent<'_> {
    RunEvent { delivery: &item.event, attempt: item.attempts + 1 }
}

pub(super) fn undecodable(error: String) -> Doom {
    Doom { reason: ParkReason::Undecodable, error }
}
