//! The events of one aggregate, in order.

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

use super::LaneKey;
use crate::{
    destination::Delivery,
    port::{RowFailure, RowId},
};

/// An event on its way.
#[derive(Clone, Debug)]
pub(in crate::pump) struct Item {
    pub(in crate::pump) id: RowId,
    /// `type/id`.
    pub(in crate::pump) aggregate: String,
    /// The number of its destination.
    pub(in crate::pump) sink: usize,
    /// What it shares outages with.
    pub(in crate::pump) scope: String,
    /// What the destination is given.
    pub(in crate::pump) delivery: Delivery,
    /// It was set aside before this attempt: something may be held behind it.
    pub(in crate::pump) late: bool,
    pub(in crate::pump) bytes: usize,
    /// When it was read, and how old it was then.
    pub(in crate::pump) read: (Instant, Duration),
}

/// The events of one aggregate.
#[derive(Debug, Default)]
pub(super) struct Queue {
    items: VecDeque<Item>,
    /// The first is on its way or in doubt, and not among the items.
    under_way: bool,
    /// It stands in a lane.
    lined_up: bool,
    /// The lane of the event that came last.
    last: Option<LaneKey>,
}

impl Item {
    /// The lane that it stands in.
    pub(in crate::pump) fn lane(&self) -> LaneKey {
        (self.sink, self.scope.clone())
    }

    /// What the log calls it.
    pub(super) fn label(&self) -> String {
        format!("{} {}", self.aggregate, self.id.event)
    }

    /// How long ago it was appended.
    pub(super) fn age(&self, now: Instant) -> Duration {
        self.read.1 + now.duration_since(self.read.0)
    }

    /// It failed, or is given up for now, after so many attempts.
    pub(super) fn failure(&self, attempts: u32, error: String) -> RowFailure {
        RowFailure::new(self.id, self.label(), attempts, error)
    }

    /// Attempts that failed before this one.
    pub(super) fn attempts(&self) -> u32 {
        self.delivery.attempt.saturating_sub(1)
    }
}

impl Queue {
    pub(super) fn len(&self) -> usize {
        self.items.len()
    }

    /// Nothing of it is on its way or waits for that.
    pub(super) fn is_idle(&self) -> bool {
        !self.under_way && self.items.is_empty()
    }

    /// It has events, none is on its way, and nothing will send them.
    pub(super) fn is_lost(&self) -> bool {
        !self.under_way && !self.lined_up
    }

    pub(super) fn push_back(&mut self, item: Item) {
        let lane = (item.sink, &item.scope);
        if self.last.as_ref().is_none_or(|(sink, scope)| (*sink, scope) != lane) {
            self.last = Some(item.lane());
        }
        self.items.push_back(item);
    }

    /// The lane of the event that came last.
    pub(super) fn last_lane(&self) -> Option<&LaneKey> {
        self.last.as_ref()
    }

    /// Takes all but the first.
    pub(super) fn cut(&mut self) -> VecDeque<Item> {
        let first = usize::from(!self.under_way);
        self.items.split_off(self.items.len().min(first))
    }

    /// The next one to go.
    pub(super) fn first(&mut self) -> Option<&Item> {
        self.lined_up = true;
        self.items.front()
    }

    /// Its first event goes on its way.
    pub(super) fn send(&mut self) -> Option<Item> {
        debug_assert!(!self.under_way, "one event of an aggregate is on its way");
        self.lined_up = false;
        let item = self.items.pop_front()?;
        self.under_way = true;
        Some(item)
    }

    /// It came to nothing.
    pub(super) fn put_back(&mut self, item: Item) {
        self.under_way = false;
        self.items.push_front(item);
    }

    /// What was on its way is delivered. Answers whether there are more.
    pub(super) fn concluded(&mut self) -> bool {
        self.under_way = false;
        !self.items.is_empty()
    }

    pub(super) fn into_items(self) -> VecDeque<Item> {
        self.items
    }
}
