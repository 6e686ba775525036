//! A process: the real engine, and a loop that obeys it slowly and in any order.

use std::collections::VecDeque;

use super::{
    database::Claimed,
    log::{Event, Log},
    parked::Begun,
};
use crate::{
    Batch, Commit, Due, Effect, Engine, Generation, Item, Lane, Limits, NextOffset, PartitionId,
    Release, Seek, Standstill, Time, WatermarkWrite,
    partition::{Drain, Phase},
};

/// What a worker was asked to do and has not done yet.
#[derive(Debug)]
pub(super) enum Pending {
    Commit(Vec<Commit>),
    Confirm(PartitionId, Generation),
    FindDue(PartitionId, Generation),
    Found(PartitionId, Generation, Result<Vec<Due>, String>),
    Release(OpenRelease),
    Seek(Seek),
    TakeOver(PartitionId, Generation),
    Transaction(Open),
    Watermark(WatermarkWrite),
}

impl Pending {
    /// The lanes of a transaction, with whose they are.
    fn lanes(&self) -> Vec<(PartitionId, Generation, Lane)> {
        match self {
            Self::Transaction(Open { batch, .. }) => {
                let of = |lane| (batch.partition, batch.generation, lane);
                batch.lanes.iter().map(|step| of(step.lane)).collect()
            }
            Self::Release(OpenRelease { release: it, .. }) => {
                vec![(it.partition, it.generation, it.lane)]
            }
            _ => Vec::new(),
        }
    }
}

/// A release: not begun yet, or its handlers have run, and it is about to commit.
#[derive(Debug)]
pub(super) struct OpenRelease {
    pub(super) release: Release,
    pub(super) begun: Option<Begun>,
    /// Its connection is gone.
    pub(super) dead: bool,
}

/// A transaction: not begun yet, or claimed and handled, and about to commit.
#[derive(Debug)]
pub(super) struct Open {
    pub(super) batch: Batch<Event>,
    pub(super) claimed: Option<Claimed>,
    /// Its connection is gone.
    pub(super) dead: bool,
}

/// What the thread of the Kafka client has told, and the engine has not heard yet.
#[derive(Debug)]
pub(super) enum News {
    Arrived(PartitionId, Generation, Vec<Item<Event>>),
    Assigned(Vec<PartitionId>),
    Lost(Vec<PartitionId>),
    Position(PartitionId, Generation, NextOffset),
    Revoked(Vec<PartitionId>),
}

/// Where the Kafka client reads, once a seek is confirmed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fetch {
    pub(super) generation: Generation,
    pub(super) from: i64,
    pub(super) position: i64,
    /// How many lanes the partition has.
    pub(super) lanes: u16,
}

#[derive(Debug)]
pub(super) struct Worker {
    pub(super) engine: Engine<Event>,
    /// As its configuration says.
    pub(super) lanes_wanted: u16,
    pub(super) pending: Vec<Pending>,
    pub(super) news: VecDeque<News>,
    /// Per number of an assignment: which partition.
    pub(super) places: Vec<usize>,
    /// Per partition: the number it is assigned under.
    pub(super) assigned: Vec<Option<PartitionId>>,
    pub(super) fetches: Vec<Option<Fetch>>,
    pub(super) paused: Vec<bool>,
    /// A member of the group.
    pub(super) joined: bool,
    /// Stopped by the operating system.
    pub(super) frozen: bool,
    pub(super) closed: bool,
    /// Per assignment: the offset sent to Kafka last.
    pub(super) sent: Vec<i64>,
}

impl Worker {
    pub(super) fn new(partitions: usize, seed: u64, lanes_wanted: u16) -> Self {
        Self {
            engine: Engine::new(limits(seed), seed),
            lanes_wanted,
            pending: Vec::new(),
            news: VecDeque::new(),
            places: Vec::new(),
            assigned: vec![None; partitions],
            fetches: vec![None; partitions],
            paused: vec![true; partitions],
            joined: true,
            frozen: false,
            closed: false,
            sent: Vec::new(),
        }
    }

    pub(super) fn place(&self, id: PartitionId) -> usize {
        self.places[usize::try_from(id.0).unwrap()]
    }

    /// The group gives it a partition, under a new number.
    pub(super) fn assign(&mut self, p: usize) -> PartitionId {
        let id = PartitionId(u32::try_from(self.places.len()).unwrap());
        self.places.push(p);
        self.sent.push(i64::MIN);
        self.assigned[p] = Some(id);
        self.fetches[p] = None;
        self.paused[p] = true;
        id
    }

    pub(super) fn unassign(&mut self, p: usize) -> Option<PartitionId> {
        self.fetches[p] = None;
        self.assigned[p].take()
    }

    /// Whether the number is the one that the partition is assigned under now.
    pub(super) fn has(&self, id: PartitionId) -> bool {
        self.assigned[self.place(id)] == Some(id)
    }

    /// Takes what the engine asks for; answers are for later. What is answered to the group comes back.
    pub(super) fn poll(&mut self) -> Vec<Vec<PartitionId>> {
        let mut let_go = Vec::new();
        while let Some(effect) = self.engine.poll_effect() {
            match effect {
                Effect::Abort(id, generation) => self.abort(id, generation),
                Effect::Close => self.closed = true,
                Effect::Commit(commits) => self.send(commits),
                Effect::Confirm(id, generation) => {
                    self.pending.push(Pending::Confirm(id, generation));
                }
                Effect::FindDue(id, generation) => {
                    self.pending.push(Pending::FindDue(id, generation));
                }
                Effect::LetGo(ids) => let_go.push(ids),
                Effect::Pause(id) => self.pause(id, true),
                Effect::Release(release) => {
                    let open = OpenRelease { release, begun: None, dead: false };
                    self.pending.push(Pending::Release(open));
                }
                Effect::Report(
                    _,
                    None
                    | Some(
                        Standstill::Outage(_) | Standstill::ParkedLimit(_) | Standstill::TakingOver,
                    ),
                ) => {}
                Effect::Report(id, Some(reason)) => panic!("FALSE STOP of {id:?}: {reason}"),
                Effect::Resume(id) => self.pause(id, false),
                Effect::Seek(seek) => self.pending.push(Pending::Seek(seek)),
                Effect::Start(batch) => {
                    check_batch(&batch);
                    let open = Open { batch, claimed: None, dead: false };
                    self.pending.push(Pending::Transaction(open));
                }
                Effect::TakeOver(id, generation, _) => {
                    self.pending.push(Pending::TakeOver(id, generation));
                }
                Effect::WriteWatermark(write) => self.pending.push(Pending::Watermark(write)),
            }
        }
        self.check();
        let_go
    }

    /// Closes the connections of what is open under a generation that has ended.
    fn abort(&mut self, id: PartitionId, generation: Generation) {
        // Handlers that block their threads cannot be ended: what is open then ends when it likes.
        if !generation.0.is_multiple_of(4) {
            return;
        }
        for pending in &mut self.pending {
            match pending {
                Pending::Transaction(open)
                    if (open.batch.partition, open.batch.generation) == (id, generation) =>
                {
                    open.dead = true;
                }
                Pending::Release(open)
                    if (open.release.partition, open.release.generation) == (id, generation) =>
                {
                    open.dead = true;
                }
                _ => {}
            }
        }
    }

    fn pause(&mut self, id: PartitionId, paused: bool) {
        if self.has(id) {
            let place = self.place(id);
            self.paused[place] = paused;
        }
    }

    /// One Kafka commit at a time, and none that goes backwards (D14).
    fn send(&mut self, commits: Vec<Commit>) {
        let flying = self.pending.iter().any(|pending| matches!(pending, Pending::Commit(_)));
        assert!(!flying, "two Kafka commits in flight");
        for commit in &commits {
            let sent = &mut self.sent[usize::try_from(commit.partition.0).unwrap()];
            assert!(commit.next.0 >= *sent, "a Kafka commit goes backwards: {commit:?}, {sent}");
            *sent = commit.next.0;
        }
        self.pending.push(Pending::Commit(commits));
    }

    /// Time has come to `now`.
    pub(super) fn wake(&mut self, now: Time) -> Vec<Vec<PartitionId>> {
        self.engine.handle_timeout(now);
        let next = self.engine.next_timeout();
        assert!(next.is_none_or(|next| next > now), "BUSY: {next:?} is due at {now:?} still");
        self.poll()
    }

    /// What the next fetch brings, if anything.
    pub(super) fn fetch(&mut self, p: usize, log: &Log, records: usize) -> Option<News> {
        let (fetch, id) = (self.fetches[p].as_mut()?, self.assigned[p]?);
        let next = log.from(fetch.position);
        let found = &log.records[next..log.records.len().min(next + records)];
        if let Some(last) = found.last() {
            fetch.position = last.offset + 1;
            let items = found.iter().map(|record| log.item(record, fetch.lanes)).collect();
            return Some(News::Arrived(id, fetch.generation, items));
        }
        if fetch.position == log.end {
            return None;
        }
        fetch.position = log.end;
        Some(News::Position(id, fetch.generation, log.position()))
    }

    /// A lane is in one open transaction at most (engine rule 2); a partition is looked through once at a time.
    fn check_pending(&self) {
        let mut lanes: Vec<_> = self.pending.iter().flat_map(Pending::lanes).collect();
        lanes.sort_unstable();
        let twice = lanes.windows(2).find(|it| it[0] == it[1]);
        assert!(twice.is_none(), "SHARED: {twice:?} in {:?}", self.pending);
        let look = |pending: &Pending| match pending {
            Pending::FindDue(id, generation) | Pending::Found(id, generation, _) => {
                Some((*id, *generation))
            }
            _ => None,
        };
        let mut looks: Vec<_> = self.pending.iter().filter_map(look).collect();
        looks.sort_unstable();
        assert!(looks.is_sorted_by(|a, b| a < b), "two looks at once: {looks:?}");
    }

    /// What must hold in the engine after every step: nothing that could start waits, and its books
    /// are right.
    fn check(&self) {
        let engine = &self.engine;
        let free = engine.open < engine.limits.transactions_max;
        self.check_pending();
        for partition in engine.partitions.values() {
            let live = partition.phase == Phase::Live && partition.drain == Drain::No;
            let mut waiting = (0, 0);
            let lanes = partition.lanes.len();
            for (number, lane) in partition.lanes.iter().enumerate() {
                waiting.0 += lane.queue.len();
                waiting.1 += lane.queue.iter().map(|item| u64::from(item.bytes)).sum::<u64>();
                let number = Lane(u16::try_from(number).unwrap());
                let listed = partition.ready.iter().filter(|(_, it)| *it == number).count();
                assert_eq!(listed, usize::from(lane.ready), "{number:?} in {partition:?}");
                assert_eq!(lane.ready, lane.startable(), "{number:?} in {partition:?}");
                assert!(lane.queue.iter().is_sorted_by_key(|item| item.offset));
            }
            let waits = partition.full_until().is_some();
            let turn =
                |lane: Lane| partition.lanes[usize::from(lane.0)].next_work(waits, 2).is_some();
            let idle = !partition.ready.iter().any(|(_, lane)| turn(*lane));
            let idle = idle || partition.outage_until.is_some();
            let free = free && !(engine.limits.oldest_first && partition.open > 0);
            assert!(!live || !free || idle, "STANDS STILL: {partition:?}");
            let due: usize = partition.lanes.iter().map(|lane| lane.due.len()).sum();
            assert_eq!(due, partition.due, "{partition:?}");
            let queues = partition.lanes.iter().flat_map(|it| it.due.iter().chain(&it.releasing));
            let mut queues: Vec<_> = queues.map(|queue| queue.aggregate).collect();
            queues.sort_unstable();
            assert!(queues.is_sorted_by(|a, b| a < b), "remembered twice: {partition:?}");
            assert!(partition.due <= engine.limits.due_max + lanes, "{partition:?}");
            assert!(partition.undone >= waiting.0 && partition.bytes >= waiting.1);
            if partition.open == 0 {
                assert_eq!((partition.undone, partition.bytes), waiting, "{partition:?}");
            }
        }
    }
}

/// What every batch has to be, whatever happened before.
fn check_batch(batch: &Batch<Event>) {
    let key = |item: &Item<Event>| (item.lane, item.offset);
    assert!(batch.items.is_sorted_by(|a, b| key(a) < key(b)), "by (lane, offset): {batch:?}");
    for step in &batch.lanes {
        let last = batch.items.iter().rfind(|item| item.lane == step.lane).unwrap();
        assert_eq!(step.new, step.prev.max(last.offset), "{batch:?}");
    }
    assert!(batch.items.iter().all(|item| batch.lanes.iter().any(|it| it.lane == item.lane)));
}

fn limits(seed: u64) -> Limits {
    Limits {
        alone_max: 2,
        attempts_max: 2,
        batch_bytes_max: 60,
        batch_events_max: 3 + usize::try_from(seed % 9).unwrap(),
        drain_deadline: 3_000,
        due_interval: 400,
        events_at_first: 1 + usize::try_from(seed % 7).unwrap(),
        due_max: 1 + usize::try_from(seed % 3).unwrap(),
        oldest_first: seed % 2 == 1,
        partition_bytes_max: 120,
        partition_events_max: 40,
        release_events_max: 1 + usize::try_from(seed % 5).unwrap(),
        transactions_max: 1 + usize::try_from(seed % 4).unwrap(),
        ..Limits::default()
    }
}
