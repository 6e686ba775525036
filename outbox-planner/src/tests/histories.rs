//! Seeded histories: anything may happen in any order, and once everything works all that may go is delivered.

use std::{
    collections::HashSet,
    panic::{AssertUnwindSafe, catch_unwind},
    time::Duration,
};

use super::{chance::Chance, database::FeedRow, settings, world::World};
use crate::types::{Outcome, PlannerSettings};

const DESTINATIONS: usize = 3;
const STEPS: usize = 300;

/// How a destination answers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Mode {
    Works,
    /// To this percentage of the events something happens.
    Mixed(usize),
    Unavailable,
    Fails,
    Refuses,
    /// Not at all.
    Silent,
}

const MODES: [Mode; 8] = [
    Mode::Works,
    Mode::Works,
    Mode::Mixed(10),
    Mode::Mixed(50),
    Mode::Unavailable,
    Mode::Fails,
    Mode::Refuses,
    Mode::Silent,
];

struct History {
    world: World,
    chance: Chance,
    modes: Vec<Mode>,
    aggregates: usize,
    destinations: usize,
    /// In what percentage of its answers the database fails.
    faults: usize,
}

fn asks_to_wait(chance: &mut Chance) -> Option<Duration> {
    chance.in_percent(20).then(|| Duration::from_secs(chance.next() % 40))
}

/// What a destination that takes events one by one answers, and whether it has the event.
fn outcome(chance: &mut Chance, mode: Mode) -> (Outcome, bool) {
    let after = asks_to_wait(chance);
    match mode {
        Mode::Works | Mode::Silent => (Outcome::Delivered, true),
        Mode::Unavailable => (Outcome::Unavailable("refused".into(), after), false),
        Mode::Fails => (Outcome::Failed("500".into(), after), false),
        Mode::Refuses => (Outcome::Refused("404".into()), false),
        Mode::Mixed(trouble) if !chance.in_percent(trouble) => (Outcome::Delivered, true),
        Mode::Mixed(_) => match chance.below(7) {
            0 => (Outcome::Refused("404".into()), false),
            1 | 2 => (Outcome::Unavailable("refused".into(), after), false),
            3 => (Outcome::Failed("lost".into(), after), true),
            4 => (Outcome::Failed("500".into(), after), false),
            5 => (Outcome::Unsendable("400".into()), false),
            _ => (Outcome::NotTried, false),
        },
    }
}

/// The same of one that takes runs.
fn run_outcome(chance: &mut Chance, mode: Mode) -> (Outcome, bool) {
    match mode {
        Mode::Works | Mode::Silent => (Outcome::Delivered, true),
        Mode::Mixed(trouble) if !chance.in_percent(trouble) => (Outcome::Delivered, true),
        Mode::Mixed(_) if chance.in_percent(30) => (Outcome::Unsendable("too large".into()), false),
        Mode::Fails => (Outcome::Failed("no answer".into(), asks_to_wait(chance)), false),
        _ => (Outcome::NotTried, chance.in_percent(30)),
    }
}

impl History {
    fn new(seed: u64) -> Self {
        let mut chance = Chance::new(seed);
        let mut settings: PlannerSettings = settings(DESTINATIONS);
        let mut destinations = DESTINATIONS;
        if chance.in_percent(30) {
            (settings.rows_max, settings.batch_rows) = (8, 4);
        }
        if chance.in_percent(20) {
            (settings.batch_bytes, settings.bytes_max) = (20, 60);
        }
        if chance.in_percent(15) {
            (settings.one_lane, destinations) = (true, 1);
        }
        let modes = (0..DESTINATIONS).map(|_| chance.one_of(&MODES)).collect();
        let aggregates = chance.one_of(&[1, 2, 5, 12]);
        let faults = chance.one_of(&[0, 0, 5, 20]);
        // One aggregate fills the memory.
        let crowd = if chance.in_percent(10) { 60 + chance.below(120) } else { 0 };
        if crowd > 0 {
            (settings.rows_max, settings.batch_rows) = (80 + chance.below(80), 40);
            (settings.batch_bytes, settings.bytes_max) = (10_000, 100_000);
        }
        let mut world = World::new(settings);
        if chance.in_percent(80) {
            world.planner.handle_up(0, world.now);
        }
        for _ in 0..crowd {
            world.add(0, chance.below(destinations));
        }
        Self { world, chance, modes, aggregates, destinations, faults }
    }

    fn append(&mut self) {
        let (world, chance) = (&mut self.world, &mut self.chance);
        let mut row = FeedRow::of(chance.below(self.aggregates), chance.below(self.destinations));
        // Who appends to an aggregate waits for the transaction before.
        let mut feed = world.database.feed.values();
        if feed.any(|other| other.aggregate == row.aggregate && !other.visible) {
            return;
        }
        row.bytes = 1 + chance.below(30);
        row.visible = chance.in_percent(80);
        row.unsendable = chance.in_percent(2);
        if row.destination == 2 {
            row.scope = chance.one_of(&["", "a", "b"]);
        }
        if chance.in_percent(5) {
            row.not_before = world.now + Duration::from_secs(chance.next() % 20);
        }
        world.append(row);
    }

    fn end_call(&mut self) {
        let (world, chance) = (&mut self.world, &mut self.chance);
        let answers = |destination: usize| self.modes[destination] != Mode::Silent;
        let calls: Vec<usize> =
            (0..world.calls.len()).filter(|at| answers(world.calls[*at].destination)).collect();
        if calls.is_empty() {
            return;
        }
        let at = chance.one_of(&calls);
        let call = &world.calls[at];
        let (mode, runs) = (self.modes[call.destination], call.destination == 0);
        let mut outcomes: Vec<(Outcome, bool)> = Vec::new();
        let mut stopped = HashSet::new();
        for seq in &call.seqs {
            let row = &world.database.feed[seq];
            let topic = row.topic().filter(|topic| world.missing.contains(topic));
            let outcome = match topic {
                // Order is kept: what is behind one that did not go was not tried.
                _ if stopped.contains(&row.aggregate) => (Outcome::NotTried, false),
                Some(topic) => (Outcome::Awaits(topic, "missing".into()), false),
                None if runs => run_outcome(chance, mode),
                None => outcome(chance, mode),
            };
            if outcome.0 != Outcome::Delivered {
                stopped.insert(row.aggregate);
            }
            outcomes.push(outcome);
        }
        if runs && chance.in_percent(10) {
            world.planner.handle_mixed(0, call.seqs.len());
        }
        if runs && mode == Mode::Unavailable {
            world.planner.handle_down(0, "broken".into(), world.now);
        }
        world.end_call(at, outcomes);
    }

    fn commit_appends(&mut self, percent: usize) {
        for row in self.world.database.feed.values_mut() {
            row.visible |= self.chance.in_percent(percent);
        }
        self.world.did("appends are committed");
        match self.chance.below(3) {
            0 => self.world.planner.handle_poll(),
            1 => self.world.planner.handle_announced(self.world.now),
            // Nobody says so.
            _ => {}
        }
    }

    fn person_decides(&mut self) {
        let parked: Vec<i64> = self.world.database.parked.keys().copied().collect();
        if parked.is_empty() {
            return;
        }
        let (seq, discard) = (self.chance.one_of(&parked), self.chance.in_percent(50));
        if self.world.decide(seq, discard) && self.chance.in_percent(50) {
            self.world.planner.handle_announced(self.world.now);
        }
    }

    fn change_topic(&mut self) {
        let name = format!("d0:t{}", self.chance.below(2));
        if !self.world.missing.remove(&name) {
            self.world.missing.insert(name);
        }
    }

    fn step(&mut self) {
        let fault = self.chance.in_percent(self.faults);
        match self.chance.below(100) {
            0..20 => self.append(),
            20..27 => self.commit_appends(50),
            27..47 => self.end_call(),
            47..54 => self.world.look(),
            54..64 if fault => self.world.fail_ask(),
            54..64 => self.world.answer(),
            64..69 => self.world.commit(),
            69..77 if fault => self.world.lose_session(),
            69..77 => self.world.store(),
            77..85 => self.world.now += Duration::from_millis(self.chance.next() % 700),
            85..90 => {
                let next = self.world.planner.next_timeout(self.world.now);
                self.world.now = next.unwrap_or(self.world.now);
            }
            90..93 => self.person_decides(),
            93 => {
                self.world.did("down");
                self.world.planner.handle_down(0, "away".into(), self.world.now);
            }
            94..96 => {
                self.world.did("up");
                self.world.planner.handle_up(0, self.world.now);
            }
            96 => self.change_topic(),
            97 => self.world.ask_for_topics(),
            98 => {
                let at = self.chance.below(DESTINATIONS);
                self.modes[at] = self.chance.one_of(&MODES);
                self.world.did(format!("modes {:?}", self.modes));
            }
            _ => {
                if self.chance.in_percent(30) {
                    self.world.now += Duration::from_secs(self.chance.next() % 90);
                }
            }
        }
        self.world.carry_out();
    }

    /// Everything works from now on.
    fn finish(&mut self) {
        self.world.did("everything works");
        self.modes = vec![Mode::Works; DESTINATIONS];
        self.world.missing.clear();
        self.world.planner.handle_up(0, self.world.now);
        self.commit_appends(100);
        self.world.planner.handle_poll();
        let ends = self.world.now + Duration::from_mins(15);
        let (mut idle, mut before) = (0, 0);
        for turn in 0.. {
            if self.world.now >= ends {
                break;
            }
            assert!(turn < 20_000, "there is no end: {:?}", self.world.database.parked);
            idle = if self.world.effects == before { idle + 1 } else { 0 };
            before = self.world.effects;
            self.world.ask_for_topics();
            self.world.carry_out();
            assert!(idle < 100, "it wakes often for nothing");
            self.end_call();
            self.world.answer();
            self.world.store();
            self.world.carry_out();
            let world = &mut self.world;
            if world.calls.is_empty() && world.asking.is_none() && world.storing.is_none() {
                world.ask_for_topics();
                world.carry_out();
                let next = world.planner.next_timeout(world.now).unwrap_or(ends);
                world.now = next.max(world.now);
            }
        }
        let undone = self.world.undone();
        let what = |seq: &i64| (*seq, self.world.database.parked.get(seq));
        assert!(
            undone.is_empty(),
            "never delivered: {:?}",
            undone.iter().map(what).collect::<Vec<_>>()
        );
        let left = &self.world.planner.lanes;
        assert!(left.is_empty(), "lanes that nothing is to be remembered of: {left:?}");
    }
}

fn history(seed: u64) -> Result<usize, String> {
    let mut history = History::new(seed);
    let ran = catch_unwind(AssertUnwindSafe(|| {
        for _ in 0..STEPS {
            history.step();
        }
        history.finish();
    }));
    ran.map(|()| history.world.effects).map_err(|_| history.world.trace())
}

fn number_of(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

/// How many is set by `PLANNER_SEEDS`, the first by `PLANNER_FROM`.
#[test]
#[expect(clippy::print_stderr, reason = "a failure is to be found again")]
fn in_any_history_order_is_kept_and_what_may_go_is_delivered() {
    let (seeds, from) = (number_of("PLANNER_SEEDS"), number_of("PLANNER_FROM").unwrap_or(0));
    for seed in from..from + seeds.unwrap_or(1_500) {
        if let Err(trace) = history(seed) {
            eprintln!("{trace}");
            panic!("seed {seed}");
        }
    }
}
