//! A database for the planner, in memory: an outbox and its parking store.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use crate::types::{
    Conclusion, Fate, Incoming, LaneKey, Park, ParkState, ReadRequest, RowKey, Time,
};

/// Rows that become ready at once behind one that was delivered.
const PROMOTES: usize = 5;

/// A row of the feed.
#[expect(clippy::struct_excessive_bools, reason = "each is a column")]
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct FeedRow {
    pub(super) aggregate: usize,
    pub(super) destination: usize,
    pub(super) scope: &'static str,
    pub(super) bytes: usize,
    /// It is visible to reads.
    pub(super) visible: bool,
    pub(super) sent: bool,
    pub(super) parked: bool,
    pub(super) discarded: bool,
    /// It goes at a time of its own.
    pub(super) not_before: Time,
    /// It can never be sent.
    pub(super) unsendable: bool,
}

impl FeedRow {
    pub(super) fn of(aggregate: usize, destination: usize) -> Self {
        Self {
            aggregate,
            destination,
            scope: "",
            bytes: 1,
            visible: true,
            sent: false,
            parked: false,
            discarded: false,
            not_before: Time::ZERO,
            unsendable: false,
        }
    }

    fn waits(&self) -> bool {
        self.visible && !self.sent && !self.parked
    }

    /// The topic that it needs, by the name under which it waits for that.
    pub(super) fn topic(&self) -> Option<String> {
        (self.destination == 0).then(|| format!("d0:t{}", self.aggregate % 2))
    }

    fn lane_name(&self) -> String {
        let slash = if self.scope.is_empty() { "" } else { "/" };
        format!("d{}{slash}{}", self.destination, self.scope)
    }
}

/// A row of the parking store.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct StoredPark {
    pub(super) state: ParkState,
    pub(super) due_at: Option<Time>,
    pub(super) destination: String,
    pub(super) attempts: u32,
    pub(super) claimed: bool,
}

/// A row as a snapshot has it, and whether an earlier one of its aggregate is parked, and its attempts.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Seen {
    pub(super) seq: i64,
    row: FeedRow,
    blocked: bool,
    claimed: bool,
    attempts: u32,
    at: Time,
}

impl Seen {
    /// As it is routed when the answer arrives: `missing` are the topics that are known to be missing.
    pub(super) fn route(self, missing: &HashSet<String>) -> Incoming<usize> {
        let Self { seq, row, blocked, claimed, attempts, at } = self;
        let awaited = row.topic().filter(|topic| missing.contains(topic));
        let mut destination = row.lane_name();
        let fate = if row.unsendable {
            Fate::Unsendable("no".into())
        } else if row.not_before > at {
            Fate::Later(row.not_before.saturating_sub(at))
        } else if let Some(topic) = awaited {
            destination = topic;
            Fate::Awaits("missing".into())
        } else {
            let scope = Arc::from(row.scope);
            Fate::Send(LaneKey { destination: row.destination, scope }, row.aggregate)
        };
        let (key, aggregate, bytes) = (key(seq), name(row.aggregate), row.bytes);
        Incoming { key, aggregate, blocked, claimed, attempts, bytes, destination, fate }
    }
}

/// What the database answers.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) enum Asked {
    Page(Vec<i64>, Vec<Seen>, (Option<i64>, bool)),
    Claimed(Vec<Seen>, bool),
    Dues(Vec<(String, Duration)>),
}

/// The database.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub(super) struct Database {
    pub(super) feed: BTreeMap<i64, FeedRow>,
    pub(super) parked: BTreeMap<i64, StoredPark>,
}

pub(super) fn name(aggregate: usize) -> Arc<str> {
    format!("A/{aggregate}").into()
}

pub(super) fn key(seq: i64) -> RowKey {
    RowKey { seq, event: u128::from(seq.unsigned_abs()) }
}

impl Database {
    fn parked_of(&self, aggregate: usize) -> impl Iterator<Item = (&i64, &StoredPark)> {
        self.parked.iter().filter(move |(seq, _)| self.feed[*seq].aggregate == aggregate)
    }

    /// The leading rows of an aggregate that are behind become ready, as far as they go to one destination.
    fn promote(&mut self, aggregate: usize, now: Time) {
        let mut run = Vec::new();
        let mut destination = None;
        for (seq, park) in self.parked_of(aggregate).take(PROMOTES) {
            let same = *destination.get_or_insert(&park.destination) == &park.destination;
            match park.state {
                ParkState::Behind if same => run.push(*seq),
                ParkState::Ready if same => {}
                _ => break,
            }
        }
        for seq in run {
            let park = self.parked.get_mut(&seq).unwrap();
            (park.state, park.due_at) = (ParkState::Ready, Some(now));
        }
    }

    /// Stores a conclusion. Storing twice is storing once.
    pub(super) fn store(&mut self, conclusion: &Conclusion, now: Time) {
        for key in &conclusion.sent {
            self.feed.get_mut(&key.seq).unwrap().sent = true;
        }
        for key in &conclusion.delivered {
            self.feed.get_mut(&key.seq).unwrap().sent = true;
            self.parked.remove(&key.seq);
        }
        let parked = conclusion.parked.iter().map(|park| park.key.seq);
        let done = conclusion.sent.iter().chain(&conclusion.delivered).map(|key| key.seq);
        let mut seqs = HashSet::new();
        let once = done.chain(parked).all(|seq| seqs.insert(seq));
        assert!(once, "a row is concluded once: {conclusion:?}");
        for park in &conclusion.parked {
            self.park(park, now);
        }
        for park in &conclusion.parked {
            let seq = park.key.seq;
            let aggregate = self.feed[&seq].aggregate;
            let first = self.parked_of(aggregate).next().is_some_and(|(first, _)| *first == seq);
            let Some(stored) = self.parked.get_mut(&seq) else { continue };
            if first && stored.state == ParkState::Behind {
                (stored.state, stored.due_at) = (ParkState::Ready, Some(now));
            }
        }
        for park in &conclusion.parked {
            let seq = park.key.seq;
            if self.parked.get(&seq).is_none_or(|stored| stored.state == ParkState::Ready) {
                continue;
            }
            let aggregate = self.feed[&seq].aggregate;
            for (later, other) in self.parked.range_mut(seq + 1..) {
                if self.feed[later].aggregate == aggregate && other.state == ParkState::Ready {
                    (other.state, other.due_at, other.claimed) = (ParkState::Behind, None, false);
                }
            }
        }
        for key in &conclusion.delivered {
            self.promote(self.feed[&key.seq].aggregate, now);
        }
    }

    fn park(&mut self, park: &Park, now: Time) {
        let row = self.feed.get_mut(&park.key.seq).unwrap();
        if row.sent || row.discarded {
            return;
        }
        row.parked = true;
        let due_at = match park.state {
            ParkState::Ready | ParkState::Waiting => Some(now),
            ParkState::Scheduled | ParkState::Retry => Some(now + park.after),
            ParkState::Behind | ParkState::Parked => None,
        };
        let Park { state, destination, attempts, claimed, .. } = park.clone();
        let stored = StoredPark { state, due_at, destination, attempts, claimed };
        self.parked.insert(park.key.seq, stored);
    }

    /// A person retries or discards a row that is not claimed. Answers whether something was changed.
    pub(super) fn decide(&mut self, seq: i64, discard: bool, now: Time) -> bool {
        let Some(park) = self.parked.get_mut(&seq).filter(|park| !park.claimed) else {
            return false;
        };
        let goes_by_itself = matches!(park.state, ParkState::Behind | ParkState::Ready);
        if goes_by_itself && !discard {
            return false;
        }
        let row = self.feed.get_mut(&seq).unwrap();
        if discard {
            self.parked.remove(&seq);
            row.discarded = true;
        } else {
            (park.state, park.due_at, park.attempts) = (ParkState::Behind, None, 0);
            (row.not_before, row.unsendable) = (Time::ZERO, false);
        }
        let aggregate = row.aggregate;
        self.promote(aggregate, now);
        true
    }

    fn see(&self, seq: i64, claimed: bool, now: Time) -> Seen {
        let row = self.feed[&seq].clone();
        let first = self.parked_of(row.aggregate).next();
        let blocked = !claimed && first.is_some_and(|(first, _)| *first < seq);
        let attempts = self.parked.get(&seq).map_or(0, |park| park.attempts);
        Seen { seq, row, blocked, claimed, attempts, at: now }
    }

    pub(super) fn read(&self, request: ReadRequest, now: Time) -> Asked {
        let earlier = self.feed.range(..=request.read_to).filter(|(_, row)| row.waits());
        let earlier: Vec<i64> = earlier.map(|(seq, _)| *seq).collect();
        let (mut rows, mut bytes, mut full) = (Vec::new(), 0, false);
        for (seq, row) in self.feed.range(request.read_to + 1..).filter(|(_, row)| row.waits()) {
            // The last may have more, which is worse than what is documented.
            if rows.len() >= request.rows_max || bytes >= request.bytes_max {
                full = true;
                break;
            }
            bytes += row.bytes;
            rows.push(self.see(*seq, false, now));
        }
        let last = rows.last().map(|row| row.seq);
        Asked::Page(earlier, rows, (last, full))
    }

    /// Rows of a destination whose time has come, unless an earlier one of the aggregate comes first: one that is not
    /// claimed, and is not claimed here, before it.
    pub(super) fn claim(&mut self, of: &str, (most, bytes): (usize, usize), now: Time) -> Asked {
        let mut due: Vec<(Time, i64)> = Vec::new();
        for (seq, park) in self.parked.iter().filter(|(_, park)| park.destination == of) {
            let Some(at) = park.due_at.filter(|at| *at <= now && !park.claimed) else { continue };
            let mut earlier =
                self.parked_of(self.feed[seq].aggregate).take_while(|(it, _)| *it < seq);
            let is_free = earlier.all(|(_, other)| {
                other.claimed || (other.destination == of && other.due_at == Some(at))
            });
            if is_free {
                due.push((at, *seq));
            }
        }
        due.sort_unstable();
        due.truncate(most);
        let (mut seqs, mut sum): (Vec<i64>, usize) = (Vec::new(), 0);
        for (_, seq) in due {
            sum += self.feed[&seq].bytes;
            if sum > bytes && !seqs.is_empty() {
                break;
            }
            seqs.push(seq);
        }
        seqs.sort_unstable();
        for seq in &seqs {
            self.parked.get_mut(seq).unwrap().claimed = true;
        }
        let whole = seqs.len() >= most;
        Asked::Claimed(seqs.into_iter().map(|seq| self.see(seq, true, now)).collect(), whole)
    }

    pub(super) fn dues(&self, now: Time) -> Asked {
        let mut found: HashMap<&str, Time> = HashMap::new();
        for park in self.parked.values().filter(|park| !park.claimed) {
            if let Some(at) = park.due_at {
                let known = found.entry(&park.destination).or_insert(at);
                *known = at.min(*known);
            }
        }
        let after = |at: Time| at.saturating_sub(now);
        let found = found.into_iter().map(|(name, at)| (name.to_owned(), after(at)));
        let mut found: Vec<(String, Duration)> = found.collect();
        found.sort_unstable();
        Asked::Dues(found)
    }

    pub(super) fn end_claims(&mut self) {
        self.parked.values_mut().for_each(|park| park.claimed = false);
    }
}
