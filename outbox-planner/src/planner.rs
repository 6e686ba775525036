//! Decides what is done next: what the parts know, put together.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use crate::{
    destinations::Destinations,
    dues::DueRows,
    lane::{Lane, Verdict},
    queue::{QUEUE_KEEPS, Queue},
    reading::{Reading, STALL_PATIENCE},
    store::{PendingStore, goes, seqs},
    types::{CallId, Effect, Incoming, Item, LaneKey, News, PlannerSettings, Time},
};

/// Events that are with a destination.
#[derive(Debug)]
#[cfg_attr(test, derive(Clone))]
pub(crate) struct Call<T> {
    pub(crate) lane: LaneKey,
    pub(crate) items: Vec<Item<T>>,
    /// The lane was out.
    pub(crate) is_probe: bool,
}

/// Decides which rows go where and when.
#[derive(Debug)]
#[cfg_attr(test, derive(Clone))]
pub struct Planner<T> {
    pub(crate) settings: PlannerSettings,
    pub(crate) destinations: Destinations,
    pub(crate) queues: HashMap<Arc<str>, Queue<T>>,
    pub(crate) lanes: BTreeMap<LaneKey, Lane<T>>,
    /// Rows in memory, those included that are not stored yet.
    pub(crate) known: HashSet<i64>,
    pub(crate) bytes: usize,
    pub(crate) calls: HashMap<CallId, Call<T>>,
    pub(crate) next_call: u64,
    pub(crate) store: PendingStore,
    pub(crate) dues: DueRows,
    pub(crate) reading: Reading,
    claims_first: bool,
    is_paused: bool,
}

impl<T> Planner<T> {
    /// A planner that knows of no row yet.
    pub fn new(settings: PlannerSettings) -> Self {
        let mut reading = Reading::default();
        reading.announce();
        Self {
            destinations: Destinations::new(&settings),
            settings,
            queues: HashMap::new(),
            lanes: BTreeMap::new(),
            known: HashSet::new(),
            bytes: 0,
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

    /// Whether nothing is under way, and everything is stored.
    pub fn is_settled(&self) -> bool {
        self.calls.is_empty() && self.store.is_empty() && !self.is_asking()
    }

    /// Forgets all rows but those that are under way or to be stored: a new session may show other ones. Nothing may be
    /// asked or being stored; a store that failed is made again.
    pub fn forget_rows(&mut self, now: Time) {
        debug_assert!(!self.is_asking(), "what was asked has ended");
        for lane in self.lanes.values_mut() {
            lane.forget_rows();
        }
        for queue in self.queues.values_mut() {
            queue.forget_rows();
        }
        self.known = self.store.seqs().collect();
        self.bytes = 0;
        for Call { lane: key, items, .. } in self.calls.values() {
            let lane = self.lanes.entry(key.clone()).or_default();
            for item in items {
                lane.rows += 1;
                lane.bytes += item.bytes;
                self.bytes += item.bytes;
                self.known.insert(item.key.seq);
                self.queues.entry(Arc::clone(&item.aggregate)).or_default().under_way += 1;
            }
        }
        self.queues.retain(|_, queue| !queue.is_over());
        self.reading.begin_again();
        self.dues.ask_now(now);
        self.is_paused = false;
    }

    /// A destination that connects can be used.
    pub fn handle_up(&mut self, destination: usize, now: Time) {
        self.destinations.up(destination);
        self.dues.expect(&self.settings.destinations[destination].name, now);
    }

    /// A destination that connects cannot be used.
    pub fn handle_down(&mut self, destination: usize, why: String, now: Time) {
        self.destinations.set_down(destination, why, now);
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
    pub fn missing(&self) -> impl Iterator<Item = &str> {
        self.dues.closed()
    }

    /// A read has ended. `earlier`: rows that still wait up to where it began; `full`: there may be more behind it.
    pub fn handle_page(
        &mut self,
        earlier: &[i64],
        rows: Vec<Incoming<T>>,
        (last, full): (Option<i64>, bool),
        now: Time,
    ) {
        let late = |seq: &&i64| !self.known.contains(seq) && !self.store.stored(**seq);
        if let Some(first) = earlier.iter().filter(late).min() {
            return self.reading.rewind(*first);
        }
        for row in rows {
            // Stored since the read began: it shows what was before.
            if !self.known.contains(&row.key.seq) && !self.store.stored(row.key.seq) {
                self.arrive(row, now);
            }
        }
        self.reading.end(last, full);
    }

    /// Parked rows were claimed; with `whole` there may be more.
    pub fn handle_claimed(&mut self, mut rows: Vec<Incoming<T>>, whole: bool, now: Time) {
        self.dues.end_claim(whole, now);
        // They come in the order of their times, and what is behind one that is parked again is parked behind it.
        rows.sort_unstable_by_key(|row| row.key.seq);
        for row in rows {
            // What was concluded since is no longer claimed.
            if !self.known.contains(&row.key.seq) && !self.store.stored(row.key.seq) {
                self.arrive(row, now);
            }
        }
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
        self.dues.fail_claim(now);
        self.dues.end_ask(None, now + Duration::from_secs(1), now);
    }

    /// A conclusion is stored.
    pub fn handle_stored(&mut self, now: Time) {
        let stored = self.store.stored_all(self.is_asking());
        for seq in seqs(&stored) {
            self.known.remove(&seq);
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
        if self.known.is_empty() && !self.reading.is_under_way {
            self.reading.read_to = 0;
        }
    }

    /// The events of a call.
    pub fn call(&self, id: CallId) -> &[Item<T>] {
        self.calls.get(&id).map_or(&[], |call| &call.items)
    }

    /// The name of a lane, as the parking store has it.
    pub fn name(&self, lane: &LaneKey) -> String {
        lane_name(&self.settings, lane)
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
        if let store @ Some(_) = self.begin_store(now) {
            return store;
        }
        if self.is_paused {
            return None;
        }
        if let Some((id, destination)) = self.begin_call(now) {
            return Some(Effect::Call(id, destination));
        }
        self.make_room(now);
        if let store @ Some(_) = self.begin_store(now) {
            return store;
        }
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
        let store = self.store_at();
        let lanes = self.lanes.iter().filter_map(|(key, lane)| {
            // Once it is due, it is claimed when nothing else is asked.
            let may_claim = lane.rows == 0 && self.dues.has(&self.name(key), now);
            let may_claim = may_claim && !lane.lacks_probe(now);
            let spill = self.patience(key, lane).filter(|at| *at > now && !self.is_paused);
            let is_free = self.destinations.is_free(key.destination) && !self.is_paused;
            let next = lane.next_time(is_free, may_claim);
            next.into_iter().chain(spill).min()
        });
        let asks = [self.dues.next_time(now), self.reading.next_time(now)];
        // One thing at a time is asked.
        let asks = asks.into_iter().flatten().filter(|_| !self.is_asking());
        let stall = self.reading.stalled.map(|since| since + STALL_PATIENCE);
        let asked = asks.chain(stall).filter(|_| !self.is_paused);
        store.into_iter().chain(lanes).chain(asked).min()
    }

    /// When there is something to store.
    fn store_at(&self) -> Option<Time> {
        // A claim shows either all or nothing of a conclusion that parks rows under its name.
        if self.dues.claiming().is_some_and(|name| self.store.will_park(name)) {
            return None;
        }
        self.store.due(self.calls.is_empty(), self.settings.rows_max / 4)
    }

    fn begin_store(&mut self, now: Time) -> Option<Effect> {
        self.store_at().filter(|at| *at <= now)?;
        Some(Effect::Store(self.store.take()))
    }

    pub(crate) fn is_asking(&self) -> bool {
        self.reading.is_under_way || self.dues.is_awaited()
    }

    fn tick(&mut self, now: Time) {
        let mut verdicts = Vec::new();
        for lane in self.lanes.values_mut() {
            verdicts.extend(lane.tick(&self.settings, now));
        }
        for verdict in verdicts {
            self.carry_out(verdict, now);
        }
        let names: Vec<LaneKey> = self
            .lanes
            .iter()
            .filter(|(_, lane)| lane.is_limited)
            .map(|(key, _)| key.clone())
            .collect();
        for key in names {
            let name = self.name(&key);
            let Some(lane) = self.lanes.get_mut(&key) else { continue };
            let works =
                lane.outage().is_none() && self.destinations.down(key.destination).is_none();
            lane.is_limited = !works || lane.rows > QUEUE_KEEPS / 2 || self.dues.has(&name, now);
        }
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
}

/// The name of a lane, as the parking store has it.
fn lane_name(settings: &PlannerSettings, lane: &LaneKey) -> String {
    let name = &settings.destinations[lane.destination].name;
    if lane.scope.is_empty() { name.clone() } else { format!("{name}/{}", lane.scope) }
}
