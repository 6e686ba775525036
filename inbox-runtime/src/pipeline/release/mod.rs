//! Releases: events of one parked queue, run in its order in a transaction of their own.
//!
//! One story: its files know each other.
//!
//! The lane is reserved, so no live transaction of it runs beside. The transaction is fenced by a claim
//! at its begin and by an advance that moves nothing at its end: a release moves no lane, so only the
//! epoch separates it from what an older owner still has under way (finding 4). What it runs is `plan`ned
//! from the queue, made deliveries again by `redeliver`, run by `carry`; what cannot be settled in that
//! transaction, because it is broken, is written down by `apart`.

mod apart;
mod audit;
mod carry;
mod plan;
mod redeliver;
mod report;

use std::sync::Arc;

use inbox_engine::internal::{
    Batch, LaneMove, Mode, NextOffset, Offset, Outcome, Release, Released,
};

pub(crate) use report::Report;

use inbox_kafka::internal::Broker;
use inbox_store::internal::port::{ClaimRequest, Claimed, Scope, Transactions, release::Queued};
use outbox_core::TopicPartition;

use self::plan::Plan;
use super::{
    Delivered, Delivery, fault_point,
    sessions::Session,
    transaction::{End, Transaction, Work},
};

/// A release, and where it runs.
#[derive(Clone, Copy)]
pub(super) struct Errand<'a> {
    pub(super) scope: Scope,
    pub(super) place: &'a TopicPartition,
    pub(super) release: &'a Release,
    /// The most events to run.
    pub(super) max: usize,
    /// A process has run the head that one may have ended with, and lives.
    pub(super) tried: bool,
    /// A process has run the head, and ended.
    pub(super) crashed: bool,
    /// What its row would be if it had all of its record, by its offset; or why that cannot be had.
    pub(super) whole: Option<&'a (Offset, Result<String, String>)>,
}

impl<DB: Transactions> Work<DB> {
    /// Runs a release to its end; see [`Work::transact`].
    pub(crate) async fn release(
        &self,
        scope: Scope,
        place: &TopicPartition,
        release: &Release,
        broker: &dyn Broker,
    ) -> (Released, Report) {
        let max = release.events_max.clamp(1, Mode::CAREFUL_MAX);
        let errand =
            Errand { scope, place, release, max, tried: false, crashed: false, whole: None };
        // Nothing runs beside an event that a process ended with, and a release may end one as well.
        let beside_others = self.state.aside.read().await;
        match self.carry_out(errand).await {
            carry::Carried::Part(row, excerpt) => {
                // Kafka is waited for, and nothing else has to.
                drop(beside_others);
                let whole = redeliver::whole(self, broker, place, release, (&row, &excerpt)).await;
                let whole = (row.offset, whole);
                let _beside_others = self.state.aside.read().await;
                self.with_trial(Errand { whole: Some(&whole), ..errand }).await
            }
            carried => self.tried(errand, carried).await,
        }
    }

    async fn with_trial(&self, errand: Errand<'_>) -> (Released, Report) {
        let carried = self.carry_out(errand).await;
        self.tried(errand, carried).await
    }

    /// Has the head tried, if a process ended with it.
    async fn tried(&self, errand: Errand<'_>, carried: carry::Carried) -> (Released, Report) {
        let Errand { release, max, .. } = errand;
        match carried {
            carry::Carried::Suspect(document) => match self.dies_of(&document, None).await {
                Ok(Some(error)) => {
                    let blamed = Release { blamed: Some(error), ..release.clone() };
                    self.answer(Errand { release: &blamed, crashed: true, ..errand }).await
                }
                _ => self.answer(Errand { tried: true, ..errand }).await,
            },
            // Nobody knows which event it was: the head alone will tell.
            carry::Carried::Unnamed if max > 1 => self.answer(Errand { max: 1, ..errand }).await,
            carried => self.conclude(errand, carried).await,
        }
    }

    async fn answer(&self, errand: Errand<'_>) -> (Released, Report) {
        let carried = self.carry_out(errand).await;
        self.conclude(errand, carried).await
    }

    async fn conclude(&self, errand: Errand<'_>, carried: carry::Carried) -> (Released, Report) {
        match carried {
            carry::Carried::Done { more, removed, report } => {
                (Released::Done { more, removed }, report)
            }
            carry::Carried::Apart(blame) => self.apart(errand, blame).await,
            carry::Carried::Part(..) | carry::Carried::Suspect(_) | carry::Carried::Unnamed => {
                let text = "a failure of the transaction names no event; it is tried again";
                (Released::Conflict(text.into()), Report::default())
            }
            carry::Carried::Not(answer) => (answer, Report::default()),
        }
    }

    /// Begins, fences, reads the queue.
    async fn read(
        &self,
        errand: Errand<'_>,
    ) -> Result<(Session<DB>, String, Vec<Queued>), Released> {
        let mut conn = self.begin().await.map_err(not_begun)?;
        fault_point::pass("release.after_begin");
        let batch = errand.batch(Vec::new());
        let mut transaction = Transaction::new(self, errand.scope, &batch, &mut conn);
        let read = transaction.fence_and_read(errand).await;
        match read {
            Ok((tx, rows)) => {
                fault_point::pass("release.after_read");
                Ok((conn, tx, rows))
            }
            Err(end) => {
                let ended: Result<(), _> = self.end(conn, Err(end)).await;
                Err(ended.err().map_or(Released::Fenced, not_begun))
            }
        }
    }
}

impl Errand<'_> {
    /// The lane, which stays where it is.
    fn lane(&self) -> LaneMove {
        let Release { lane, last, leader_epoch, .. } = *self.release;
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
    async fn fence_and_read(&mut self, errand: Errand<'_>) -> Result<(String, Vec<Queued>), End> {
        let request = ClaimRequest { lanes: self.batch.lanes.clone(), ..ClaimRequest::default() };
        let claimed = DB::claim(self.conn, &self.scope, &request).await;
        let Claimed { tx, lanes_mine, .. } =
            claimed.map_err(|error| self.failed("the look at the lane", &error))?;
        if lanes_mine != 1 {
            return Err(End::RolledBack(Outcome::Fenced));
        }
        // One more than will run, to know whether the queue goes on.
        let aggregate = &errand.release.aggregate;
        let rows = DB::queue(self.conn, &self.scope, aggregate, errand.max + 1).await;
        let rows = rows.map_err(|error| self.failed("reading the queue", &error))?;
        Ok((tx, rows))
    }
}

/// What an outcome without a commit means for a release none of whose handlers had run.
fn not_begun(outcome: Outcome) -> Released {
    not_settled(outcome.before_handlers())
}

/// What an outcome without a commit means for a release.
fn not_settled(outcome: Outcome) -> Released {
    match outcome {
        Outcome::Conflict(text) => Released::Conflict(text),
        Outcome::Broken(text) => Released::Broken(text),
        Outcome::Outage(text) => Released::Outage(text),
        Outcome::Blocked(text) => Released::Blocked(text),
        Outcome::Unreached(text) => Released::Unreached(text),
        Outcome::Unknown(text) => Released::Unknown(text),
        Outcome::Failed(failures) => {
            let text = failures.into_iter().map(|failure| failure.error).next();
            Released::Conflict(text.unwrap_or_default())
        }
        // None of the others is a release's; the lane is looked at anew.
        Outcome::Fenced | Outcome::Committed(_) | Outcome::Full(_) | Outcome::Reused(_) => {
            Released::Fenced
        }
    }
}

impl Plan {
    /// Its events, in the form of live ones.
    fn items<DB: Transactions>(&self, work: &Work<DB>, errand: Errand<'_>) -> Vec<Delivered> {
        let item = |row| redeliver::item(work, errand, row);
        self.run.iter().map(item).collect()
    }
}
