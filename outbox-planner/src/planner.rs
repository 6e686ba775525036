//! Decides what is done next: what the parts know, put together.

use std::{collections::HashMap, sync::Arc, time::Duration};

use crate::{
    destinations::Destinations,
    dues::DueRows,
    lane::{Lane, Verdict},
    memory::Memory,
    queue::Queue,
    reading::Reading,
    store::{PendingStore, goes},
    types::{
        CallId, Effect, Item, LaneKey, News, Park, ParkState, PlannerSettings, ReadRequest, RowKey,
        Time,
    },
};

/// Events that are with a destination.
#[derive(Clone, Debug)]
pub(crate) struct Call<T> {
    pub(crate) lane: LaneKey,
    pub(crate) items: Vec<Item<T>>,
    /// Rows were forgotten since: what is not delivered is read again.
    pub(crate) is_stale: bool,
}

/// Decides which rows go where and when.
#[derive(Clone, Debug)]
pub struct Planner<T> {
    pub(crate) settings: PlannerSettings,
    pub(crate) destinations: Destinations,
    pub(crate) queues: HashMap<Arc<str>, Queue<T>>,
    pub(crate) lanes: HashMap<LaneKey, Lane<T>>,
    pub(crate) memory: Memory,
    pub(crate) calls: HashMap<CallId, Call<T>>,
    pub(crate) next_call: u64,
    pub(crate) store: PendingStore,
    pub(crate) dues: DueRows,
    pub(crate) reading: Reading,
    pub(crate) claims_first: bool,
    is_paused: bool,
}

impl<T> Planner<T> {
    /// A planner that knows of no row yet.
    pub fn new(settings: PlannerSettings) -> Self {
        let mut reading = Reading::default();
        reading.announce();
        Self {
            destinations: Destinations::new(&settings.destinations),
            memory: Memory::new(&settings),
            settings,
            queues: HashMap::new(),
            lanes: HashMap::new(),
            calls: HashMap::new(),
            next_call: 0,
            store: PendingStore::default(),
            dues: DueRows::default(),
            reading,
            claims_first: false,
            is_paused: false,
        }
    }

    /// There may be new rows, or a person has decided about parked ones.
    pub fn handle_announced(&mut self, now: Time) {
        self.reading.announce();
        self.dues.ask_now(now);
    }

    /// There may be new rows in the feed.
    pub fn handle_poll(&mut self) {
        self.reading.announce();
    }

    /// Nothing new is begun: neither calls nor reads. What is under way is concluded and stored.
    pub fn pause(&mut self) {
        self.is_paused = true;
    }

    /// What was paused goes on.
    pub fn resume(&mut self) {
        self.is_paused = false;
    }

    /// Whether nothing is under way, and everything is stored.
    pub fn is_settled(&self) -> bool {
        self.calls.is_empty() && self.store.is_empty() && !self.is_asking()
    }

    /// Forgets all rows but those that are under way or not stored yet: a new session may show other ones. Nothing may be
    /// asked of the database meanwhile.
    pub fn forget_rows(&mut self, now: Time) {
        debug_assert!(!self.is_asking(), "the answer to what is asked is awaited first");
        let doubts: Vec<Item<T>> = self.lanes.values_mut().flat_map(Lane::forget_rows).collect();
        for item in doubts {
            self.leave(&item);
            self.drop_item(&item, now);
        }
        for aggregate in self.queues.keys().cloned().collect::<Vec<_>>() {
            self.drop_rest(&aggregate, now);
        }
        self.queues.retain(|_, queue| queue.under_way > 0);
        for call in self.calls.values_mut() {
            call.is_stale = true;
        }
        self.reading = Reading::default();
        self.reading.announce();
        self.dues.ask_now(now);
    }

    /// A destination that connects can be used.
    pub fn handle_up(&mut self, destination: usize, now: Time) {
        self.destinations.up(destination);
        self.dues.expect(self.destinations.name(destination), now);
    }

    /// A destination that connects cannot be used.
    pub fn handle_down(&mut self, destination: usize, why: String, now: Time) {
        self.destinations.down(destination, why, now);
    }

    /// A batch of this many rows was too much at once.
    pub fn handle_mixed(&mut self, destination: usize, rows: usize) {
        self.destinations.halve(destination, rows);
    }

    /// What rows wait for under this name is there.
    pub fn handle_found(&mut self, name: &str, now: Time) {
        self.dues.open(name, now);
    }

    /// What rows need under this name is missing.
    pub(crate) fn close(&mut self, name: &str) {
        self.dues.close(name);
    }

    /// The names under which rows wait for something that is missing.
    #[cfg(test)]
    pub(crate) fn missing(&self) -> impl Iterator<Item = &str> {
        self.dues.closed()
    }

    /// The answer to [`Effect::AskDues`]: names, and in how long their next row may go.
    pub fn handle_dues(&mut self, found: Vec<(String, Duration)>, now: Time) {
        self.dues.end_ask(Some(found), now + self.settings.dues_every, now);
    }

    /// What was asked of the database failed: it is asked again later.
    pub fn handle_ask_failed(&mut self, now: Time) {
        if self.reading.is_under_way {
            self.reading.fail(now);
        }
        self.dues.fail_claim(now + Duration::from_secs(1));
        self.dues.end_ask(None, now + Duration::from_secs(1), now);
    }

    /// A conclusion is stored.
    pub fn handle_stored(&mut self, now: Time) {
        let (stored, left) = self.store.stored_all(self.is_asking());
        for seq in left {
            self.memory.forget(seq);
        }
        for park in &stored.parked {
            if let Some((name, after)) = goes(park) {
                self.dues.expect(name, now + after);
            }
        }
        // What is behind them has names that are not known here.
        if !stored.delivered.is_empty() {
            self.dues.ask_now(now);
        }
        if self.memory.is_empty() && !self.reading.is_under_way {
            self.reading.read_to = 0;
        }
    }

    /// The events of a call.
    pub fn call(&self, id: CallId) -> &[Item<T>] {
        self.calls.get(&id).map_or(&[], |call| &call.items)
    }

    /// The name of a lane, as the parking store has it.
    pub fn name(&self, lane: &LaneKey) -> String {
        self.destinations.lane_name(lane)
    }

    /// What has changed that should be reported.
    pub fn take_news(&mut self) -> Vec<News> {
        let news = self.lanes.iter_mut().filter_map(|(key, lane)| {
            let (why, lasts) = lane.change.take()?;
            Some(match why {
                Some(why) => News::Out(key.clone(), why, lasts),
                None => News::Works(key.clone(), lasts),
            })
        });
        news.collect()
    }

    /// The lanes that are out: since when, and why.
    pub fn outages(&self) -> impl Iterator<Item = (&LaneKey, Time, &str)> {
        self.lanes.iter().filter_map(|(key, lane)| {
            let (since, why) = lane.outage()?;
            Some((key, since, why))
        })
    }

    /// What to do next; `None`: nothing before [`Planner::next_timeout`].
    pub fn poll_effect(&mut self, now: Time) -> Option<Effect> {
        self.tick(now);
        let at_once = self.calls.is_empty();
        if self.store.due(at_once, self.settings.rows_max / 4).is_some_and(|at| at <= now) {
            return Some(Effect::Store(self.store.take()));
        }
        if self.is_paused {
            return None;
        }
        if let Some((id, destination)) = self.begin_call(now) {
            return Some(Effect::Call(id, destination));
        }
        self.make_room(now);
        if self.is_asking() {
            return None;
        }
        self.claims_first = !self.claims_first;
        let first = if self.claims_first { self.begin_claim(now) } else { self.begin_read(now) };
        if first.is_some() {
            return first;
        }
        if self.dues.wants_answer(now) {
            self.dues.begin_ask();
            return Some(Effect::AskDues);
        }
        if self.claims_first { self.begin_read(now) } else { self.begin_claim(now) }
    }

    /// When to poll again though nothing happens.
    pub fn next_timeout(&self, now: Time) -> Option<Time> {
        let store = self.store.due(self.calls.is_empty(), self.settings.rows_max / 4);
        let lanes = self.lanes.iter().filter_map(|(key, lane)| {
            let may_claim = lane.rows == 0 && self.dues.has(&self.name(key), now);
            let spill = self.patience(key, lane).filter(|at| *at > now);
            let next = lane.next_time(self.destinations.is_free(key.destination), may_claim);
            next.into_iter().chain(spill).min()
        });
        let (dues, reading) = (self.dues.next_time(now), self.reading.next_time(now));
        let stall = self.stall_ends();
        let waits = self.is_paused || self.is_asking();
        let asked = [dues, reading, stall].into_iter().flatten().filter(|_| !waits);
        // What is due already waits for an answer.
        store.into_iter().chain(lanes).chain(asked).filter(|at| *at > now).min()
    }

    fn is_asking(&self) -> bool {
        self.reading.is_under_way || self.dues.is_awaited()
    }

    fn tick(&mut self, now: Time) {
        let mut verdicts = Vec::new();
        for lane in self.lanes.values_mut() {
            while let Some(verdict) = lane.tick(&self.settings, now) {
                verdicts.push(verdict);
            }
        }
        for verdict in verdicts {
            self.carry_out(verdict, now);
        }
        self.end_limits(now);
        self.lanes.retain(|_, lane| !lane.is_idle());
    }

    pub(crate) fn carry_out(&mut self, verdict: Verdict<T>, now: Time) {
        match verdict {
            Verdict::Own(failures) => {
                for (item, failure) in failures {
                    self.fail(item, failure, now);
                }
            }
            Verdict::Out(items) => {
                for item in items {
                    self.put_back(item, now);
                }
            }
        }
    }

    fn begin_read(&mut self, now: Time) -> Option<Effect> {
        if !self.reading.wants(now) {
            return None;
        }
        let PlannerSettings { batch_rows, batch_bytes, .. } = self.settings;
        if !self.memory.fits_a_read() {
            self.reading.stall(now);
            return None;
        }
        self.reading.begin(batch_rows, self.settings.rows_max);
        self.store.begin_ask();
        let read_to = self.reading.read_to;
        Some(Effect::Read(ReadRequest { read_to, rows_max: batch_rows, bytes_max: batch_bytes }))
    }

    fn begin_claim(&mut self, now: Time) -> Option<Effect> {
        if self.store.parks_again() {
            return None;
        }
        for name in self.dues.due(now) {
            let rows = self.claimable(&name, now);
            if rows > 0 {
                self.dues.begin_claim(&name);
                self.store.begin_ask();
                return Some(Effect::Claim(name, rows, self.memory.room_for_claim().1));
            }
        }
        None
    }
}

/// What a park says of an event.
pub(crate) fn park_of<T>(
    item: &Item<T>,
    state: ParkState,
    (destination, error): (String, String),
) -> Park {
    Park {
        key: RowKey { ..item.key },
        aggregate: Arc::clone(&item.aggregate),
        state,
        after: Duration::ZERO,
        destination,
        attempts: item.attempts,
        error: Some(error),
        claimed: false,
    }
}
