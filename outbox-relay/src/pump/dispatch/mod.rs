//! What goes to destinations other than Kafka: a queue for each aggregate, a lane for what fails together.
//!
//! One story: its files know each other.
//!
//! It decides and does nothing: it says which events to hand to which destination, is told what became of them, and
//! collects what is to be marked. Between two looks at the database it must have been marked: a look that finds a row
//! whose failure is not written would send what comes behind it.

mod call;
mod lane;
mod queue;
mod spill;
mod terms;

#[cfg(test)]
mod tests;

use std::{
    collections::{HashMap, HashSet},
    time::{Duration, Instant},
};

use crate::{destination::Outcome, port::RowFailure};
pub(super) use call::{Call, Calls, EndedCall};
pub(super) use lane::News;
use lane::{Change, Lane, Verdict};
pub(super) use queue::Item;
use queue::Queue;
use spill::OverflowState;
pub(crate) use terms::RetryRules;
use terms::name;
pub(super) use terms::{Bounds, Concluded, LaneKey, kafka, no_room};

/// Events of one aggregate that are kept in memory; what comes behind them is read again later.
const QUEUE_MAX: usize = 128;
/// What is concluded is marked after this time, or when there is so much of it.
const MARK_AFTER: Duration = Duration::from_millis(20);
/// The longest time that a destination may ask for.
const AFTER_MAX: Duration = Duration::from_hours(24 * 31);

/// Events that are on their way, and what became of them.
pub(super) struct Dispatch {
    rules: RetryRules,
    bounds: Vec<Bounds>,
    /// Rows that are kept in memory at most, and their bytes.
    rows_max: usize,
    bytes_max: usize,
    /// There is no other destination, and whether it has one scope.
    alone: Option<bool>,
    queues: HashMap<String, Queue>,
    /// Rows that are queued, on their way, or not marked yet.
    known: HashSet<i64>,
    bytes: usize,
    lanes: HashMap<LaneKey, Lane>,
    /// Lanes that work, and whose rows wait in the database all the same.
    overflow: HashMap<LaneKey, OverflowState>,
    /// Since when looks have found more than they took.
    full_since: Option<Instant>,
    /// Aggregates of such lanes with more rows than are kept of one, and how many were held since the last that waits
    /// under the lane's name.
    long: HashMap<String, (usize, LaneKey)>,
    /// Aggregates of which a row was passed over, and how many events may be left when it is read.
    behind: HashMap<String, usize>,
    /// It is time for one of them.
    wants_look: bool,
    /// Calls under way by destination.
    calls: Vec<usize>,
    /// Whose turn it is next.
    turn: usize,
    marks: Concluded,
    /// Since when something is to be marked.
    marks_since: Option<Instant>,
    news: Vec<News>,
}

impl Dispatch {
    pub(super) fn new(
        rules: RetryRules,
        bounds: Vec<Bounds>,
        rows_max: usize,
        bytes_max: usize,
    ) -> Self {
        Self {
            rules,
            calls: vec![0; bounds.len()],
            bounds,
            rows_max,
            bytes_max,
            alone: None,
            queues: HashMap::new(),
            known: HashSet::new(),
            bytes: 0,
            lanes: HashMap::new(),
            overflow: HashMap::new(),
            full_since: None,
            behind: HashMap::new(),
            wants_look: false,
            long: HashMap::new(),
            turn: 0,
            marks: Concluded::default(),
            marks_since: None,
            news: Vec::new(),
        }
    }

    /// There is one destination: where it has one scope, nothing else has work while it is out, and what waits for it
    /// stays where it is.
    pub(super) fn keep_what_waits(&mut self, one_scope: bool) {
        self.alone = Some(one_scope);
    }

    /// Whether there is any destination.
    pub(super) fn is_used(&self) -> bool {
        !self.bounds.is_empty()
    }

    /// Whether a row is queued, on its way, or not marked yet.
    pub(super) fn knows(&self, seq: i64) -> bool {
        self.known.contains(&seq)
    }

    /// Rows that looks find once more, since they are not marked yet.
    pub(super) fn known(&self) -> usize {
        self.known.len()
    }

    /// Their bytes.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether events of an aggregate are queued or on their way.
    pub(super) fn has(&self, aggregate: &str) -> bool {
        self.queues.contains_key(aggregate)
    }

    /// Events of one aggregate at most.
    fn queue_max(&self) -> usize {
        QUEUE_MAX.min(self.rows_max / 4).max(1)
    }

    /// Whether more rows may be taken in.
    fn has_room(&self) -> bool {
        self.known.len() < self.rows_max && self.bytes < self.bytes_max
    }

    /// Whether so few are left that more should be read.
    pub(super) fn is_low(&self) -> bool {
        self.known.len() * 2 <= self.rows_max && self.bytes * 2 <= self.bytes_max
    }

    /// Takes a row in, behind those of its aggregate. One that is given back is read again later: there are enough
    /// of them, or of its aggregate.
    pub(super) fn take_in(&mut self, item: Item) -> Result<(), Box<Item>> {
        debug_assert!(!self.knows(item.id.seq), "a row is on its way once");
        let length = self.queues.get(&item.aggregate).map_or(0, Queue::len);
        let key = item.lane();
        if length >= self.queue_max() || !self.has_room() || self.is_limited(&key) {
            return Err(Box::new(item));
        }
        let queue = self.queues.entry(item.aggregate.clone()).or_default();
        self.known.insert(item.id.seq);
        self.bytes += item.bytes;
        self.lanes.entry(key).or_default().count_rows(1, 0);
        let (aggregate, first) = (item.aggregate.clone(), queue.is_idle());
        queue.push_back(item);
        if first {
            self.line_up(&aggregate);
        }
        Ok(())
    }

    /// The next call, if a destination is free and something may go there.
    pub(super) fn next_call(&mut self, now: Instant) -> Option<Call> {
        let count = self.bounds.len();
        let free = (0..count)
            .map(|step| (self.turn + step) % count)
            .filter(|sink| self.calls[*sink] < self.bounds[*sink].calls_max);
        for sink in free.collect::<Vec<_>>() {
            let lanes = self.lanes.iter_mut().filter(|((of, _), _)| *of == sink);
            let open = lanes.filter(|(_, lane)| lane.lets_go(now) > 0);
            let Some(((_, scope), lane)) = open.min_by_key(|(_, lane)| lane.calls()) else {
                continue;
            };
            let most = lane.lets_go(now).min(self.bounds[sink].batch_max.max(1));
            let (scope, aggregates) = (scope.clone(), lane.take(most));
            let items =
                aggregates.iter().filter_map(|aggregate| self.queues.get_mut(aggregate)?.send());
            let items: Vec<Item> = items.collect();
            debug_assert_eq!(items.len(), aggregates.len(), "who stands in a lane has an event");
            self.calls[sink] += 1;
            self.turn = (sink + 1) % count;
            return Some(Call { sink, scope, items });
        }
        None
    }

    /// A call has ended, with an outcome for each of its events.
    pub(super) fn conclude(&mut self, call: Call, outcomes: Vec<Outcome>, now: Instant) {
        let Call { sink, scope, items } = call;
        self.call_ended(sink, &scope);
        for (item, outcome) in items.into_iter().zip(outcomes) {
            let lane = self.lanes.entry((sink, scope.clone())).or_default();
            let aggregate = item.aggregate.clone();
            match lane.judge(item, outcome, &self.rules, now) {
                Verdict::Works { item, refused, suspects, change } => {
                    self.report(sink, &scope, change);
                    for (item, error, after) in suspects {
                        self.fail(item, error, after, now);
                    }
                    match refused {
                        None => self.delivered(*item, now),
                        Some(error) => self.set_aside(&item, error, now),
                    }
                }
                Verdict::InDoubt => {}
                Verdict::Out { items, change } => {
                    self.report(sink, &scope, change);
                    items.into_iter().rev().for_each(|item| self.put_back(item));
                }
            }
            debug_assert!(self.queues.get(&aggregate).is_none_or(|queue| !queue.is_lost()));
        }
        self.lanes.retain(|_, lane| !lane.is_idle());
    }

    /// A call was not made: its events go on waiting.
    pub(super) fn give_back(&mut self, call: Call) {
        self.call_ended(call.sink, &call.scope);
        if let Some(lane) = self.lanes.get_mut(&(call.sink, call.scope)) {
            lane.give_back();
        }
        call.items.into_iter().rev().for_each(|item| self.put_back(item));
    }

    fn call_ended(&mut self, sink: usize, scope: &str) {
        self.calls[sink] -= 1;
        if let Some(lane) = self.lanes.get_mut(&(sink, scope.to_owned())) {
            lane.call_ended();
        }
    }

    /// Time has passed: what nobody else's fate explains is an event's own failure.
    pub(super) fn tick(&mut self, now: Instant) {
        let suspects: Vec<_> = self.lanes.values_mut().flat_map(|lane| lane.overdue(now)).collect();
        for (item, error, after) in suspects {
            self.fail(item, error, after, now);
        }
        self.lanes.values_mut().for_each(|lane| lane.forget(now));
        self.limit_largest(now);
    }

    /// When there is something to do though nothing happens.
    pub(super) fn next_time(&self, now: Instant) -> Option<Instant> {
        let lanes = self.lanes.iter().filter_map(|((sink, _), lane)| {
            lane.next_time(self.calls[*sink] < self.bounds[*sink].calls_max)
        });
        let others = self.marks_since.map(|since| since + MARK_AFTER).into_iter();
        lanes.chain(others).chain(self.next_room_time(now)).min()
    }

    /// Whether it is time to mark.
    pub(super) fn wants_marks(&self, now: Instant) -> bool {
        let late = self.marks_since.is_some_and(|since| now >= since + MARK_AFTER);
        late || self.marks.len() * 4 >= self.rows_max
            || (!self.marks.is_empty() && self.calls.iter().all(|calls| *calls == 0))
    }

    /// What is to be marked. Until [`Dispatch::marked`] is called its rows stay known.
    pub(super) fn take_marks(&mut self) -> Concluded {
        self.marks_since = None;
        std::mem::take(&mut self.marks)
    }

    /// The database has taken them.
    pub(super) fn marked(&mut self, concluded: &Concluded) {
        for id in concluded.marks().ids() {
            self.known.remove(&id.seq);
        }
    }

    /// What has happened that should be told.
    pub(super) fn take_news(&mut self) -> Vec<News> {
        std::mem::take(&mut self.news)
    }

    /// All of them are delivered: what is held behind them may go.
    fn delivered(&mut self, item: Item, now: Instant) {
        self.leave(&item);
        let queue = self.queues.get_mut(&item.aggregate);
        let left = queue.is_some_and(Queue::concluded);
        if item.late {
            self.marks.late.push(item.id);
        } else {
            self.marks.sent.push(item.id);
        }
        self.marks_since.get_or_insert(now);
        self.news.push(News::Delivered { sink: item.sink, age: item.age(now) });
        if left {
            self.line_up(&item.aggregate);
        } else {
            self.queues.remove(&item.aggregate);
        }
        self.note_departure(&item.aggregate);
    }

    /// An event's own failure.
    fn fail(&mut self, item: Item, error: String, after: Option<Duration>, now: Instant) {
        let attempts = item.delivery.attempt;
        let RetryRules { attempts_max, delay_min, delay_max, .. } = self.rules;
        if attempts >= attempts_max {
            let error = format!("{error}; that was attempt {attempts} of {attempts_max}");
            return self.set_aside(&item, error, now);
        }
        let delay = service_kit::backoff(delay_min, delay_max, attempts - 1, service_kit::chance());
        let after = after.map_or(delay, |after| after.max(delay));
        self.fail_with(&item, item.failure(attempts, error).retried_after(after), now);
    }

    fn set_aside(&mut self, item: &Item, error: String, now: Instant) {
        self.fail_with(item, item.failure(item.delivery.attempt, error), now);
    }

    /// Writes a failure down. What is queued behind it is read again, and held then.
    fn fail_with(&mut self, item: &Item, failure: RowFailure, now: Instant) {
        self.write_failure(item, failure, now);
        for dropped in self.queues.remove(&item.aggregate).into_iter().flat_map(Queue::into_items) {
            self.forget_item(&dropped);
        }
    }

    fn write_failure(&mut self, item: &Item, failure: RowFailure, now: Instant) {
        self.marks.failed.push(failure);
        self.marks_since.get_or_insert(now);
        self.leave(item);
    }

    /// It is read again later.
    fn forget_item(&mut self, item: &Item) {
        self.known.remove(&item.id.seq);
        self.leave(item);
    }

    /// It is in memory no longer, though perhaps not marked yet.
    fn leave(&mut self, item: &Item) {
        self.bytes -= item.bytes;
        if let Some(lane) = self.lanes.get_mut(&item.lane()) {
            lane.count_rows(0, 1);
        }
    }

    /// It stays what it was: the next one of its aggregate.
    fn put_back(&mut self, item: Item) {
        let aggregate = item.aggregate.clone();
        if let Some(queue) = self.queues.get_mut(&aggregate) {
            queue.put_back(item);
            self.line_up(&aggregate);
        }
    }

    /// The first event of an aggregate stands in the lane of its destination.
    fn line_up(&mut self, aggregate: &str) {
        let Some(item) = self.queues.get_mut(aggregate).and_then(Queue::first) else { return };
        let lane = self.lanes.entry(item.lane()).or_default();
        lane.line_up(aggregate.to_owned());
    }

    fn report(&mut self, sink: usize, scope: &str, change: Option<Change>) {
        let Some(change) = change else { return };
        let destination = self.name(&(sink, scope.to_owned()));
        self.news.push(match change {
            Change::Out(why, after) => News::Out { sink, destination, why, after },
            Change::Works(after) => News::Works { sink, destination, after },
        });
    }
}
