//! What becomes of each event of a transaction.

use std::{collections::HashMap, time::Duration};

use inbox_engine::internal::{Doom, ParkReason, Rule, Run, RunEntry, Tally, runs};
use inbox_store::internal::port::Parking;
use outbox_core::OutboxEvent;

use super::{Delivered, parked, versions::Versions};

/// What becomes of one event.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Disposition {
    /// Its handler has run.
    Applied,
    /// Its effect is there already.
    Duplicate,
    /// It is at or below the last version of its aggregate, which is this one.
    Stale(i64),
    /// A version of its aggregate before its own was not applied.
    Wait,
    /// An earlier event of its aggregate is parked.
    Follow,
    /// Nobody handles its type, and the configuration says to pass over it.
    Ignore,
    /// Nobody can take it: it is sent to a topic of its own.
    DeadLetter(Box<OutboxEvent>),
    /// It is parked.
    Park(Doom),
    /// Its sender is told why it is not taken; nothing is written for it.
    Refuse(Doom),
    /// Its handler is to run.
    Run,
    /// Its row was there and is not: the transaction has to be tried again.
    Vanished,
}

/// The verdicts of a batch, by the index of the item.
#[derive(Debug)]
pub(super) struct Dispositions<'a> {
    items: &'a [Delivered],
    all: Vec<Disposition>,
    /// Aggregates with parked events, those the claim saw and those parked in this transaction, with
    /// the first index that has to queue: what is before a parked event does not follow it.
    held: HashMap<[u8; 16], usize>,
}

impl<'a> Dispositions<'a> {
    pub(super) fn new(items: &'a [Delivered], held: Vec<[u8; 16]>) -> Self {
        let held = if Rule::HeldReadInClaim.on() { held } else { Vec::new() };
        Self {
            items,
            all: vec![Disposition::Ignore; items.len()],
            held: held.into_iter().map(|aggregate| (aggregate, 0)).collect(),
        }
    }

    pub(super) fn set(&mut self, index: usize, disposition: Disposition) {
        self.all[index] = disposition;
    }

    /// Each verdict, in the order of the items.
    pub(super) fn into_all(self) -> Vec<Disposition> {
        self.all
    }

    /// Makes followers of what comes after a parked event of its aggregate. Items are by (lane,
    /// offset) and an aggregate is in one lane, so one pass sees the head first.
    pub(super) fn hold_followers(&mut self) {
        for index in 0..self.items.len() {
            match self.all[index] {
                Disposition::Park(_) => self.hold(index),
                Disposition::Run => _ = self.follow(index),
                _ => {}
            }
        }
    }

    fn hold(&mut self, index: usize) {
        if Rule::HeldInsideTransaction.on() {
            let from = self.held.entry(self.items[index].aggregate).or_insert(index);
            *from = index.min(*from);
        }
    }

    /// What becomes of an event whose turn had come; one that is parked holds its aggregate. Whether it is.
    pub(super) fn decide(&mut self, index: usize, disposition: Disposition) -> bool {
        let parked = matches!(disposition, Disposition::Park(_));
        self.all[index] = disposition;
        if parked {
            self.hold(index);
        }
        parked
    }

    /// Dead letters, by (lane, offset).
    pub(super) fn letters(&self) -> Vec<OutboxEvent> {
        let letter = |disposition: &Disposition| match disposition {
            Disposition::DeadLetter(letter) => Some((**letter).clone()),
            _ => None,
        };
        self.all.iter().filter_map(letter).collect()
    }

    /// Whether the event has to queue behind a parked one; if so, it is marked.
    pub(super) fn follow(&mut self, index: usize) -> bool {
        // Nearly always empty: no look-up per event then.
        let from = || self.held.get(&self.items[index].aggregate);
        let held = !self.held.is_empty() && from().is_some_and(|from| *from <= index);
        if held {
            self.all[index] = Disposition::Follow;
        }
        held
    }

    /// The events to run, as runs.
    pub(super) fn runs(&self) -> Vec<Run> {
        let entries: Vec<RunEntry> = self.to_run().map(|index| self.entry(index)).collect();
        runs(&entries)
    }

    /// The events to run, by (lane, offset).
    pub(super) fn to_run(&self) -> impl Iterator<Item = usize> {
        (0..self.items.len()).filter(|index| self.all[*index] == Disposition::Run)
    }

    /// The same of events that waited for a version that is applied now, which are to run.
    pub(super) fn runs_of(&mut self, ready: &[usize]) -> Vec<Run> {
        for &index in ready {
            self.all[index] = Disposition::Run;
        }
        let entries: Vec<RunEntry> = ready.iter().map(|&index| self.entry(index)).collect();
        runs(&entries)
    }

    fn entry(&self, index: usize) -> RunEntry {
        let item = &self.items[index];
        RunEntry { index, lane: item.lane, kind: item.kind, aggregate: item.aggregate }
    }

    pub(super) fn vanished(&self) -> bool {
        self.all.contains(&Disposition::Vanished)
    }

    /// The rows to park, in offset order. `delay` says when what is exhausted is released by itself.
    pub(super) fn parked(
        &self,
        delay: impl Fn(&Delivered) -> Option<Duration>,
        versions: &Versions<'_>,
    ) -> Vec<Parking> {
        let row =
            |(index, (item, disposition)): (usize, (&Delivered, &Disposition))| match disposition {
                Disposition::Park(doom) if doom.reason == ParkReason::Exhausted => {
                    Some(parked::doomed_row(item, doom, delay(item)))
                }
                Disposition::Park(doom) => Some(parked::doomed_row(item, doom, None)),
                Disposition::Follow => Some(parked::row(item, ParkReason::Follower, "", None)),
                Disposition::Wait => {
                    let wait = versions.how_to_wait(index)?;
                    let row = parked::row(item, ParkReason::Gap, &wait.text, Some(wait.time));
                    Some(Parking { aggregate: wait.queue, delay: Some(wait.time), ..row })
                }
                _ => None,
            };
        let all = self.items.iter().zip(&self.all).enumerate();
        let mut rows: Vec<Parking> = all.filter_map(row).collect();
        rows.sort_unstable_by_key(|row| row.offset);
        rows
    }

    /// What is parked: the event, why, and what is known of it if it is no follower.
    pub(super) fn parkings(&self) -> impl Iterator<Item = (&Delivered, ParkReason, Option<&Doom>)> {
        self.items.iter().zip(&self.all).filter_map(|(item, disposition)| match disposition {
            Disposition::Park(doom) => Some((item, doom.reason, Some(doom))),
            Disposition::Follow => Some((item, ParkReason::Follower, None)),
            Disposition::Wait => Some((item, ParkReason::Gap, None)),
            _ => None,
        })
    }

    /// What is parked until versions before its own are applied.
    pub(super) fn waiting(&self) -> impl Iterator<Item = (usize, &Delivered)> {
        let waits = |index: &usize| self.all[*index] == Disposition::Wait;
        (0..self.items.len()).filter(waits).map(|index| (index, &self.items[index]))
    }

    /// What was not run for its version, with the one that was there.
    pub(super) fn stale(&self) -> impl Iterator<Item = (&Delivered, i64)> {
        self.items.iter().zip(&self.all).filter_map(|(item, disposition)| match disposition {
            Disposition::Stale(last) => Some((item, *last)),
            _ => None,
        })
    }

    pub(super) fn tally(&self) -> Tally {
        let mut tally = Tally::default();
        for disposition in &self.all {
            match disposition {
                Disposition::Applied => tally.applied += 1,
                Disposition::Duplicate => tally.duplicates += 1,
                Disposition::Stale(_) => tally.stale += 1,
                Disposition::Follow | Disposition::Park(_) | Disposition::Wait => tally.parked += 1,
                Disposition::Ignore => tally.ignored += 1,
                Disposition::DeadLetter(_) => tally.dead_lettered += 1,
                Disposition::Refuse(_) | Disposition::Run | Disposition::Vanished => {}
            }
        }
        tally
    }
}
