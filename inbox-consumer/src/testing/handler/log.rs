//! The log that a test delivers from: partitions in memory, in Kafka's place.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use futures::{
    FutureExt as _,
    future::{BoxFuture, ready},
};
use inbox_engine::internal::{Generation, LeaderEpoch, LogRange, NextOffset, Offset};
use outbox_core::{Record, TopicPartition, internal::CommitMark};
use tokio::sync::{Notify, mpsc};

use kafka_kit::internal::{
    Arrival, Broker, BrokerError, BrokerEvent, BrokerHealth, ByteGuard, Committed, TopicState,
};

/// The topic that a test's events come from.
pub(super) const TOPIC: &str = "events";

/// Partitions, and the consumer that reads them. What a test delivers goes to the first of them.
pub(super) struct Log {
    partitions: Vec<Mutex<Partition>>,
    events: mpsc::UnboundedSender<BrokerEvent>,
    committed: Notify,
    let_go: Notify,
}

struct Partition {
    place: TopicPartition,
    records: Vec<Record>,
    /// The next record to hand out, once fetching goes on.
    position: usize,
    generation: Generation,
    fetching: bool,
    committed: Option<NextOffset>,
}

impl Log {
    /// A log of these records of each partition, and the events for its reader.
    pub(super) fn new(
        records: Vec<Vec<Record>>,
    ) -> (Arc<Self>, mpsc::UnboundedReceiver<BrokerEvent>) {
        let (events, told) = mpsc::unbounded_channel();
        let partition = |(partition, records)| {
            Mutex::new(Partition {
                place: TopicPartition { topic: TOPIC.into(), partition },
                records,
                position: 0,
                generation: Generation(0),
                fetching: false,
                committed: None,
            })
        };
        let partitions = (0..).zip(records).map(partition).collect();
        let (committed, let_go) = (Notify::new(), Notify::new());
        (Arc::new(Self { partitions, events, committed, let_go }), told)
    }

    fn places(&self) -> Vec<TopicPartition> {
        self.partitions.iter().map(|partition| lock(partition).place.clone()).collect()
    }

    /// Gives the partitions to the reader, which goes on at what its group committed.
    pub(super) fn assign(&self) {
        self.tell(BrokerEvent::Assigned(self.places()));
    }

    /// Takes the partitions away in order: what runs is finished, the watermarks are written.
    pub(super) async fn revoke(&self) {
        let let_go = self.let_go.notified();
        self.tell(BrokerEvent::Revoked(self.places()));
        let_go.await;
    }

    /// Moves the group's offset, as an operator's tool does.
    pub(super) fn reset(&self, to: i64) {
        lock(&self.partitions[0]).committed = Some(NextOffset(to));
    }

    /// Appends records, which arrive together; answers their offsets.
    pub(super) fn append(&self, records: impl IntoIterator<Item = Record>) -> Vec<i64> {
        let mut first = lock(&self.partitions[0]);
        let before = first.records.len();
        first.records.extend(records);
        let offsets = (before..first.records.len()).map(offset).collect();
        self.hand_out(&mut first);
        offsets
    }

    /// The offset after the last record.
    pub(super) fn end(&self) -> i64 {
        lock(&self.partitions[0]).end()
    }

    /// Waits until the group's offsets are those after the last records.
    pub(super) async fn read_up(&self) {
        loop {
            let committed = self.committed.notified();
            let is_read = |partition| {
                let partition = lock(partition);
                partition.committed == Some(NextOffset(partition.end()))
            };
            if self.partitions.iter().all(is_read) {
                return;
            }
            committed.await;
        }
    }

    fn hand_out(&self, from: &mut Partition) {
        if !from.fetching || from.position >= from.records.len() {
            return;
        }
        let all = from.records.iter().enumerate().skip(from.position);
        let arrivals = all.map(|(at, record)| arrival(at, record)).collect();
        from.position = from.records.len();
        let (partition, generation) = (from.place.clone(), from.generation);
        self.tell(BrokerEvent::Arrived {
            partition,
            generation,
            arrivals,
            guard: ByteGuard::default(),
        });
    }

    fn tell(&self, event: BrokerEvent) {
        // A reader that has ended is noticed by whoever waits for it.
        let _ = self.events.send(event);
    }

    fn of(&self, place: &TopicPartition) -> MutexGuard<'_, Partition> {
        // The reader knows no others than it was given.
        lock(&self.partitions[usize::try_from(place.partition).unwrap_or_default()])
    }
}

impl Partition {
    fn end(&self) -> i64 {
        offset(self.records.len())
    }
}

fn lock(partition: &Mutex<Partition>) -> MutexGuard<'_, Partition> {
    partition.lock().unwrap_or_else(PoisonError::into_inner)
}

fn arrival(at: usize, record: &Record) -> Arrival {
    let (offset, leader_epoch) = (Offset(offset(at)), LeaderEpoch(0));
    Arrival { offset, leader_epoch, record: record.clone(), flaw: None }
}

fn offset(at: usize) -> i64 {
    i64::try_from(at).unwrap_or(i64::MAX)
}

impl Broker for Log {
    fn committed(
        &self,
        place: &TopicPartition,
    ) -> BoxFuture<'static, Result<Option<Committed>, BrokerError>> {
        let committed = self.of(place).committed.map(|next| Committed { next, mark: None });
        ready(Ok(committed)).boxed()
    }

    fn mark(&self, _: &CommitMark) {}

    fn log_range(
        &self,
        place: &TopicPartition,
    ) -> BoxFuture<'static, Result<LogRange, BrokerError>> {
        let end = NextOffset(self.of(place).end());
        ready(Ok(LogRange { start: NextOffset(0), end })).boxed()
    }

    fn topic(&self, _: &str) -> BoxFuture<'static, Result<Option<TopicState>, BrokerError>> {
        ready(Ok(Some(TopicState { id: [1; 16], partitions: None, ..TopicState::UNKNOWN }))).boxed()
    }

    fn record(
        &self,
        place: &TopicPartition,
        offset: Offset,
    ) -> BoxFuture<'static, Result<Option<Arrival>, BrokerError>> {
        let at = usize::try_from(offset.0).unwrap_or(usize::MAX);
        ready(Ok(self.of(place).records.get(at).map(|record| arrival(at, record)))).boxed()
    }

    fn seek(
        &self,
        place: &TopicPartition,
        generation: Generation,
        to: NextOffset,
        _: LeaderEpoch,
    ) -> BoxFuture<'static, Result<(), BrokerError>> {
        let mut partition = self.of(place);
        partition.position = usize::try_from(to.0).unwrap_or(0);
        partition.generation = generation;
        partition.fetching = false;
        ready(Ok(())).boxed()
    }

    /// Fetching goes on after each seek, when the reader is ready for what arrives.
    fn pause(&self, place: &TopicPartition, paused: bool) {
        let mut partition = self.of(place);
        partition.fetching = !paused;
        self.hand_out(&mut partition);
    }

    fn commit(
        &self,
        offsets: Vec<(TopicPartition, NextOffset, LeaderEpoch)>,
    ) -> BoxFuture<'static, Result<Vec<TopicPartition>, BrokerError>> {
        for (place, next, _) in offsets {
            self.of(&place).committed = Some(next);
        }
        self.committed.notify_waiters();
        ready(Ok(Vec::new())).boxed()
    }

    fn ack_revocation(&self, places: Vec<TopicPartition>) {
        for place in &places {
            self.of(place).fetching = false;
        }
        self.let_go.notify_waiters();
    }

    fn confirm(&self, _: &TopicPartition) -> BoxFuture<'static, bool> {
        ready(true).boxed()
    }

    fn health(&self) -> BrokerHealth {
        BrokerHealth { joined: true, ..BrokerHealth::default() }
    }

    fn close(&self, _: Duration) -> BoxFuture<'static, Result<(), BrokerError>> {
        ready(Ok(())).boxed()
    }
}
