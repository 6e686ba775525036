//! The transaction: begin, claim, handle, park, advance, commit. The one trip to the database.
//!
//! One story: its files know each other.

use std::{
    pin::{Pin, pin},
    sync::Arc,
    time::Duration,
};

use futures::future::{MaybeDone, maybe_done};
use inbox_engine::internal::{
    Batch, BatchOutcome, Failure, HandlerFault, Mode, Rule, Tally, TransactionFault,
};
use inbox_handler::internal::{DecodedPayloads, RouteTable};
use inbox_store::internal::port::{Scope, StatementRegistry, StoreFault, Transactions, TxLimits};
use tokio::sync::oneshot;
use uuid::Uuid;

use super::{
    Delivery,
    disposition::Disposition,
    fault_point,
    handling::run_event,
    intake::{IGNORED, Intake},
    overlap::overlap,
    parking::ParkingRules,
    sessions::{Session, Sessions},
    trial::Trials,
    versions::Versions,
    work_state::WorkState,
};
use crate::telemetry::meters::Meters;

/// What every transaction of a consumer shares.
#[derive(Debug)]
pub struct Work<DB: Transactions> {
    /// Which handler takes which type.
    pub routes: Arc<RouteTable<DB>>,
    /// Where transactions run.
    pub sessions: Sessions<DB>,
    /// What sessions are prepared for.
    pub registry: Arc<StatementRegistry>,
    /// The server's deadlines.
    pub limits: TxLimits,
    /// How handlers append events.
    pub outbox: outbox_core::Outbox,
    /// For one call of a handler.
    pub attempt_deadline: Duration,
    /// How records become events.
    pub intake: Intake,
    /// What becomes of events that are parked.
    pub parking: ParkingRules,
    /// What is counted.
    pub meters: Arc<Meters>,
    /// Random per process.
    pub incarnation: Uuid,
    /// Where an event is tried that a process may have ended with.
    pub trials: Arc<Trials>,
    /// Its lanes are other processes', too: each transaction locks those that it moves.
    pub shared: bool,
    /// What transactions change for each other.
    pub state: WorkState,
}

/// How a transaction ends early, and what becomes of its connection.
#[derive(Debug)]
pub(super) enum EarlyEnd {
    /// ROLLBACK, and the connection goes back.
    RolledBack(BatchOutcome),
    /// The connection is closed hard: it is broken, or something in it still runs.
    Closed(BatchOutcome),
}

/// One transaction under way.
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub(super) struct Transaction<'a, DB: Transactions> {
    pub(super) work: &'a Work<DB>,
    pub(super) scope: Scope,
    pub(super) batch: &'a Batch<Arc<Delivery>>,
    pub(super) conn: &'a mut Session<DB>,
    /// The transaction's identity, as the claim returned it.
    pub(super) tx: String,
    /// What the session has to say at the advance of the rows of the inbox that it has changed.
    pub(super) changed: Option<i64>,
    /// Versions of its events' aggregates.
    pub(super) versions: Versions<'a>,
    /// Events of a release that it did not run for their versions.
    pub(super) stale: u64,
    /// Parked events that waited for a version that it has applied.
    pub(super) woken: u64,
    /// Places of a release's events that had their turn.
    pub(super) tried: Vec<usize>,
    /// Savepoints that handlers have taken in it and not rolled back.
    pub(super) savepoints_taken: u32,
    /// Round trips with queued statements that could have named the one that fails.
    pub(super) named: u32,
    /// A handler has worked past the guard.
    pub(super) unguarded_used: bool,
    /// A handler has ended it.
    pub(super) torn: bool,
    /// A handler has been called in it, or what events are is being parked: before, no event is at fault.
    pub(super) handled: bool,
    /// Of events that somebody waits for, and of which nothing is read twice.
    pub(super) direct: bool,
    /// The ids of such events whose rows a torn transaction has left.
    pub(super) torn_before: &'a [[u8; 16]],
    /// The ids among its copies that are parked.
    pub(super) parked_copies: Vec<[u8; 16]>,
    /// Who wants to know that nothing is left but COMMIT.
    pub(super) committing: Option<oneshot::Sender<()>>,
}

impl<DB: Transactions> Work<DB> {
    /// Runs a batch, which is prepared, to its end.
    pub(super) async fn run(&self, scope: Scope, batch: &Batch<Arc<Delivery>>) -> BatchOutcome {
        self.state.concurrency.record_cut(batch.whole);
        let mut payloads = pin!(maybe_done(self.decode_ahead(batch)));
        let mut conn = match overlap(payloads.as_mut(), self.begin()).await {
            Ok(conn) => conn,
            Err(fault) => return BatchOutcome::Fault(fault.before_handlers()),
        };
        let mut transaction = Transaction::new(self, scope, batch, &mut conn);
        let ran = transaction.run(payloads).await;
        let handled = transaction.handled;
        conn.events += batch.items.len();
        match self.end(conn, ran).await {
            Ok((tally, _)) => BatchOutcome::Committed(tally),
            Err(outcome) if handled => outcome,
            Err(outcome) => outcome.before_handlers(),
        }
    }

    /// Decodes what runs will take, while BEGIN and the claim are waited for. A careful run decodes each
    /// event in its turn.
    pub(super) async fn decode_ahead(&self, batch: &Batch<Arc<Delivery>>) -> DecodedPayloads {
        let items = batch.items.iter().enumerate();
        let items = items.filter(|(_, item)| {
            batch.mode == Mode::Together
                && item.doomed.is_none()
                && item.kind.route != IGNORED.route
        });
        let events = items.map(|(place, item)| (place, item.kind.route, run_event(item)));
        DecodedPayloads::decode(&self.routes, events).await
    }

    /// Sees to the connection of a transaction that has ended.
    pub(super) async fn end<T>(
        &self,
        mut conn: Session<DB>,
        ran: Result<T, EarlyEnd>,
    ) -> Result<T, BatchOutcome> {
        match ran {
            Ok(done) => {
                self.sessions.give_back(conn).await;
                Ok(done)
            }
            Err(EarlyEnd::Closed(BatchOutcome::Fault(TransactionFault::Broken(error)))) => {
                conn.close_hard().await;
                // The others may be as well as ever, or the database is away: another session tells.
                if Rule::BrokenSessionProbed.on() && self.sessions.work(&self.limits).await {
                    return Err(BatchOutcome::Fault(TransactionFault::Broken(error)));
                }
                self.sessions.close().await;
                Err(BatchOutcome::Fault(TransactionFault::Outage(error)))
            }
            Err(EarlyEnd::Closed(outcome)) => {
                // A handler that hangs says nothing of other sessions; else those that wait for work have
                // prepared the same, or go the same way to the server.
                match outcome {
                    BatchOutcome::Failed(_) => conn.close_hard().await,
                    _ => self.sessions.give_up(conn).await,
                }
                Err(outcome)
            }
            // A nested `begin()` that a handler dropped half-way: the driver has a ROLLBACK in its queue
            // and believes the transaction over, and nobody has sent it (A6).
            // What outlasts a rollback would go on to other clients of a pooler, who closes what is cut off.
            Err(EarlyEnd::RolledBack(outcome))
                if !DB::in_transaction(&conn) || (conn.stays && conn.is_shared()) =>
            {
                conn.close_hard().await;
                Err(outcome)
            }
            Err(EarlyEnd::RolledBack(outcome)) => {
                match DB::rollback(&mut conn).await {
                    Ok(()) => self.sessions.give_back(conn).await,
                    Err(_) => conn.close_hard().await,
                }
                Err(outcome)
            }
        }
    }
}

impl<'a, DB: Transactions> Transaction<'a, DB> {
    pub(super) fn new(
        work: &'a Work<DB>,
        scope: Scope,
        batch: &'a Batch<Arc<Delivery>>,
        conn: &'a mut Session<DB>,
    ) -> Self {
        Self {
            work,
            scope,
            batch,
            conn,
            tx: String::new(),
            changed: None,
            versions: Versions::default(),
            stale: 0,
            woken: 0,
            tried: Vec::new(),
            savepoints_taken: 0,
            named: 0,
            unguarded_used: false,
            torn: false,
            handled: false,
            direct: false,
            torn_before: &[],
            parked_copies: Vec::new(),
            committing: None,
        }
    }

    pub(super) async fn run(
        &mut self,
        mut payloads: Pin<&mut MaybeDone<impl Future<Output = DecodedPayloads>>>,
    ) -> Result<(Tally, Vec<Disposition>), EarlyEnd> {
        fault_point::pass("live.after_begin");
        let mut dispositions = overlap(payloads.as_mut(), self.claim()).await?;
        fault_point::pass("live.after_claim");
        if dispositions.vanished() {
            let text = "an id was claimed and is free again; the batch is retried";
            return Err(EarlyEnd::RolledBack(BatchOutcome::Fault(TransactionFault::Conflict(
                text.into(),
            ))));
        }
        match self.batch.mode {
            Mode::Together => {
                payloads.as_mut().await;
                let mut decoded = payloads.take_output().unwrap_or_default();
                self.handle_together(&mut dispositions, &mut decoded).await?;
            }
            Mode::Careful => self.handle_carefully(&mut dispositions).await?,
        }
        fault_point::pass("live.after_handler");
        self.send_letters(&dispositions.letters()).await?;
        self.park(&dispositions).await?;
        self.advance().await?;
        fault_point::pass("live.before_commit");
        #[cfg(feature = "testing")]
        self.crash(super::crash::Moment::BeforeCommit)?;
        // What went past the guard may be suspect after all, and must not be passed by others before that is known.
        if let Some(told) = self.committing.take().filter(|_| !self.unguarded_used) {
            let _ = told.send(());
        }
        self.commit().await?;
        #[cfg(feature = "testing")]
        self.crash(super::crash::Moment::AfterCommit)?;
        fault_point::pass("live.after_commit");
        self.tell_parked(&dispositions);
        dispositions.tell_stale();
        let tally = Tally { woken: self.woken, ..dispositions.tally() };
        Ok((tally, dispositions.into_all()))
    }

    /// The heart: it fails after a swallowed error, after a handler's own COMMIT or ROLLBACK, when a
    /// newer owner has raised the epoch, when the database has gone back in time, and when somebody else has changed
    /// rows of the inbox in the transaction.
    pub(super) async fn advance(&mut self) -> Result<(), EarlyEnd> {
        let lanes = &self.batch.lanes;
        let changed = self.changed.filter(|_| Rule::InboxRowsCounted.on());
        let moved = self.move_lanes(lanes, changed).await?;
        if moved == lanes.len() as u64 || !Rule::AdvanceCountsRows.on() {
            return Ok(());
        }
        match DB::same_transaction(self.conn, &self.tx).await {
            Ok(true) => Err(self.fenced_or_changed(changed, moved).await),
            _ => Err(EarlyEnd::Closed(self.handler_ended(None))),
        }
    }

    pub(super) async fn commit(&mut self) -> Result<(), EarlyEnd> {
        let clean = self.conn.clean_inside(self.work.sessions.settings()).await;
        clean.map_err(|error| {
            self.statement_failed("discarding what was left on the session", &error)
        })?;
        if let Err(error) = DB::commit(self.conn).await {
            let said = self.work.sessions.explain(&error);
            return Err(match DB::fault(&error) {
                StoreFault::Conflict | StoreFault::Stale => {
                    EarlyEnd::Closed(BatchOutcome::Fault(TransactionFault::Conflict(said)))
                }
                StoreFault::Locked => EarlyEnd::Closed(BatchOutcome::Fault(self.locked(said))),
                StoreFault::Saturated => {
                    EarlyEnd::RolledBack(BatchOutcome::Fault(TransactionFault::Unreached(said)))
                }
                // A deferred constraint: the server said so, nothing was committed.
                StoreFault::Statement => {
                    EarlyEnd::Closed(self.handler_failed(None, HandlerFault::Retry, said))
                }
                // The driver's savepoint went with one of the runtime's.
                StoreFault::TransactionEnded if DB::refused(&error) => {
                    EarlyEnd::Closed(self.left_open(&said))
                }
                // Rolled back for certain: met again and again by one event alone, it counts as the event's.
                StoreFault::Broken | StoreFault::Outage | StoreFault::TransactionEnded
                    if DB::refused(&error) && Rule::RefusedCommitCounts.on() =>
                {
                    EarlyEnd::Closed(BatchOutcome::Fault(TransactionFault::Outage(format!(
                        "COMMIT failed: {said}"
                    ))))
                }
                StoreFault::Broken | StoreFault::Outage | StoreFault::TransactionEnded => {
                    EarlyEnd::Closed(BatchOutcome::Fault(TransactionFault::Unknown(said)))
                }
            });
        }
        if DB::in_transaction(self.conn) && Rule::CommitLeavesTransaction.on() {
            // It ended a savepoint of the driver: for certain nothing was committed.
            let said = "the session is still in its transaction";
            return Err(EarlyEnd::Closed(self.left_open(said)));
        }
        self.remember_versions();
        Ok(())
    }

    /// What an error of one of the runtime's own statements means.
    pub(super) fn statement_failed(&mut self, what: &str, error: &sqlx::Error) -> EarlyEnd {
        let text = format!("{what} failed: {}", self.work.sessions.explain(error));
        match DB::fault(error) {
            StoreFault::Broken => {
                EarlyEnd::Closed(BatchOutcome::Fault(TransactionFault::Broken(text)))
            }
            StoreFault::Outage => {
                EarlyEnd::Closed(BatchOutcome::Fault(TransactionFault::Outage(text)))
            }
            StoreFault::Conflict => {
                EarlyEnd::RolledBack(BatchOutcome::Fault(TransactionFault::Conflict(text)))
            }
            StoreFault::Locked => EarlyEnd::RolledBack(BatchOutcome::Fault(self.locked(text))),
            StoreFault::Stale => {
                EarlyEnd::Closed(BatchOutcome::Fault(TransactionFault::Conflict(text)))
            }
            StoreFault::Saturated => {
                EarlyEnd::RolledBack(BatchOutcome::Fault(TransactionFault::Unreached(text)))
            }
            // 25P02 and its like: a handler swallowed an error that the guard could not see.
            StoreFault::Statement => {
                EarlyEnd::RolledBack(self.handler_failed(None, HandlerFault::Retry, text))
            }
            StoreFault::TransactionEnded => EarlyEnd::Closed(self.handler_ended(None)),
        }
    }

    /// A lock was not had in time. Only that of one event alone counts, and there the handler is known.
    pub(super) fn locked(&self, error: String) -> TransactionFault {
        let route = self.batch.items.first().map_or(0, |item| item.kind.route);
        TransactionFault::Locked { route, error }
    }

    /// A handler ended the transaction: what it left behind is found by the torn check.
    pub(super) fn handler_ended(&mut self, index: Option<usize>) -> BatchOutcome {
        self.torn = true;
        let text = "a handler ended the transaction (COMMIT, ROLLBACK or the like), which the \
                    runtime owns; use tx.savepoint() to undo a part";
        self.handler_failed(index, HandlerFault::Reject, text.into())
    }

    /// COMMIT was for something that a handler began through the driver, and nothing is committed.
    fn left_open(&self, said: &str) -> BatchOutcome {
        let text = format!(
            "a handler left a nested begin() of the driver open, so COMMIT applied to that one: \
             use tx.savepoint(), and end every nested begin ({said})"
        );
        self.handler_failed(None, HandlerFault::Retry, text)
    }

    /// A failure; alone in its batch, the culprit is known.
    pub(super) fn handler_failed(
        &self,
        index: Option<usize>,
        fault: HandlerFault,
        error: String,
    ) -> BatchOutcome {
        let index = index.or((self.batch.items.len() == 1).then_some(0));
        let error = self.work.sessions.with_role(&error);
        BatchOutcome::Failed(vec![Failure { index, fault, error }])
    }
}
