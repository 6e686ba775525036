//! Seeded histories: everything that can happen, in any order, and then everything works.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use super::{
    tables::{Nature, Place},
    world::{World, lane, ms, settings},
};
use crate::types::{CallId, LaneKey, Outcome, ParkState, PlannerSettings, Time};

/// How long things fail.
const TROUBLE: Duration = Duration::from_secs(6);
/// Once all works, everything is delivered in this time.
const BOUND: Duration = Duration::from_secs(90);
const TOPIC: &str = "kafka:late";

/// The same numbers for the same seed.
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, most: u64) -> u64 {
        self.next() % most
    }

    fn percent(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[usize::try_from(self.below(of.len() as u64)).unwrap()]
    }
}

/// How a lane is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Good,
    Slow,
    Away,
    RefusesAll,
    FailsAll,
}

struct History {
    world: World,
    chance: Chance,
    modes: BTreeMap<LaneKey, Mode>,
    ask_at: Option<Time>,
    store_at: Option<Time>,
    calls_at: BTreeMap<u64, Time>,
    script_at: Time,
    poll_at: Time,
    last: i64,
    /// Percentages: of single failures, of the database's failures, of events that are never taken.
    flaky: u64,
    faults: u64,
    poison: u64,
    aggregates: u64,
    visible: BTreeMap<u64, Time>,
    /// Rows that are appended while all works, so that something can be delivered.
    canaries: BTreeSet<i64>,
    is_healed: bool,
}

fn lanes() -> Vec<LaneKey> {
    vec![lane(0, ""), lane(1, "a"), lane(1, "b"), lane(2, "")]
}

fn some_settings(chance: &mut Chance) -> PlannerSettings {
    let mut settings = settings();
    settings.batch_rows = chance.pick(&[3, 8, 16, 40]);
    settings.rows_max = settings.batch_rows * chance.pick(&[2, 4]);
    settings.batch_bytes = chance.pick(&[60, 200, 1_600]);
    settings.bytes_max = settings.batch_bytes * 4;
    settings.one_lane = chance.percent(10);
    settings.attempts_max = chance.pick(&[1, 3, 6]);
    settings
}

impl History {
    fn new(seed: u64) -> Self {
        let mut chance = Chance(seed);
        let mut world = World::new(some_settings(&mut chance));
        world.traces = std::env::var_os("PLANNER_TRACE").is_some();
        if chance.percent(50) {
            world.missing.insert(TOPIC.to_owned());
        }
        Self {
            world,
            modes: lanes().into_iter().map(|key| (key, Mode::Good)).collect(),
            ask_at: None,
            store_at: None,
            calls_at: BTreeMap::new(),
            script_at: Time::ZERO,
            poll_at: Time::ZERO,
            last: 0,
            flaky: chance.pick(&[0, 0, 5, 20]),
            faults: chance.pick(&[0, 0, 3, 15]),
            poison: chance.pick(&[0, 0, 3, 10]),
            aggregates: chance.pick(&[2, 6, 20]),
            visible: BTreeMap::new(),
            canaries: BTreeSet::new(),
            is_healed: false,
            chance,
        }
    }

    fn run(&mut self) {
        while self.world.now < TROUBLE {
            self.step();
        }
        self.heal();
        let until = self.world.now + BOUND;
        while !self.is_over() {
            assert!(self.world.now < until, "not all is delivered: {:?}", self.world);
            self.step();
        }
    }

    /// Until the next thing happens.
    fn step(&mut self) {
        let next = self.world.planner.next_timeout(self.world.now);
        let ends = [self.ask_at, self.store_at, next].into_iter().flatten();
        let ends = ends.chain(self.calls_at.values().copied());
        let now = ends.chain([self.script_at, self.poll_at]).min().unwrap();
        self.world.now = now.max(self.world.now);
        let now = self.world.now;
        if self.ask_at.is_some_and(|at| at <= now) {
            self.end_asked();
        }
        if self.store_at.is_some_and(|at| at <= now) {
            self.end_store();
        }
        let ended: Vec<u64> =
            self.calls_at.iter().filter(|(_, at)| **at <= now).map(|(id, _)| *id).collect();
        for id in ended {
            self.end_call(id);
        }
        if self.poll_at <= now {
            self.world.planner.handle_poll();
            self.poll_at = now + ms(500);
        }
        if self.script_at <= now {
            if self.is_healed { self.append_canaries() } else { self.act() }
        }
        self.world.settle();
        self.note_begun();
    }

    fn note_begun(&mut self) {
        let (now, slow) = (self.world.now, if self.is_healed { 5 } else { 60 });
        if self.world.asked.is_some() && self.ask_at.is_none() {
            if self.chance.percent(50) {
                self.world.look();
            }
            self.ask_at = Some(now + ms(1 + self.chance.below(slow)));
        }
        if self.world.storing.is_some() && self.store_at.is_none() {
            if self.chance.percent(50) {
                self.world.commit();
            }
            self.store_at = Some(now + ms(1 + self.chance.below(slow)));
        }
        for (id, seqs) in &self.world.calls {
            let mode = self.modes[&self.world.tables.rows[&seqs[0]].lane];
            let most = if mode == Mode::Slow { 2_000 } else { 2 * slow };
            self.calls_at.entry(*id).or_insert_with(|| now + ms(1 + self.chance.below(most)));
        }
    }

    fn fails(&mut self) -> bool {
        !self.is_healed && self.chance.percent(self.faults)
    }

    fn end_asked(&mut self) {
        self.ask_at = None;
        if self.fails() {
            self.world.fail_asked();
        } else {
            self.world.answer_asked();
        }
    }

    fn end_store(&mut self) {
        self.store_at = None;
        if self.fails() {
            let is_committed = self.chance.percent(50);
            self.world.fail_store(is_committed);
            if self.chance.percent(50) {
                self.lose_session();
            }
        } else {
            self.world.store();
        }
    }

    /// What is asked and stored fails, and all is read again.
    fn lose_session(&mut self) {
        if self.world.asked.is_some() {
            self.ask_at = None;
            self.world.fail_asked();
        }
        if self.world.storing.is_some() && !self.world.is_unstored {
            self.store_at = None;
            let is_committed = self.chance.percent(50);
            self.world.fail_store(is_committed);
        }
        self.world.forget();
        self.world.check();
    }

    fn end_call(&mut self, id: u64) {
        self.calls_at.remove(&id);
        let seqs = self.world.calls[&id].clone();
        let key = self.world.tables.rows[&seqs[0]].lane.clone();
        let mode = self.modes[&key];
        let natures: Vec<Nature> =
            seqs.iter().map(|seq| self.world.tables.rows[seq].nature).collect();
        let asks = self.chance.percent(10).then(|| ms(self.chance.below(4_000)));
        if mode == Mode::Away || natures.contains(&Nature::Kills) {
            let unknown = if self.chance.percent(10) { seqs.clone() } else { Vec::new() };
            let outcomes = vec![Outcome::Unavailable("away".to_owned(), asks); seqs.len()];
            return self.world.end_call(id, outcomes, &unknown);
        }
        if !self.is_healed && self.chance.percent(self.flaky) && seqs.len() > 1 {
            let planner = &mut self.world.planner;
            planner.handle_mixed(key.destination, planner.call(CallId(id)).len());
            let outcomes = vec![Outcome::NotTried; seqs.len()];
            return self.world.end_call(id, outcomes, &[]);
        }
        let (mut broken, mut unknown, mut outcomes) = (BTreeSet::new(), Vec::new(), Vec::new());
        for (seq, nature) in seqs.iter().zip(natures) {
            let row = &self.world.tables.rows[seq];
            let aggregate = Arc::clone(&row.aggregate);
            let topic = row.topic.clone().filter(|topic| self.world.missing.contains(topic));
            let outcome = match (mode, nature) {
                _ if broken.contains(&aggregate) => Outcome::NotTried,
                (_, Nature::Unsendable) => Outcome::Unsendable("no".to_owned()),
                _ if topic.is_some() => Outcome::Awaits(topic.unwrap(), "missing".to_owned()),
                (_, Nature::Refused) | (Mode::RefusesAll, _) => Outcome::Refused("no".to_owned()),
                (_, Nature::Fails) | (Mode::FailsAll, _) => Outcome::Failed("no".to_owned(), asks),
                _ if !self.is_healed && self.chance.percent(self.flaky) => {
                    if self.chance.percent(30) {
                        unknown.push(*seq);
                    }
                    Outcome::Failed("flaky".to_owned(), asks)
                }
                _ => Outcome::Delivered,
            };
            if outcome != Outcome::Delivered {
                broken.insert(aggregate);
            }
            outcomes.push(outcome);
        }
        self.world.end_call(id, outcomes, &unknown);
    }

    fn act(&mut self) {
        let now = self.world.now;
        self.script_at = now + ms(5 + self.chance.below(250));
        match self.chance.below(20) {
            0..=8 => self.append(),
            9..=11 => {
                let modes = [Mode::Good, Mode::Slow, Mode::Away, Mode::RefusesAll, Mode::FailsAll];
                let (key, mode) = (self.chance.pick(&[0, 1, 2, 3]), self.chance.pick(&modes));
                self.modes.insert(lanes()[key].clone(), mode);
            }
            12 => self.modes.values_mut().for_each(|mode| *mode = Mode::Good),
            13 | 14 => self.world.planner.handle_up(0, now),
            15 => self.world.planner.handle_down(0, "down".to_owned(), now),
            16 => self.world.found(TOPIC),
            17 | 18 => self.decide(),
            _ if self.chance.percent(self.faults * 4) => self.lose_session(),
            _ => {}
        }
    }

    /// A person decides about parked rows.
    fn decide(&mut self) {
        let (now, discards) = (self.world.now, self.chance.percent(30));
        let tables = &self.world.tables;
        let parked = |seq: &i64| tables.parked(*seq).is_some();
        let seqs: Vec<i64> = tables.rows.keys().copied().filter(parked).collect();
        for seq in seqs {
            if !self.chance.percent(30) {
                continue;
            }
            self.world.trace(|| format!("decide {seq}, discards {discards}"));
            let tables = &mut self.world.tables;
            if discards { tables.discard(seq, now) } else { tables.retry(seq, now) }
        }
        if self.chance.percent(80) {
            self.world.planner.handle_announced(now);
        }
    }

    fn append(&mut self) {
        let now = self.world.now;
        let count = if self.chance.percent(15) { 40 } else { 1 + self.chance.below(6) };
        let hot = self.chance.percent(20).then(|| self.chance.below(self.aggregates));
        let only = self.chance.percent(30).then(|| self.chance.pick(&[0, 1, 2, 3]));
        let only = if self.world.planner.settings.one_lane { Some(3) } else { only };
        for _ in 0..count {
            self.last += 1;
            let aggregate = hot.unwrap_or_else(|| self.chance.below(self.aggregates));
            // Most aggregates have one lane.
            let own = usize::try_from(aggregate % 4).unwrap();
            let own = if self.chance.percent(10) { self.chance.pick(&[0, 1, 2, 3]) } else { own };
            let key = lanes()[only.unwrap_or(own)].clone();
            let late = if self.chance.percent(15) { self.chance.below(600) } else { 0 };
            let visible = self.visible.entry(aggregate).or_default();
            *visible = (now + ms(late)).max(*visible);
            let row = self.world.append(self.last, &format!("a/{aggregate}"), key.clone());
            row.visible_at = *visible;
            row.bytes = usize::try_from(1 + self.chance.below(40)).unwrap();
            if key.destination == 0 && self.chance.percent(10) {
                row.topic = Some(TOPIC.to_owned());
            }
            if self.chance.percent(5) {
                row.deliver_at = now + ms(self.chance.below(3_000));
            }
            if self.chance.percent(self.poison) {
                let natures = [Nature::Fails, Nature::Refused, Nature::Unsendable, Nature::Kills];
                row.nature = self.chance.pick(&natures);
            }
        }
        if self.chance.percent(80) {
            self.world.planner.handle_announced(now);
        }
    }

    fn heal(&mut self) {
        self.is_healed = true;
        self.modes.values_mut().for_each(|mode| *mode = Mode::Good);
        self.world.planner.handle_up(0, self.world.now);
        self.world.found(TOPIC);
        self.script_at = self.world.now;
    }

    fn append_canaries(&mut self) {
        self.script_at = self.world.now + ms(1_000);
        let one = usize::from(self.world.planner.settings.one_lane) * 3;
        for key in lanes().split_off(one) {
            self.last += 1;
            self.canaries.insert(self.last);
            self.world.append(self.last, &format!("canary/{}", self.last), key);
        }
    }

    /// Everything is where it stays.
    fn is_over(&self) -> bool {
        let tables = &self.world.tables;
        let mut stuck = BTreeSet::new();
        tables.rows.iter().all(|(seq, row)| match &row.place {
            _ if self.canaries.contains(seq) => true,
            Place::Sent | Place::Discarded => true,
            Place::Feed => false,
            Place::Parked(parked) if parked.state == ParkState::Parked => {
                stuck.insert(&row.aggregate);
                true
            }
            Place::Parked(parked) => {
                parked.state == ParkState::Behind && stuck.contains(&row.aggregate)
            }
        })
    }
}

#[test]
fn any_history_keeps_order_and_bounds_and_comes_to_an_end() {
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let (first, count) = (number("PLANNER_FIRST").unwrap_or(0), number("PLANNER_SEEDS"));
    let (next, end) = (AtomicU64::new(first), first + count.unwrap_or(1_500));
    std::thread::scope(|scope| {
        let threads = std::thread::available_parallelism().map_or(2, usize::from);
        let work = || loop {
            let seed = next.fetch_add(1, Relaxed);
            if seed >= end {
                return;
            }
            let run = std::panic::AssertUnwindSafe(|| History::new(seed).run());
            let result = std::panic::catch_unwind(run);
            if let Err(panic) = result {
                next.store(end, Relaxed);
                let text = panic.downcast_ref::<String>().map_or("?", |text| text);
                panic!("PLANNER_FIRST={seed} PLANNER_SEEDS=1 fails: {text}");
            }
        };
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        for thread in threads {
            if let Err(panic) = thread.join() {
                std::panic::resume_unwind(panic);
            }
        }
    });
}
