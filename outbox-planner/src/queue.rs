//! The events of one aggregate that are in memory, in their order.

use std::collections::VecDeque;

use crate::types::{Item, LaneKey, Park};

/// The events of one aggregate.
#[derive(Clone, Debug)]
pub(crate) struct Queue<T> {
    pub(crate) items: VecDeque<Item<T>>,
    /// Rows behind them that cannot go: they are parked when nothing is before them, since a parked row may go before one
    /// that is only in the feed.
    pub(crate) tail: Vec<Park>,
    /// How many are in a call, or in doubt, and not among the items.
    pub(crate) under_way: usize,
    /// It stands in a lane.
    pub(crate) lined_up: bool,
}

impl<T> Default for Queue<T> {
    fn default() -> Self {
        Self { items: VecDeque::new(), tail: Vec::new(), under_way: 0, lined_up: false }
    }
}

impl<T> Queue<T> {
    /// The lane of its next event, if it may go and stands in none.
    pub(crate) fn next_lane(&self) -> Option<&LaneKey> {
        let first = self.items.front().filter(|_| self.under_way == 0 && !self.lined_up)?;
        Some(&first.lane)
    }

    /// Takes the first events, all of one lane, up to this many.
    pub(crate) fn take(&mut self, lane: &LaneKey, most: usize) -> Vec<Item<T>> {
        debug_assert_eq!(self.under_way, 0, "one call has events of an aggregate");
        self.lined_up = false;
        let run = self.items.iter().take(most).take_while(|item| item.lane == *lane).count();
        self.under_way = run;
        self.items.drain(..run).collect()
    }

    /// An event comes back to its place.
    pub(crate) fn put_back(&mut self, item: Item<T>) {
        self.under_way -= 1;
        let at = self.items.partition_point(|other| other.key.seq < item.key.seq);
        self.items.insert(at, item);
    }
}
