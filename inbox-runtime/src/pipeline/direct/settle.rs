//! One transaction of direct events: its lanes are locked, then it is as any other.

use std::{collections::BTreeSet, pin::pin, sync::Arc, time::Instant};

use futures::future::maybe_done;
use inbox_engine::internal::{
    Batch, BatchOutcome, Generation, Item, Lane, LaneMove, LeaderEpoch, Mode, NextOffset, Offset,
    PartitionId, TransactionFault,
};
use inbox_handler::internal::Delivery;
use inbox_store::internal::port::{
    IntakePartition, LockedLane, Owners, Scope, Transactions, deadline,
};

use tokio::sync::oneshot;

use super::{Direct, DirectEvent, Settlement, place_at};
use crate::pipeline::{
    Delivered,
    disposition::Disposition,
    transaction::{EarlyEnd, Transaction, Work},
};

impl<DB: Owners> Direct<DB> {
    /// Runs events in one transaction to its end, at most [`Mode::CAREFUL_MAX`] carefully. They are in the order of
    /// their lanes, and come back whatever happened; what became of each is in the same order. It has to run in a task
    /// that nobody ends. `committing` is told when nothing is left but COMMIT.
    ///
    /// # Errors
    /// How it ended without a commit, or without anybody knowing of one.
    pub async fn settle(
        &self,
        events: Vec<DirectEvent>,
        mode: Mode,
        committing: Option<oneshot::Sender<()>>,
    ) -> (Vec<DirectEvent>, Result<Vec<Settlement>, BatchOutcome>) {
        let Some(partition) = self.known() else {
            return (events, Err(unreached("the intake's partition is unknown")));
        };
        let torn = events.iter().filter(|event| event.torn).map(|event| event.item.id).collect();
        let items: Vec<Delivered> = events.into_iter().map(|event| event.item).collect();
        let begun = Instant::now();
        let work = &self.work;
        let mut batch = batch_of(&partition, items, mode);
        batch.marked |= self.unclean().is_marked(begun);
        let mut run = DirectRun { batch, torn, committing };
        let settled = work.settle_direct(&partition, &mut run);
        let settled = deadline::with::<DB, _>(&work.limits, settled).await;
        let DirectRun { batch: Batch { items, .. }, torn, .. } = run;
        let (outcome, settled) = match settled {
            Ok((outcome, settled)) => (outcome, Ok(settled)),
            Err(outcome) => (outcome.clone(), Err(outcome)),
        };
        if matches!(outcome, BatchOutcome::Fault(TransactionFault::Fenced)) {
            // The partition was corrected by hand, or the database is another one.
            drop(self.open().await);
        }
        match &outcome {
            BatchOutcome::Failed(failures) => self.tell_failures(&items, failures),
            BatchOutcome::Committed(tally) => {
                self.unclean().acquit(items.iter().map(|item| &item.id));
                if tally.woken > 0 {
                    work.state.woken.notify_one();
                }
            }
            _ => {}
        }
        let oldest = items.iter().filter_map(|item| item.event.record.timestamp_ms).min();
        work.meters.transaction(&outcome, items.len(), oldest, begun.elapsed());
        let event = |item: Delivered| DirectEvent { torn: torn.contains(&item.id), item };
        (items.into_iter().map(event).collect(), settled)
    }
}

/// What a committed transaction did, to count and to tell.
type Settled = (BatchOutcome, Vec<Settlement>);

/// What a transaction of direct events works on.
struct DirectRun {
    batch: Batch<Arc<Delivery>>,
    /// Ids of events whose rows a torn transaction has left.
    torn: Vec<[u8; 16]>,
    /// Who wants to know that nothing is left but COMMIT.
    committing: Option<oneshot::Sender<()>>,
}

impl<DB: Transactions> Work<DB> {
    async fn settle_direct(
        &self,
        partition: &IntakePartition,
        run: &mut DirectRun,
    ) -> Result<Settled, BatchOutcome> {
        let settled = match self.admit(partition.scope(), &run.batch).await {
            Ok(_admission) => self.run_admitted(partition, run).await,
            Err(outcome) => Err(outcome),
        };
        self.unmark(partition.scope(), &run.batch).await;
        settled
    }

    async fn run_admitted(
        &self,
        partition: &IntakePartition,
        run: &mut DirectRun,
    ) -> Result<Settled, BatchOutcome> {
        let mut may_be_torn = false;
        let copies = &self.state.recent_copies;
        let looks_up = copies.are_expected();
        let mut settled = self.run_direct(partition, run, &mut may_be_torn).await;
        if !looks_up && copies.are_expected() && !may_be_torn && is_conflict(&settled) {
            // As a rule its claim met a copy that it had not looked for; now it looks.
            settled = self.run_direct(partition, run, &mut may_be_torn).await;
        }
        if may_be_torn && settled.is_err() {
            self.mark_torn(partition.scope(), run).await;
        }
        settled
    }

    /// Marks events whose rows a handler's own COMMIT has left there. It has let go of their lanes, too: when they are
    /// tried again, another transaction may have moved these past them, and nothing in the database tells any more that
    /// they may not have run.
    async fn mark_torn(&self, scope: Scope, run: &mut DirectRun) {
        let DirectRun { batch, torn, .. } = run;
        let ids: Vec<[u8; 16]> = batch.items.iter().map(|item| item.id).collect();
        let mut rows = None;
        if let Ok(mut conn) = self.sessions.take().await {
            match DB::recheck(&mut conn, &scope, &ids, &batch.lanes).await {
                Ok(found) => {
                    self.sessions.give_back(conn).await;
                    rows = Some(found.known);
                }
                Err(_) => self.sessions.give_up(conn).await,
            }
        }
        for item in &batch.items {
            // Where nobody can say, each may be one: better looked at by a person than lost.
            let is_left = rows.as_ref().is_none_or(|rows| {
                rows.iter().any(|row| {
                    row.id == item.id
                        && row.partition_ref == scope.partition_ref
                        && row.offset == item.offset
                })
            });
            if is_left && !torn.contains(&item.id) {
                torn.push(item.id);
            }
        }
    }

    async fn run_direct(
        &self,
        partition: &IntakePartition,
        run: &mut DirectRun,
        may_be_torn: &mut bool,
    ) -> Result<Settled, BatchOutcome> {
        let DirectRun { batch, torn, committing } = run;
        let mut conn = match self.begin().await {
            Ok(conn) => conn,
            Err(fault) => return Err(BatchOutcome::Fault(fault.before_handlers())),
        };
        let scope = partition.scope();
        let wanted: Vec<Lane> = batch.lanes.iter().map(|step| step.lane).collect();
        let locked = Transaction::new(self, scope, batch, &mut conn).lock_lanes(&wanted).await;
        let locked = match locked {
            Ok(locked) => locked,
            Err(end) => {
                let ended: Result<(), _> = self.end(conn, Err(end)).await;
                let fault = ended.err().unwrap_or_else(|| unreached("the lanes are not locked"));
                return Err(fault.before_handlers());
            }
        };
        place(batch, &locked, partition.lane_count);
        let batch = &*batch;
        let mut payloads = pin!(maybe_done(self.decode_ahead(batch)));
        let mut transaction = Transaction::new(self, scope, batch, &mut conn);
        transaction.direct = true;
        transaction.torn_before = torn;
        transaction.committing = committing.take();
        let ran = transaction.run(payloads.as_mut()).await;
        // What went past the guard may have committed, and failed with something else.
        *may_be_torn = transaction.torn || transaction.unguarded_used;
        let (handled, mut copies) =
            (transaction.handled, std::mem::take(&mut transaction.parked_copies));
        conn.events += batch.items.len();
        match self.end(conn, ran).await {
            Ok((tally, ends)) => {
                copies.extend(parked_now(&batch.items, &ends));
                let all = batch.items.iter().zip(ends);
                let all = all.map(|(item, end)| Settlement::of(item, end, &copies));
                Ok((BatchOutcome::Committed(tally), all.collect()))
            }
            Err(outcome) if handled => Err(outcome),
            Err(outcome) => Err(outcome.before_handlers()),
        }
    }
}

impl<DB: Transactions> Transaction<'_, DB> {
    /// Locks lanes. Under another epoch than the one that is known the partition is not what it was: somebody has
    /// corrected it, or it is retired, and what would be parked in it nobody would release.
    async fn lock_lanes(&mut self, wanted: &[Lane]) -> Result<Vec<LockedLane>, EarlyEnd> {
        let partition_ref = self.scope.partition_ref;
        let seen = &self.work.state.lanes_seen;
        let hints = seen.with(partition_ref, wanted);
        let locked = DB::lock_lanes(self.conn, partition_ref, &hints).await;
        let locked = locked.map_err(|error| self.statement_failed("locking the lanes", &error))?;
        seen.note(partition_ref, &locked);
        let same = locked.iter().all(|lane| lane.epoch == self.scope.epoch);
        if locked.len() == wanted.len() && same && !wanted.is_empty() {
            return Ok(locked);
        }
        Err(EarlyEnd::RolledBack(BatchOutcome::Fault(TransactionFault::Fenced)))
    }

    /// Locks the lane of a release; answers where it is.
    pub(in crate::pipeline) async fn lock_lane(&mut self, lane: Lane) -> Result<Offset, EarlyEnd> {
        Ok(self.lock_lanes(&[lane]).await?[0].last)
    }
}

/// The ids of what the transaction has parked: a copy in the same transaction is one of a parked event, too.
fn parked_now(items: &[Delivered], ends: &[Disposition]) -> impl Iterator<Item = [u8; 16]> {
    let all = items.iter().zip(ends);
    all.filter_map(|(item, end)| match end {
        Disposition::Park(_) | Disposition::Follow | Disposition::Wait => Some(item.id),
        _ => None,
    })
}

/// A partition without offsets yet: what it lacks is known once its lanes are locked.
fn batch_of(
    partition: &IntakePartition,
    items: Vec<Delivered>,
    mode: Mode,
) -> Batch<Arc<Delivery>> {
    let lanes: BTreeSet<Lane> = items.iter().map(|item| item.lane).collect();
    let step = |lane| LaneMove {
        lane,
        prev: Offset(-1),
        new: Offset(-1),
        leader_epoch: LeaderEpoch::UNKNOWN,
    };
    Batch {
        partition: PartitionId(0),
        generation: Generation(0),
        epoch: partition.epoch,
        watermark: NextOffset(0),
        remapped_below: NextOffset(0),
        mode,
        whole: true,
        marked: items.iter().any(Item::is_suspect),
        lanes: lanes.into_iter().map(step).collect(),
        items,
    }
}

/// Gives each event the next offset of its lane. The offsets of a lane are those that leave its number as the rest: no two
/// lanes have one, and each goes up by itself.
fn place(batch: &mut Batch<Arc<Delivery>>, locked: &[LockedLane], lane_count: u16) {
    for (step, lane) in batch.lanes.iter_mut().zip(locked) {
        (step.prev, step.new) = (lane.last, lane.last);
    }
    for item in &mut batch.items {
        let Ok(at) = batch.lanes.binary_search_by_key(&item.lane, |step| step.lane) else {
            continue;
        };
        let step = &mut batch.lanes[at];
        step.new = next_offset(step.new, step.lane, lane_count);
        place_at(item, step.new);
    }
}

fn next_offset(last: Offset, lane: Lane, lane_count: u16) -> Offset {
    let (count, lane) = (i64::from(lane_count.max(1)), i64::from(lane.0));
    let first = last.0.max(-1) + 1;
    Offset(first + (lane - first).rem_euclid(count))
}

fn is_conflict(settled: &Result<Settled, BatchOutcome>) -> bool {
    matches!(settled, Err(BatchOutcome::Fault(TransactionFault::Conflict(_))))
}

fn unreached(text: &str) -> BatchOutcome {
    BatchOutcome::Fault(TransactionFault::Unreached(text.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_of_a_lane_go_up_and_are_no_other_lanes() {
        let mut seen = BTreeSet::new();
        for lane in 0..4 {
            let mut last = Offset(-1);
            for _ in 0..5 {
                let next = next_offset(last, Lane(lane), 4);
                assert!(next > last && seen.insert(next), "{next:?} after {last:?}");
                last = next;
            }
        }
        assert_eq!(seen.len(), 20);
        assert_eq!(next_offset(Offset(7), Lane(1), 4), Offset(9));
        assert_eq!(next_offset(Offset(9), Lane(1), 4), Offset(13));
    }
}
