//! How far the feed has been read.

use std::time::Duration;

use crate::types::Time;

/// A read that failed is made again after this time.
const AGAIN: Duration = Duration::from_millis(100);
/// While the memory has no room for what could be read, the largest lane fills it alone for no longer.
pub(crate) const STALL_PATIENCE: Duration = Duration::from_secs(1);

/// How far the feed has been read.
#[expect(clippy::struct_excessive_bools, reason = "each may be so without the others")]
#[derive(Debug, Default)]
#[cfg_attr(test, derive(Clone))]
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
    /// The furthest that it was.
    most: i64,
    /// How far an earlier session had read; `None`: nobody knows.
    earlier: Option<i64>,
    /// All was read that may be before a parked row of its aggregate.
    pub(crate) has_caught_up: bool,
    /// Since when rows could be read and the memory has had no room for them.
    pub(crate) stalled: Option<Time>,
}

impl Reading {
    pub(crate) fn announce(&mut self) {
        if self.is_under_way { self.announced = true } else { self.more = true }
    }

    /// All is read again, in a new session.
    pub(crate) fn begin_again(&mut self) {
        let read_to = self.earlier.map_or(self.most, |earlier| earlier.max(self.most));
        let earlier = (self.has_caught_up || self.earlier.is_some()).then_some(read_to);
        *self = Self { earlier, more: true, ..Self::default() };
    }

    pub(crate) fn wants(&self, now: Time) -> bool {
        self.more && !self.is_under_way && now >= self.not_before
    }

    pub(crate) fn begin(&mut self) {
        self.is_under_way = true;
        self.stalled = None;
    }

    /// A read has ended. With `full` there may be more behind it.
    pub(crate) fn end(&mut self, last: Option<i64>, full: bool) {
        self.is_under_way = false;
        // A page that is short may not say that it is full.
        let is_past = last.is_none_or(|last| self.earlier.is_some_and(|earlier| last >= earlier));
        self.has_caught_up |= is_past;
        self.read_to = last.map_or(self.read_to, |last| last.max(self.read_to));
        self.most = self.read_to.max(self.most);
        self.more = full || std::mem::take(&mut self.announced) || !self.has_caught_up;
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
