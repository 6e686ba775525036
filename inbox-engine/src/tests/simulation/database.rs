//! The database: what PROTOCOL's statements do, and a past that a failover goes back to.

use std::collections::{HashMap, HashSet, VecDeque};

use super::{
    log::{COPIED_BACK, Event, Log, Record},
    parked::Parked,
};
use crate::{
    Batch, BatchOutcome, Epoch, Item, LaneState, LeaderEpoch, LogPoint, NextOffset, Offset,
    Ownership, Rule, Settled, Tally, TransactionFault, WatermarkWrite, distinct, resume,
};

/// What becomes of one event of a transaction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Verdict {
    Duplicate,
    /// Parked behind what is parked.
    Follow,
    Park,
    Run,
}

/// A transaction that has claimed its ids.
#[derive(Clone, Debug)]
pub(super) struct Claimed {
    pub(super) verdicts: Vec<Verdict>,
    session: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Row {
    pub(super) partition: usize,
    pub(super) offset: i64,
    pub(super) parked: bool,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct LaneRow {
    pub(super) epoch: i64,
    pub(super) state: LaneState,
}

#[derive(Clone, Default, Debug)]
pub(super) struct Aggregate {
    /// So many of its records, in log order, are settled.
    done: usize,
    /// Before this place in log order are all records that had their effect.
    applied: usize,
    /// Its parked events.
    pub(super) queue: Vec<Parked>,
}

#[derive(Clone, Debug)]
pub(super) struct PartitionRow {
    pub(super) epoch: i64,
    watermark: i64,
    watermark_leader_epoch: LeaderEpoch,
    record: LogPoint,
    pub(super) lanes: Vec<LaneRow>,
    /// Somebody wants other lanes, and they are not drained.
    pub(super) remap_waits: bool,
    pub(super) aggregates: Vec<Aggregate>,
}

/// How to take one change back.
#[derive(Debug)]
pub(super) enum Undo {
    Aggregate(usize, usize, Aggregate),
    Discarded(u32),
    Effect(u32),
    Epochs(usize, i64, Vec<i64>, bool),
    Lane(usize, usize, LaneState),
    Lanes(usize, Vec<LaneRow>),
    Row(u32, Option<Row>),
    Watermark(usize, i64, (LeaderEpoch, LogPoint)),
}

#[derive(Debug)]
pub(super) struct Database {
    pub(super) down: bool,
    /// Events that may be parked in a partition.
    pub(super) parked_max: usize,
    pub(super) partitions: Vec<PartitionRow>,
    pub(super) inbox: HashMap<u32, Row>,
    pub(super) effects: HashSet<u32>,
    pub(super) discarded: HashSet<u32>,
    /// Ids that an open transaction has claimed, and its session.
    locked: HashMap<u32, u64>,
    /// Parked queues whose rows an open release has locked, and its session.
    pub(super) queues_locked: HashMap<(usize, usize), u64>,
    pub(super) sessions: u64,
    /// The latest commits, each with what takes it back.
    past: VecDeque<Vec<Undo>>,
    pub(super) commit: Vec<Undo>,
    epochs: i64,
}

/// So many commits can be lost in a failover.
const PAST_MAX: usize = 24;

impl Database {
    pub(super) fn new(partitions: usize, lanes: u16, aggregates: u8) -> Self {
        let state = LaneState { last: Offset(-1), leader_epoch: LeaderEpoch::UNKNOWN };
        let partition = PartitionRow {
            epoch: 0,
            watermark: 0,
            watermark_leader_epoch: LeaderEpoch::UNKNOWN,
            record: LogPoint::UNKNOWN,
            lanes: vec![LaneRow { epoch: 0, state }; usize::from(lanes)],
            remap_waits: false,
            aggregates: vec![Aggregate::default(); usize::from(aggregates)],
        };
        Self {
            down: false,
            parked_max: usize::MAX,
            partitions: vec![partition; partitions],
            inbox: HashMap::new(),
            effects: HashSet::new(),
            discarded: HashSet::new(),
            locked: HashMap::new(),
            queues_locked: HashMap::new(),
            sessions: 0,
            past: VecDeque::new(),
            commit: Vec::new(),
            epochs: 0,
        }
    }

    /// TAKE-OVER: a new epoch for the partition and all its lanes; where to read from.
    pub(super) fn take_over(
        &mut self,
        p: usize,
        again: bool,
        wanted: u16,
        committed: Option<i64>,
        log: &Log,
    ) -> Ownership {
        self.epochs += 1;
        let waited = self.partitions[p].remap_waits;
        self.remap(p, usize::from(wanted));
        let row = &mut self.partitions[p];
        let old = row.lanes.iter().map(|lane| lane.epoch).collect();
        self.commit.push(Undo::Epochs(p, row.epoch, old, waited));
        if !again || Rule::ResyncRaisesEpoch.on() {
            let chance = if Rule::UniqueEpochs.on() { self.epochs } else { 0 };
            row.epoch = ((row.epoch >> 20) + 1) << 20 | chance;
        }
        for lane in &mut row.lanes {
            lane.epoch = row.epoch;
        }
        let watermark = NextOffset(row.watermark);
        let settled = Settled { watermark, record: row.record, log_end_seen: None };
        let log_range = (NextOffset(0), NextOffset(i64::MAX));
        let resumed = resume(settled, committed.map(NextOffset), log_range).unwrap();
        let ownership = Ownership {
            epoch: Epoch(row.epoch),
            lanes: row.lanes.iter().map(|lane| lane.state).collect(),
            watermark,
            watermark_leader_epoch: row.watermark_leader_epoch,
            remapped_below: NextOffset(0),
            record: row.record,
            remap_waits: row.remap_waits,
            unclean: false,
            resume: resumed.next,
            resume_leader_epoch: resumed.leader_epoch,
        };
        self.check_settled_below(p, resumed.next.0, log);
        self.committed();
        ownership
    }

    /// Other lanes, if none is ahead of the watermark.
    fn remap(&mut self, p: usize, wanted: usize) {
        let row = &mut self.partitions[p];
        let ahead = row.lanes.iter().any(|lane| lane.state.last.0 >= row.watermark);
        row.remap_waits = row.lanes.len() != wanted && ahead && Rule::RemapOnlyDrained.on();
        if row.lanes.len() == wanted || row.remap_waits {
            return;
        }
        let last = NextOffset(row.watermark).last();
        let state = LaneState { last, leader_epoch: LeaderEpoch::UNKNOWN };
        let fresh = vec![LaneRow { epoch: 0, state }; wanted];
        self.commit.push(Undo::Lanes(p, std::mem::replace(&mut row.lanes, fresh)));
    }

    /// CLAIM: ids, held aggregates and lanes in one look, before any handler runs.
    pub(super) fn claim(
        &mut self,
        p: usize,
        batch: &Batch<Event>,
    ) -> Result<Claimed, BatchOutcome> {
        if Rule::LanesAtClaim.on() && !self.lanes_mine(p, batch) {
            return Err(BatchOutcome::Fault(TransactionFault::Fenced));
        }
        let ids = distinct(&batch.items, |_| true);
        if ids.claimed.iter().any(|&i| self.locked.contains_key(&batch.items[i].event.number)) {
            return Err(BatchOutcome::Fault(TransactionFault::Blocked(
                "another transaction has claimed an id".into(),
            )));
        }
        let mut verdicts = vec![Verdict::Duplicate; batch.items.len()];
        for &index in &ids.claimed {
            verdicts[index] = self.verdict(p, batch, index)?;
        }
        let aggregates = self.partitions[p].aggregates.iter();
        let mut held: Vec<bool> = aggregates.map(|it| !it.queue.is_empty()).collect();
        for (item, verdict) in batch.items.iter().zip(&mut verdicts) {
            let held = &mut held[usize::from(item.event.aggregate)];
            if *verdict != Verdict::Duplicate && *held && Rule::HeldReadInClaim.on() {
                *verdict = Verdict::Follow;
            }
            *held |= matches!(verdict, Verdict::Park | Verdict::Follow);
        }
        let parked = verdicts.iter().filter(|it| matches!(it, Verdict::Park | Verdict::Follow));
        let parked = parked.count();
        if parked > 0 && self.parked(p) + parked > self.parked_max {
            return Err(BatchOutcome::Full("too many parked events".into()));
        }
        self.sessions += 1;
        let session = self.sessions;
        self.locked.extend(ids.claimed.iter().map(|&i| (batch.items[i].event.number, session)));
        Ok(Claimed { verdicts, session })
    }

    fn verdict(
        &self,
        p: usize,
        batch: &Batch<Event>,
        index: usize,
    ) -> Result<Verdict, BatchOutcome> {
        let item = &batch.items[index];
        let step = batch.lanes.iter().find(|step| step.lane == item.lane).unwrap();
        let passed = item.offset <= step.prev;
        match self.inbox.get(&item.event.number) {
            None if passed && item.offset.0 >= batch.watermark.0 => {
                Err(BatchOutcome::Reused(index))
            }
            None if item.doomed.is_some() => Ok(Verdict::Park),
            None => Ok(Verdict::Run),
            Some(row) => {
                let own = row.partition == p && row.offset == item.offset.0;
                assert!(!own || passed, "a torn transaction, but nobody tore one: {item:?}");
                Ok(Verdict::Duplicate)
            }
        }
    }

    fn lanes_mine(&self, p: usize, batch: &Batch<Event>) -> bool {
        batch.lanes.iter().all(|step| {
            let lane = self.partitions[p].lanes.get(usize::from(step.lane.0));
            let Some(lane) = lane else { return false };
            (lane.epoch == batch.epoch.0 || !Rule::EpochAtAdvance.on())
                && (lane.state.last == step.prev || !Rule::PrevAtAdvance.on())
        })
    }

    /// ADVANCE and COMMIT: everything of the transaction becomes true, or nothing.
    pub(super) fn advance(
        &mut self,
        p: usize,
        batch: &Batch<Event>,
        claimed: &Claimed,
        now: u64,
        log: &Log,
    ) -> BatchOutcome {
        self.roll_back(claimed);
        if !self.lanes_mine(p, batch) {
            return BatchOutcome::Fault(TransactionFault::Fenced);
        }
        let mut tally = Tally::default();
        for (item, verdict) in batch.items.iter().zip(&claimed.verdicts) {
            self.settle(p, item, *verdict, now, log);
            tally.applied += u64::from(*verdict == Verdict::Run);
        }
        for step in &batch.lanes {
            let lane = &mut self.partitions[p].lanes[usize::from(step.lane.0)];
            self.commit.push(Undo::Lane(p, usize::from(step.lane.0), lane.state));
            lane.state = LaneState { last: step.new, leader_epoch: step.leader_epoch };
        }
        self.committed();
        BatchOutcome::Committed(tally)
    }

    /// ROLLBACK: what was claimed is free.
    pub(super) fn roll_back(&mut self, claimed: &Claimed) {
        self.locked.retain(|_, session| *session != claimed.session);
    }

    /// One delivery is settled: never twice, never before an earlier one of its aggregate, never by
    /// name only.
    fn settle(&mut self, p: usize, item: &Item<Event>, verdict: Verdict, now: u64, log: &Log) {
        let (Offset(offset), event) = (item.offset, item.event);
        let place = log.at(offset).place;
        let number = usize::from(event.aggregate);
        let aggregate = self.partitions[p].aggregates[number].clone();
        let known = self.effects.contains(&event.number)
            || self.discarded.contains(&event.number)
            || self.inbox.get(&event.number).is_some_and(|row| row.parked);
        assert!(place <= aggregate.done, "OVERTAKEN: p{p} {offset} {event:?} {aggregate:?}");
        let again = place < aggregate.done;
        assert!(!again || verdict == Verdict::Duplicate, "DOUBLE: p{p} {offset} {event:?}");
        let held = !aggregate.queue.is_empty();
        self.commit.push(Undo::Aggregate(p, number, aggregate));
        match verdict {
            Verdict::Duplicate => assert!(known, "LOST: p{p} {offset} {event:?} has no effect"),
            Verdict::Park | Verdict::Follow => {
                assert!(!known, "DOUBLE: p{p} {offset} {event:?} is parked too");
                let reason = item.doomed.as_ref().map(|doom| doom.reason);
                let row = Parked::new(event, offset, verdict == Verdict::Follow, reason, now);
                let aggregate = &mut self.partitions[p].aggregates[number];
                aggregate.queue.push(row);
                aggregate.check(log);
            }
            Verdict::Run => {
                assert!(!held, "OVERTAKEN: p{p} {offset} {event:?} and a parked one");
                self.apply(p, offset, event, log);
            }
        }
        if verdict != Verdict::Duplicate {
            let row = Row { partition: p, offset, parked: verdict != Verdict::Run };
            let old = self.inbox.insert(event.number, row);
            self.commit.push(Undo::Row(event.number, old));
        }
        self.partitions[p].aggregates[number].done += usize::from(!again);
    }

    /// An event has its effect: once, and after those of its aggregate that are before it in the log.
    pub(super) fn apply(&mut self, p: usize, offset: i64, event: Event, log: &Log) {
        let place = log.at(offset).place;
        let aggregate = &mut self.partitions[p].aggregates[usize::from(event.aggregate)];
        assert!(place >= aggregate.applied, "OVERTAKEN: p{p} {offset} {event:?} {aggregate:?}");
        aggregate.applied = place + 1;
        let first = self.effects.insert(event.number) && !self.discarded.contains(&event.number);
        assert!(first, "DOUBLE: p{p} {offset} {event:?}");
        self.commit.push(Undo::Effect(event.number));
    }

    /// WATERMARK: whether one row changed.
    pub(super) fn write_watermark(&mut self, p: usize, write: &WatermarkWrite, log: &Log) -> bool {
        let row = &mut self.partitions[p];
        let cas = row.watermark == write.old.0 && row.watermark <= write.new.0;
        let epoch = row.epoch == write.epoch.0;
        let lanes = row.lanes.iter().zip(&write.expected);
        let fits = |(lane, expected): (&LaneRow, &Offset)| {
            lane.epoch == write.epoch.0 && lane.state.last >= *expected
        };
        let held = lanes.into_iter().all(fits);
        if Rule::WatermarkCas.on() && !(cas && epoch) || Rule::WatermarkChecksLanes.on() && !held {
            return false;
        }
        let old = (row.watermark_leader_epoch, row.record);
        self.commit.push(Undo::Watermark(p, row.watermark, old));
        row.watermark = write.new.0;
        row.watermark_leader_epoch = write.leader_epoch;
        row.record = write.record;
        self.check_settled_below(p, write.new.0, log);
        self.committed();
        true
    }

    /// Nothing below an offset is unsettled.
    fn check_settled_below(&self, p: usize, offset: i64, log: &Log) {
        for (number, aggregate) in self.partitions[p].aggregates.iter().enumerate() {
            if let Some(undone) = log.undone(number, aggregate.done) {
                assert!(undone >= offset, "LOST: p{p} {undone} is not settled, but below {offset}");
            }
        }
    }

    pub(super) fn committed(&mut self) {
        self.past.push_back(std::mem::take(&mut self.commit));
        if self.past.len() > PAST_MAX {
            self.past.pop_front();
        }
    }

    /// A replica takes over that lacks the last commits. Every connection ends.
    pub(super) fn fail_over(&mut self, commits: usize) {
        self.locked.clear();
        self.queues_locked.clear();
        for _ in 0..commits {
            for undo in self.past.pop_back().unwrap_or_default().into_iter().rev() {
                self.undo(undo);
            }
        }
    }

    fn undo(&mut self, undo: Undo) {
        match undo {
            Undo::Aggregate(p, number, old) => self.partitions[p].aggregates[number] = old,
            Undo::Discarded(number) => _ = self.discarded.remove(&number),
            Undo::Effect(number) => _ = self.effects.remove(&number),
            Undo::Epochs(p, epoch, lanes, waited) => {
                self.partitions[p].epoch = epoch;
                self.partitions[p].remap_waits = waited;
                for (lane, epoch) in self.partitions[p].lanes.iter_mut().zip(lanes) {
                    lane.epoch = epoch;
                }
            }
            Undo::Lanes(p, old) => self.partitions[p].lanes = old,
            Undo::Lane(p, lane, old) => self.partitions[p].lanes[lane].state = old,
            Undo::Row(number, Some(old)) => _ = self.inbox.insert(number, old),
            Undo::Row(number, None) => _ = self.inbox.remove(&number),
            Undo::Watermark(p, old, (leader_epoch, record)) => {
                self.partitions[p].watermark = old;
                self.partitions[p].watermark_leader_epoch = leader_epoch;
                self.partitions[p].record = record;
            }
        }
    }

    /// PRUNE: rows below the watermark, not parked, whose id does not come again.
    pub(super) fn prune(&mut self, logs: &[Log]) {
        let partitions = &self.partitions;
        let commit = &mut self.commit;
        self.inbox.retain(|number, row| {
            let watermark = partitions[row.partition].watermark;
            let later = &logs[row.partition].records;
            let latest = later.len().saturating_sub(COPIED_BACK);
            let comes = |(index, record): (usize, &Record)| {
                record.event.number == *number && (index >= latest || record.offset >= watermark)
            };
            let keep =
                row.parked || row.offset >= watermark || later.iter().enumerate().rev().any(comes);
            if !keep {
                commit.push(Undo::Row(*number, Some(*row)));
            }
            keep
        });
        self.committed();
    }

    /// Whether everything in a log is settled, and the watermark at its end.
    pub(super) fn finished(&self, p: usize, log: &Log) -> bool {
        let row = &self.partitions[p];
        let mut aggregates = row.aggregates.iter().enumerate();
        let done = aggregates.all(|(number, it)| log.undone(number, it.done).is_none());
        done && row.watermark == log.end && self.parked(p) == 0
    }

    pub(super) fn watermark(&self, p: usize) -> i64 {
        self.partitions[p].watermark
    }
}
