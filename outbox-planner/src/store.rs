//! What became of rows and is not stored yet.

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use crate::types::{Conclusion, Item, Park, ParkState, RowKey, Time};

/// Conclusions of single events are stored together after this time.
const STORE_AFTER: Duration = Duration::from_millis(20);

/// What is parked behind another is looked for after this time.
const BEHIND: Duration = Duration::from_millis(100);

/// What is to be stored, and what is being stored.
#[derive(Clone, Debug, Default)]
pub(crate) struct PendingStore {
    next: Conclusion,
    since: Option<Time>,
    soon: bool,
    storing: Option<Conclusion>,
    /// Aggregates with rows that are to be parked, by number: an answer may not show them yet.
    parking: HashMap<Arc<str>, BTreeSet<i64>>,
    /// What was stored while an answer was awaited that may not show it.
    meanwhile: Meanwhile,
    /// Rows that are parked once more, and not stored yet.
    again: HashSet<i64>,
}

/// What was stored while an answer was awaited.
#[derive(Clone, Debug, Default)]
struct Meanwhile {
    rows: HashSet<i64>,
    parked: Vec<Park>,
    /// The first row of each aggregate that was parked.
    first: HashMap<Arc<str>, i64>,
}

impl PendingStore {
    pub(crate) fn delivered(&mut self, item: &Item<impl Sized>, soon: bool, now: Time) {
        let Item { key, ref aggregate, claimed, .. } = *item;
        // What is parked while it is under way may not be stored yet: then it need not be.
        let own = |park: &mut Park| park.key == key;
        let unstored = claimed && self.next.parked.extract_if(.., own).next().is_some();
        if unstored {
            self.ends_parking(aggregate, key.seq);
        }
        if claimed && !unstored {
            self.next.delivered.push(key);
        } else {
            self.next.sent.push(key);
        }
        self.soon |= soon;
        self.since.get_or_insert(now);
    }

    pub(crate) fn park(&mut self, park: Park, now: Time) {
        // What was parked while it was under way has come to something.
        match self.next.parked.iter_mut().rev().find(|known| known.key == park.key && known.claimed)
        {
            Some(known) => *known = park,
            None => {
                let parking = self.parking.entry(Arc::clone(&park.aggregate)).or_default();
                parking.insert(park.key.seq);
                self.next.parked.push(park);
            }
        }
        self.since.get_or_insert(now);
    }

    /// Whether a row before this one of its aggregate is parked, though an answer may not show it.
    pub(crate) fn parks_before(&self, aggregate: &str, seq: i64) -> bool {
        let pending = self.parking.get(aggregate).and_then(BTreeSet::first);
        pending.into_iter().chain(self.meanwhile.first.get(aggregate)).any(|first| *first < seq)
    }

    /// Whether a row was stored while an answer was awaited that may still show it.
    pub(crate) fn stored(&self, seq: i64) -> bool {
        self.meanwhile.rows.contains(&seq)
    }

    /// A row was claimed while it was stored that it is parked. Nobody can tell which came first, so it is parked once
    /// more, which ends the claim. Answers whether it is.
    pub(crate) fn park_again(&mut self, seq: i64, now: Time) -> bool {
        let own = |park: &&Park| park.key.seq == seq && !park.claimed;
        if self.next.parked.iter().any(|park| own(&park)) {
            return false;
        }
        let storing = self.storing.iter().flat_map(|conclusion| &conclusion.parked);
        let Some(park) = storing.chain(&self.meanwhile.parked).find(own).cloned() else {
            return false;
        };
        self.park(park, now);
        self.again.insert(seq);
        true
    }

    /// A row is forgotten. If it is to be stored that it is parked and claimed, it is parked and not claimed: nobody would
    /// end that claim. Answers whether.
    pub(crate) fn end_claim(&mut self, seq: i64, now: Time) -> bool {
        let own = |park: &&Park| park.key.seq == seq && park.claimed;
        let storing = self.storing.iter().flat_map(|conclusion| &conclusion.parked);
        let Some(park) = self.next.parked.iter().chain(storing).find(own) else { return false };
        let park = Park { claimed: false, ..park.clone() };
        self.park(park, now);
        true
    }

    /// Whether rows are to be parked once more. Another claim would take them meanwhile, and so on.
    pub(crate) fn parks_again(&self) -> bool {
        !self.again.is_empty()
    }

    pub(crate) fn begin_ask(&mut self) {
        self.meanwhile = Meanwhile::default();
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.since.is_none() && self.storing.is_none()
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

    #[cfg(test)]
    pub(crate) fn fingerprint(&self) -> String {
        use std::collections::BTreeMap;
        let parking: BTreeMap<_, _> = self.parking.iter().collect();
        let first: BTreeMap<_, _> = self.meanwhile.first.iter().collect();
        let rows: BTreeSet<_> = self.meanwhile.rows.iter().collect();
        format!("{:?}{:?}{}{parking:?}{first:?}{rows:?}", self.next, self.since, self.soon)
    }

    fn ends_parking(&mut self, aggregate: &str, seq: i64) {
        let Some(parking) = self.parking.get_mut(aggregate) else { return };
        parking.remove(&seq);
        if parking.is_empty() {
            self.parking.remove(aggregate);
        }
    }

    /// It is stored. Answers what, and the rows that nothing is to be remembered of; with `asking` an answer is awaited
    /// that may not show it.
    pub(crate) fn stored_all(&mut self, asking: bool) -> (Conclusion, Vec<i64>) {
        let stored = self.storing.take().unwrap_or_default();
        let next: HashSet<i64> = self.next.parked.iter().map(|park| park.key.seq).collect();
        let mut left: Vec<i64> = keys(&stored).map(|key| key.seq).collect();
        for park in &stored.parked {
            let seq = park.key.seq;
            if !park.claimed && !next.contains(&seq) {
                left.push(seq);
            }
            if !next.contains(&seq) {
                self.again.remove(&seq);
                self.ends_parking(&park.aggregate, seq);
            }
        }
        if asking {
            for park in &stored.parked {
                let seq = park.key.seq;
                let first = self.meanwhile.first.entry(Arc::clone(&park.aggregate)).or_insert(seq);
                *first = seq.min(*first);
                self.meanwhile.rows.insert(seq);
            }
            self.meanwhile.rows.extend(keys(&stored).map(|key| key.seq));
            self.meanwhile.parked.extend_from_slice(&stored.parked);
        }
        (stored, left)
    }
}

/// What a conclusion says is delivered.
fn keys(conclusion: &Conclusion) -> impl Iterator<Item = &RowKey> {
    conclusion.sent.iter().chain(&conclusion.delivered)
}

/// When a parked row may go: by which name, and in how long.
pub(crate) fn goes(park: &Park) -> Option<(&str, Duration)> {
    let after = match park.state {
        _ if park.claimed => return None,
        ParkState::Parked => return None,
        ParkState::Ready | ParkState::Waiting => Duration::ZERO,
        // Stored as ready where nothing is before it, which is rare.
        ParkState::Behind => BEHIND,
        ParkState::Scheduled | ParkState::Retry => park.after,
    };
    Some((&park.destination, after))
}
