//! The log that a test delivers from: one partition in memory, in Kafka's place.

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

use inbox_kafka::internal::{
    Arrival, Broker, BrokerError, BrokerEvent, BrokerHealth, ByteGuard, Committed, TopicState,
};

/// The topic that a test's events come from.
pub(super) const TOPIC: &str = "events";

/// One partition, and the consumer that reads it.
pub(super) struct Log {
    state: Mutex<State>,
    events: mpsc::UnboundedSender<BrokerEvent>,
    let_go: Notify,
}

struct State {
    records: Vec<Record>,
    /// The next record to hand out, once fetching goes on.
    position: usize,
    generation: Generation,
    fetching: bool,
    committed: Option<NextOffset>,
}

impl Log {
    /// An empty log, and what its reader is told.
    pub(super) fn new() -> (Arc<Self>, mpsc::UnboundedReceiver<BrokerEvent>) {
        let (events, told) = mpsc::unbounded_channel();
        let state = State {
            records: Vec::new(),
            position: 0,
            generation: Generation(0),
            fetching: false,
            committed: None,
        };
        let log = Self { state: Mutex::new(state), events, let_go: Notify::new() };
        (Arc::new(log), told)
    }

    pub(super) fn partition() -> TopicPartition {
        TopicPartition { topic: TOPIC.into(), partition: 0 }
    }

    /// Gives the partition to the reader, which goes on at what its group committed.
    pub(super) fn assign(&self) {
        self.tell(BrokerEvent::Assigned(vec![Self::partition()]));
    }

    /// Takes the partition away in order: what runs is finished, the watermark is written.
    pub(super) async fn revoke(&self) {
        let let_go = self.let_go.notified();
        self.tell(BrokerEvent::Revoked(vec![Self::partition()]));
        let_go.await;
    }

    /// Moves the group's offset, as an operator's tool does.
    pub(super) fn reset(&self, to: i64) {
        self.lock().committed = Some(NextOffset(to));
    }

    /// Appends records, which arrive together; answers their offsets.
    pub(super) fn append(&self, records: impl IntoIterator<Item = Record>) -> Vec<i64> {
        let mut state = self.lock();
        let first = state.records.len();
        state.records.extend(records);
        let offsets = (first..state.records.len()).map(offset).collect();
        self.hand_out(&mut state);
        offsets
    }

    /// The offset after the last record.
    pub(super) fn end(&self) -> i64 {
        offset(self.lock().records.len())
    }

    fn hand_out(&self, state: &mut State) {
        if !state.fetching || state.position >= state.records.len() {
            return;
        }
        let all = state.records.iter().enumerate().skip(state.position);
        let arrivals = all.map(|(at, record)| arrival(at, record)).collect();
        state.position = state.records.len();
        let (partition, generation) = (Self::partition(), state.generation);
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

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
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
        _: &TopicPartition,
    ) -> BoxFuture<'static, Result<Option<Committed>, BrokerError>> {
        let committed = self.lock().committed.map(|next| Committed { next, mark: None });
        ready(Ok(committed)).boxed()
    }

    fn mark(&self, _: &CommitMark) {}

    fn log_range(&self, _: &TopicPartition) -> BoxFuture<'static, Result<LogRange, BrokerError>> {
        ready(Ok(LogRange { start: NextOffset(0), end: NextOffset(self.end()) })).boxed()
    }

    fn topic(&self, _: &str) -> BoxFuture<'static, Result<Option<TopicState>, BrokerError>> {
        ready(Ok(Some(TopicState { id: [1; 16], partitions: None, ..TopicState::UNKNOWN }))).boxed()
    }

    fn record(
        &self,
        _: &TopicPartition,
        offset: Offset,
    ) -> BoxFuture<'static, Result<Option<Arrival>, BrokerError>> {
        let at = usize::try_from(offset.0).unwrap_or(usize::MAX);
        ready(Ok(self.lock().records.get(at).map(|record| arrival(at, record)))).boxed()
    }

    fn seek(
        &self,
        _: &TopicPartition,
        generation: Generation,
        to: NextOffset,
        _: LeaderEpoch,
    ) -> BoxFuture<'static, Result<(), BrokerError>> {
        let mut state = self.lock();
        state.position = usize::try_from(to.0).unwrap_or(0);
        state.generation = generation;
        state.fetching = false;
        ready(Ok(())).boxed()
    }

    /// Fetching goes on after each seek, when the reader is ready for what arrives.
    fn pause(&self, _: &TopicPartition, paused: bool) {
        let mut state = self.lock();
        state.fetching = !paused;
        self.hand_out(&mut state);
    }

    fn commit(
        &self,
        offsets: Vec<(TopicPartition, NextOffset, LeaderEpoch)>,
    ) -> BoxFuture<'static, Result<Vec<TopicPartition>, BrokerError>> {
        if let Some((_, next, _)) = offsets.last() {
            self.lock().committed = Some(*next);
        }
        ready(Ok(Vec::new())).boxed()
    }

    fn ack_revocation(&self, _: Vec<TopicPartition>) {
        self.lock().fetching = false;
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
