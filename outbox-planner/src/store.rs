//! What became of rows and is not stored yet.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use crate::types::{Conclusion, Park, ParkState, RowKey, Time};

/// Conclusions of single events are stored together after this time.
const STORE_AFTER: Duration = Duration::from_millis(20);

/// What is parked behind another is looked for after this time.
const BEHIND: Duration = Duration::from_millis(100);

/// What is to be stored, and what is being stored.
#[derive(Debug, Default)]
#[cfg_attr(test, derive(Clone))]
pub(crate) struct PendingStore {
    pub(crate) next: Conclusion,
    since: Option<Time>,
    soon: bool,
    pub(crate) storing: Option<Conclusion>,
    /// Aggregates with rows that are to be parked, how many, and the first: a read may not see them yet.
    parking: BTreeMap<Arc<str>, (usize, i64)>,
    /// The same of rows that were stored while a read or a claim was under way, and all those rows.
    stored_meanwhile: (BTreeMap<Arc<str>, i64>, BTreeSet<i64>),
}

impl PendingStore {
    pub(crate) fn delivered(&mut self, key: RowKey, claimed: bool, soon: bool, now: Time) {
        if claimed {
            self.next.delivered.push(key);
        } else {
            self.next.sent.push(key);
        }
        self.soon |= soon;
        self.since.get_or_insert(now);
    }

    pub(crate) fn park(&mut self, park: Park, now: Time) {
        let seq = park.key.seq;
        let (count, first) = self.parking.entry(Arc::clone(&park.aggregate)).or_insert((0, seq));
        (*count, *first) = (*count + 1, seq.min(*first));
        self.next.parked.push(park);
        self.since.get_or_insert(now);
    }

    /// Whether a read or a claim may not show that a row before this one of its aggregate is parked.
    pub(crate) fn parks_before(&self, aggregate: &str, seq: i64) -> bool {
        let parking = self.parking.get(aggregate).map(|(_, first)| first);
        let first = parking.into_iter().chain(self.stored_meanwhile.0.get(aggregate)).min();
        first.is_some_and(|first| *first < seq)
    }

    /// Whether a row was stored while the read was under way that may still show it.
    pub(crate) fn stored(&self, seq: i64) -> bool {
        self.stored_meanwhile.1.contains(&seq)
    }

    /// Whether rows are being parked under a name.
    pub(crate) fn is_parking(&self, name: &str) -> bool {
        self.storing.as_ref().is_some_and(|storing| parks(storing, name))
    }

    /// Whether what is stored next parks rows under a name.
    pub(crate) fn will_park(&self, name: &str) -> bool {
        parks(&self.next, name)
    }

    /// A read or a claim begins.
    pub(crate) fn begin_ask(&mut self) {
        self.stored_meanwhile = Default::default();
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.since.is_none() && self.storing.is_none()
    }

    /// The numbers of all rows that are to be stored.
    pub(crate) fn seqs(&self) -> impl Iterator<Item = i64> {
        self.storing.iter().chain([&self.next]).flat_map(seqs)
    }

    fn len(&self) -> usize {
        self.next.sent.len() + self.next.delivered.len() + self.next.parked.len()
    }

    /// When there is something to store, if nothing is being stored.
    pub(crate) fn due(&self, at_once: bool, full: usize) -> Option<Time> {
        let since = self.since.filter(|_| self.storing.is_none())?;
        let soon = at_once || self.soon || self.len() >= full;
        Some(if soon { since } else { since + STORE_AFTER })
    }

    pub(crate) fn take(&mut self) -> Conclusion {
        (self.since, self.soon) = (None, false);
        let taken = std::mem::take(&mut self.next);
        self.storing = Some(taken.clone());
        taken
    }

    /// It is stored. Answers what, with `asking` a read or a claim is under way.
    pub(crate) fn stored_all(&mut self, asking: bool) -> Conclusion {
        let stored = self.storing.take().unwrap_or_default();
        for park in &stored.parked {
            if let Some((count, _)) = self.parking.get_mut(&park.aggregate) {
                *count -= 1;
                if *count == 0 {
                    self.parking.remove(&park.aggregate);
                }
            }
        }
        if asking {
            for Park { key, aggregate, .. } in &stored.parked {
                let first = self.stored_meanwhile.0.entry(Arc::clone(aggregate)).or_insert(key.seq);
                *first = key.seq.min(*first);
            }
            self.stored_meanwhile.1.extend(seqs(&stored));
        }
        stored
    }
}

/// The numbers of all rows of a conclusion.
pub(crate) fn seqs(conclusion: &Conclusion) -> impl Iterator<Item = i64> {
    let parked = conclusion.parked.iter().map(|park| park.key.seq);
    conclusion.sent.iter().chain(&conclusion.delivered).map(|key| key.seq).chain(parked)
}

/// When a parked row may go: by which name, and in how long.
pub(crate) fn goes(park: &Park) -> Option<(&str, Duration)> {
    let after = match park.state {
        ParkState::Parked => return None,
        ParkState::Ready | ParkState::Waiting => Duration::ZERO,
        // Stored as ready where nothing is before it, which is rare.
        ParkState::Behind => BEHIND,
        ParkState::Scheduled | ParkState::Retry => park.after,
    };
    Some((&park.destination, after))
}

fn parks(conclusion: &Conclusion, name: &str) -> bool {
    conclusion.parked.iter().any(|park| park.destination == name)
}
