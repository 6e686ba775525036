//! Properties of parked queues under load: they empty, live transactions go on, and no lane is in two
//! transactions at once.

use std::collections::{BTreeMap, BTreeSet};

use proptest::{collection::vec, prelude::*};

use crate::{
    Batch, BatchOutcome, Due, Effect, Engine, Epoch, Generation, Item, Kind, Lane, LaneState,
    LeaderEpoch, Limits, LogPoint, NextOffset, Offset, Ownership, PartitionId, Release,
    ReleaseOutcome, Tally, Time,
};

const P: PartitionId = PartitionId(0);
/// Aggregates per lane.
const AGGREGATES: u8 = 4;
/// Events that wait in each lane at any time: as many as ever fit into a transaction.
const BACKLOG: usize = 40;

enum Open {
    Live(Batch<()>),
    Release(Release),
}

/// One partition whose every lane is always full, with parked queues.
struct Load {
    engine: Engine<()>,
    open: Vec<Open>,
    looks: Vec<Generation>,
    /// Parked events per aggregate, and since when its head is due.
    queues: BTreeMap<u8, usize>,
    since: BTreeMap<u8, Time>,
    /// Per lane: events that wait, and releases since its last live transaction.
    waiting: Vec<usize>,
    releases: Vec<u32>,
    next: i64,
    live: u64,
    now: Time,
}

fn of(lane: Lane) -> usize {
    usize::from(lane.0)
}

impl Load {
    fn new(limits: Limits, lanes: u8, queues: BTreeMap<u8, usize>) -> Self {
        let now = Time(0);
        let mut engine = Engine::new(limits, 1);
        engine.handle_assigned(&[P], now);
        let state = LaneState { last: Offset(-1), leader_epoch: LeaderEpoch(0) };
        let ownership = Ownership {
            epoch: Epoch(1),
            lanes: vec![state; usize::from(lanes)],
            watermark: NextOffset(0),
            watermark_leader_epoch: LeaderEpoch(0),
            record: LogPoint::UNKNOWN,
            remapped_below: NextOffset(0),
            remap_waits: false,
            unclean: false,
            resume: NextOffset(0),
            resume_leader_epoch: LeaderEpoch(0),
        };
        let generation = engine.generation;
        engine.handle_taken(P, generation, Ok(ownership), now);
        engine.handle_sought(P, generation, Ok(()), now);
        let mut load = Self {
            engine,
            open: Vec::new(),
            looks: Vec::new(),
            queues,
            since: BTreeMap::new(),
            waiting: vec![0; usize::from(lanes)],
            releases: vec![0; usize::from(lanes)],
            next: 0,
            live: 0,
            now,
        };
        load.fill();
        load.engine.handle_timeout(now);
        load
    }

    fn lanes(&self) -> u8 {
        u8::try_from(self.waiting.len()).unwrap()
    }

    /// Aggregate `n` is in lane `n % lanes`.
    fn lane(&self, aggregate: u8) -> Lane {
        Lane(u16::from(aggregate % self.lanes()))
    }

    /// Every lane gets events of all its aggregates, up to the backlog.
    fn fill(&mut self) {
        for lane in 0..self.lanes() {
            while self.waiting[usize::from(lane)] < BACKLOG {
                let turn = u8::try_from(self.next % i64::from(AGGREGATES)).unwrap();
                let item = self.item(lane + turn * self.lanes());
                self.waiting[usize::from(lane)] += 1;
                let generation = self.engine.generation;
                self.engine.handle_delivered(P, generation, [item], self.now);
            }
        }
    }

    fn item(&mut self, aggregate: u8) -> Item<()> {
        self.next += 1;
        Item {
            offset: Offset(self.next),
            leader_epoch: LeaderEpoch(0),
            lane: self.lane(aggregate),
            id: i128::from(self.next).to_be_bytes(),
            fingerprint: [0; 16],
            aggregate: [aggregate; 16],
            kind: Kind { route: 0, whole_run: false, one_per_aggregate: false },
            bytes: 1,
            attempts: 0,
            doomed: None,
            bare: false,
            suspect: false,
            event: (),
        }
    }

    /// One transaction ends, whichever; one look is answered; what is asked for is begun.
    fn step(&mut self, which: usize) -> Result<(), TestCaseError> {
        self.now = self.now.after(1);
        self.engine.handle_timeout(self.now);
        self.poll()?;
        if let Some(generation) = self.looks.pop() {
            let due_max = self.engine.limits().due_max;
            let held = self.queues.iter().filter(|(_, events)| **events > 0);
            let mut held: Vec<u8> = held.map(|(queue, _)| *queue).collect();
            held.sort_by_key(|queue| self.since.get(queue));
            let due = |queue: u8| Due { lane: self.lane(queue), aggregate: [queue; 16] };
            let due = held.into_iter().map(due).take(due_max).collect();
            self.engine.handle_due(P, generation, Ok(due), self.now);
            self.poll()?;
        }
        if !self.open.is_empty() {
            // Every third is the oldest: none takes for ever.
            let which = if self.now.0.is_multiple_of(3) { 0 } else { which };
            match self.open.remove(which % self.open.len()) {
                Open::Live(batch) => self.commit(batch),
                Open::Release(release) => self.release(&release),
            }
        }
        self.fill();
        self.poll()
    }

    /// Events of an aggregate that is held follow it into its queue.
    fn commit(&mut self, batch: Batch<()>) {
        for item in &batch.items {
            let queue = self.queues.get_mut(&item.aggregate[0]);
            if let Some(events) = queue.filter(|events| **events > 0) {
                *events += 1;
            }
        }
        self.engine.handle_outcome(batch, BatchOutcome::Committed(Tally::default()), self.now);
    }

    fn release(&mut self, release: &Release) {
        let queue = self.queues.get_mut(&release.aggregate[0]).unwrap();
        let removed = (*queue).min(release.events_max);
        *queue -= removed;
        self.since.insert(release.aggregate[0], self.now);
        let done = ReleaseOutcome::Done { more: *queue > 0, removed: removed as u64 };
        self.engine.handle_released(release, done, self.now);
    }

    fn poll(&mut self) -> Result<(), TestCaseError> {
        while let Some(effect) = self.engine.poll_effect() {
            match effect {
                Effect::FindDue(_, generation) => self.looks.push(generation),
                Effect::Start(batch) => {
                    self.live += 1;
                    for item in &batch.items {
                        self.waiting[of(item.lane)] -= 1;
                    }
                    for step in &batch.lanes {
                        self.releases[of(step.lane)] = 0;
                    }
                    self.open.push(Open::Live(batch));
                }
                Effect::Release(release) => {
                    let releases = &mut self.releases[of(release.lane)];
                    *releases += 1;
                    let max = self.engine.limits().releases_per_live;
                    prop_assert!(*releases <= max, "live transactions starve: {release:?}");
                    self.open.push(Open::Release(release));
                }
                _ => {}
            }
        }
        self.check()
    }

    /// No lane is in two transactions, and there are no more of those than connections.
    fn check(&self) -> Result<(), TestCaseError> {
        prop_assert!(self.open.len() <= self.engine.limits().transactions_max);
        let mut lanes = BTreeSet::new();
        for open in &self.open {
            match open {
                Open::Live(batch) => {
                    for step in &batch.lanes {
                        prop_assert!(lanes.insert(step.lane), "{:?} twice", step.lane);
                    }
                }
                Open::Release(it) => prop_assert!(lanes.insert(it.lane), "{:?} twice", it.lane),
            }
        }
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        cases: 128,
        max_shrink_iters: 2_000,
        ..ProptestConfig::default()
    })]

    /// `ReleaseDrains`, `ReleaseReservesLane` (finding 19, engine rule 2): however much comes in, every
    /// parked queue empties, while live transactions go on.
    #[test]
    fn queues_empty_however_much_comes_in(
        lanes in 1..4_u8,
        queues in vec((0..AGGREGATES * 3, 1..120_usize), 1..8),
        (batch, release, due_more) in (1..40_usize, 1..8_usize, 0..4_usize),
        transactions in 1..4_usize,
        choices in vec(any::<usize>(), 16),
    ) {
        let queues: BTreeMap<u8, usize> = queues
            .into_iter()
            .filter(|(aggregate, _)| *aggregate < lanes * AGGREGATES)
            .collect();
        let (count, parked) = (queues.len() as u64, queues.values().sum::<usize>() as u64);
        let limits = Limits {
            batch_events_max: batch,
            due_interval: 1,
            due_max: usize::from(lanes) + due_more,
            release_events_max: release,
            transactions_max: transactions,
            ..Limits::default()
        };
        let mut load = Load::new(limits, lanes, queues);
        // A lane's queues shrink with each live transaction of it, or one of them is empty.
        // While a queue is not known yet, it may grow faster.
        let rounds = 20 * (parked / release as u64 + count * batch as u64 + 4);
        let steps = usize::try_from(rounds * 3 * u64::from(lanes)).unwrap() + 16;
        for step in 0..steps {
            load.step(choices[step % choices.len()])?;
        }
        prop_assert!(load.queues.values().all(|events| *events == 0), "{:?}", load.queues);
        prop_assert!(load.live > 0);
    }
}
