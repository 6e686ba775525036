//! Kafka as a destination: a producer is made ready, ships a batch at a time, and is replaced when it fails.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use futures::future::BoxFuture;
use outbox_planner::internal::{CallId, Outcome};

use super::{
    backoff::Backoff,
    missing_topics::missing,
    pending_or,
    publish_span::PublishSpan,
    routing::{awaits, topic_name},
};
use crate::{
    deadline::Deadline,
    sink::{ConnectError, OutgoingRecord, Refusal, Shipment, Sink, TopicStatus, TopicWait},
};

/// What has come of Kafka.
pub(super) enum KafkaEvent {
    /// A producer is ready or not; with `Ok(false)` another has the turn.
    Connected(Result<Sink, ConnectError>),
    /// A batch has come to something.
    Shipped(ShippedBatch),
    /// What the topics are that were asked for.
    Topics(Vec<(String, TopicStatus)>),
    /// It is time to make another producer.
    Retry,
}

/// A batch that was handed to the producer.
pub(super) struct ShippedBatch {
    pub(super) id: CallId,
    pub(super) shipment: Shipment,
    pub(super) count: usize,
    pub(super) took: Duration,
    /// The topics of its records, if they were asked for.
    pub(super) topics: Vec<String>,
}

/// The producer, or what is done for one.
pub(super) struct KafkaClient<'a> {
    pub(super) sink: Option<Arc<Sink>>,
    connecting: Option<BoxFuture<'a, Result<Sink, ConnectError>>>,
    shipping: Option<BoxFuture<'a, ShippedBatch>>,
    asking: Option<BoxFuture<'a, Vec<(String, TopicStatus)>>>,
    retry_at: Option<Instant>,
    pub(super) backoff: Backoff,
}

impl<'a> KafkaClient<'a> {
    pub(super) fn new(backoff: Backoff) -> Self {
        Self { sink: None, connecting: None, shipping: None, asking: None, retry_at: None, backoff }
    }

    pub(super) fn connect(&mut self, connect: BoxFuture<'a, Result<Sink, ConnectError>>) {
        self.connecting = Some(connect);
    }

    /// Gives the producer up; another is made, at once or after a while.
    pub(super) fn lose(&mut self, wait: bool) {
        (self.sink, self.asking) = (None, None);
        let after = if wait { self.backoff.next() } else { Duration::ZERO };
        self.retry_at = Some(Instant::now() + after);
    }

    /// Ships a batch.
    pub(super) fn ship(
        &mut self,
        id: CallId,
        records: Vec<OutgoingRecord>,
        (until, with_topics): (Deadline, bool),
    ) {
        let Some(sink) = self.sink.clone() else { return };
        let topics = if with_topics { topics(&records) } else { Vec::new() };
        self.shipping = Some(Box::pin(async move {
            let (count, begun) = (records.len(), Instant::now());
            let span = PublishSpan::begin(&records);
            let shipment = sink.ship(records, until).await;
            span.end(&shipment);
            ShippedBatch { id, shipment, count, took: begun.elapsed(), topics }
        }));
    }

    pub(super) fn may_ask(&self) -> bool {
        self.sink.is_some() && self.asking.is_none()
    }

    pub(super) fn ask(&mut self, topics: Vec<String>) {
        let Some(sink) = self.sink.clone() else { return };
        self.asking = Some(Box::pin(async move { sink.ask_topics(topics).await }));
    }

    /// The next thing that comes of it. Never, while nothing is under way.
    pub(super) async fn next(&mut self) -> KafkaEvent {
        tokio::select! {
            connected = pending_or(&mut self.connecting) => {
                self.connecting = None;
                KafkaEvent::Connected(connected)
            }
            shipped = pending_or(&mut self.shipping) => {
                self.shipping = None;
                KafkaEvent::Shipped(shipped)
            }
            found = pending_or(&mut self.asking) => {
                self.asking = None;
                KafkaEvent::Topics(found)
            }
            () = super::sleep_until(self.retry_at) => {
                self.retry_at = None;
                KafkaEvent::Retry
            }
        }
    }
}

/// The topic of each record.
fn topics(records: &[OutgoingRecord]) -> Vec<String> {
    records.iter().map(|record| record.topic.clone()).collect()
}

/// What became of each event of a batch, `rest` for those without a report. `waits` gets each topic
/// that rows wait for.
pub(super) fn outcomes(
    count: usize,
    rest: &Outcome,
    (refused, left): (Vec<Refusal>, &[usize]),
    mut waits: impl FnMut(&str, TopicWait),
) -> Vec<Outcome> {
    let mut outcomes = vec![rest.clone(); count];
    for place in left {
        if let Some(outcome) = outcomes.get_mut(*place) {
            *outcome = Outcome::NotTried;
        }
    }
    for Refusal { place, topic, error, waits: what, .. } in refused {
        let Some(outcome) = outcomes.get_mut(place) else { continue };
        *outcome = match what.filter(|_| inbox_engine::internal::Rule::RowsAwaitTopic.on()) {
            Some(what) => {
                waits(&topic, what);
                Outcome::Awaits(topic_name(&missing(&topic, what)), awaits(&topic, what))
            }
            None => Outcome::Unsendable(error),
        };
    }
    outcomes
}
