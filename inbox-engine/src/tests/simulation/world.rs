//! A small world: a database, logs, a group and its workers, and everything that goes wrong between
//! them. One history follows from one seed.

use std::collections::{BTreeMap, VecDeque};

use super::{
    chance::Chance,
    database::Database,
    handling::Handlers,
    log::{Log, Shape},
    worker::{News, Open, OpenRelease, Worker},
};
use crate::{PartitionId, Time};

pub(super) const PARTITIONS: usize = 3;
pub(super) const WORKERS: usize = 3;
/// Steps with faults; then so many, and so much time, at most until everything is settled.
const FAULTY_STEPS: u64 = 2_000;
const CALM_STEPS: u64 = 20_000;
const CALM_MILLIS: u64 = 600_000;

/// How often each thing happened: histories without faults show nothing.
pub(super) type Seen = BTreeMap<&'static str, u64>;

/// A transaction that nobody waits for.
#[derive(Debug)]
pub(super) enum Stray {
    Live(Open),
    Release(OpenRelease),
}

pub(super) struct World {
    pub(super) chance: Chance,
    pub(super) now: Time,
    pub(super) database: Database,
    pub(super) handlers: Handlers,
    pub(super) logs: Vec<Log>,
    pub(super) numbers: u32,
    pub(super) workers: Vec<Worker>,
    /// Per partition: whom the group has given it to.
    pub(super) owners: Vec<Option<usize>>,
    /// Revocations that the group waits for, per worker.
    pub(super) revoked: Vec<Vec<Vec<PartitionId>>>,
    /// What Kafka holds.
    pub(super) committed: Vec<Option<i64>>,
    /// Transactions whose worker gave them up, or is gone; their COMMIT may still arrive.
    pub(super) strays: Vec<(usize, Stray)>,
    pub(super) shape: Shape,
    /// Faults in a thousand steps.
    pub(super) faults: u64,
    pub(super) calm: bool,
    pub(super) steps: u64,
    /// How often what happened.
    pub(super) seen: Seen,
    /// The last steps, for people.
    pub(super) trace: Option<VecDeque<String>>,
}

impl World {
    pub(super) fn new(seed: u64, epochs_known: bool, trace: bool) -> Self {
        let mut chance = Chance::new(seed);
        let shape = Shape {
            lanes: 1 + u16::try_from(chance.below(4)).unwrap(),
            aggregates: 2 + u8::try_from(chance.below(7)).unwrap(),
            epochs_known,
            bad: [0, 6, 20, 60][chance.index(4)],
            copies: [0, 5, 15][chance.index(3)],
        };
        let mut database = Database::new(PARTITIONS, shape.lanes, shape.aggregates);
        database.parked_max = [usize::MAX, usize::MAX, 4, 12][chance.index(4)];
        let workers = (0..WORKERS).map(|_| Worker::new(PARTITIONS, chance.next(), shape.lanes));
        let workers = workers.collect();
        Self {
            now: Time(1),
            database,
            handlers: Handlers::default(),
            logs: (0..PARTITIONS).map(|_| Log::new(shape)).collect(),
            numbers: 0,
            workers,
            owners: vec![None; PARTITIONS],
            revoked: vec![Vec::new(); WORKERS],
            committed: vec![None; PARTITIONS],
            strays: Vec::new(),
            shape,
            faults: [3, 10, 40][chance.index(3)],
            calm: false,
            steps: 0,
            seen: Seen::new(),
            trace: trace.then(VecDeque::new),
            chance,
        }
    }

    /// The whole history: faults, then calm until everything is settled, then the shutdown of all.
    pub(super) fn run(&mut self) {
        while self.steps < FAULTY_STEPS {
            self.step();
        }
        self.be_calm();
        let in_time = self.now.after(CALM_MILLIS);
        let end = self.steps + CALM_STEPS;
        while !self.finished() {
            assert!(self.steps < end, "STUCK: {CALM_STEPS} steps were not enough");
            assert!(self.now < in_time, "STUCK: {CALM_MILLIS} ms were not enough");
            self.calm_step();
        }
        for log in &self.logs {
            self.database.check_all_done(log);
        }
        for worker in 0..WORKERS {
            self.note(|| format!("w{worker} shuts down"));
            self.workers[worker].engine.handle_shutdown(self.now);
            self.heard(worker);
        }
        while !self.workers.iter().all(|worker| worker.closed) {
            assert!(self.steps < end, "STUCK: a shutdown does not end");
            self.calm_step();
        }
    }

    pub(super) fn note(&mut self, what: impl FnOnce() -> String) {
        if let Some(trace) = &mut self.trace {
            trace.push_back(format!("{:>6} {:>8} {}", self.steps, self.now.0, what()));
            if trace.len() > 400 {
                trace.pop_front();
            }
        }
    }

    pub(super) fn see(&mut self, what: &'static str) {
        *self.seen.entry(what).or_default() += 1;
    }

    fn step(&mut self) {
        let worker = self.chance.index(WORKERS);
        if self.chance.below(1_000) < self.faults {
            return self.fault(worker);
        }
        self.database.down &= !self.chance.one_in(30);
        match self.chance.below(970) {
            0..430 => self.do_pending(worker),
            430..600 => self.hear(worker),
            600..760 => self.fetch(worker),
            760..860 => {
                let millis = [1, 10, 100, 1_000][self.chance.index(4)];
                let passed = self.chance.below(millis) + 1;
                self.pass(passed);
            }
            860..890 => self.grow(),
            890..945 => self.group(),
            945..960 => self.stray(),
            _ => self.operate(),
        }
    }

    // ---- calm ------------------------------------------------------------------------------

    fn be_calm(&mut self) {
        self.note(|| "calm".into());
        self.calm = true;
        self.database.down = false;
        self.handlers.mended = self.chance.one_in(2);
        for worker in 0..WORKERS {
            self.workers[worker].frozen = false;
        }
        while !self.strays.is_empty() {
            self.stray();
        }
    }

    /// Everything gets its turn; time passes only when there is nothing else to do.
    fn calm_step(&mut self) {
        let before = self.steps;
        let worker = self.chance.index(WORKERS);
        match self.chance.below(4) {
            0 => self.do_pending(worker),
            1 => self.hear(worker),
            2 => self.fetch(worker),
            _ => self.group(),
        }
        if self.steps == before && self.idle() {
            self.operate_calmly();
        }
        if self.steps == before && self.idle() {
            let timeouts = self.workers.iter().filter_map(|worker| worker.engine.next_timeout());
            let next = timeouts.min().expect("STUCK: nothing is to be done, and nothing is due");
            self.pass(next.0.saturating_sub(self.now.0).max(1));
        }
    }

    fn idle(&mut self) -> bool {
        let settled = self.owners.iter().all(Option::is_some)
            || self.workers.iter().any(|worker| worker.engine.closing);
        settled
            && self.workers.iter().all(|worker| {
                worker.pending.is_empty() && worker.news.is_empty() && self.read(worker)
            })
    }

    /// Whether a worker has read whatever it may read.
    fn read(&self, worker: &Worker) -> bool {
        (0..PARTITIONS).all(|p| {
            worker.paused[p]
                || worker.fetches[p].is_none_or(|fetch| fetch.position == self.logs[p].end)
        })
    }

    fn finished(&self) -> bool {
        let settled = |p: usize| {
            let log = &self.logs[p];
            let waits = self.database.partitions[p].remap_waits;
            !waits
                && self.database.finished(p, log)
                && self.committed[p].is_some_and(|it| it >= log.end)
        };
        let quiet = |worker: &Worker| {
            worker.pending.is_empty()
                && worker.news.is_empty()
                && worker.engine.snapshots().iter().all(|it| {
                    (it.waiting, it.bytes, it.paused, &it.standstill) == (0, 0, false, &None)
                })
        };
        (0..PARTITIONS).all(settled)
            && self.owners.iter().all(Option::is_some)
            && self.workers.iter().all(quiet)
    }

    // ---- what goes on ----------------------------------------------------------------------

    fn grow(&mut self) {
        let p = self.chance.index(PARTITIONS);
        self.logs[p].grow(&mut self.numbers, &mut self.chance);
    }

    fn pass(&mut self, millis: u64) {
        let end = self.now.after(millis);
        for worker in 0..WORKERS {
            if self.workers[worker].frozen {
                continue;
            }
            while let Some(next) =
                self.workers[worker].engine.next_timeout().filter(|next| *next <= end)
            {
                self.steps += 1;
                let at = next.max(self.now);
                let let_go = self.workers[worker].wake(at);
                self.answer(worker, let_go);
            }
        }
        self.now = end;
    }

    /// What a worker reads from Kafka; at times the client reads something twice.
    fn fetch(&mut self, w: usize) {
        let p = self.chance.index(PARTITIONS);
        let twice = !self.calm && self.chance.one_in(20);
        let queued = !self.calm && self.chance.one_in(5);
        let worker = &mut self.workers[w];
        if worker.frozen || worker.paused[p] && !queued {
            return;
        }
        if let Some(fetch) = worker.fetches[p].as_mut().filter(|_| twice) {
            let back = i64::try_from(self.chance.below(6)).unwrap();
            fetch.position = (fetch.position - back).max(fetch.from);
        }
        let records = 1 + self.chance.index(12);
        if let Some(news) = worker.fetch(p, &self.logs[p], records) {
            worker.news.push_back(news);
        }
    }

    /// The engine hears what the client said first.
    fn hear(&mut self, w: usize) {
        let worker = &mut self.workers[w];
        if worker.frozen {
            return;
        }
        let Some(news) = worker.news.pop_front() else { return };
        match &news {
            News::Arrived(id, generation, items) => {
                let items = items.clone();
                worker.engine.handle_delivered(*id, *generation, items, self.now);
            }
            News::Assigned(ids) => worker.engine.handle_assigned(ids, self.now),
            News::Lost(ids) => worker.engine.handle_lost(ids, self.now),
            News::Position(id, generation, position) => {
                worker.engine.handle_position(*id, *generation, *position);
            }
            News::Revoked(ids) => worker.engine.handle_revoked(ids, self.now),
        }
        self.note(|| format!("w{w} hears {news:?}"));
        self.heard(w);
    }

    pub(super) fn heard(&mut self, w: usize) {
        self.steps += 1;
        let known = self.workers[w].pending.len();
        let let_go = self.workers[w].poll();
        if self.trace.is_some() {
            let asked = format!("{:?}", &self.workers[w].pending[known..]);
            self.note(|| format!("   w{w} asks {asked} lets go {let_go:?}"));
        }
        self.answer(w, let_go);
    }

    pub(super) fn describe(&self) -> String {
        let watermarks: Vec<i64> = (0..PARTITIONS).map(|p| self.database.watermark(p)).collect();
        let ends: Vec<i64> = self.logs.iter().map(|log| log.end).collect();
        let snapshots: Vec<_> = self.workers.iter().map(|it| it.engine.snapshots()).collect();
        format!(
            "{:?} owners {:?} watermarks {watermarks:?} ends {ends:?} committed {:?} \
             {snapshots:?} {:?}",
            self.shape, self.owners, self.committed, self.database.partitions,
        )
    }
}
