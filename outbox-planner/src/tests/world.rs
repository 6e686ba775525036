//! A database and destinations around the planner: what it does to them is checked at each step.

use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    time::Duration,
};

use super::database::{Asked, Database, FeedRow, name};
use crate::{
    planner::Planner,
    types::{CallId, Conclusion, Effect, News, Outcome, ParkState, PlannerSettings, Time},
};

/// What is asked of the database, and the answer once it has looked.
#[derive(Clone, Debug)]
pub(super) struct Asking {
    pub(super) effect: Effect,
    pub(super) answer: Option<Asked>,
}

/// A call that is under way.
#[derive(Clone, Debug)]
pub(super) struct WorldCall {
    pub(super) id: CallId,
    pub(super) destination: usize,
    pub(super) seqs: Vec<i64>,
}

/// What happened.
#[derive(Clone, Debug)]
enum Note {
    Effect(Effect),
    Answer(Asked),
    Ended(Vec<i64>, Vec<Outcome>),
    Did(String),
}

/// Everything around the planner.
#[derive(Clone)]
pub(super) struct World {
    pub(super) planner: Planner<usize>,
    pub(super) database: Database,
    pub(super) now: Time,
    pub(super) asking: Option<Asking>,
    /// What is being stored, and whether it is committed.
    pub(super) storing: Option<(Conclusion, bool)>,
    pub(super) calls: Vec<WorldCall>,
    /// The rows that a destination has, in the order in which it took them first.
    pub(super) delivered: Vec<i64>,
    /// The same, to be asked.
    taken: HashSet<i64>,
    /// Rows whose destination has said that it has them: these never go once more.
    acknowledged: HashSet<i64>,
    /// How often each row has failed since a person decided about it.
    failures: BTreeMap<i64, u32>,
    /// Rows that have spent attempts.
    spent: BTreeSet<i64>,
    /// Topics that the relay knows to be missing, and those that are.
    pub(super) known_missing: HashSet<String>,
    pub(super) missing: BTreeSet<String>,
    /// What has been reported.
    pub(super) news: Vec<News>,
    /// How many effects there were.
    pub(super) effects: usize,
    pub(super) settings: PlannerSettings,
    notes: Vec<(Time, Note)>,
    /// Whether what happens is written down.
    pub(super) notes_it: bool,
}

impl World {
    pub(super) fn new(settings: PlannerSettings) -> Self {
        Self {
            planner: Planner::new(settings.clone()),
            database: Database::default(),
            now: Time::ZERO,
            asking: None,
            storing: None,
            calls: Vec::new(),
            delivered: Vec::new(),
            taken: HashSet::new(),
            acknowledged: HashSet::new(),
            failures: BTreeMap::new(),
            spent: BTreeSet::new(),
            known_missing: HashSet::new(),
            missing: BTreeSet::new(),
            news: Vec::new(),
            effects: 0,
            settings,
            notes: Vec::new(),
            notes_it: true,
        }
    }

    fn note(&mut self, note: impl FnOnce() -> Note) {
        if self.notes_it {
            self.notes.push((self.now, note()));
        }
    }

    pub(super) fn did(&mut self, what: impl Into<String>) {
        let what = what.into();
        self.note(|| Note::Did(what));
    }

    /// What happened, a line each.
    pub(super) fn trace(&self) -> String {
        let lines = self.notes.iter().map(|(at, note)| match note {
            Note::Effect(effect) => format!("{at:?} wants {effect:?}\n"),
            Note::Answer(answer) => format!("{at:?} saw {answer:?}\n"),
            Note::Ended(seqs, outcomes) => format!("{at:?} ended {seqs:?} {outcomes:?}\n"),
            Note::Did(what) => format!("{at:?} {what}\n"),
        });
        lines.collect()
    }

    /// Appends a row; answers its number. It is announced if it is visible.
    pub(super) fn append(&mut self, row: FeedRow) -> i64 {
        let seq = self.database.feed.last_key_value().map_or(1, |(seq, _)| seq + 1);
        self.did(format!("append {seq} {row:?}"));
        let visible = row.visible;
        self.database.feed.insert(seq, row);
        if visible {
            self.planner.handle_poll();
        }
        seq
    }

    /// Appends a row of one byte that is visible at once.
    pub(super) fn add(&mut self, aggregate: usize, destination: usize) -> i64 {
        self.append(FeedRow::of(aggregate, destination))
    }

    /// Carries out what the planner wants, up to the answers.
    pub(super) fn carry_out(&mut self) {
        for _ in 0..1_000 {
            let Some(effect) = self.planner.poll_effect(self.now) else {
                let next = self.planner.next_timeout(self.now);
                assert!(next.is_none_or(|at| at > self.now), "it spins: {next:?}");
                self.news.extend(self.planner.take_news());
                return;
            };
            self.effects += 1;
            self.note(|| Note::Effect(effect.clone()));
            match effect {
                Effect::Store(conclusion) => {
                    assert!(self.storing.is_none(), "one conclusion is stored at a time");
                    self.storing = Some((conclusion, false));
                }
                Effect::Call(id, destination) => self.call(id, destination),
                effect => {
                    assert!(self.asking.is_none(), "one thing is asked at a time");
                    self.asking = Some(Asking { effect, answer: None });
                }
            }
            self.check();
        }
        panic!("there is no end to what is to be done");
    }

    pub(super) fn check(&self) {
        self.planner.check();
        for name in self.planner.missing() {
            assert!(self.known_missing.contains(name), "nobody looks for {name}");
        }
    }

    fn call(&mut self, id: CallId, destination: usize) {
        let items = self.planner.call(id);
        let seqs: Vec<i64> = items.iter().map(|item| item.key.seq).collect();
        let scope = items[0].lane.scope.to_string();
        let limits = &self.settings.destinations[destination];
        assert!(!seqs.is_empty() && seqs.len() <= limits.batch_max, "{seqs:?}");
        let others = self.calls.iter().filter(|call| call.destination == destination).count();
        assert!(others < limits.calls_max, "too many calls of {destination}");
        let feed = &self.database.feed;
        let under_way = self.calls.iter().flat_map(|call| &call.seqs);
        let under_way: HashSet<usize> = under_way.map(|seq| feed[seq].aggregate).collect();
        let mut aggregates = HashSet::new();
        for (at, seq) in seqs.iter().enumerate() {
            let row = &feed[seq];
            assert_eq!((row.destination, row.scope), (destination, &*scope), "where {seq} goes");
            assert!(!row.discarded, "{seq} was discarded");
            assert!(!row.unsendable, "{seq} can never be sent");
            assert!(row.not_before <= self.now, "{seq} goes before its time");
            assert!(
                !under_way.contains(&row.aggregate),
                "two calls have events of {}",
                row.aggregate
            );
            assert!(
                aggregates.insert(row.aggregate) || limits.takes_runs,
                "{seq} goes beside others"
            );
            assert!(!self.acknowledged.contains(seq), "{seq} goes once more");
            // Everything before it of its aggregate is delivered, or discarded, or before it in the call.
            for (earlier, other) in feed.range(..seq) {
                let done = other.discarded || !other.visible || other.aggregate != row.aggregate;
                let done = done || self.acknowledged.contains(earlier);
                assert!(done || seqs[..at].contains(earlier), "{seq} overtakes {earlier}");
            }
        }
        self.calls.push(WorldCall { id, destination, seqs });
    }

    /// The database looks, and says nothing yet.
    pub(super) fn look(&mut self) {
        let Some(asking) = self.asking.as_mut().filter(|asking| asking.answer.is_none()) else {
            return;
        };
        let answer = match &asking.effect {
            Effect::Read(request) => self.database.read(*request, self.now),
            Effect::Claim(name, rows, bytes) => {
                self.database.claim(name, (*rows, *bytes), self.now)
            }
            _ => self.database.dues(self.now),
        };
        asking.answer = Some(answer.clone());
        self.note(|| Note::Answer(answer));
    }

    /// The answer of the database arrives.
    pub(super) fn answer(&mut self) {
        self.look();
        let Some(Asking { answer: Some(answer), .. }) = self.asking.take() else { return };
        self.did("answered");
        let (missing, now) = (&self.known_missing, self.now);
        match answer {
            Asked::Page(earlier, rows, end) => {
                let rows = rows.into_iter().map(|row| row.route(missing)).collect();
                self.planner.handle_page(&earlier, rows, end, now);
            }
            Asked::Claimed(rows, whole) => {
                let rows = rows.into_iter().map(|row| row.route(missing)).collect();
                self.planner.handle_claimed(rows, whole, now);
            }
            Asked::Dues(found) => self.planner.handle_dues(found, now),
        }
        self.check();
    }

    /// What was asked fails. Nobody knows whether rows were claimed: the session's claims end.
    pub(super) fn fail_ask(&mut self) {
        let Some(asking) = self.asking.take() else { return };
        self.did("the question failed");
        self.planner.handle_ask_failed(self.now);
        if matches!(asking.effect, Effect::Claim(..)) {
            self.lose_session();
        }
    }

    /// What is being stored is committed, and nobody knows yet. It may be committed once more.
    pub(super) fn commit(&mut self) {
        let Some((conclusion, committed)) = &mut self.storing else { return };
        *committed = true;
        for park in &conclusion.parked {
            let (seq, most) = (park.key.seq, self.settings.attempts_max);
            let failed = self.failures.get(&seq).copied().unwrap_or_default();
            assert!(park.attempts <= failed, "{seq}: {} attempts of {failed}", park.attempts);
            let goes_on = park.state != ParkState::Retry || park.attempts < most;
            assert!(goes_on && park.attempts <= most, "{seq}: attempt {}", park.attempts);
            if park.attempts > 0 {
                self.spent.insert(seq);
            }
        }
        for key in conclusion.sent.iter().chain(&conclusion.delivered) {
            assert!(self.acknowledged.contains(&key.seq), "{key:?} is not delivered");
        }
        self.database.store(conclusion, self.now);
        for key in &conclusion.sent {
            assert!(!self.database.parked.contains_key(&key.seq), "{key:?} is sent and parked");
        }
        self.did("committed");
    }

    /// The conclusion is stored, which is known now.
    pub(super) fn store(&mut self) {
        if self.storing.as_ref().is_some_and(|(_, committed)| !committed) {
            self.commit();
        }
        if self.storing.take().is_some() {
            self.did("stored");
            self.planner.handle_stored(self.now);
            self.check();
        }
    }

    /// A call ends, with an outcome for each of its events, and whether the destination has it.
    pub(super) fn end_call(&mut self, at: usize, outcomes: Vec<(Outcome, bool)>) {
        let WorldCall { id, seqs, .. } = self.calls.remove(at);
        for (seq, (outcome, taken)) in seqs.iter().zip(&outcomes) {
            if *taken && self.taken.insert(*seq) {
                self.delivered.push(*seq);
            }
            match outcome {
                Outcome::Delivered => {
                    assert!(taken, "what is acknowledged is there");
                    self.acknowledged.insert(*seq);
                }
                Outcome::Awaits(name, _) => {
                    self.known_missing.insert(name.clone());
                }
                Outcome::Failed(..) | Outcome::Unavailable(..) | Outcome::Refused(_) => {
                    *self.failures.entry(*seq).or_default() += 1;
                }
                Outcome::Unsendable(_) | Outcome::NotTried => {}
            }
        }
        let outcomes: Vec<Outcome> = outcomes.into_iter().map(|(outcome, _)| outcome).collect();
        self.note(|| Note::Ended(seqs, outcomes.clone()));
        self.planner.handle_outcomes(id, outcomes, self.now);
        self.check();
    }

    /// The relay asks for the topics that it knows to be missing.
    pub(super) fn ask_for_topics(&mut self) {
        let there = |name: &String| !self.missing.contains(name);
        let mut found: Vec<String> =
            self.known_missing.iter().filter(|it| there(it)).cloned().collect();
        found.sort_unstable();
        for name in found {
            self.did(format!("found {name}"));
            self.known_missing.remove(&name);
            self.planner.handle_found(&name, self.now);
        }
    }

    /// A person retries or discards a row.
    pub(super) fn decide(&mut self, seq: i64, discard: bool) -> bool {
        let decided = self.database.decide(seq, discard, self.now);
        if decided {
            self.did(format!("decided {seq}, discard {discard}"));
        }
        decided
    }

    /// A session is lost, and another opened; nothing is asked then.
    pub(super) fn lose_session(&mut self) {
        self.did("session lost");
        if self.asking.take().is_some() {
            self.planner.handle_ask_failed(self.now);
        }
        self.database.end_claims();
        self.planner.forget_rows(self.now);
        self.check();
    }

    /// The database answers all, and time passes, for this long; calls go on.
    pub(super) fn run_for(&mut self, time: Duration) {
        let until = self.now + time;
        loop {
            self.settle_database();
            match self.planner.next_timeout(self.now) {
                Some(next) if next <= until => self.now = next,
                _ => break,
            }
        }
        self.now = until;
        self.settle_database();
    }

    /// The database answers until there is nothing to ask it now.
    pub(super) fn settle_database(&mut self) {
        for _ in 0..1_000 {
            self.carry_out();
            if self.asking.is_none() && self.storing.is_none() {
                return;
            }
            self.answer();
            self.store();
        }
        panic!("the database is asked for ever");
    }

    /// The rows of the calls that are under way, in order.
    pub(super) fn under_way(&self) -> Vec<i64> {
        let mut seqs: Vec<i64> = self.calls.iter().flat_map(|call| call.seqs.clone()).collect();
        seqs.sort_unstable();
        seqs
    }

    /// The call that has a row ends: the row and all beside it have one outcome.
    pub(super) fn end(&mut self, seq: i64, outcome: Outcome) {
        let at = self.calls.iter().position(|call| call.seqs.contains(&seq));
        let at = at.unwrap_or_else(|| panic!("{seq} is not under way: {:?}", self.calls));
        let taken = outcome == Outcome::Delivered;
        let outcomes = vec![(outcome, taken); self.calls[at].seqs.len()];
        self.end_call(at, outcomes);
    }

    /// All calls end well, and those that follow, until there is nothing to do now.
    pub(super) fn deliver_all(&mut self) {
        for _ in 0..1_000 {
            self.settle_database();
            let Some(call) = self.calls.first() else { return };
            self.end(call.seqs[0], Outcome::Delivered);
        }
        panic!("there is no end to what is delivered");
    }

    /// How a row is parked.
    pub(super) fn state(&self, seq: i64) -> Option<ParkState> {
        self.database.parked.get(&seq).map(|park| park.state)
    }

    pub(super) fn attempts(&self, seq: i64) -> u32 {
        self.database.parked.get(&seq).map_or(0, |park| park.attempts)
    }

    pub(super) fn is_done(&self, seq: i64) -> bool {
        let row = &self.database.feed[&seq];
        row.sent || row.discarded
    }

    /// Rows that are neither sent nor discarded, though nobody has to decide about them or about one before them.
    pub(super) fn undone(&self) -> Vec<i64> {
        let waits_for_person = |seq: i64, aggregate: usize| {
            self.database.parked.range(..=seq).any(|(earlier, park)| {
                self.database.feed[earlier].aggregate == aggregate
                    && park.state == ParkState::Parked
            })
        };
        let rows = self.database.feed.iter();
        let undone = rows
            .filter(|(seq, row)| !self.is_done(**seq) && !waits_for_person(**seq, row.aggregate));
        undone.map(|(seq, _)| *seq).collect()
    }

    /// The rows that have spent attempts, as they were stored.
    pub(super) fn failed_for_themselves(&self) -> impl Iterator<Item = i64> {
        self.spent.iter().copied()
    }

    /// The lane of a destination without parts is out.
    pub(super) fn is_out(&self, destination: usize) -> bool {
        self.planner.outages().any(|(key, ..)| key.destination == destination)
    }

    pub(super) fn queue_of(&self, aggregate: usize) -> usize {
        self.planner.in_memory(&name(aggregate))
    }
}
