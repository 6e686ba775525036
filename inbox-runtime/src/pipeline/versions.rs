//! Versions of aggregates: which events of a transaction are stale, and which versions it writes.
//!
//! An event is judged right before its handler would be called, behind what was really applied: an event before it
//! may have been parked in the meantime.

use std::collections::{BTreeMap, HashMap};

use inbox_engine::internal::{BatchOutcome, LaneMove, Rule, TransactionFault};
use inbox_handler::{
    VersionPolicy,
    internal::{RouteTable, VersionPlace},
};
use inbox_store::internal::port::{
    Advanced, ClaimRequest, ClaimResult, LastVersion, Transactions, VersionMove,
};
use outbox_core::Aggregate;

use super::{
    Delivered,
    content::Hash,
    disposition::Dispositions,
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
    /// As the claim read it.
    stored: Option<i64>,
    /// With what this transaction has applied.
    now: Option<i64>,
}

impl<'a> Versions<'a> {
    pub(super) fn of<DB: Transactions>(routes: &'a RouteTable<DB>, items: &'a [Delivered]) -> Self {
        if !routes.has_versions() {
            return Self::default();
        }
        let of = |item: &Delivered| {
            let (policy, event) =
                (routes.versions(item.kind.route)?, item.event.event.as_ref().ok()?);
            Some(Versioned {
                key: key(&event.aggregate),
                version: event.aggregate_version?,
                policy,
            })
        };
        let events: Vec<_> = items.iter().map(of).collect();
        let last = events.iter().flatten().map(|event| (event.key, Last::default())).collect();
        Self { events, last }
    }

    /// The aggregates, distinct and sorted.
    pub(super) fn keys(&self) -> Vec<[u8; 16]> {
        self.last.keys().copied().collect()
    }

    /// Takes in what the database has of them.
    pub(super) fn learn(&mut self, stored: Vec<LastVersion>) {
        for (key, version) in stored {
            let version = Some(version);
            self.last.insert(key, Last { stored: version, now: version });
        }
    }

    fn event(&self, index: usize) -> Option<&Versioned<'a>> {
        self.events.get(index)?.as_ref()
    }

    fn last(&self, event: &Versioned<'_>) -> Option<i64> {
        self.last.get(&event.key).and_then(|last| last.now)
    }

    /// Which of these events are stale, if they are applied in this order: the version that each of those is at
    /// or below, by its place. Empty where nobody looks.
    pub(super) fn stale(&self, indices: &[usize]) -> Vec<Option<i64>> {
        if self.last.is_empty() || !Rule::StaleSkipped.on() {
            return Vec::new();
        }
        let mut ahead: HashMap<[u8; 16], i64> = HashMap::new();
        let judge = |&index: &usize| {
            let event = self.event(index)?;
            let last = ahead.get(&event.key).copied().or_else(|| self.last(event));
            match event.policy.place(event.version, last) {
                VersionPlace::Stale(last) => Some(last),
                VersionPlace::Next => {
                    ahead.insert(event.key, event.version);
                    None
                }
            }
        };
        indices.iter().map(judge).collect()
    }

    /// The event was applied, or the configuration passes over it.
    pub(super) fn pass(&mut self, index: usize) {
        let Some(&Versioned { key, version, .. }) = self.event(index) else { return };
        let last = self.last.entry(key).or_default();
        last.now = last.now.max(Some(version));
        assert!(last.now >= last.stored, "a version never goes back");
    }

    /// What the transaction writes, in the order of the keys.
    pub(super) fn moves(&self) -> Vec<VersionMove> {
        let moved = self.last.iter().filter(|(_, last)| last.now != last.stored);
        let moved = moved.filter_map(|(&key, last)| {
            Some(VersionMove { key, prev: last.stored, new: last.now? })
        });
        moved.collect()
    }
}

/// The key of an aggregate, by type and id alone: rows stay whatever lanes and queues are found by.
fn key(aggregate: &Aggregate) -> [u8; 16] {
    let parts = [aggregate.aggregate_type().as_bytes(), aggregate.aggregate_id().as_bytes()];
    let lengths = parts.map(|part| part.len().to_be_bytes());
    Hash::Sha256.of(lengths.iter().zip(parts).flat_map(|(length, part)| [&length[..], part]))
}

impl<DB: Transactions> Transaction<'_, DB> {
    /// The claim, with the versions of the events' aggregates where somebody looks at them.
    pub(super) async fn ask_claim(
        &mut self,
        request: &ClaimRequest,
    ) -> Result<ClaimResult, sqlx::Error> {
        self.versions = Versions::of(&self.work.routes, &self.batch.items);
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
        self.versions = Versions::of(&self.work.routes, &self.batch.items);
        let keys = self.versions.keys();
        if keys.is_empty() {
            return Ok(());
        }
        let stored = DB::last_versions(self.conn, &self.scope, &keys).await;
        let stored = stored.map_err(|error| self.statement_failed("reading versions", &error))?;
        self.versions.learn(stored);
        Ok(())
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
        let Advanced { lanes: moved, versions } =
            advanced.map_err(|error| self.statement_failed("the advance", &error))?;
        let all = versions == moves.len() as u64 || !Rule::VersionsCompared.on();
        if all || moved != lanes.len() as u64 {
            return Ok(moved);
        }
        // In another partition, so its key has changed: both orders are right, and the next claim knows.
        let text = "another transaction has applied an event of the same aggregate";
        Err(EarlyEnd::RolledBack(BatchOutcome::Fault(TransactionFault::Conflict(text.into()))))
    }

    /// Tells what was not run.
    pub(super) fn tell_stale(&self, dispositions: &Dispositions<'_>) {
        let mut stale = dispositions.stale();
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Golden values: rows hold them.
    #[test]
    fn the_key_of_an_aggregate_stays_what_it_is() {
        let of = |aggregate_type: &str, id: &str| {
            u128::from_be_bytes(key(
                &Aggregate::new(aggregate_type.to_owned(), id.to_owned()).unwrap()
            ))
        };
        assert_eq!(format!("{:032x}", of("Order", "7")), "621e4e01c3c00a193017fd7421fccc1f");
        assert_ne!(of("Order", "7"), of("Orde", "r7"));
    }
}
