//! Parked queues of the simulated database: RELEASE, what operators want, and what must hold in a queue.

use super::{
    database::{Aggregate, Database, Row, Undo},
    log::{Event, Log},
};
use crate::{
    Due, Epoch, HandlerFault, Lane, ParkReason, Release, ReleaseOutcome, Rule, TransactionFault,
};

/// What a person wants done with a parked event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Intent {
    Discard,
    Release,
}

/// A parked event.
#[derive(Clone, Copy, Debug)]
pub(super) struct Parked {
    pub(super) event: Event,
    pub(super) offset: i64,
    /// When it is to be run; none: a follower; [`NEVER`]: it waits for a person.
    pub(super) due: Option<u64>,
    pub(super) intent: Option<Intent>,
    tries: u32,
}

/// Waits for a person.
pub(super) const NEVER: u64 = u64::MAX;
/// The first wait of an exhausted event; doubles.
const DELAY: u64 = 300;
/// So many releases may fail before a person has to look.
const TRIES_MAX: u32 = 2;

impl Parked {
    /// A new one behind a queue.
    pub(super) fn new(
        event: Event,
        offset: i64,
        held: bool,
        reason: Option<ParkReason>,
        now: u64,
    ) -> Self {
        let due = match reason {
            _ if held => None,
            Some(ParkReason::Exhausted) => Some(now + DELAY),
            _ => Some(NEVER),
        };
        Self { event, offset, due, intent: None, tries: 0 }
    }

    /// Whether it is to be run when it is the head.
    fn wanted(&self, now: u64) -> bool {
        self.due.is_some_and(|due| due <= now) || self.intent.is_some()
    }

    fn fails(&mut self, fault: HandlerFault, now: u64) {
        self.tries += 1;
        let again = fault == HandlerFault::Retry && self.tries < TRIES_MAX;
        self.due = Some(if again { now + (DELAY << self.tries) } else { NEVER });
        self.intent = None;
    }
}

/// A release that has run its handlers.
#[derive(Clone, Debug)]
pub(super) struct Begun {
    session: u64,
    aggregate: usize,
    /// What leaves the queue with its effect, and without; and the one that failed.
    pub(super) run: Vec<Parked>,
    pub(super) discarded: Vec<Parked>,
    pub(super) failed: Option<Parked>,
}

impl Begun {
    fn takes(&self, row: &Parked) -> bool {
        self.run.iter().chain(&self.discarded).any(|it| it.event.number == row.event.number)
    }
}

impl Aggregate {
    /// A queue never loses its head: the first of it has a time, the others follow, in order.
    pub(super) fn check(&self, log: &Log) {
        let place = |row: &Parked| log.at(row.offset).place;
        let head = self.queue.first().is_none_or(|head| head.due.is_some());
        assert!(head, "HEADLESS: {:?}", self.queue);
        assert!(self.queue.iter().skip(1).all(|row| row.due.is_none()), "{:?}", self.queue);
        assert!(self.queue.is_sorted_by_key(place), "OVERTAKEN: {:?}", self.queue);
    }
}

impl Database {
    /// FIND: due, or something is wanted; what waits longest first. An older owner finds nothing: the lanes
    /// may be others than its own.
    pub(super) fn find_due(&self, p: usize, epoch: Epoch, now: u64, max: usize) -> Vec<Due> {
        if self.partitions[p].epoch != epoch.0 {
            return Vec::new();
        }
        let aggregates = self.partitions[p].aggregates.iter().enumerate();
        let discards = |row: &Parked| row.intent == Some(Intent::Discard);
        let wanted = aggregates.filter(|(_, it)| {
            it.queue.first().is_some_and(|head| head.wanted(now)) || it.queue.iter().any(discards)
        });
        let mut found: Vec<(Option<u64>, usize)> =
            wanted.map(|(number, it)| (it.queue[0].due, number)).collect();
        found.sort_unstable();
        let lanes = self.partitions[p].lanes.len();
        let due = |(_, number): &(Option<u64>, usize)| Due {
            lane: Lane(u16::try_from(number % lanes).unwrap()),
            aggregate: [u8::try_from(*number).unwrap(); 16],
        };
        found.iter().take(max).map(due).collect()
    }

    /// RELEASE up to its last handler: from the head, in order, up to the first failure.
    pub(super) fn begin_release(
        &mut self,
        p: usize,
        release: &Release,
        now: u64,
        mut call: impl FnMut(Event) -> Result<Result<(), HandlerFault>, ReleaseOutcome>,
    ) -> Result<Begun, ReleaseOutcome> {
        let aggregate = usize::from(release.aggregate[0]);
        if self.queues_locked.contains_key(&(p, aggregate)) {
            return Err(ReleaseOutcome::Fault(TransactionFault::Blocked(
                "another transaction has locked the queue".into(),
            )));
        }
        let mut rows = self.partitions[p].aggregates[aggregate].queue.clone();
        if !Rule::ReleaseInOrder.on() {
            rows.reverse();
        }
        self.sessions += 1;
        let session = self.sessions;
        let mut begun =
            Begun { session, aggregate, run: Vec::new(), discarded: Vec::new(), failed: None };
        let mut goes_on = rows.first().is_some_and(|head| head.wanted(now));
        for mut row in rows {
            goes_on &= begun.run.len() < release.events_max;
            if row.intent == Some(Intent::Discard) {
                begun.discarded.push(row);
            } else if goes_on {
                let blamed = release.blamed.as_ref().map(|_| Err(HandlerFault::Retry));
                match blamed.map_or_else(|| call(row.event), Ok)? {
                    Ok(()) => begun.run.push(row),
                    Err(fault) => {
                        row.fails(fault, now);
                        begun.failed = Some(row);
                        goes_on = !Rule::ReleaseStopsAtFailure.on();
                    }
                }
            }
        }
        self.queues_locked.insert((p, aggregate), session);
        Ok(begun)
    }

    /// The advance of a release, which moves nothing, and COMMIT.
    pub(super) fn end_release(
        &mut self,
        p: usize,
        release: &Release,
        begun: &Begun,
        now: u64,
        log: &Log,
    ) -> ReleaseOutcome {
        self.roll_back_release(begun);
        let Some(lane) = self.partitions[p].lanes.get(usize::from(release.lane.0)) else {
            return ReleaseOutcome::Fault(TransactionFault::Fenced);
        };
        let epoch = lane.epoch == release.epoch.0 || !Rule::EpochAtAdvance.on();
        let prev = lane.state.last == release.last || !Rule::PrevAtAdvance.on();
        if Rule::ReleaseFenced.on() && !(epoch && prev) {
            return ReleaseOutcome::Fault(TransactionFault::Fenced);
        }
        let aggregate = self.partitions[p].aggregates[begun.aggregate].clone();
        self.commit.push(Undo::Aggregate(p, begun.aggregate, aggregate));
        for row in begun.run.iter().chain(&begun.discarded) {
            let left = Row { partition: p, offset: row.offset, parked: false };
            let was = self.inbox.insert(row.event.number, left).filter(|was| was.parked);
            let was = was.expect("DOUBLE: what is parked has an inbox row that says so");
            self.commit.push(Undo::Row(row.event.number, Some(was)));
        }
        for row in &begun.run {
            self.apply(p, row.offset, row.event, log);
        }
        for row in &begun.discarded {
            self.discarded.insert(row.event.number);
            self.commit.push(Undo::Discarded(row.event.number));
        }
        let more = self.leave_queue(p, begun, now, log);
        self.committed();
        let removed = begun.run.len() + begun.discarded.len();
        ReleaseOutcome::Done { more, removed: removed as u64 }
    }

    /// DELETE exactly what ran, write down what failed, promote: whether the head is due now.
    fn leave_queue(&mut self, p: usize, begun: &Begun, now: u64, log: &Log) -> bool {
        let aggregate = &mut self.partitions[p].aggregates[begun.aggregate];
        let before = aggregate.queue.len();
        aggregate.queue.retain(|row| !begun.takes(row) || !Rule::ReleaseRemoves.on());
        let removed = before - aggregate.queue.len();
        let exact = removed == begun.run.len() + begun.discarded.len();
        assert!(exact || !Rule::ReleaseRemoves.on(), "DOUBLE: {begun:?}");
        for row in &mut aggregate.queue {
            let failed = begun.failed.filter(|it| it.event.number == row.event.number);
            *row = failed.unwrap_or(*row);
        }
        let head = aggregate.queue.first_mut().filter(|head| head.due.is_none());
        if let Some(head) = head.filter(|_| Rule::ReleasePromotes.on()) {
            head.due = Some(now);
        }
        aggregate.check(log);
        aggregate.queue.first().is_some_and(|head| head.wanted(now))
    }

    pub(super) fn roll_back_release(&mut self, begun: &Begun) {
        self.queues_locked.retain(|_, session| *session != begun.session);
    }

    /// A person writes what is to be done with a parked event; whether the row was free.
    pub(super) fn intend(&mut self, p: usize, number: usize, row: usize, intent: Intent) -> bool {
        if self.down || self.queues_locked.contains_key(&(p, number)) {
            return false;
        }
        let aggregate = &mut self.partitions[p].aggregates[number];
        self.commit.push(Undo::Aggregate(p, number, aggregate.clone()));
        aggregate.queue[row].intent = Some(intent);
        self.committed();
        true
    }

    pub(super) fn queue(&self, p: usize, aggregate: usize) -> &[Parked] {
        &self.partitions[p].aggregates[aggregate].queue
    }

    /// Parked events of a partition.
    pub(super) fn parked(&self, p: usize) -> usize {
        self.partitions[p].aggregates.iter().map(|it| it.queue.len()).sum()
    }

    /// In the end every event has had its effect, unless a person discarded it.
    pub(super) fn check_all_done(&self, log: &Log) {
        for record in &log.records {
            let number = record.event.number;
            let (effect, discarded) =
                (self.effects.contains(&number), self.discarded.contains(&number));
            assert!(effect != discarded, "{record:?}: effect {effect}, discarded {discarded}");
        }
    }
}
