//! The log of a partition: records with gaps between them, leader epochs, copies, and events that fail.

use super::chance::Chance;
use crate::{Doom, Item, Kind, Lane, LeaderEpoch, NextOffset, Offset, ParkReason};

/// What happens when the handler of an event runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Nature {
    Good,
    /// Fails this often, then never again.
    Fails(u8),
    /// Fails always; the batch handler does not say at which event.
    FailsUnnamed,
    Rejects,
    /// Meets a conflict whenever it runs.
    Conflicts,
    /// Ends the connection whenever it runs.
    Disconnects,
    Undecodable,
}

/// An event is the same in all its copies.
#[derive(Clone, Copy, Debug)]
pub(super) struct Event {
    pub(super) number: u32,
    pub(super) aggregate: u8,
    pub(super) nature: Nature,
    pub(super) kind: u8,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Record {
    pub(super) offset: i64,
    pub(super) leader_epoch: i32,
    pub(super) event: Event,
    /// How many records of its aggregate are before it.
    pub(super) place: usize,
}

/// How a history is made.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    pub(super) lanes: u16,
    pub(super) aggregates: u8,
    /// Whether the broker tells leader epochs.
    pub(super) epochs_known: bool,
    /// One event in so many is bad; zero: none.
    pub(super) bad: u64,
    /// One record in so many is a copy of an earlier one; zero: none.
    pub(super) copies: u64,
}

/// A copy comes at most so many records after the event before it.
pub(super) const COPIED_BACK: usize = 12;

#[derive(Debug)]
pub(super) struct Log {
    pub(super) records: Vec<Record>,
    /// The offset after the last record and the gaps behind it.
    pub(super) end: i64,
    pub(super) aggregates: Vec<Vec<usize>>,
    shape: Shape,
    leader_epoch: i32,
    /// Where each leader epoch begins.
    epochs: Vec<i64>,
}

impl Log {
    pub(super) fn new(shape: Shape) -> Self {
        let aggregates = vec![Vec::new(); usize::from(shape.aggregates)];
        Self { records: Vec::new(), end: 0, aggregates, shape, leader_epoch: 0, epochs: vec![0] }
    }

    /// Appends a few records, gaps, maybe a new leader.
    pub(super) fn grow(&mut self, number: &mut u32, chance: &mut Chance) {
        for _ in 0..chance.below(8) {
            if chance.one_in(40) {
                self.leader_epoch += 1;
                self.epochs.push(self.end);
            }
            if chance.one_in(6) {
                self.end += i64::try_from(chance.below(4)).unwrap();
            }
            let event = self.event(number, chance);
            let places = &mut self.aggregates[usize::from(event.aggregate)];
            let place = places.len();
            places.push(self.records.len());
            let leader_epoch = self.leader_epoch;
            self.records.push(Record { offset: self.end, leader_epoch, event, place });
            self.end += 1;
        }
        if chance.one_in(4) {
            self.end += 1;
        }
    }

    fn event(&self, number: &mut u32, chance: &mut Chance) -> Event {
        let shape = self.shape;
        if shape.copies > 0 && chance.one_in(shape.copies) && !self.records.is_empty() {
            let back = 1 + chance.index(self.records.len().min(COPIED_BACK));
            return self.records[self.records.len() - back].event;
        }
        *number += 1;
        let bad = shape.bad > 0 && chance.one_in(shape.bad);
        let nature = match chance.below(8) {
            _ if !bad => Nature::Good,
            0..3 => Nature::Fails(1 + u8::try_from(chance.below(3)).unwrap()),
            3 => Nature::FailsUnnamed,
            4 => Nature::Rejects,
            5 => Nature::Conflicts,
            6 => Nature::Disconnects,
            _ => Nature::Undecodable,
        };
        let aggregate = u8::try_from(chance.below(u64::from(shape.aggregates))).unwrap();
        let kind = u8::try_from(chance.below(3)).unwrap();
        Event { number: *number, aggregate, nature, kind }
    }

    /// The first record at or above an offset.
    pub(super) fn from(&self, offset: i64) -> usize {
        self.records.partition_point(|record| record.offset < offset)
    }

    pub(super) fn at(&self, offset: i64) -> &Record {
        let record = &self.records[self.from(offset)];
        assert_eq!(record.offset, offset, "no such record was ever in the log");
        record
    }

    /// The offset of the first record of an aggregate that is not among its first `done`.
    pub(super) fn undone(&self, aggregate: usize, done: usize) -> Option<i64> {
        self.aggregates[aggregate].get(done).map(|&record| self.records[record].offset)
    }

    /// Where a leader epoch ends, as the broker answers the client's validation.
    pub(super) fn end_of_epoch(&self, leader_epoch: i32) -> i64 {
        let next = usize::try_from(leader_epoch).unwrap() + 1;
        self.epochs.get(next).copied().unwrap_or(i64::MAX)
    }

    pub(super) fn item(&self, record: &Record, lanes: u16) -> Item<Event> {
        let event = record.event;
        let known = self.shape.epochs_known;
        let unreadable =
            || Doom { reason: ParkReason::Undecodable, error: "not an event".to_owned() };
        Item {
            offset: Offset(record.offset),
            leader_epoch: if known {
                LeaderEpoch(record.leader_epoch)
            } else {
                LeaderEpoch::UNKNOWN
            },
            lane: Lane(u16::from(event.aggregate) % lanes),
            id: id(event.number),
            fingerprint: [0; 16],
            aggregate: [event.aggregate; 16],
            kind: Kind {
                route: u32::from(event.kind),
                whole_run: event.kind > 0,
                one_per_aggregate: event.kind > 1,
            },
            bytes: 1 + event.number % 7,
            attempts: 0,
            doomed: (event.nature == Nature::Undecodable).then(unreadable),
            bare: false,
            suspect: false,
            event,
        }
    }

    pub(super) fn position(&self) -> NextOffset {
        NextOffset(self.end)
    }
}

fn id(number: u32) -> [u8; 16] {
    // Spread over the bytes, so that the order of ids is not the order of offsets.
    (u128::from(number).wrapping_mul(0x9E37_79B9_7F4A_7C15_F39C_C060_5CED_C835)).to_be_bytes()
}
