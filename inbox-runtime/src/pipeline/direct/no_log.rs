//! What stands for Kafka where a partition has no log: it is assigned once, holds nothing, and remembers no offset.

use std::time::Duration;

use futures::{FutureExt as _, future::BoxFuture, future::ready};
use inbox_engine::internal::{Generation, LeaderEpoch, LogRange, NextOffset, Offset};
use kafka_kit::internal::{
    Arrival, Broker, BrokerError, BrokerEvent, BrokerHealth, Committed, TopicState,
};
use outbox_core::{TopicPartition, internal::CommitMark};
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};

/// A broker without a log.
#[derive(Debug)]
pub(super) struct NoLog {
    /// Its end would be that of the client.
    _events: UnboundedSender<BrokerEvent>,
}

impl NoLog {
    /// With one partition.
    pub(super) fn of(place: TopicPartition) -> (Self, UnboundedReceiver<BrokerEvent>) {
        let (events, receiver) = mpsc::unbounded_channel();
        let _ = events.send(BrokerEvent::Assigned(vec![place])); // the receiver is here
        (Self { _events: events }, receiver)
    }
}

impl Broker for NoLog {
    fn committed(
        &self,
        _: &TopicPartition,
    ) -> BoxFuture<'static, Result<Option<Committed>, BrokerError>> {
        ready(Ok(None)).boxed()
    }

    fn mark(&self, _: &CommitMark) {}

    fn log_range(&self, _: &TopicPartition) -> BoxFuture<'static, Result<LogRange, BrokerError>> {
        ready(Ok(LogRange { start: NextOffset(0), end: NextOffset(i64::MAX) })).boxed()
    }

    fn topic(&self, _: &str) -> BoxFuture<'static, Result<Option<TopicState>, BrokerError>> {
        ready(Ok(Some(TopicState::UNKNOWN))).boxed()
    }

    fn record(
        &self,
        _: &TopicPartition,
        _: Offset,
    ) -> BoxFuture<'static, Result<Option<Arrival>, BrokerError>> {
        ready(Ok(None)).boxed()
    }

    fn seek(
        &self,
        _: &TopicPartition,
        _: Generation,
        _: NextOffset,
        _: LeaderEpoch,
    ) -> BoxFuture<'static, Result<(), BrokerError>> {
        ready(Ok(())).boxed()
    }

    fn pause(&self, _: &TopicPartition, _: bool) {}

    fn commit(
        &self,
        _: Vec<(TopicPartition, NextOffset, LeaderEpoch)>,
    ) -> BoxFuture<'static, Result<Vec<TopicPartition>, BrokerError>> {
        ready(Ok(Vec::new())).boxed()
    }

    fn ack_revocation(&self, _: Vec<TopicPartition>) {}

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
