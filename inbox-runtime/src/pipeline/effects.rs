//! What the loop does for each effect.

use std::{
    panic::AssertUnwindSafe,
    sync::Arc,
    time::{Instant, SystemTime},
};

use futures::{
    FutureExt as _,
    future::{AbortHandle, AbortRegistration, Abortable},
};
use inbox_engine::internal::{
    Batch, BatchOutcome, Commit, Effect, Generation, Held, Lane, PartitionId, Release,
    ReleaseOutcome, Seek, Standstill, TransactionFault, WatermarkWrite, Written,
};
use inbox_handler::internal::panic_text;
use inbox_store::internal::port::{Note, Owners, Scope, deadline};
use outbox_core::TopicPartition;

use super::{
    Delivery,
    driver::{Driver, DriverEnd, TaskResult},
    parked::event_labels,
    release::Report,
};
use crate::telemetry::Signal;

/// What is known of a transaction that was dropped.
const GIVEN_UP: &str = "aborted: its partition was reassigned or acquired again";

impl<DB: Owners> Driver<DB> {
    pub(super) fn apply(&mut self, effect: Effect<Arc<Delivery>>) {
        match effect {
            Effect::Abort(id, generation) => self.abort(id, generation),
            Effect::Close => self.end = Some(DriverEnd::Shutdown),
            Effect::Commit(commits) => self.commit(commits),
            Effect::Confirm(id, generation) => {
                let Some(place) = self.place(id) else { return };
                let answer = self.broker.confirm(&place);
                self.spawn(async move { TaskResult::Confirmed(id, generation, answer.await) });
            }
            Effect::FindDue(id, generation) => self.grouped.due_queries.push((id, generation)),
            Effect::LetGo(ids) => self.let_go(&ids),
            Effect::Pause(id) => self.pause(id, true),
            Effect::Release(release) => self.release(release),
            Effect::Report(id, standstill) => self.report(id, standstill),
            Effect::Resume(id) => self.pause(id, false),
            Effect::Seek(seek) => self.seek(seek),
            Effect::Start(batch) => self.start(batch),
            Effect::TakeOver(id, generation, held) => self.take_over(id, generation, held),
            Effect::WriteWatermark(write) => self.grouped.writes.push(write),
        }
    }

    /// Runs a task to its end; whatever happens, the engine hears of it. A panic here is a fault of the
    /// runtime itself (handlers' panics are caught inside) and ends the consumer.
    pub(super) fn spawn(&self, task: impl Future<Output = TaskResult> + Send + 'static) {
        let done = self.done.clone();
        tokio::spawn(async move {
            let report = AssertUnwindSafe(task)
                .catch_unwind()
                .await
                .unwrap_or_else(|panic| TaskResult::Panicked(panic_text(&*panic)));
            // Nobody listens any more when the loop has ended.
            let _ = done.send(report);
        });
    }

    fn start(&mut self, batch: Batch<Arc<Delivery>>) {
        let id = batch.partition;
        let (Some(scope), Some(place)) = (self.scope(id), self.place(id)) else { return };
        let scope = Scope { epoch: batch.epoch, ..scope };
        self.heads.note_start(&batch, SystemTime::now());
        let work = Arc::clone(&self.work);
        let given_up = self.open(batch.partition, batch.generation, batch.lanes[0].lane);
        self.spawn(async move {
            let begun = Instant::now();
            let transaction = deadline::with::<DB, _>(&work.limits, work.transact(scope, &batch));
            let outcome = Abortable::new(transaction, given_up).await;
            let outcome = outcome.unwrap_or_else(|_| {
                BatchOutcome::Fault(TransactionFault::Unknown(GIVEN_UP.into()))
            });
            work.unmark(scope, &batch).await;
            let times = batch.items.iter().filter_map(|item| item.event.record.timestamp_ms);
            work.meters.transaction(&outcome, batch.items.len(), times.min(), begun.elapsed());
            TaskResult::Batch(place, batch, outcome)
        });
    }

    /// Keeps what ends a transaction from outside. A lane is in one of them at most.
    fn open(&mut self, id: PartitionId, generation: Generation, lane: Lane) -> AbortRegistration {
        let (handle, registration) = AbortHandle::new_pair();
        self.open.insert((id, generation, lane), handle);
        registration
    }

    /// Drops what is still open of a generation, handlers and connections with it: the server rolls back
    /// what has lost its client. A handler that blocks its thread is beyond reach.
    fn abort(&mut self, id: PartitionId, generation: Generation) {
        let of_it = (id, generation, Lane(0))..=(id, generation, Lane(u16::MAX));
        let open: Vec<&AbortHandle> = self.open.range(of_it).map(|(_, handle)| handle).collect();
        if let Some(partition) = self.place(id) {
            Signal::GivenUp { partition, transactions: open.len() }.emit();
        }
        open.into_iter().for_each(AbortHandle::abort);
    }

    fn pause(&self, id: PartitionId, paused: bool) {
        if let Some(place) = self.place(id) {
            self.broker.pause(&place, paused);
        }
    }

    fn release(&mut self, release: Release) {
        let id = release.partition;
        let (Some(scope), Some(place)) = (self.scope(id), self.place(id)) else { return };
        let scope = Scope { epoch: release.epoch, ..scope };
        let work = Arc::clone(&self.work);
        let broker = Arc::clone(&self.broker);
        let registration = self.open(release.partition, release.generation, release.lane);
        self.spawn(async move {
            let released = work.release(scope, &place, &release, &*broker);
            let released = deadline::with::<DB, _>(&work.limits, released);
            let given_up = |_| {
                (
                    ReleaseOutcome::Fault(TransactionFault::Unknown(GIVEN_UP.into())),
                    Report::default(),
                )
            };
            let ended = Abortable::new(released, registration).await;
            let (released, report) = ended.unwrap_or_else(given_up);
            TaskResult::Released(place, release, released, report)
        });
    }

    fn take_over(&mut self, id: PartitionId, generation: Generation, held: Option<Box<Held>>) {
        let Some(place) = self.place(id) else { return };
        self.heads.forget(id);
        let control = Arc::clone(&self.control);
        self.spawn(async move {
            let taken = control.take_over(place, held).await;
            TaskResult::Taken(id, generation, Box::new(taken))
        });
    }

    fn seek(&mut self, seek: Seek) {
        let Seek { partition, generation, to, leader_epoch } = seek;
        let Some(place) = self.place(partition) else { return };
        let sought = self.broker.seek(&place, generation, to, leader_epoch);
        self.spawn(async move {
            TaskResult::Sought(partition, generation, sought.await.map_err(|error| error.0))
        });
    }

    pub(super) fn write_watermark(&mut self, write: WatermarkWrite) {
        let id = write.partition;
        let (Some(scope), Some(partition)) = (self.scope(id), self.place(id)) else { return };
        let scope = Scope { epoch: write.epoch, ..scope };
        let control = Arc::clone(&self.control);
        self.spawn(async move {
            let written = control.write_watermark(scope, &write).await;
            if written == Written::Fenced {
                Signal::WatermarkFenced { partition }.emit();
            }
            TaskResult::Watermarks(vec![(write, written)], Vec::new())
        });
    }

    fn commit(&mut self, commits: Vec<Commit>) {
        let offset = |c: &Commit| Some((self.place(c.partition)?, c.next, c.leader_epoch));
        let answer = self.broker.commit(commits.iter().filter_map(offset).collect());
        self.spawn(async move {
            let result = answer.await.map_err(|error| error.0);
            TaskResult::Committed(commits, result)
        });
    }

    fn let_go(&mut self, ids: &[PartitionId]) {
        let places: Vec<_> = ids.iter().filter_map(|id| self.place(*id)).collect();
        self.tell_unless_shared(Signal::LetGo { partitions: places.len() });
        let scopes: Vec<Scope> = ids.iter().filter_map(|id| self.scope(*id)).collect();
        // An intake says so itself, once nothing of it is written any more: see `Direct::leave`.
        if !scopes.is_empty() && !self.control.is_shared() {
            let control = Arc::clone(&self.control);
            tokio::spawn(async move { control.disown(&scopes).await });
        }
        self.untold = true;
        self.broker.ack_revocation(places);
    }

    fn report(&mut self, id: PartitionId, standstill: Option<Standstill>) {
        self.untold = true;
        let Some(partition) = self.place(id) else { return };
        let seen = standstill.as_ref().is_some_and(Standstill::seen_from_outside);
        let person = standstill.as_ref().is_some_and(Standstill::needs_a_person);
        let text = standstill.as_ref().map(ToString::to_string);
        let told = self.outages.note_report(id, &partition, standstill.as_ref(), Instant::now());
        let Some(tracked) = self.partitions.get_mut(&id) else { return };
        match standstill {
            // An outage is told for all; a take-over follows each assignment.
            _ if told => {}
            Some(Standstill::TakingOver) => {}
            None => {
                if std::mem::take(&mut tracked.logged_still) {
                    Signal::Moving { partition }.emit();
                }
            }
            Some(why) => {
                tracked.logged_still = true;
                let (reason, sentence) = (why.name(), why.to_string());
                if person {
                    Signal::Standstill { partition, reason, sentence }.emit();
                } else {
                    Signal::Waiting { partition, reason, sentence }.emit();
                }
            }
        }
        // An outage cannot be written down; a take-over is over before anybody reads of it.
        if let Some(scope) = self.scope(id).filter(|_| person || seen || text.is_none()) {
            self.control.tell(Note::Standstill, scope, text);
        }
    }

    pub(super) fn scope(&self, id: PartitionId) -> Option<Scope> {
        self.partitions.get(&id)?.taken.as_ref().map(|(_, taken)| taken.scope)
    }

    /// Nobody is told how the partition of an intake comes and goes.
    pub(super) fn tell_unless_shared(&self, signal: Signal) {
        if !self.control.is_shared() {
            signal.emit();
        }
    }

    /// Tells what a transaction did.
    pub(super) fn tell(
        &mut self,
        partition: TopicPartition,
        batch: &Batch<Arc<Delivery>>,
        outcome: &BatchOutcome,
    ) {
        let events = batch.items.len();
        match outcome {
            BatchOutcome::Failed(failures) => {
                for failure in failures {
                    let item = failure.index.and_then(|at| batch.items.get(at));
                    let [event_type, event_id, aggregate] =
                        item.map(event_labels).unwrap_or_default();
                    let kind = event_type.as_deref().unwrap_or_default();
                    let failures = &self.work.state.failures;
                    let times = failures.record(kind, &failure.error, Instant::now());
                    let Some(times) = times else { continue };
                    Signal::HandlerFailed {
                        partition: partition.clone(),
                        offset: item.map(|item| item.offset.0),
                        attempt: item.map(|item| item.attempts + 1),
                        event_type,
                        event_id,
                        aggregate,
                        times,
                        error: failure.error.clone(),
                    }
                    .emit();
                }
            }
            BatchOutcome::Fault(fault) => {
                self.tell_fault(batch.partition, partition, events, fault);
            }
            // What was parked is told by the transaction itself, the others as a standstill.
            BatchOutcome::Committed(_) | BatchOutcome::Full(_) | BatchOutcome::Reused(_) => {}
        }
    }

    pub(super) fn count_commit(&mut self, result: &Result<Vec<TopicPartition>, String>) {
        match result {
            // There is no group that would remember it.
            _ if self.control.is_shared() => {}
            Ok(refused) => {
                self.committed_at = Some(Instant::now());
                self.outages.note_answer(Instant::now());
                self.meters.counters.commits.add(1);
                if let Some(TopicPartition { topic, partition }) = refused.first() {
                    self.meters.counters.commits_refused.add(1);
                    let error = format!(
                        "Kafka refused the offsets of {} partitions, including \
                         {topic}/{partition}; the others were committed",
                        refused.len()
                    );
                    self.outages.commit_failed(error, Instant::now());
                }
            }
            Err(error) => {
                self.meters.counters.commits_refused.add(1);
                self.outages.commit_failed(error.clone(), Instant::now());
            }
        }
    }

    /// Counts and tells what a release did.
    pub(super) fn tell_released(
        &mut self,
        id: PartitionId,
        partition: TopicPartition,
        released: &ReleaseOutcome,
        report: Report,
    ) {
        let fault = match released {
            ReleaseOutcome::Done { .. } => {
                return report.tell(&partition, &self.meters.counters);
            }
            ReleaseOutcome::Fault(fault) => fault,
        };
        self.meters.counters.count_fault(fault);
        self.tell_fault(id, partition, 1, fault);
    }

    /// Tells what kept a transaction from being committed, when no handler is answerable.
    fn tell_fault(
        &mut self,
        id: PartitionId,
        partition: TopicPartition,
        events: usize,
        fault: &TransactionFault,
    ) {
        match fault {
            TransactionFault::Blocked(error)
            | TransactionFault::Broken(error)
            | TransactionFault::Conflict(error)
            | TransactionFault::Locked { error, .. } => {
                Signal::Conflict { partition, events, error: error.clone() }.emit();
            }
            TransactionFault::Outage(error) | TransactionFault::Unreached(error) => {
                self.outages.note_outage(id, partition, error, Instant::now());
            }
            TransactionFault::Unknown(error) => {
                self.outages.commit_unknown(partition, events, error, Instant::now());
            }
            TransactionFault::Fenced => Signal::Fenced { partition }.emit(),
        }
    }
}
