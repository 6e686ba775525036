//! How far the feed has been read.

use std::time::Duration;

use crate::types::Time;

/// A read that failed is made again after this time.
const AGAIN: Duration = Duration::from_millis(100);

/// How far the feed has been read.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reading {
    /// Up to this number rows have been read.
    pub(crate) read_to: i64,
    /// A read is under way.
    pub(crate) is_under_way: bool,
    /// There may be rows behind it.
    more: bool,
    /// Rows were announced while a read was under way that may not see them.
    announced: bool,
    /// Not before this time.
    not_before: Time,
    stalled: Option<Stall>,
}

/// The memory has had no room for what could be read.
#[derive(Clone, Copy, Debug)]
struct Stall {
    since: Time,
    /// Rows that have been read all the same.
    rows: usize,
}

impl Reading {
    pub(crate) fn announce(&mut self) {
        if self.is_under_way { self.announced = true } else { self.more = true }
    }

    pub(crate) fn wants(&self, now: Time) -> bool {
        self.more && !self.is_under_way && now >= self.not_before
    }

    /// A read of this many rows begins, which is a part of all that fits into memory.
    pub(crate) fn begin(&mut self, rows: usize, of: usize) {
        self.is_under_way = true;
        // Single rows that go make room for a read now and then: what is in memory may hide others all the same.
        self.stalled =
            self.stalled.map(|it| Stall { rows: it.rows + rows, ..it }).filter(|it| it.rows < of);
    }

    /// The memory has no room for what could be read.
    pub(crate) fn stall(&mut self, now: Time) {
        self.stalled.get_or_insert(Stall { since: now, rows: 0 });
    }

    /// When the memory has had too little room for so long.
    pub(crate) fn stalled_for(&self, patience: Duration) -> Option<Time> {
        self.stalled.map(|it| it.since + patience)
    }

    /// Something was done about it.
    pub(crate) fn restart_stall(&mut self, now: Time) {
        self.stalled = Some(Stall { since: now, rows: 0 });
    }

    /// A read has ended. With `full` there may be more behind it.
    pub(crate) fn end(&mut self, last: Option<i64>, full: bool) {
        self.is_under_way = false;
        self.read_to = last.map_or(self.read_to, |last| last.max(self.read_to));
        self.more = full || std::mem::take(&mut self.announced);
        if !full {
            self.stalled = None;
        }
    }

    /// A row became visible late: what is behind it is read once more.
    pub(crate) fn rewind(&mut self, first: i64) {
        self.is_under_way = false;
        self.read_to = self.read_to.min(first - 1);
        self.more = true;
    }

    pub(crate) fn fail(&mut self, now: Time) {
        self.is_under_way = false;
        self.more = true;
        self.not_before = now + AGAIN;
    }

    pub(crate) fn next_time(&self, now: Time) -> Option<Time> {
        Some(self.not_before).filter(|at| self.more && !self.is_under_way && *at > now)
    }
}
