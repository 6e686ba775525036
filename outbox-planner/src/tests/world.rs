//! A planner, a database and destinations. Every step is checked.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::Arc,
    time::Duration,
};

use super::tables::{Found, Nature, Page, Place, Row, Tables};
use crate::{
    planner::Planner,
    types::{
        CallId, Conclusion, DestinationLimits, Effect, Fate, Incoming, LaneKey, Outcome,
        PlannerSettings, ReadRequest, RowKey, Time,
    },
};

pub(super) fn ms(count: u64) -> Duration {
    Duration::from_millis(count)
}

/// What the database was asked, and what it has seen so far.
#[derive(Clone, Debug)]
pub(super) enum Asked {
    Read(ReadRequest, Option<Page>),
    Claim(String, usize, usize, Option<Vec<Found>>),
    Dues,
}

#[derive(Clone)]
pub(super) struct World {
    pub(super) now: Time,
    pub(super) planner: Planner<()>,
    pub(super) tables: Tables,
    pub(super) asked: Option<Asked>,
    pub(super) storing: Option<Conclusion>,
    /// It is committed, and the answer comes later.
    pub(super) is_committed: bool,
    /// It failed, and is stored again.
    pub(super) is_unstored: bool,
    pub(super) calls: BTreeMap<u64, Vec<i64>>,
    /// Topics that are missing.
    pub(super) missing: BTreeSet<String>,
    /// What was asked and failed is not asked again at once: since when, of reads, claims and dues.
    failed_at: [Option<Time>; 3],
    /// When each claim of a name began.
    pub(super) claims: Vec<(Time, String)>,
    /// Prints what happens.
    pub(super) traces: bool,
    /// All conclusions that were stored.
    pub(super) stored: Vec<Conclusion>,
}

pub(super) fn lane(destination: usize, scope: &str) -> LaneKey {
    LaneKey { destination, scope: scope.into() }
}

/// Kafka, which takes runs, and two other destinations.
pub(super) fn settings() -> PlannerSettings {
    let limits = |name: &str, batch_max, calls_max, kafka| DestinationLimits {
        name: name.to_owned(),
        batch_max,
        calls_max,
        takes_runs: kafka,
        connects: kafka,
    };
    PlannerSettings {
        destinations: vec![
            limits("kafka", 8, 1, true),
            limits("web", 1, 4, false),
            limits("batch", 3, 2, false),
        ],
        one_lane: false,
        batch_rows: 16,
        batch_bytes: 1_600,
        rows_max: 64,
        bytes_max: 6_400,
        attempts_max: 3,
        delay_min: ms(500),
        delay_max: ms(2_000),
        outage_delay_max: ms(2_000),
        outage_of: 3,
        dues_every: ms(10_000),
        backoff: |first, longest, tries| longest.min(first * 2_u32.pow(tries.min(16))),
    }
}

impl fmt::Debug for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { now, planner, tables, asked, storing, calls, .. } = self;
        writeln!(f, "\nat {now:?}; asked {asked:?}\nstoring {storing:?}\ncalls {calls:?}")?;
        for (key, lane) in &planner.lanes {
            writeln!(f, "{key:?} {lane:?}")?;
        }
        for (name, queue) in &planner.queues {
            writeln!(f, "{name} {queue:?}")?;
        }
        writeln!(f, "{:?}\n{:?}\n{:?}", planner.dues, planner.reading, planner.store)?;
        for (seq, row) in tables
            .rows
            .iter()
            .filter(|(_, row)| !matches!(row.place, Place::Sent | Place::Discarded))
        {
            writeln!(f, "{seq} {row:?}")?;
        }
        Ok(())
    }
}

impl World {
    pub(super) fn new(settings: PlannerSettings) -> Self {
        Self {
            now: Time::ZERO,
            planner: Planner::new(settings),
            tables: Tables::default(),
            asked: None,
            storing: None,
            is_committed: false,
            is_unstored: false,
            calls: BTreeMap::new(),
            missing: BTreeSet::new(),
            failed_at: [None; 3],
            claims: Vec::new(),
            traces: false,
            stored: Vec::new(),
        }
    }

    #[expect(clippy::print_stderr, reason = "for whoever looks for a bug")]
    pub(super) fn trace(&self, what: impl FnOnce() -> String) {
        if self.traces {
            eprintln!("{:?} {}", self.now, what());
        }
    }

    pub(super) fn append(&mut self, seq: i64, aggregate: &str, lane: LaneKey) -> &mut Row {
        let row = Row {
            aggregate: aggregate.into(),
            lane,
            topic: None,
            bytes: 10,
            deliver_at: Time::ZERO,
            visible_at: self.now,
            nature: Nature::Good,
            place: Place::Feed,
            deliveries: 0,
            is_unknown: false,
        };
        assert!(self.tables.rows.insert(seq, row).is_none(), "numbers are given once");
        self.tables.rows.get_mut(&seq).unwrap()
    }

    fn key(seq: i64) -> RowKey {
        RowKey { seq, event: u128::from(seq.unsigned_abs()) }
    }

    fn incoming(&self, (seq, blocked, attempts): Found, claimed: bool) -> Incoming<()> {
        let row = &self.tables.rows[&seq];
        let topic =
            row.topic.as_ref().filter(|topic| self.planner.missing().any(|it| it == *topic));
        let destination = topic.cloned().unwrap_or_else(|| self.planner.name(&row.lane));
        let left = row.deliver_at.saturating_sub(self.now);
        let fate = match topic {
            _ if blocked => Fate::Later(Duration::ZERO),
            _ if !left.is_zero() => Fate::Later(left),
            Some(topic) => Fate::Awaits(format!("{topic} is missing")),
            None => Fate::Send(row.lane.clone(), ()),
        };
        Incoming {
            key: Self::key(seq),
            aggregate: Arc::clone(&row.aggregate),
            blocked,
            claimed,
            attempts,
            bytes: row.bytes,
            destination,
            fate,
        }
    }

    /// Carries out what the planner decides, until it has nothing more to do now.
    pub(super) fn settle(&mut self) {
        for _ in 0..2_000 {
            let Some(effect) = self.planner.poll_effect(self.now) else {
                let next = self.planner.next_timeout(self.now);
                assert!(next.is_none_or(|at| at > self.now), "it spins: {next:?}, {self:?}");
                self.check();
                return;
            };
            self.begin(effect);
            self.check();
        }
        panic!("it never comes to rest: {self:?}");
    }

    fn begin(&mut self, effect: Effect) {
        self.trace(|| format!("{effect:?}"));
        let kind = match &effect {
            Effect::Read(_) => 0,
            Effect::Claim(..) => 1,
            Effect::AskDues => 2,
            Effect::Store(conclusion) => {
                assert!(self.storing.is_none(), "one conclusion is stored at a time");
                self.storing = Some(conclusion.clone());
                return;
            }
            Effect::Call(id, destination) => return self.begin_call(*id, *destination),
        };
        assert!(self.asked.is_none(), "the database is asked one thing at a time");
        if let Some(at) = self.failed_at[kind] {
            assert!(self.now >= at + ms(50), "what failed is asked again at once: {effect:?}");
        }
        self.asked = Some(match effect {
            Effect::Read(request) => Asked::Read(request, None),
            Effect::Claim(name, rows, bytes) => {
                self.claims.push((self.now, name.clone()));
                Asked::Claim(name, rows, bytes, None)
            }
            _ => Asked::Dues,
        });
    }

    fn begin_call(&mut self, id: CallId, destination: usize) {
        let seqs: Vec<i64> = self.planner.call(id).iter().map(|item| item.key.seq).collect();
        let limits = &self.planner.settings.destinations[destination];
        assert!((1..=limits.batch_max).contains(&seqs.len()), "a call has up to batch_max events");
        let lane = &self.tables.rows[&seqs[0]].lane;
        let mut alone = BTreeSet::new();
        for (at, seq) in seqs.iter().enumerate() {
            let row = &self.tables.rows[seq];
            assert_eq!((row.lane.destination, &row.lane), (destination, lane), "one lane a call");
            assert!(alone.insert(&row.aggregate) || limits.takes_runs, "one event an aggregate");
            self.trace(|| format!("event {seq} {row:?}"));
            for (earlier, other) in self.tables.rows.range(..seq) {
                let went = other.deliveries > 0 || other.is_unknown && other.place == Place::Sent;
                let goes = seqs[..at].contains(earlier);
                let is_before = other.aggregate == row.aggregate;
                assert!(
                    !is_before || went || goes || other.place == Place::Discarded,
                    "{seq} overtakes {earlier}: {self:?}"
                );
            }
        }
        self.trace(|| format!("call {id:?} {seqs:?}"));
        self.calls.insert(id.0, seqs);
    }

    /// The database sees what it was asked now; the answer comes later.
    pub(super) fn look(&mut self) {
        match &mut self.asked {
            Some(Asked::Read(request, page @ None)) => {
                *page = Some(self.tables.read(*request, self.now));
            }
            Some(Asked::Claim(name, rows, bytes, found @ None)) => {
                *found = Some(self.tables.claim(name, *rows, *bytes, self.now));
            }
            _ => {}
        }
        self.trace(|| format!("looked: {:?}", self.asked));
    }

    /// What the database was asked is answered.
    pub(super) fn answer_asked(&mut self) {
        self.look();
        self.trace(|| "answered".to_owned());
        match self.asked.take() {
            Some(Asked::Read(_, Some(page))) => {
                let last = page.rows.last().map(|row| row.0);
                let rows = page.rows.iter().map(|row| self.incoming(*row, false)).collect();
                self.planner.handle_page(&page.earlier, rows, (last, page.full), self.now);
                self.failed_at[0] = None;
            }
            Some(Asked::Claim(_, rows, _, Some(found))) => {
                let whole = found.len() >= rows;
                let claimed = found.iter().map(|row| self.incoming(*row, true)).collect();
                self.planner.handle_claimed(claimed, whole, self.now);
                self.failed_at[1] = None;
            }
            Some(Asked::Dues) => {
                self.planner.handle_dues(self.tables.dues(self.now), self.now);
                self.failed_at[2] = None;
            }
            other => panic!("nothing was asked: {other:?}"),
        }
    }

    /// What the database was asked fails. A claim that it made all the same ends with the session.
    pub(super) fn fail_asked(&mut self) {
        self.trace(|| "asking failed".to_owned());
        let kind = match self.asked.take() {
            Some(Asked::Read(..)) => 0,
            Some(Asked::Claim(_, _, _, found)) => {
                for (seq, ..) in found.into_iter().flatten() {
                    self.tables.unclaim(seq);
                }
                1
            }
            Some(Asked::Dues) => 2,
            None => panic!("nothing was asked"),
        };
        self.failed_at[kind] = Some(self.now);
        self.planner.handle_ask_failed(self.now);
    }

    pub(super) fn commit(&mut self) {
        if !std::mem::replace(&mut self.is_committed, true) {
            self.tables.store(self.storing.as_ref().unwrap(), self.now);
        }
    }

    pub(super) fn store(&mut self) {
        self.commit();
        let conclusion = self.storing.take().unwrap();
        self.trace(|| "stored".to_owned());
        (self.is_committed, self.is_unstored) = (false, false);
        self.planner.handle_stored(self.now);
        self.stored.push(conclusion);
    }

    /// A store fails, though it may have been committed; it stays to be done again.
    pub(super) fn fail_store(&mut self, is_committed: bool) {
        self.is_unstored = true;
        self.trace(|| format!("store failed, committed {is_committed}"));
        if is_committed {
            self.commit();
        }
        // It is stored again in any case.
        self.is_committed = false;
    }

    /// The sessions are lost, and new ones begin.
    pub(super) fn forget(&mut self) {
        assert!(self.asked.is_none(), "what was asked has failed");
        assert!(self.storing.is_none() || self.is_unstored, "what was being stored has failed");
        self.tables.end_claims();
        self.trace(|| "forget".to_owned());
        self.planner.forget_rows(self.now);
        self.failed_at = [None; 3];
    }

    /// A call has ended; `is_unknown`: events that the destination has though it says something else.
    pub(super) fn end_call(&mut self, id: u64, outcomes: Vec<Outcome>, unknown: &[i64]) {
        let seqs = self.calls.remove(&id).unwrap();
        self.trace(|| format!("ended {id} {seqs:?} {outcomes:?} {unknown:?}"));
        for (seq, outcome) in seqs.iter().zip(&outcomes) {
            let row = self.tables.rows.get_mut(seq).unwrap();
            if *outcome == Outcome::Delivered {
                row.deliveries += 1;
                assert!(row.deliveries == 1 || row.is_unknown, "{seq} is delivered twice");
            }
            row.is_unknown |= unknown.contains(seq);
        }
        self.planner.handle_outcomes(CallId(id), outcomes, self.now);
    }

    pub(super) fn found(&mut self, topic: &str) {
        self.missing.remove(topic);
        self.planner.handle_found(topic, self.now);
    }
}
