//! How many events a transaction may have: what a drain has time for, by what earlier ones took.

use crate::{Engine, Lane, Limits, Rule, Time, partition::Partition};

/// What a lane may have while handlers are quick and it has not committed yet.
const CAP_AT_FIRST: usize = 500;
/// A transaction that takes long is not made smaller than this: then it is not the events.
const CAP_MIN: usize = 64;

impl<T> Engine<T> {
    /// Remembers how long events take: the slowest of late, since what comes next may be like those.
    pub(crate) fn learn_event_time(&mut self, events: u64, took: u64) {
        if events > 0 {
            let before = self.event_time.unwrap_or(0);
            let faded = before - before.div_ceil(8);
            self.event_time = Some(took.div_ceil(events).max(faded));
        }
    }

    /// Events of a transaction whose lane or queue has not committed yet. In a process that knows nothing
    /// of its handlers they are few: a transaction that outlasts each drain would never commit while
    /// partitions move.
    pub(crate) fn first_cap(&self) -> usize {
        match self.event_time {
            _ if !Rule::TransactionFitsDrain.on() => CAP_AT_FIRST,
            Some(time) => self.limits.drain_cap(1, time).min(CAP_AT_FIRST),
            None => self.limits.events_at_first,
        }
    }
}

impl Limits {
    /// Events that half a drain has time for, when `events` of them took so long.
    pub(crate) fn drain_cap(&self, events: u64, took: u64) -> usize {
        if events == 0 || !Rule::TransactionFitsDrain.on() {
            return usize::MAX;
        }
        // Who drains for no time at all gives transactions up whatever their size.
        let time = (self.drain_deadline / 2).max(self.batch_time_max);
        let fit = time.saturating_mul(events) / took.max(1);
        usize::try_from(fit).unwrap_or(usize::MAX).max(1)
    }

    /// What a lane may have after a transaction. `calm`: little is left undone.
    pub(crate) fn next_cap(&self, cap: Option<usize>, last: Measurement, calm: bool) -> usize {
        let time_max = if calm { self.batch_time_calm_max } else { self.batch_time_max };
        let cap = cap.unwrap_or(CAP_AT_FIRST);
        let next = if last.took > time_max {
            (last.items / 2).max(cap.min(CAP_MIN))
        } else if last.took > time_max / 2 {
            cap
        } else {
            cap.saturating_mul(2)
        };
        next.min(self.drain_cap(last.applied, last.took))
    }
}

impl<T> Partition<T> {
    /// Milliseconds since the transaction that has this lane began.
    pub(crate) fn elapsed(&self, lane: Lane, now: Time) -> u64 {
        now.0.saturating_sub(self.lanes[usize::from(lane.0)].began.0)
    }
}

/// What a transaction that committed shows.
#[derive(Clone, Copy)]
pub(crate) struct Measurement {
    /// Events that it had.
    pub(crate) items: usize,
    /// Those of them that a handler ran for.
    pub(crate) applied: u64,
    /// Milliseconds.
    pub(crate) took: u64,
}
