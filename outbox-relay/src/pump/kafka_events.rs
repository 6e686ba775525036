//! What comes of Kafka, and what follows.

use std::time::Instant;

use outbox_planner::internal::{CallId, Outcome};

use super::{
    LazySession, PumpEnd, TurnEnd,
    driver::Driver,
    kafka::{KafkaEvent, ShippedBatch, outcomes},
    routing::{ContentKind, KAFKA_NUMBER, topic_name},
};
use crate::{
    port::Owners,
    sink::{ConnectError, Forbidden, Refusal, Shipment, Sink, TopicStatus, TopicWait},
    telemetry::Signal,
};

impl<F: Owners> Driver<'_, F> {
    /// Makes a producer ready.
    pub(super) fn connect(&mut self) {
        let settings = self.pump.sink_settings(self.lease.turn);
        self.kafka.connect(Box::pin(Sink::connect(settings)));
    }

    /// Hands a batch to the producer.
    pub(super) fn ship(&mut self, id: CallId) {
        let records = self.planner.call(id).iter().filter_map(|item| match &item.content.what {
            ContentKind::Record(record) => Some(record.clone()),
            ContentKind::Delivery(_) => None,
        });
        let records = records.collect();
        let with_topics = self.pump.meters.is_any_forbidden();
        self.kafka.ship(id, records, (self.lease.until.clone(), with_topics));
    }

    pub(super) async fn handle_kafka(&mut self, event: KafkaEvent) -> Result<(), TurnEnd> {
        match event {
            KafkaEvent::Retry => self.connect(),
            KafkaEvent::Connected(Ok(sink)) => self.connected(sink).await?,
            KafkaEvent::Connected(Err(ConnectError::Fatal(why))) => {
                return Err(TurnEnd::Ended(PumpEnd::KafkaFatal(why)));
            }
            KafkaEvent::Connected(Err(ConnectError::Forbidden(forbidden))) => {
                self.forbidden(forbidden);
            }
            KafkaEvent::Connected(Err(ConnectError::Outage(why))) => {
                self.pump.counters.outages.add(1);
                self.lease.report_outage(why.clone());
                self.pump.troubles().kafka_out(why.clone());
                self.lose_kafka(why, true);
            }
            KafkaEvent::Shipped(batch) => self.shipped(batch).await?,
            KafkaEvent::Topics(found) => self.found_topics(found),
        }
        Ok(())
    }

    /// The producer has the newest epoch now. Only if the turn is still ours may it be used: a relay that slept between
    /// taking its turn and coming here has fenced its successor, not the other way round, and must stop.
    async fn connected(&mut self, sink: Sink) -> Result<(), TurnEnd> {
        let mut session = LazySession::<F>::new(self.pump.settings.clone());
        match self.pump.renew(&mut session, self.lease).await {
            Ok(true) => {}
            Ok(false) => return Err(TurnEnd::Lost),
            Err(error) => {
                self.pump.database_out(error.clone());
                self.lose_kafka(error, true);
                return Ok(());
            }
        }
        if self.pump.options.fencing.is_some() {
            self.pump.meters.note_allowed("transactional_id", None);
        }
        self.kafka.sink = Some(sink.into());
        self.planner.handle_up(KAFKA_NUMBER, self.now());
        self.note_progress();
        Ok(())
    }

    fn lose_kafka(&mut self, why: String, wait: bool) {
        self.kafka.lose(wait);
        self.planner.handle_down(KAFKA_NUMBER, why, self.now());
    }

    fn forbidden(&mut self, forbidden: Forbidden) {
        let why = forbidden.to_string();
        self.lease.report_standstill(&why);
        self.pump.note_forbidden(forbidden);
        self.lose_kafka(why, true);
    }

    async fn shipped(&mut self, batch: ShippedBatch) -> Result<(), TurnEnd> {
        let ShippedBatch { id, shipment, count, took, topics } = batch;
        match shipment {
            Shipment::Done { refused, left } => {
                self.kafka.backoff.reset();
                self.pump.troubles().kafka_works();
                self.pump.meters.kafka.note_answer(took);
                let outcomes = self.outcomes(count, &Outcome::Delivered, (refused, &left));
                let sent = topics.into_iter().zip(&outcomes);
                let sent = sent.filter(|(_, outcome)| **outcome == Outcome::Delivered);
                self.pump.note_sent(sent.map(|(topic, _)| topic).collect());
                self.note_delivered(id, &outcomes);
                self.planner.handle_outcomes(id, outcomes, self.now());
            }
            Shipment::Broken { refused, acknowledged, mixed, why } => {
                self.pump.counters.unknown.add(1);
                let unclear = refused.is_empty() && !mixed;
                if mixed {
                    self.planner.handle_mixed(KAFKA_NUMBER, count);
                }
                if unclear {
                    self.lease.report_outage(format!("Kafka: {why}"));
                    self.pump.troubles().unknown(count, why.clone());
                }
                let mut outcomes = self.outcomes(count, &Outcome::NotTried, (refused, &[]));
                for place in acknowledged {
                    outcomes[place] = Outcome::Delivered;
                }
                self.note_delivered(id, &outcomes);
                self.lose_kafka(why, unclear);
                self.planner.handle_outcomes(id, outcomes, self.now());
            }
            Shipment::Fenced(error) => {
                self.untried(id, count);
                self.lose_kafka(error.clone(), true);
                return self.fenced(error).await;
            }
            Shipment::Forbidden(forbidden) => {
                self.untried(id, count);
                self.forbidden(forbidden);
            }
        }
        Ok(())
    }

    fn untried(&mut self, id: CallId, count: usize) {
        self.planner.handle_outcomes(id, vec![Outcome::NotTried; count], self.now());
    }

    fn outcomes(
        &mut self,
        count: usize,
        rest: &Outcome,
        said: (Vec<Refusal>, &[usize]),
    ) -> Vec<Outcome> {
        let (pump, missing) = (self.pump, &mut self.missing_topics);
        outcomes(count, rest, said, |topic, what| pump.note_wait(missing, topic, what))
    }

    fn note_delivered(&self, id: CallId, outcomes: &[Outcome]) {
        let items = self.planner.call(id).iter().zip(outcomes);
        let delivered = items.filter(|(_, outcome)| **outcome == Outcome::Delivered);
        let (mut rows, mut oldest) = (0, None);
        for (item, _) in delivered {
            rows += 1;
            oldest = oldest.into_iter().chain(item.content.appended).min();
        }
        self.pump.counters.batches.add(u64::from(rows > 0));
        self.pump.meters.delivered(rows, oldest);
    }

    /// Another producer has come. If the turn is ours in the database, a sleeper has fenced us by mistake: once more.
    async fn fenced(&mut self, error: String) -> Result<(), TurnEnd> {
        self.pump.counters.fenced.add(1);
        Signal::Fenced { error }.emit();
        let mut session = LazySession::<F>::new(self.pump.settings.clone());
        match self.pump.renew(&mut session, self.lease).await {
            Ok(true) => {
                let now = Instant::now();
                self.fencings.add(now);
                if self.fencings.persist(now) {
                    self.lease.report_shared_id();
                }
            }
            Ok(false) => return Err(TurnEnd::Lost),
            Err(error) => self.pump.database_out(error),
        }
        Ok(())
    }

    /// The topics that are asked for now.
    pub(super) fn due_topics(&mut self) -> Option<Vec<String>> {
        if !self.kafka.may_ask() {
            return None;
        }
        let due = self.missing_topics.due(Instant::now());
        (!due.is_empty()).then_some(due)
    }

    fn found_topics(&mut self, found: Vec<(String, TopicStatus)>) {
        for (topic, status) in found {
            for (missing, waits) in self.missing_topics.found(&topic, &status) {
                match waits {
                    TopicWait::Presence => Signal::TopicFound { topic: topic.clone() }.emit(),
                    TopicWait::Leader(partition) => {
                        Signal::PartitionLed { topic: topic.clone(), partition }.emit();
                    }
                    TopicWait::Permission => {}
                }
                self.planner.handle_found(&topic_name(&missing), self.now());
            }
        }
    }
}
