//! Versions of aggregates: which events of a transaction are stale or wait, and which versions it writes.
//!
//! One story: its files know each other.
//!
//! An event is judged right before its handler would be called, behind what was really applied: an event before it
//! may have been parked in the meantime.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    time::Duration,
};

use inbox_engine::internal::{BatchOutcome, LaneMove, Rule, TransactionFault};
use inbox_handler::{
    GapEnd, VersionPolicy,
    internal::{RouteTable, VersionPlace},
};
use inbox_store::internal::port::{
    Advanced, ClaimRequest, ClaimResult, LastVersion, Transactions, VersionMove, WaitingEvent,
};
use outbox_core::Aggregate;

use super::{
    Delivered,
    aggregate_keys::AggregateKeys,
    content::Hash,
    disposition::Dispositions,
    known_versions::KnownVersions,
    transaction::{EarlyEnd, Transaction},
};
use crate::telemetry::Signal;

/// The versions that a transaction has to do with; empty where no route of its events looks at them.
#[derive(Debug, Default)]
pub(super) struct Versions<'a> {
    /// By the place of the item in its batch.
    events: Vec<Option<Versioned<'a>>>,
    /// By the key of the aggregate, in the order in which rows are locked.
    last: BTreeMap<[u8; 16], Last>,
    /// Aggregate, version and place of events that wait.
    waiting: BTreeSet<([u8; 16], i64, usize)>,
    /// Aggregates, and versions of theirs that were applied here: an event may wait under one of them, too. Empty where
    /// no route lets events wait.
    passed: BTreeSet<([u8; 16], i64)>,
    /// Events of some route may wait in the database.
    gaps: bool,
}

/// What becomes of an event, as its version says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Verdict {
    /// It is run.
    Run,
    /// It is at or below this version.
    Stale(i64),
    /// A version before its own was not applied; this one was, as the last.
    Wait(i64),
}

/// How an event waits.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Wait {
    pub(super) queue: [u8; 16],
    pub(super) version: i64,
    pub(super) time: Duration,
    pub(super) end: GapEnd,
    pub(super) text: String,
}

/// An event whose route looks at its version.
#[derive(Clone, Copy, Debug)]
struct Versioned<'a> {
    key: [u8; 16],
    version: i64,
    policy: &'a VersionPolicy,
}

/// The last version of an aggregate that was applied.
#[derive(Clone, Copy, Debug, Default)]
struct Last {
    /// As the claim read it, or as this process has written it before.
    stored: Option<i64>,
    /// With what this transaction has applied.
    now: Option<i64>,
    /// It was not read: nothing but the very next event may be judged by it.
    unread: bool,
}

impl<'a> Versions<'a> {
    pub(super) fn of<DB: Transactions>(
        routes: &'a RouteTable<DB>,
        items: &[Delivered],
        keys: &AggregateKeys,
    ) -> Self {
        if !routes.has_versions() {
            return Self::default();
        }
        let looked: Vec<_> = items.iter().map(|item| find_version(routes, item)).collect();
        let aggregates: Vec<_> =
            looked.iter().flatten().map(|(aggregate, ..)| *aggregate).collect();
        let mut keys = keys.of(&aggregates).into_iter();
        let mut versioned =
            |(_, version, policy)| Some(Versioned { key: keys.next()?, version, policy });
        let events: Vec<_> = looked.into_iter().map(|event| versioned(event?)).collect();
        let last = events.iter().flatten().map(|event| (event.key, Last::default())).collect();
        Self { events, last, gaps: routes.has_gaps(), ..Self::default() }
    }

    /// Relies on what the process has written, where that is enough.
    fn rely_on(&mut self, known: &KnownVersions) {
        let events = self.events.iter().flatten().map(|event| (event.key, event.version));
        for (key, last) in known.take(events) {
            self.last.insert(key, Last { stored: Some(last), now: Some(last), unread: true });
        }
    }

    /// The aggregates whose versions are to be read, distinct and sorted.
    fn keys(&self) -> Vec<[u8; 16]> {
        self.last.iter().filter(|(_, last)| !last.unread).map(|(key, _)| *key).collect()
    }

    /// Takes in what the database has of them.
    pub(super) fn learn(&mut self, stored: Vec<LastVersion>) {
        for (key, version) in stored {
            let version = Some(version);
            self.last.insert(key, Last { stored: version, now: version, unread: false });
        }
    }

    fn event(&self, index: usize) -> Option<&Versioned<'a>> {
        self.events.get(index)?.as_ref()
    }

    /// Whether its route looks at its version.
    pub(super) fn looks_at(&self, index: usize) -> bool {
        self.event(index).is_some()
    }

    fn last(&self, event: &Versioned<'_>) -> Option<i64> {
        self.last.get(&event.key).and_then(|last| last.now)
    }

    /// What these events are, if those that are run are applied in this order. Empty where nobody looks.
    pub(super) fn judge(&self, indices: &[usize]) -> Vec<Verdict> {
        if self.last.is_empty() {
            return Vec::new();
        }
        let mut ahead: HashMap<[u8; 16], i64> = HashMap::new();
        let judge = |&index: &usize| {
            let Some(event) = self.event(index) else { return Verdict::Run };
            let last = ahead.get(&event.key).copied().or_else(|| self.last(event));
            match event.policy.place(event.version, last) {
                VersionPlace::Stale(last) if Rule::StaleSkipped.on() => Verdict::Stale(last),
                VersionPlace::Gap(last) if Rule::GapWaits.on() => Verdict::Wait(last),
                _ => {
                    ahead.insert(event.key, event.version);
                    Verdict::Run
                }
            }
        };
        indices.iter().map(judge).collect()
    }

    /// Whether one of these is to be skipped or to wait behind a version that was not read.
    fn doubts(&self, indices: &[usize], verdicts: &[Verdict]) -> bool {
        let unread = |index| {
            let last = self.event(index).and_then(|event| self.last.get(&event.key));
            last.is_some_and(|last| last.unread)
        };
        let mut judged = indices.iter().zip(verdicts);
        judged.any(|(&index, verdict)| *verdict != Verdict::Run && unread(index))
    }

    /// The event waits, at first for what the transaction itself applies.
    pub(super) fn wait(&mut self, index: usize) {
        if let Some(&Versioned { key, version, .. }) = self.event(index) {
            self.waiting.insert((key, version, index));
        }
    }

    /// Events that need not wait any more: of each aggregate the first, so that they may go together.
    pub(super) fn ready(&mut self) -> Vec<usize> {
        let mut ready: Vec<([u8; 16], i64, usize)> = Vec::new();
        for &(key, version, index) in &self.waiting {
            let another = ready.last().is_none_or(|(before, ..)| *before != key);
            let last = self.last.get(&key).and_then(|last| last.now);
            if another && last.is_some_and(|last| version <= last.saturating_add(1)) {
                ready.push((key, version, index));
            }
        }
        for event in &ready {
            self.waiting.remove(event);
        }
        let mut ready: Vec<usize> = ready.into_iter().map(|(.., index)| index).collect();
        ready.sort_unstable();
        ready
    }

    /// How the event at a place waits: in which queue, how long, what becomes of it then, and what to say.
    pub(super) fn how_to_wait(&self, index: usize) -> Option<Wait> {
        let event = self.event(index)?;
        let (time, end) = event.policy.wait()?;
        let last = self.last(event).map_or_else(|| "nothing".to_owned(), |last| last.to_string());
        let text = format!("its version is {}, and {last} was applied before it", event.version);
        let version = event.version;
        Some(Wait { queue: queue(&event.key, version), version, time, end, text })
    }

    /// The event was applied, or the configuration passes over it.
    pub(super) fn pass(&mut self, index: usize) {
        let Some(&Versioned { key, version, .. }) = self.event(index) else { return };
        let last = self.last.entry(key).or_default();
        last.now = last.now.max(Some(version));
        if self.gaps {
            self.passed.insert((key, version));
        }
        assert!(last.now >= last.stored, "a version never goes back");
    }

    /// What the transaction writes, in the order of the keys.
    pub(super) fn moves(&self) -> Vec<VersionMove> {
        let moved = self.moved().map(|(key, prev, new)| VersionMove {
            key,
            prev,
            new,
            awaits: self.awaits(&key, new),
        });
        moved.collect()
    }

    /// Aggregates with the versions before and behind this transaction.
    fn moved(&self) -> impl Iterator<Item = ([u8; 16], Option<i64>, i64)> {
        let moved = self.last.iter().filter(|(_, last)| last.now != last.stored);
        moved.filter_map(|(&key, last)| Some((key, last.stored, last.now?)))
    }

    /// The queues of what need not wait any more: for the next version, or under one that was passed here.
    fn awaits(&self, key: &[u8; 16], new: i64) -> Vec<[u8; 16]> {
        if !self.gaps {
            return Vec::new();
        }
        let passed = self.passed.range((*key, i64::MIN)..=(*key, i64::MAX));
        let passed = passed.map(|(_, version)| *version);
        passed.chain(new.checked_add(1)).map(|version| queue(key, version)).collect()
    }
}

/// The aggregate and version of an event, where its route looks at them, and by which policy.
fn find_version<'a, 'i, DB: Transactions>(
    routes: &'a RouteTable<DB>,
    item: &'i Delivered,
) -> Option<(&'i Aggregate, i64, &'a VersionPolicy)> {
    let policy = routes.versions(item.kind.route)?;
    let event = item.event.event.as_ref().ok()?;
    Some((&event.aggregate, event.aggregate_version?, policy))
}

/// The queue of events that wait for the version before this one. No rule of lanes finds it, and no aggregate.
fn queue(key: &[u8; 16], version: i64) -> [u8; 16] {
    Hash::Sha256.of([&b"gap"[..], &key[..], &version.to_be_bytes()[..]])
}

impl<DB: Transactions> Transaction<'_, DB> {
    /// The claim, with the versions of the events' aggregates where somebody looks at them.
    pub(super) async fn ask_claim(
        &mut self,
        request: &ClaimRequest,
    ) -> Result<ClaimResult, sqlx::Error> {
        self.versions =
            Versions::of(&self.work.routes, &self.batch.items, &self.work.state.aggregate_keys);
        if !self.versions.last.is_empty() {
            self.versions.rely_on(&self.work.state.known_versions);
        }
        let keys = self.versions.keys();
        if keys.is_empty() {
            return DB::claim(self.conn, &self.scope, request).await;
        }
        let (claimed, stored) = DB::claim_versions(self.conn, &self.scope, request, &keys).await?;
        self.versions.learn(stored);
        Ok(claimed)
    }

    /// The same for the events of a release, which are claimed already.
    pub(super) async fn read_versions(&mut self) -> Result<(), EarlyEnd> {
        self.versions =
            Versions::of(&self.work.routes, &self.batch.items, &self.work.state.aggregate_keys);
        let keys = self.versions.keys();
        if keys.is_empty() {
            return Ok(());
        }
        let stored = DB::last_versions(self.conn, &self.scope, &keys).await;
        let stored = stored.map_err(|error| self.statement_failed("reading versions", &error))?;
        self.versions.learn(stored);
        Ok(())
    }

    /// What these events are, as [`Versions::judge`] says. What was not read is enough to run the next event, as the
    /// advance compares it, and for nothing else: an event before may have been a copy of what others have applied.
    pub(super) fn judge(&self, indices: &[usize]) -> Result<Vec<Verdict>, EarlyEnd> {
        let verdicts = self.versions.judge(indices);
        if !self.versions.doubts(indices, &verdicts) || !Rule::VersionsReadInDoubt.on() {
            return Ok(verdicts);
        }
        let text = "the version of an aggregate has changed since this process wrote it";
        Err(EarlyEnd::RolledBack(BatchOutcome::Fault(TransactionFault::Conflict(text.into()))))
    }

    /// The transaction is committed: the next one need not read what it has written.
    pub(super) fn remember_versions(&self) {
        if !self.versions.last.is_empty() {
            let moved = self.versions.moved().map(|(key, _, new)| (key, new));
            self.work.state.known_versions.put(moved);
        }
    }

    /// The advance, with what the transaction has changed of versions.
    pub(super) async fn move_lanes(
        &mut self,
        lanes: &[LaneMove],
        changed: Option<i64>,
    ) -> Result<u64, EarlyEnd> {
        let moves = self.versions.moves();
        if moves.is_empty() {
            let moved = DB::advance(self.conn, &self.scope, &self.tx, lanes, changed).await;
            return moved.map_err(|error| self.statement_failed("the advance", &error));
        }
        let advanced =
            DB::advance_versions(self.conn, &self.scope, &self.tx, lanes, changed, &moves).await;
        let Advanced { lanes: moved, versions, woken } =
            advanced.map_err(|error| self.statement_failed("the advance", &error))?;
        let all = versions == moves.len() as u64 || !Rule::VersionsCompared.on();
        if all || moved != lanes.len() as u64 {
            self.woken = woken;
            return Ok(moved);
        }
        // In another partition, so its key has changed: both orders are right, and the next claim knows.
        let text = "another transaction applied an event of the same aggregate";
        Err(EarlyEnd::RolledBack(BatchOutcome::Fault(TransactionFault::Conflict(text.into()))))
    }

    /// Tells events that were parked to wait which queues they join in the end.
    pub(super) async fn set_joins(
        &mut self,
        dispositions: &Dispositions<'_>,
    ) -> Result<(), EarlyEnd> {
        let waiting = dispositions.waiting().filter_map(|(index, item)| {
            Some(WaitingEvent {
                offset: item.offset,
                leader_epoch: item.leader_epoch,
                version: self.versions.event(index)?.version,
                joins: item.aggregate,
            })
        });
        let waiting: Vec<WaitingEvent> = waiting.collect();
        if waiting.is_empty() {
            return Ok(());
        }
        let set = DB::set_joins(self.conn, &self.scope, &waiting).await;
        let set = set.map_err(|error| self.statement_failed("parking waiting events", &error))?;
        if set == waiting.len() as u64 {
            return Ok(());
        }
        let text = "a waiting event was already parked, but its inbox row is missing";
        Err(EarlyEnd::RolledBack(BatchOutcome::Fault(TransactionFault::Conflict(text.into()))))
    }
}

impl Dispositions<'_> {
    /// Tells what was not run.
    pub(super) fn tell_stale(&self) {
        let mut stale = self.stale();
        let Some((item, last)) = stale.next() else { return };
        let version = item.event.event.as_ref().ok().and_then(|event| event.aggregate_version);
        Signal::Stale {
            partition: item.event.partition.clone(),
            events: stale.count() as u64 + 1,
            offset: item.offset.0,
            version,
            last,
        }
        .emit();
    }
}
