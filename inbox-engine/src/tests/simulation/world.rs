//! A small world: a database, logs, a group and its workers, and everything that goes wrong between
//! them. One history follows from one seed.

use std::collections::{BTreeMap, VecDeque};

use super::{
    chance::Chance,
    database::{Claimed, Database},
    handling::Handlers,
    log::{Event, Log, Shape},
    worker::{Fetch, News, Open, Pending, Worker},
};
use crate::{
    Batch, Commit, LaneMove, Mode, NextOffset, Outcome, PartitionId, TakeOverFault, Time,
    WatermarkWrite, Written,
};

const PARTITIONS: usize = 3;
const WORKERS: usize = 3;
/// Steps with faults; then so many, and so much time, at most until everything is settled.
const FAULTY_STEPS: u64 = 2_000;
const CALM_STEPS: u64 = 5_000;
const CALM_MILLIS: u64 = 60_000;

/// How often each thing happened: histories without faults show nothing.
pub(super) type Seen = BTreeMap<&'static str, u64>;

pub(super) struct World {
    chance: Chance,
    now: Time,
    database: Database,
    handlers: Handlers,
    logs: Vec<Log>,
    numbers: u32,
    workers: Vec<Worker>,
    /// Per partition: whom the group has given it to.
    owners: Vec<Option<usize>>,
    /// Revocations that the group waits for, per worker.
    revoked: Vec<Vec<Vec<PartitionId>>>,
    /// What Kafka holds.
    committed: Vec<Option<i64>>,
    /// Transactions whose worker gave them up, or is gone; their COMMIT may still arrive.
    strays: Vec<(usize, Open)>,
    shape: Shape,
    /// Faults in a thousand steps.
    faults: u64,
    calm: bool,
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
        let workers = (0..WORKERS).map(|_| Worker::new(PARTITIONS, chance.next())).collect();
        Self {
            now: Time(1),
            database: Database::new(PARTITIONS, shape.lanes, shape.aggregates),
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

    fn see(&mut self, what: &'static str) {
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
            890..950 => self.group(),
            _ => self.stray(),
        }
    }

    // ---- calm ------------------------------------------------------------------------------

    fn be_calm(&mut self) {
        self.note(|| "calm".into());
        self.calm = true;
        self.database.down = false;
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
            self.database.finished(p, log) && self.committed[p].is_some_and(|it| it >= log.end)
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

    fn heard(&mut self, w: usize) {
        self.steps += 1;
        let known = self.workers[w].pending.len();
        let let_go = self.workers[w].poll();
        if self.trace.is_some() {
            let asked = format!("{:?}", &self.workers[w].pending[known..]);
            self.note(|| format!("   w{w} asks {asked} lets go {let_go:?}"));
        }
        self.answer(w, let_go);
    }

    // ---- the group -------------------------------------------------------------------------

    /// A worker answers revocations: each as a whole, exactly.
    fn answer(&mut self, w: usize, let_go: Vec<Vec<PartitionId>>) {
        for ids in let_go {
            self.see(if ids.len() > 1 { "let go of several" } else { "let go of one" });
            let asked = self.revoked[w].iter().position(|asked| *asked == ids);
            if let Some(asked) = asked {
                self.revoked[w].remove(asked);
            } else {
                // The group had lost patience before the worker heard of the revocation.
                let late = !ids.iter().any(|id| self.workers[w].has(*id));
                let closing = self.workers[w].engine.closing;
                assert!(late || closing, "w{w} let {ids:?} go unasked");
            }
            for id in ids {
                let p = self.workers[w].place(id);
                if self.workers[w].has(id) {
                    self.workers[w].unassign(p);
                    self.owners[p] = None;
                }
            }
        }
    }

    /// The group gives, takes, or takes members back.
    fn group(&mut self) {
        let w = self.chance.index(WORKERS);
        let closing = self.workers[w].engine.closing;
        if !self.workers[w].joined {
            self.workers[w].joined = !self.workers[w].frozen;
            return;
        }
        let wait = self.workers[w].frozen || !self.revoked[w].is_empty();
        let free = (0..PARTITIONS).filter(|p| self.owners[*p].is_none());
        let mut given: Vec<usize> = free.filter(|_| !wait && !closing).collect();
        given.retain(|_| !self.chance.one_in(3));
        if !given.is_empty() {
            let ids = given.iter().map(|&p| self.workers[w].assign(p)).collect();
            for p in given {
                self.owners[p] = Some(w);
            }
            self.workers[w].news.push_back(News::Assigned(ids));
        } else if !wait && !self.calm && self.chance.one_in(3) {
            let mut taken: Vec<usize> =
                (0..PARTITIONS).filter(|p| self.owners[*p] == Some(w)).collect();
            taken.retain(|_| self.chance.one_in(2));
            let ids: Vec<PartitionId> =
                taken.iter().filter_map(|&p| self.workers[w].assigned[p]).collect();
            if !ids.is_empty() {
                self.revoked[w].push(ids.clone());
                self.workers[w].news.push_back(News::Revoked(ids));
            }
        }
    }

    /// The group has not heard of a member in time: its partitions are others' now, and it will hear
    /// so when it listens.
    fn expel(&mut self, w: usize) {
        self.note(|| format!("w{w} is expelled"));
        let mut ids = Vec::new();
        for p in 0..PARTITIONS {
            if self.owners[p] == Some(w) {
                self.owners[p] = None;
                ids.extend(self.workers[w].unassign(p));
            }
        }
        self.revoked[w].clear();
        self.workers[w].joined = false;
        if !ids.is_empty() {
            self.workers[w].news.push_back(News::Lost(ids));
        }
    }

    // ---- faults ----------------------------------------------------------------------------

    fn fault(&mut self, w: usize) {
        match self.chance.below(100) {
            0..20 => self.database.down = true,
            20..30 => self.fail_over(),
            30..40 => self.crash(w),
            40..55 => {
                self.workers[w].frozen = !self.workers[w].frozen;
                let frozen = self.workers[w].frozen;
                self.note(|| format!("w{w} frozen: {frozen}"));
            }
            55..65 => self.expel(w),
            65..75 => {
                // Silent transactions are ended by the database.
                for pending in &mut self.workers[w].pending {
                    if let Pending::Transaction(open) = pending {
                        open.dead = true;
                    }
                }
            }
            _ => {
                let logs = &self.logs;
                self.database.prune(logs);
            }
        }
    }

    fn fail_over(&mut self) {
        self.see("failover");
        let commits = self.chance.index(6);
        self.note(|| format!("a failover loses {commits} commits"));
        self.database.fail_over(commits);
        self.strays.clear();
        for worker in &mut self.workers {
            for pending in &mut worker.pending {
                if let Pending::Transaction(open) = pending {
                    open.dead = open.claimed.is_some();
                }
            }
        }
    }

    /// A process ends; a new one takes its place. What it had sent may still arrive.
    fn crash(&mut self, w: usize) {
        self.expel(w);
        self.see("crash");
        self.note(|| format!("w{w} crashes"));
        let seed = self.chance.next();
        let old = std::mem::replace(&mut self.workers[w], Worker::new(PARTITIONS, seed));
        for pending in old.pending {
            if let Pending::Transaction(open) = pending {
                let p = old.places[usize::try_from(open.batch.partition.0).unwrap()];
                self.strays.push((p, open));
            }
        }
    }

    /// A transaction that nobody waits for ends.
    fn stray(&mut self) {
        if self.strays.is_empty() {
            return;
        }
        let which = self.chance.index(self.strays.len());
        let (p, open) = self.strays.swap_remove(which);
        let arrives = !open.dead && self.chance.one_in(2);
        match open.claimed {
            Some(claimed) if arrives => {
                let outcome = self.database.advance(p, &open.batch, &claimed, &self.logs[p]);
                self.see(match outcome {
                    Outcome::Committed(_) => "stray commit",
                    _ => "fenced stray",
                });
                self.note(|| format!("a stray commits at {p}: {outcome:?} {:?}", open.batch.lanes));
            }
            Some(claimed) => self.database.roll_back(&claimed),
            None => {}
        }
    }

    // ---- what was asked for ----------------------------------------------------------------

    fn do_pending(&mut self, w: usize) {
        if self.workers[w].frozen || self.workers[w].pending.is_empty() {
            return;
        }
        let which = self.chance.index(self.workers[w].pending.len());
        let pending = self.workers[w].pending.swap_remove(which);
        self.note(|| format!("w{w} does {pending:?}"));
        match pending {
            Pending::Commit(commits) => self.commit(w, &commits),
            Pending::Confirm(id, generation) => {
                let p = self.workers[w].place(id);
                let ours = self.owners[p] == Some(w) && self.workers[w].has(id);
                self.workers[w].engine.handle_confirmed(id, generation, ours, self.now);
                self.see(if ours { "confirmed" } else { "not confirmed" });
            }
            Pending::Seek(seek) => self.seek(w, seek),
            Pending::TakeOver(id, generation) => self.take_over(w, id, generation),
            Pending::Transaction(open) => return self.transact(w, open),
            Pending::Watermark(write) => self.write_watermark(w, &write),
        }
        self.heard(w);
    }

    /// Trouble on the way there, or on the way back.
    fn trouble(&mut self) -> (bool, bool) {
        if self.calm {
            return (false, false);
        }
        (self.database.down || self.chance.one_in(20), self.chance.one_in(20))
    }

    fn commit(&mut self, w: usize, commits: &[Commit]) {
        let (there, back) =
            (!self.calm && self.chance.one_in(8), !self.calm && self.chance.one_in(8));
        if !there {
            for commit in commits {
                let p = self.workers[w].place(commit.partition);
                // The broker refuses who is no member.
                if self.owners[p] == Some(w) && self.workers[w].has(commit.partition) {
                    self.committed[p] = Some(commit.next.0);
                }
            }
        }
        self.see(if there || back { "failed Kafka commit" } else { "Kafka commit" });
        self.workers[w].engine.handle_committed(commits, !there && !back);
    }

    fn seek(&mut self, w: usize, seek: crate::Seek) {
        let p = self.workers[w].place(seek.partition);
        let has = self.workers[w].has(seek.partition);
        let fails = !self.calm && self.chance.one_in(20);
        let sought = if has && !fails {
            if seek.leader_epoch.known() {
                let end = self.logs[p].end_of_epoch(seek.leader_epoch.0);
                assert!(end >= seek.to.0, "FALSE STOP: the client takes {seek:?} for a cut log");
            }
            let NextOffset(from) = seek.to;
            let fetch = Fetch { generation: seek.generation, from, position: from };
            self.workers[w].fetches[p] = Some(fetch);
            Ok(())
        } else {
            self.workers[w].fetches[p] = self.workers[w].fetches[p].filter(|_| !has);
            Err("the partition is not assigned".to_owned())
        };
        self.see(if sought.is_ok() { "seek" } else { "failed seek" });
        let engine = &mut self.workers[w].engine;
        engine.handle_sought(seek.partition, seek.generation, sought, self.now);
    }

    fn take_over(&mut self, w: usize, id: PartitionId, generation: crate::Generation) {
        let p = self.workers[w].place(id);
        let (there, back) = self.trouble();
        let again = generation.0 > 0;
        let taken = if there {
            Err(TakeOverFault::Again("no route".to_owned()))
        } else {
            let log = &self.logs[p];
            let ownership = self.database.take_over(p, again, self.committed[p], log);
            if back { Err(TakeOverFault::Again("no answer".to_owned())) } else { Ok(ownership) }
        };
        self.see(if taken.is_ok() { "take-over" } else { "failed take-over" });
        self.workers[w].engine.handle_taken(id, generation, taken, self.now);
    }

    fn write_watermark(&mut self, w: usize, write: &WatermarkWrite) {
        let p = self.workers[w].place(write.partition);
        let (there, back) = self.trouble();
        let written = if there {
            Written::Outage("no route".to_owned())
        } else {
            let yes = self.database.write_watermark(p, write, &self.logs[p]);
            match (back, yes) {
                (true, _) => Written::Outage("no answer".to_owned()),
                (false, true) => Written::Yes,
                (false, false) => Written::Fenced,
            }
        };
        self.see(match &written {
            Written::Yes if write.old == write.new => "idle check",
            Written::Yes => "watermark",
            Written::Fenced => "fenced watermark",
            Written::Outage(_) => "watermark outage",
        });
        self.workers[w].engine.handle_watermark(write, written, self.now);
    }

    /// Claim and handlers at one moment, advance and COMMIT at a later one.
    fn transact(&mut self, w: usize, mut open: Open) {
        let p = self.workers[w].place(open.batch.partition);
        let outcome = match open.claimed.take() {
            None => match self.begin(p, &open.batch) {
                Ok(claimed) => {
                    open.claimed = Some(claimed);
                    return self.workers[w].pending.push(Pending::Transaction(open));
                }
                Err(outcome) => outcome,
            },
            Some(claimed) if open.dead => {
                self.database.roll_back(&claimed);
                Outcome::Outage("terminating connection".to_owned())
            }
            Some(claimed) => self.end(p, &open.batch, claimed),
        };
        self.note(|| format!("w{w} {outcome:?}"));
        self.see(match &outcome {
            Outcome::Committed(_) if open.batch.mode == Mode::Careful => "careful commit",
            Outcome::Committed(_) if open.batch.lanes.len() > 1 => "commit of several lanes",
            Outcome::Committed(_) => "commit of one lane",
            Outcome::Failed(failures) if failures[0].index.is_none() => "unnamed failure",
            Outcome::Failed(_) => "named failure",
            Outcome::Conflict(_) => "conflict",
            Outcome::Outage(_) => "outage",
            Outcome::Unknown(_) => "unknown commit",
            Outcome::Fenced => "fenced transaction",
            Outcome::Reused(_) => "reuse",
        });
        if open.batch.items.iter().any(|item| item.doomed.is_some()) {
            self.see("doomed event");
        }
        let passed = |step: &LaneMove| step.prev == step.new;
        if open.batch.lanes.iter().any(passed) {
            self.see("claim of a passed offset");
        }
        self.workers[w].engine.handle_outcome(open.batch, outcome, self.now);
        self.heard(w);
    }

    fn begin(&mut self, p: usize, batch: &Batch<Event>) -> Result<Claimed, Outcome> {
        let (there, _) = self.trouble();
        if there {
            return Err(Outcome::Outage("no route".to_owned()));
        }
        let claimed = self.database.claim(p, batch)?;
        let conflict = !self.calm && self.chance.one_in(15);
        let handled = if conflict {
            Err(Outcome::Conflict("could not serialize access".to_owned()))
        } else {
            self.handlers.run(batch, &claimed.verdicts, &mut self.chance)
        };
        if handled.is_err() {
            self.database.roll_back(&claimed);
        }
        handled.map(|()| claimed)
    }

    fn end(&mut self, p: usize, batch: &Batch<Event>, claimed: Claimed) -> Outcome {
        if self.calm || !self.chance.one_in(12) {
            return self.database.advance(p, batch, &claimed, &self.logs[p]);
        }
        // The answer is lost: it committed, or not, or it will.
        match self.chance.below(3) {
            0 => _ = self.database.advance(p, batch, &claimed, &self.logs[p]),
            1 => self.database.roll_back(&claimed),
            _ => {
                let open = Open { batch: batch.clone(), claimed: Some(claimed), dead: false };
                self.strays.push((p, open));
            }
        }
        Outcome::Unknown("no answer to COMMIT".to_owned())
    }

    pub(super) fn describe(&self) -> String {
        let watermarks: Vec<i64> = (0..PARTITIONS).map(|p| self.database.watermark(p)).collect();
        let ends: Vec<i64> = self.logs.iter().map(|log| log.end).collect();
        let snapshots: Vec<_> = self.workers.iter().map(|it| it.engine.snapshots()).collect();
        format!(
            "{:?} owners {:?} watermarks {watermarks:?} ends {ends:?} committed {:?} \
             {snapshots:?}",
            self.shape, self.owners, self.committed,
        )
    }
}
