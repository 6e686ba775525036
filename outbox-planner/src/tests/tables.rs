//! The feed and the parking store, as the database has them.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use crate::types::{Conclusion, LaneKey, Park, ParkState, ReadRequest, RowKey, Time};

/// A row of the outbox.
#[derive(Clone, Debug)]
pub(super) struct Row {
    pub(super) aggregate: Arc<str>,
    pub(super) lane: LaneKey,
    /// Its topic, where that may be missing.
    pub(super) topic: Option<String>,
    pub(super) bytes: usize,
    pub(super) deliver_at: Time,
    pub(super) visible_at: Time,
    pub(super) nature: Nature,
    pub(super) place: Place,
    pub(super) deliveries: u32,
    /// The destination may have it though it said that it failed.
    pub(super) is_unknown: bool,
}

/// What a destination says of an event whenever it gets it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Nature {
    Good,
    Fails,
    Refused,
    Unsendable,
    /// No call with it comes to an answer.
    Kills,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Place {
    Feed,
    Parked(Parked),
    Sent,
    Discarded,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Parked {
    pub(super) state: ParkState,
    pub(super) due_at: Option<Time>,
    pub(super) destination: String,
    pub(super) attempts: u32,
    pub(super) is_claimed: bool,
}

/// A row that was read or claimed: its number, whether it is blocked, and its attempts.
pub(super) type Found = (i64, bool, u32);

/// What a read found.
#[derive(Clone, Debug)]
pub(super) struct Page {
    pub(super) earlier: Vec<i64>,
    pub(super) rows: Vec<Found>,
    pub(super) full: bool,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Tables {
    pub(super) rows: BTreeMap<i64, Row>,
}

impl Tables {
    pub(super) fn parked(&self, seq: i64) -> Option<&Parked> {
        match &self.rows[&seq].place {
            Place::Parked(parked) => Some(parked),
            _ => None,
        }
    }

    fn parked_mut(&mut self, seq: i64) -> Option<&mut Parked> {
        match &mut self.rows.get_mut(&seq)?.place {
            Place::Parked(parked) => Some(parked),
            _ => None,
        }
    }

    /// The parked rows of an aggregate, in their order.
    fn parked_of(&self, aggregate: &str) -> Vec<i64> {
        let of = |(_, row): &(&i64, &Row)| {
            *row.aggregate == *aggregate && matches!(row.place, Place::Parked(_))
        };
        self.rows.iter().filter(of).map(|(seq, _)| *seq).collect()
    }

    fn is_first(&self, seq: i64) -> bool {
        self.parked_of(&self.rows[&seq].aggregate).iter().all(|other| *other >= seq)
    }

    pub(super) fn read(&self, request: ReadRequest, now: Time) -> Page {
        let (mut earlier, mut rows, mut bytes) = (Vec::new(), Vec::new(), 0);
        for (seq, row) in &self.rows {
            if row.place != Place::Feed || row.visible_at > now {
                continue;
            }
            if *seq <= request.read_to {
                earlier.push(*seq);
            } else if rows.is_empty()
                || (rows.len() < request.rows_max && bytes + row.bytes <= request.bytes_max)
            {
                bytes += row.bytes;
                rows.push((*seq, !self.is_first(*seq), 0));
            } else {
                break;
            }
        }
        let full = rows.len() >= request.rows_max || bytes * 2 >= request.bytes_max;
        Page { earlier, rows, full }
    }

    pub(super) fn claim(&mut self, name: &str, most: usize, bytes: usize, now: Time) -> Vec<Found> {
        let due = |(seq, row): (&i64, &Row)| match &row.place {
            Place::Parked(parked) if parked.destination == name && !parked.is_claimed => {
                parked.due_at.filter(|at| *at <= now).map(|at| (at, *seq))
            }
            _ => None,
        };
        let mut due: Vec<(Time, i64)> = self.rows.iter().filter_map(due).collect();
        due.sort_unstable();
        let (mut claimed, mut sum) = (Vec::new(), 0);
        for (_, seq) in due.into_iter().take(most) {
            sum += self.rows[&seq].bytes;
            if !claimed.is_empty() && sum > bytes {
                break;
            }
            claimed.push(seq);
        }
        for seq in &claimed {
            self.parked_mut(*seq).unwrap().is_claimed = true;
        }
        let found = |seq: i64| {
            let others = self.parked_of(&self.rows[&seq].aggregate);
            let waits = |other: &i64| *other < seq && !self.parked(*other).unwrap().is_claimed;
            (seq, others.iter().any(waits), self.parked(seq).unwrap().attempts)
        };
        claimed.into_iter().map(found).collect()
    }

    pub(super) fn dues(&self, now: Time) -> Vec<(String, Duration)> {
        let mut dues = BTreeMap::<String, Duration>::new();
        for row in self.rows.values() {
            let Place::Parked(parked) = &row.place else { continue };
            let Some(at) = parked.due_at.filter(|_| !parked.is_claimed) else { continue };
            let after = at.saturating_sub(now);
            let known = dues.entry(parked.destination.clone()).or_insert(after);
            *known = after.min(*known);
        }
        dues.into_iter().collect()
    }

    pub(super) fn unclaim(&mut self, seq: i64) {
        if let Some(parked) = self.parked_mut(seq) {
            parked.is_claimed = false;
        }
    }

    pub(super) fn end_claims(&mut self) {
        for row in self.rows.values_mut() {
            if let Place::Parked(parked) = &mut row.place {
                parked.is_claimed = false;
            }
        }
    }

    pub(super) fn store(&mut self, conclusion: &Conclusion, now: Time) {
        for RowKey { seq, .. } in conclusion.sent.iter().chain(&conclusion.delivered) {
            let row = self.rows.get_mut(seq).unwrap();
            if row.place != Place::Discarded {
                row.place = Place::Sent;
            }
        }
        for park in &conclusion.parked {
            self.park(park, now);
        }
        let mut touched: BTreeSet<Arc<str>> = BTreeSet::new();
        for park in &conclusion.parked {
            touched.insert(Arc::clone(&park.aggregate));
            let is_ready = |it: &Parked| it.state == ParkState::Ready;
            if self.parked(park.key.seq).is_none_or(is_ready) {
                continue;
            }
            for seq in self.parked_of(&park.aggregate) {
                let parked = self.parked_mut(seq).unwrap();
                if seq > park.key.seq && is_ready(parked) {
                    (parked.state, parked.due_at) = (ParkState::Behind, None);
                }
            }
        }
        for key in &conclusion.delivered {
            touched.insert(Arc::clone(&self.rows[&key.seq].aggregate));
        }
        for aggregate in touched {
            self.release(&aggregate, now);
        }
    }

    fn park(&mut self, park: &Park, now: Time) {
        let row = self.rows.get_mut(&park.key.seq).unwrap();
        if matches!(row.place, Place::Discarded | Place::Sent) {
            return;
        }
        let due_at = match park.state {
            ParkState::Behind | ParkState::Parked => None,
            ParkState::Ready | ParkState::Waiting => Some(now),
            ParkState::Scheduled | ParkState::Retry => Some(now + park.after),
        };
        row.place = Place::Parked(Parked {
            state: park.state,
            due_at,
            destination: park.destination.clone(),
            attempts: park.attempts,
            is_claimed: false,
        });
    }

    /// The leading run of what is behind nothing is ready.
    fn release(&mut self, aggregate: &str, now: Time) {
        for seq in self.parked_of(aggregate) {
            let parked = self.parked_mut(seq).unwrap();
            if parked.state != ParkState::Behind {
                break;
            }
            (parked.state, parked.due_at) = (ParkState::Ready, Some(now));
        }
    }

    /// A person has a row tried again; refused while it is claimed.
    pub(super) fn retry(&mut self, seq: i64, now: Time) {
        let is_first = self.is_first(seq);
        let Some(parked) = self.parked_mut(seq).filter(|parked| !parked.is_claimed) else { return };
        parked.attempts = 0;
        (parked.state, parked.due_at) =
            if is_first { (ParkState::Ready, Some(now)) } else { (ParkState::Behind, None) };
    }

    /// A person discards a row; refused while it is claimed.
    pub(super) fn discard(&mut self, seq: i64, now: Time) {
        if self.parked(seq).is_some_and(|parked| !parked.is_claimed) {
            let row = self.rows.get_mut(&seq).unwrap();
            row.place = Place::Discarded;
            let aggregate = Arc::clone(&row.aggregate);
            self.release(&aggregate, now);
        }
    }
}
