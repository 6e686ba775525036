//! What becomes of events that were with a destination.

use std::{sync::Arc, time::Duration};

use crate::{
    lane::{Failure, FailureKind},
    planner::{Call, Planner, park_of},
    types::{CallId, Item, Outcome, Park, ParkState, Time},
};

/// The longest time that a destination may ask for.
const AFTER_MAX: Duration = Duration::from_hours(24 * 31);

impl<T> Planner<T> {
    /// A call has ended, with an outcome for each of its events, in their order.
    pub fn handle_outcomes(&mut self, id: CallId, outcomes: Vec<Outcome>, now: Time) {
        let Some(Call { lane: key, items, is_stale }) = self.calls.remove(&id) else { return };
        let went_well = outcomes.iter().all(|outcome| *outcome == Outcome::Delivered);
        self.destinations.end_call(key.destination, went_well);
        let how = self.lanes.entry(key.clone()).or_default().end_call();
        let soon = self.destinations.takes_runs(key.destination);
        debug_assert_eq!(items.len(), outcomes.len(), "each event has an outcome");
        for (item, outcome) in items.into_iter().zip(outcomes) {
            let (kind, error, after) = match outcome {
                Outcome::Delivered => {
                    self.deliver(item, soon, now);
                    continue;
                }
                _ if is_stale && item.claimed => {
                    let name = self.name(&item.lane);
                    let park = park_of(&item, ParkState::Ready, (name, String::new()));
                    self.park_with(item, Park { error: None, ..park }, now);
                    continue;
                }
                _ if is_stale => {
                    self.forget(&item, now);
                    continue;
                }
                Outcome::NotTried => {
                    self.put_back(item, now);
                    continue;
                }
                Outcome::Awaits(name, error) => {
                    self.close(&name);
                    self.park(item, ParkState::Waiting, (name, error), now);
                    continue;
                }
                Outcome::Unsendable(error) => {
                    let name = self.name(&item.lane);
                    self.park(item, ParkState::Parked, (name, error), now);
                    continue;
                }
                Outcome::Failed(error, after) => (FailureKind::Failed, error, after),
                Outcome::Unavailable(error, after) => (FailureKind::Unavailable, error, after),
                Outcome::Refused(error) => (FailureKind::Refused, error, None),
            };
            let failure = Failure { kind, error, after };
            let lane = self.lanes.entry(key.clone()).or_default();
            let verdict = lane.failed(item, failure, how, &self.settings, now);
            self.carry_out(verdict, now);
        }
    }

    fn deliver(&mut self, item: Item<T>, soon: bool, now: Time) {
        self.leave(&item);
        self.store.delivered(&item, soon, now);
        let lane = self.lanes.entry(item.lane.clone()).or_default();
        for (item, failure) in lane.delivered(&item, now) {
            self.fail(item, failure, now);
        }
        self.line_up(&item.aggregate, now);
    }

    /// An event's own failure.
    pub(crate) fn fail(&mut self, item: Item<T>, failure: Failure, now: Time) {
        let name = self.name(&item.lane);
        let Failure { kind, error, after } = failure;
        let attempts = item.attempts.saturating_add(1);
        let most = self.settings.attempts_max;
        let (state, error) = match kind {
            FailureKind::Refused => (ParkState::Parked, error),
            _ if attempts >= most => {
                (ParkState::Parked, format!("{error}; that was attempt {attempts} of {most}"))
            }
            _ => (ParkState::Retry, error),
        };
        let (first, longest) = (self.settings.delay_min, self.settings.delay_max);
        let delay = (self.settings.backoff)(first, longest, attempts - 1);
        let after = after.map_or(delay, |after| after.min(AFTER_MAX).max(delay));
        let park = Park { after, attempts, ..park_of(&item, state, (name, error)) };
        self.park_with(item, park, now);
    }

    fn park(&mut self, item: Item<T>, state: ParkState, said: (String, String), now: Time) {
        let park = park_of(&item, state, said);
        self.park_with(item, park, now);
    }

    /// Parks an event that was under way, and all behind it.
    fn park_with(&mut self, item: Item<T>, park: Park, now: Time) {
        self.leave(&item);
        self.store.park(park, now);
        let aggregate = Arc::clone(&item.aggregate);
        self.park_rest(&aggregate, now);
    }
}
