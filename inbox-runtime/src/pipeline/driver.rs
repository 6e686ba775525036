//! The loop that applies the engine's effects. What is slow is spawned, and comes back as a message.
//!
//! One story: its files know each other.

use std::{
    collections::{BTreeMap, HashMap},
    fmt,
    sync::Arc,
    time::{Duration, Instant},
};

use futures::future::AbortHandle;
use inbox_engine::internal::{
    Batch, BatchOutcome, Commit, Due, Engine, Generation, Lane, PartitionId, Release,
    ReleaseOutcome, TakeOverFault, Time, WatermarkWrite, Written,
};
use inbox_store::internal::port::{Owners, Taken};
use kafka_kit::internal::{Arrival, Broker, BrokerEvent, Trouble};
use outbox_core::TopicPartition;
use tokio::sync::mpsc;

use super::{
    Delivery, aggregate_moves::AggregateMoves, control::Control, grouped::GroupedQueries,
    heads::Heads, outages::Outages, publish::TICK, release::Report, suspects, transaction::Work,
    watch::ProgressWatch,
};
use crate::telemetry::{HeldLane, Signal, meters::Meters};

/// What a spawned task reports.
pub(super) enum TaskResult {
    Committed(Vec<Commit>, Result<Vec<TopicPartition>, String>),
    Confirmed(PartitionId, Generation, bool),
    Due(Vec<(PartitionId, Generation, Result<Vec<Due>, String>)>),
    Batch(TopicPartition, Batch<Arc<Delivery>>, BatchOutcome),
    Panicked(String),
    Released(TopicPartition, Release, ReleaseOutcome, Report),
    Sought(PartitionId, Generation, Result<(), String>),
    Taken(PartitionId, Generation, Box<Result<Taken, TakeOverFault>>),
    /// What was written together, and what has to be asked for by itself.
    Watermarks(Vec<(WatermarkWrite, Written)>, Vec<WatermarkWrite>),
}

/// Why the loop ended.
#[derive(Debug)]
pub enum DriverEnd {
    /// As asked: drained, committed, let go.
    Shutdown,
    /// The Kafka client is dead; the process has to start anew.
    Fatal(String),
    /// A task of the runtime itself panicked.
    Panicked(String),
}

/// A partition as the loop knows it.
pub(super) struct TrackedPartition {
    pub(super) place: TopicPartition,
    /// Of the latest take-over.
    pub(super) taken: Option<(Generation, Taken)>,
    /// A take-over that the log does not have yet: when it was, and the watermark.
    pub(super) unlogged: Option<(Instant, i64)>,
    /// Whether the log has it that the partition does not move.
    pub(super) logged_still: bool,
    /// When the database last confirmed the watermark.
    pub(super) confirmed_at: Option<Instant>,
    pub(super) watch: ProgressWatch,
    /// The lanes that are held, as they were last written down.
    pub(super) held: Vec<HeldLane>,
}

/// The engine, and what applies its effects.
pub struct Driver<DB: Owners> {
    pub(super) engine: Engine<Arc<Delivery>>,
    pub(super) broker: Arc<dyn Broker>,
    pub(super) work: Arc<Work<DB>>,
    pub(super) control: Arc<Control<DB>>,
    pub(super) meters: Arc<Meters>,
    aggregate_moves: AggregateMoves,
    pub(super) heads: Heads,
    pub(super) outages: Outages,
    /// When Kafka last acknowledged a commit.
    pub(super) committed_at: Option<Instant>,
    /// Something has changed that metrics and health do not know yet.
    pub(super) untold: bool,
    /// The shutdown was asked for.
    pub(super) ending: bool,
    pub(super) ids: HashMap<TopicPartition, PartitionId>,
    /// What the engine has; what it has let go of is forgotten.
    pub(super) partitions: HashMap<PartitionId, TrackedPartition>,
    next_id: u32,
    /// What this round asks of the database for many partitions at once.
    pub(super) grouped: GroupedQueries,
    /// What ends open transactions and releases from outside, each by its first lane.
    pub(super) open: BTreeMap<(PartitionId, Generation, Lane), AbortHandle>,
    pub(super) done: mpsc::UnboundedSender<TaskResult>,
    reports: mpsc::UnboundedReceiver<TaskResult>,
    origin: Instant,
    pub(super) end: Option<DriverEnd>,
}

impl<DB: Owners> fmt::Debug for Driver<DB> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Driver").field("end", &self.end).finish_non_exhaustive()
    }
}

impl<DB: Owners> Driver<DB> {
    /// Around an engine that nothing has been told yet.
    pub fn new(
        engine: Engine<Arc<Delivery>>,
        broker: Arc<dyn Broker>,
        work: Arc<Work<DB>>,
        control: Arc<Control<DB>>,
        meters: Arc<Meters>,
    ) -> Self {
        // Unbounded, yet bounded in effect: every message answers one effect of the engine.
        let (done, reports) = mpsc::unbounded_channel();
        Self {
            engine,
            broker,
            work,
            control,
            meters,
            aggregate_moves: AggregateMoves::new(),
            heads: Heads::default(),
            outages: Outages::new(),
            committed_at: None,
            untold: true,
            ending: false,
            ids: HashMap::new(),
            partitions: HashMap::new(),
            next_id: 0,
            grouped: GroupedQueries::default(),
            open: BTreeMap::new(),
            done,
            reports,
            origin: Instant::now(),
            end: None,
        }
    }

    /// Runs until the shutdown is complete or the client is dead.
    pub async fn run(
        &mut self,
        events: &mut mpsc::UnboundedReceiver<BrokerEvent>,
        shutdown: impl Future<Output = ()>,
    ) -> DriverEnd {
        let mut shutdown = std::pin::pin!(shutdown);
        let mut ticks = tokio::time::interval(TICK);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
        loop {
            while let Some(effect) = self.engine.poll_effect() {
                self.apply(effect);
            }
            self.send_grouped();
            if let Some(end) = self.end.take() {
                return end;
            }
            if self.untold {
                self.publish();
            }
            let timeout = self.timeout();
            tokio::select! {
                Some(done) = self.reports.recv() => self.handle_task_result(done),
                event = events.recv() => match event {
                    Some(event) => self.handle_event(event),
                    None => return DriverEnd::Fatal("the thread of the Kafka client has ended".into()),
                },
                () = tokio::time::sleep_until(timeout.into()) => {
                    let now = self.now();
                    self.engine.handle_timeout(now);
                }
                _ = ticks.tick() => {
                    self.untold = true;
                    self.watch();
                    let (open_max, partitions) = (self.engine.permits(), self.engine.partitions());
                    let permits = self.work.state.concurrency.tick(open_max, partitions);
                    let now = self.now();
                    self.engine.handle_permits(permits, now);
                }
                () = self.work.state.woken.notified() => {
                    let now = self.now();
                    self.engine.handle_woken(now);
                }
                () = &mut shutdown, if !self.ending => {
                    (self.ending, self.untold) = (true, true);
                    self.tell_unless_shared(Signal::ShutdownBegun);
                    let now = self.now();
                    self.engine.handle_shutdown(now);
                }
            }
        }
    }

    pub(super) fn now(&self) -> Time {
        Time(u64::try_from(self.origin.elapsed().as_millis()).unwrap_or(u64::MAX))
    }

    /// At most a minute ahead, and at least a millisecond: the engine counts in milliseconds, so what
    /// is due "now" may lie a fraction ahead.
    fn timeout(&self) -> Instant {
        let next = self.engine.next_timeout().unwrap_or(Time(u64::MAX)).0;
        let wait = next.saturating_sub(self.now().0).clamp(1, 60_000);
        Instant::now() + Duration::from_millis(wait)
    }

    fn handle_event(&mut self, event: BrokerEvent) {
        let now = self.now();
        match event {
            BrokerEvent::Answered => self.outages.note_answer(Instant::now()),
            BrokerEvent::Arrived { partition, generation, arrivals, guard } => {
                self.handle_arrived(&partition, generation, arrivals, now);
                drop(guard);
            }
            BrokerEvent::Assigned(places) => {
                let ids = self.fresh_ids(&places);
                if !self.control.is_shared() {
                    self.meters.counters.assigned.add(places.len() as u64);
                }
                self.tell_unless_shared(Signal::Assigned { partitions: places.len() });
                self.engine.handle_assigned(&ids, now);
            }
            BrokerEvent::Fatal(error) => self.end = Some(DriverEnd::Fatal(error)),
            BrokerEvent::Lost(places) => {
                let ids = self.ids_of(&places);
                self.untold = true;
                self.meters.counters.lost.add(places.len() as u64);
                Signal::Lost { partitions: places.len() }.emit();
                self.engine.handle_lost(&ids, now);
            }
            BrokerEvent::OffsetGone { partition, generation, error } => {
                if let Some(id) = self.ids.get(&partition) {
                    self.engine.handle_offset_gone(*id, generation, &error, now);
                }
                self.outages.trouble(Trouble { error, passing: false }, Instant::now());
            }
            BrokerEvent::Position { partition, generation, position } => {
                if let Some(id) = self.ids.get(&partition) {
                    self.engine.handle_position(*id, generation, position);
                }
            }
            BrokerEvent::Revoked(places) => {
                let ids = self.ids_of(&places);
                self.meters.counters.revoked.add(places.len() as u64);
                Signal::Revoked { partitions: places.len() }.emit();
                self.engine.handle_revoked(&ids, now);
            }
            BrokerEvent::Trouble(trouble) => self.outages.trouble(trouble, Instant::now()),
        }
    }

    fn handle_arrived(
        &mut self,
        place: &TopicPartition,
        generation: Generation,
        arrivals: Vec<Arrival>,
        now: Time,
    ) {
        let Some(&id) = self.ids.get(place) else { return };
        // What was read before another take-over was placed in lanes that may be others now.
        let taken = self.partitions.get(&id).and_then(|tracked| tracked.taken.as_ref());
        let taken = taken.filter(|(of, _)| *of == generation);
        let Some((_, Taken { lanes, suspects: suspected, .. })) = taken else { return };
        let work = &*self.work;
        let (aggregate_moves, meters) = (&mut self.aggregate_moves, &self.meters);
        let items = arrivals.into_iter().map(|mut arrival| {
            work.intake.unfold(&place.topic, &mut arrival);
            let at = lanes.place(&place.topic, arrival.offset, &arrival.record);
            let mut item = work.intake.item(place, arrival, at, &work.routes);
            suspects::judge(&mut item, suspected);
            let record = &item.event.record;
            if AggregateMoves::watches(&item) && lanes.placement.has_key(&place.topic, record) {
                aggregate_moves.watch(place, &item, &meters.counters);
            }
            item
        });
        self.engine.handle_delivered(id, generation, items, now);
    }

    fn handle_task_result(&mut self, done: TaskResult) {
        let now = self.now();
        match done {
            TaskResult::Committed(commits, result) => {
                self.count_commit(&result);
                let refused = |commit: &Commit| match &result {
                    Ok(refused) => {
                        self.place(commit.partition).is_none_or(|it| refused.contains(&it))
                    }
                    Err(_) => true,
                };
                let refused = commits.iter().filter(|commit| refused(commit));
                let refused: Vec<PartitionId> = refused.map(|commit| commit.partition).collect();
                self.engine.handle_committed(&commits, &refused);
            }
            TaskResult::Confirmed(id, generation, ours) => {
                self.engine.handle_confirmed(id, generation, ours, now);
            }
            TaskResult::Due(all) => {
                for (id, generation, due) in all {
                    self.engine.handle_due(id, generation, due, now);
                }
            }
            TaskResult::Released(place, release, released, report) => {
                self.open.remove(&(release.partition, release.generation, release.lane));
                self.tell_released(release.partition, place, &released, report);
                self.engine.handle_released(&release, released, now);
                self.adapt_permits(now);
            }
            TaskResult::Batch(place, batch, outcome) => {
                self.open.remove(&(batch.partition, batch.generation, batch.lanes[0].lane));
                self.heads.note_end(&place, &batch, &outcome);
                self.tell(place, &batch, &outcome);
                self.engine.handle_outcome(batch, outcome, now);
                self.adapt_permits(now);
            }
            TaskResult::Panicked(error) => self.end = Some(DriverEnd::Panicked(error)),
            TaskResult::Sought(id, generation, result) => {
                self.engine.handle_sought(id, generation, result, now);
            }
            TaskResult::Taken(id, of, taken) => self.handle_taken(id, of, *taken, now),
            TaskResult::Watermarks(written, rest) => {
                for (write, written) in written {
                    self.handle_written(&write, written, now);
                }
                for write in rest {
                    self.write_watermark(write);
                }
            }
        }
    }

    /// Fewer transactions side by side, or more, as those that have begun lately tell.
    fn adapt_permits(&mut self, now: Time) {
        let (open_max, partitions) = (self.engine.permits(), self.engine.partitions());
        if let Some(permits) = self.work.state.concurrency.judge(open_max, partitions) {
            self.engine.handle_permits(permits, now);
        }
    }

    fn handle_written(&mut self, write: &WatermarkWrite, written: Written, now: Time) {
        if written == Written::Yes
            && let Some(tracked) = self.partitions.get_mut(&write.partition)
        {
            tracked.confirmed_at = Some(Instant::now());
        }
        self.engine.handle_watermark(write, written, now);
    }

    fn handle_taken(
        &mut self,
        id: PartitionId,
        generation: Generation,
        taken: Result<Taken, TakeOverFault>,
        now: Time,
    ) {
        let told = !self.control.is_shared();
        // It may have been let go of meanwhile.
        let Some(tracked) = self.partitions.get_mut(&id) else { return };
        let taken = taken.map(|taken| {
            let ownership = taken.ownership.clone();
            tracked.unlogged = told.then(|| (Instant::now(), ownership.watermark.0));
            // An answer that was overtaken by that of a later take-over says nothing any more.
            if tracked.taken.as_ref().is_none_or(|(latest, _)| *latest <= generation) {
                tracked.taken = Some((generation, taken));
                tracked.confirmed_at = Some(Instant::now());
            }
            ownership
        });
        self.engine.handle_taken(id, generation, taken, now);
    }

    /// Every assignment gets a number of its own, so that nothing of an earlier one fits it.
    fn fresh_ids(&mut self, places: &[TopicPartition]) -> Vec<PartitionId> {
        let fresh = |place: &TopicPartition| {
            let id = PartitionId(self.next_id);
            self.next_id = self.next_id.wrapping_add(1);
            let tracked = TrackedPartition {
                place: place.clone(),
                taken: None,
                unlogged: None,
                logged_still: false,
                confirmed_at: None,
                watch: ProgressWatch::new(Instant::now()),
                held: Vec::new(),
            };
            self.partitions.insert(id, tracked);
            self.ids.insert(place.clone(), id);
            id
        };
        places.iter().map(fresh).collect()
    }

    fn ids_of(&self, places: &[TopicPartition]) -> Vec<PartitionId> {
        places.iter().filter_map(|place| self.ids.get(place).copied()).collect()
    }

    pub(super) fn place(&self, id: PartitionId) -> Option<TopicPartition> {
        self.partitions.get(&id).map(|tracked| tracked.place.clone())
    }
}
