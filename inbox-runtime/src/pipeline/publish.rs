//! Once a second, and whenever a partition stops or moves: how things are, for metrics and health.

use std::{
    collections::HashMap,
    time::{Duration, Instant, SystemTime},
};

use inbox_engine::internal::{Snapshot, Standstill};
use inbox_store::internal::port::{Note, Owners};
use kafka_kit::internal::BrokerHealth;
use outbox_core::TopicPartition;

use super::{
    driver::{Driver, TrackedPartition},
    sessions::Sessions,
};
use crate::telemetry::{
    HeldLane, PartitionReading, Reason, Signal,
    meters::{Live, Meters, Parked},
    of_the_group,
};

/// How often how things are is told.
pub(super) const TICK: Duration = Duration::from_secs(1);
/// How often what is parked is counted: that is a query.
const PARKED_EVERY: Duration = Duration::from_secs(15);
/// Watermarks in one line of the log.
const TAKE_OVERS_SHOWN: usize = 20;

impl<DB: Owners> Driver<DB> {
    /// Tells how things are.
    pub(super) fn publish(&mut self) {
        self.untold = false;
        self.forget_gone();
        self.log_take_overs();
        let health = self.broker.health();
        let snapshots = self.engine.snapshots();
        self.outages.refresh(&snapshots, Instant::now());
        let now = SystemTime::now();
        let mut partitions = Vec::with_capacity(snapshots.len());
        for snapshot in snapshots {
            let Some(tracked) = self.partitions.get_mut(&snapshot.partition) else { continue };
            // Why it is held is told for all of them.
            let told = self.outages.has(snapshot.partition);
            let (oldest, held) = self.heads.of(snapshot.partition, &tracked.place, now, told);
            if held != tracked.held {
                tracked.held.clone_from(&held);
                if let Some((_, taken)) = &tracked.taken {
                    let text = (!held.is_empty()).then(|| HeldLane::text(&held));
                    self.control.tell(Note::HeldLanes, taken.scope, text);
                }
            }
            let reading = if self.control.is_shared() {
                let standstill = snapshot.standstill.as_ref().map(reason);
                PartitionReading::of_intake(&tracked.place, standstill)
            } else {
                reading(tracked, snapshot, &health)
            };
            partitions.push(PartitionReading { oldest, held, ..reading });
        }
        if !self.control.publishes() {
            return;
        }
        let live = Live {
            partitions: partitions.into(),
            at: Some(Instant::now()),
            ending: self.ending || self.control.is_ending(),
            ended: false,
            joined: health.joined,
            topics_missing: health.topics_missing(Instant::now()).into(),
            forbidden: health.forbidden.into_iter().collect(),
            topics_unassigned: health.unassigned.into(),
            brokers_silence: health.brokers_silence,
            silence: health.silence,
            committed_at: self.committed_at,
            connections_busy: self.engine.open().min(DB::WRITERS_MAX) as u64,
            connections_idle: self.work.sessions.idle_count() as u64,
            transactions_limit: self.engine.permits().min(DB::WRITERS_MAX) as u64,
        };
        if !live.ending {
            self.outages.record_group(of_the_group(&live), Instant::now());
        }
        self.meters.publish(live);
    }

    /// Forgets what the engine has let go of: each assignment brings new numbers.
    pub(super) fn forget_gone(&mut self) {
        let engine = &self.engine;
        self.partitions.retain(|id, _| engine.has(*id));
        self.ids.retain(|_, id| engine.has(*id));
        self.heads.retain(|id| engine.has(id));
    }

    /// Take-overs in one line: those of an assignment end one after the other.
    fn log_take_overs(&mut self) {
        let waits = self.partitions.values().any(|tracked| tracked.taken.is_none());
        let late = |(since, _): (Instant, i64)| since.elapsed() >= TICK;
        let late = self.partitions.values().filter_map(|tracked| tracked.unlogged).any(late);
        if waits && !late {
            return;
        }
        let fresh = |tracked: &mut TrackedPartition| {
            Some((tracked.place.clone(), tracked.unlogged.take()?.1))
        };
        let mut fresh: Vec<_> = self.partitions.values_mut().filter_map(fresh).collect();
        if fresh.is_empty() {
            return;
        }
        fresh.sort_unstable();
        let watermark = |(place, at): &(TopicPartition, i64)| {
            format!("{}/{} at {at}", place.topic, place.partition)
        };
        let shown: Vec<_> = fresh.iter().take(TAKE_OVERS_SHOWN).map(watermark).collect();
        Signal::TakenOver { partitions: fresh.len(), watermarks: shown.join(", ") }.emit();
    }
}

fn reading(
    tracked: &TrackedPartition,
    snapshot: Snapshot,
    health: &BrokerHealth,
) -> PartitionReading {
    // Before the take-over memory knows nothing, and while one is repeated it knows less than before.
    let taken = tracked.taken.as_ref().map(|(_, taken)| &taken.ownership);
    let watermark = taken.map(|taken| snapshot.watermark.0.max(taken.watermark.0));
    let position = taken.map(|taken| snapshot.position.0.max(taken.resume.0));
    PartitionReading {
        topic: std::sync::Arc::clone(&tracked.place.topic),
        partition: tracked.place.partition,
        watermark,
        committed: snapshot.committed.map(|next| next.0),
        position,
        log_end: log_end(tracked, health),
        waiting: snapshot.waiting as u64,
        bytes: snapshot.bytes,
        open: snapshot.open as u64,
        paused: snapshot.paused,
        confirmed_at: tracked.confirmed_at,
        standstill: snapshot.standstill.as_ref().map(reason),
        oldest: Duration::ZERO,
        held: Vec::new(),
    }
}

/// Where the log ends, as far as it was seen: fetches say nothing of a partition that is paused.
fn log_end(tracked: &TrackedPartition, health: &BrokerHealth) -> Option<i64> {
    let fetched = health.ends.get(&tracked.place).copied();
    let asked = health.asked.get(&tracked.place).and_then(|ends| ends.stable);
    fetched.max(asked).map(|end| end.0)
}

fn reason(standstill: &Standstill) -> Reason {
    let text = standstill.to_string();
    let sentence = text.strip_prefix(standstill.name()).and_then(|rest| rest.strip_prefix(": "));
    let sentence = sentence.unwrap_or("the partition is being acquired").to_owned();
    Reason { name: standstill.name(), sentence }
}

/// Counts what is parked, for ever; dropped with the consumer. A failure changes nothing: the next look
/// comes soon, and outages are told elsewhere.
pub async fn count_parked_for_ever<DB: Owners>(
    sessions: std::sync::Arc<Sessions<DB>>,
    consumer: String,
    meters: std::sync::Arc<Meters>,
) {
    loop {
        if let Some((parked, snapshot)) = read_database(&sessions, &consumer).await {
            meters.publish_parked(parked);
            meters.publish_snapshot(snapshot);
        }
        tokio::time::sleep(PARKED_EVERY).await;
    }
}

async fn read_database<DB: Owners>(
    sessions: &Sessions<DB>,
    consumer: &str,
) -> Option<(HashMap<TopicPartition, Parked>, Option<Duration>)> {
    let mut conn = sessions.take().await.ok()?;
    let looked = async {
        Ok::<_, sqlx::Error>((
            DB::partitions(&mut conn, consumer).await?,
            DB::oldest_snapshot(&mut conn).await?,
        ))
    };
    let Ok((rows, snapshot)) = looked.await else {
        sessions.give_up(conn).await;
        return None;
    };
    sessions.give_back(conn).await;
    let count = |number: i64| u64::try_from(number).unwrap_or(0);
    let mut all = HashMap::with_capacity(rows.len());
    for row in rows.into_iter().filter(|row| !row.retired) {
        let place = TopicPartition { topic: row.topic.into(), partition: row.partition };
        let (events, aggregates) = (count(row.parked_events), count(row.parked_aggregates));
        all.insert(place, Parked { events, aggregates });
    }
    let open = snapshot.map_or(Some(0.0), |snapshot| snapshot.seconds);
    Some((all, open.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())))
}
