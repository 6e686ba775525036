//! Events that go together: a request, a half of it, what is left of it, or a transaction.

use crate::lane_set::LaneSet;

/// How much waits, and runs.
#[derive(Clone, Copy, Debug)]
pub struct QueueLimits {
    /// Transactions that are open at once.
    pub transactions_max: usize,
    /// Events of one transaction.
    pub batch_events_max: usize,
    /// Bytes of one transaction's events; a single larger event goes alone.
    pub batch_bytes_max: usize,
    /// Bytes of all events that wait or run.
    pub bytes_max: usize,
}

/// An event that waits.
pub(crate) trait Queued {
    fn lane(&self) -> u16;
    fn bytes(&self) -> usize;
    /// Whether nobody waits for its request any more.
    fn is_over(&self) -> bool;
}

/// A request, or what is left of it; or what goes into one transaction. By their lanes, and within a lane as they came.
#[derive(Debug)]
pub(crate) struct Portion<E> {
    pub(crate) events: Vec<E>,
    pub(crate) lanes: LaneSet,
    bytes: usize,
    /// What is before it in its request may be under way.
    pub(crate) is_rest: bool,
    /// Which half of a large request it is, if it is one.
    half: Option<Half>,
}

/// Half of the lanes, by their numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Half {
    Even,
    Odd,
}

impl<E: Queued> Portion<E> {
    pub(crate) fn of(mut events: Vec<E>) -> Self {
        events.sort_by_key(E::lane);
        let lanes = events.iter().map(E::lane).collect();
        let bytes = events.iter().map(E::bytes).sum();
        Self { events, lanes, bytes, is_rest: false, half: None }
    }

    /// The halves of a request, of which neither has a lane of the other.
    pub(crate) fn halves(events: Vec<E>) -> impl Iterator<Item = Self> {
        let (odd, even): (Vec<_>, Vec<_>) =
            events.into_iter().partition(|event| event.lane() % 2 == 1);
        [(Half::Even, even), (Half::Odd, odd)]
            .into_iter()
            .filter(|(_, events)| !events.is_empty())
            .map(|(half, events)| Self { half: Some(half), ..Self::of(events) })
    }

    /// Its first events, as many as a transaction may have, and what is left of it.
    pub(crate) fn split(self, limits: &QueueLimits) -> (Self, Option<Self>) {
        if self.events.len() <= limits.batch_events_max && self.bytes <= limits.batch_bytes_max {
            return (self, None);
        }
        let (mut first, mut count, mut bytes) = (self.events, 0, 0);
        for event in &first {
            bytes += event.bytes();
            // A single larger one goes alone.
            if count > 0 && (count >= limits.batch_events_max || bytes > limits.batch_bytes_max) {
                break;
            }
            count += 1;
        }
        let rest = first.split_off(count);
        let half = self.half;
        let rest = (!rest.is_empty()).then(|| Self { is_rest: true, half, ..Self::of(rest) });
        (Self { half, ..Self::of(first) }, rest)
    }

    /// Its events of other lanes than these, and those of these.
    pub(crate) fn split_by(self, lanes: LaneSet) -> (Self, Self) {
        let (rest, free): (Vec<_>, Vec<_>) =
            self.events.into_iter().partition(|event| lanes.has(event.lane()));
        let Self { is_rest, half, .. } = self;
        (Self { is_rest, half, ..Self::of(free) }, Self { is_rest: true, half, ..Self::of(rest) })
    }

    /// All events of a request are over at once.
    pub(crate) fn is_over(&self) -> bool {
        self.events.first().is_some_and(E::is_over)
    }

    pub(crate) fn has_room(&self, more: &Self, limits: &QueueLimits) -> bool {
        self.events.len() + more.events.len() <= limits.batch_events_max
            && self.bytes + more.bytes <= limits.batch_bytes_max
    }

    pub(crate) fn append(&mut self, mut more: Self) {
        self.events.append(&mut more.events);
        self.lanes.add(more.lanes);
        self.bytes += more.bytes;
        self.half = self.half.or(more.half);
    }

    /// Whether it is the other half of large requests.
    pub(crate) fn is_other_half(&self, of: &Self) -> bool {
        matches!((self.half, of.half), (Some(half), Some(other)) if half != other)
    }
}

impl<E> Portion<E> {
    /// Whether it is a half of large requests.
    pub(crate) fn is_half(&self) -> bool {
        self.half.is_some()
    }

    /// The events, their lanes, and their bytes.
    pub(crate) fn into_parts(self) -> (Vec<E>, LaneSet, usize) {
        (self.events, self.lanes, self.bytes)
    }
}
