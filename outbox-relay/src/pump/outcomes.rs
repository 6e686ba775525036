//! What came of calls and stores: the planner hears of it, and people do.

use std::time::Instant;

use inbox_engine::internal::Rule;
use outbox_planner::internal::{LaneKey, News, Outcome, Time};
use uuid::Uuid;

use super::{TurnEnd, calls::EndedCall, driver::Driver, routing::KAFKA_NUMBER};
use crate::{
    destination,
    port::{Conclusion, DestinationOutage, Owners, Park, ParkState, Stored},
    telemetry::Signal,
};

impl<F: Owners> Driver<'_, F> {
    pub(super) fn stored(
        &mut self,
        result: Result<(Conclusion, Stored), String>,
    ) -> Result<(), TurnEnd> {
        let (conclusion, missing) = match result {
            Ok((conclusion, Stored::All)) => (conclusion, 0),
            Ok((conclusion, Stored::Missing(rows))) => (conclusion, rows),
            Ok((_, Stored::NotOurs)) => return Err(TurnEnd::Lost),
            Err(error) => {
                self.pump.database_failed(self.lease, error);
                return Ok(());
            }
        };
        self.pump.counters.sent.add((conclusion.sent.len() + conclusion.delivered.len()) as u64);
        for Park { key, aggregate, state, error, attempts, .. } in conclusion.parked {
            match state {
                ParkState::Parked => {
                    self.pump.counters.failed.add(1);
                    let event = format!("{aggregate} {}", Uuid::from_u128(key.event));
                    let error = error.unwrap_or_default();
                    Signal::SetAside { seq: key.seq, event, error }.emit();
                }
                ParkState::Retry => self.pump.counters.retries.add(u64::from(attempts > 0)),
                _ => {}
            }
        }
        self.planner.handle_stored(self.now());
        self.note_progress();
        if missing > 0 && Rule::MissingRowsEndTurn.on() {
            Signal::WentBack { rows: missing }.emit();
            return Err(TurnEnd::WentBack);
        }
        Ok(())
    }

    pub(super) fn called(&mut self, ended: EndedCall) {
        let EndedCall { id, outcomes, took } = ended;
        let items = self.planner.call(id);
        let Some(outcomes) = outcomes else {
            let untried = vec![Outcome::NotTried; items.len()];
            return self.planner.handle_outcomes(id, untried, self.now());
        };
        let number = items.first().map_or(KAFKA_NUMBER, |item| item.lane.destination);
        if let Some(meters) = self.pump.meters.destinations.get(number.wrapping_sub(1)) {
            meters.note_answer(took);
            let delivered = items
                .iter()
                .zip(&outcomes)
                .filter(|(_, outcome)| matches!(outcome, destination::Outcome::Delivered));
            for (item, _) in delivered {
                meters.note_delivery(1, item.content.appended.map(|at| at.elapsed()));
                self.pump.counters.delivered.add(1);
            }
        }
        let outcomes = outcomes.into_iter().map(outcome).collect();
        self.planner.handle_outcomes(id, outcomes, self.now());
    }

    pub(super) fn report_news(&mut self) {
        for news in self.planner.take_news() {
            let key = match &news {
                News::Out(key, ..) | News::Works(key, _) => key,
            };
            let destination = shown(&self.planner.name(key), key.scope.is_empty());
            if let Some(meters) = self.pump.meters.destinations.get(key.destination.wrapping_sub(1))
            {
                meters.set_outages(self.outages(key.destination));
            }
            match news {
                News::Out(_, error, lasts) => {
                    self.pump.counters.outages.add(1);
                    self.pump.troubles().errors.destination_outage.add(1);
                    let (seconds, destination) = (lasts.as_secs(), named(&destination));
                    Signal::DestinationOutage { destination, seconds, error }.emit();
                }
                News::Works(_, lasts) => {
                    let (seconds, destination) = (lasts.as_secs(), named(&destination));
                    Signal::DestinationWorks { destination, seconds }.emit();
                }
            }
        }
    }

    /// What of a destination is down.
    fn outages(&self, number: usize) -> Vec<DestinationOutage> {
        let lanes = self.planner.outages().filter(|(key, ..)| key.destination == number);
        let outage = |(key, since, why): (&LaneKey, Time, &str)| {
            let destination = shown(&self.planner.name(key), key.scope.is_empty());
            DestinationOutage { destination, since: self.began + since, error: why.to_owned() }
        };
        lanes.map(outage).collect()
    }

    /// Rows were read or stored.
    pub(super) fn note_progress(&mut self) {
        let reaches_kafka = self.pump.options.routes.reach_kafka();
        if self.fencings.persist(Instant::now()) {
            self.lease.report_shared_id();
        } else if let Some(why) = self.standstill() {
            self.lease.report_outage(why);
        } else if (!reaches_kafka || self.kafka.sink.is_some()) && self.lease.report_progress() {
            Signal::Moving.emit();
        }
    }

    /// Why nothing goes anywhere, as far as it is not Kafka's: that is reported where it is met.
    fn standstill(&self) -> Option<String> {
        if self.pump.options.routes.reach_kafka() {
            return None;
        }
        let all = (1..=self.pump.options.destinations.len())
            .all(|number| self.planner.outages().any(|(key, ..)| key.destination == number));
        let first = self.planner.outages().min_by_key(|(_, since, _)| *since).filter(|_| all);
        first.map(|(key, _, why)| {
            format!("{}: {why}", named(&shown(&self.planner.name(key), key.scope.is_empty())))
        })
    }
}

/// A lane for people.
fn shown(name: &str, whole: bool) -> String {
    match name.split_once('/').filter(|_| !whole) {
        Some((name, scope)) => format!("{name} ({scope})"),
        None => name.to_owned(),
    }
}

/// The same in a sentence.
fn named(shown: &str) -> String {
    format!("destination {shown}")
}

/// What a destination said, as the planner takes it.
fn outcome(outcome: destination::Outcome) -> Outcome {
    match outcome {
        destination::Outcome::Delivered => Outcome::Delivered,
        destination::Outcome::Retry { error, after } => Outcome::Failed(error, after),
        destination::Outcome::Unknown { error } => Outcome::Failed(error, None),
        destination::Outcome::Refused { error } => Outcome::Refused(error),
        destination::Outcome::Unavailable { error, after } => Outcome::Unavailable(error, after),
    }
}
