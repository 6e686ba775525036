//! The destinations as they are now.

use crate::types::{DestinationLimits, PlannerSettings, Time};

/// A destination as it is now.
#[derive(Debug)]
#[cfg_attr(test, derive(Clone))]
struct State {
    calls: usize,
    calls_max: usize,
    /// Since when it is not connected, and why.
    down: Option<(Time, String)>,
    /// Events of a call; halved when a batch was too much.
    batch: usize,
    batch_max: usize,
}

/// All destinations, by their numbers.
#[derive(Debug)]
#[cfg_attr(test, derive(Clone))]
pub(crate) struct Destinations {
    states: Vec<State>,
    /// The one that comes first next.
    turn: usize,
}

impl Destinations {
    pub(crate) fn new(settings: &PlannerSettings) -> Self {
        let state = |limits: &DestinationLimits| State {
            calls: 0,
            calls_max: limits.calls_max.max(1),
            down: limits.connects.then(|| (Time::ZERO, String::new())),
            batch: limits.batch_max.max(1),
            batch_max: limits.batch_max.max(1),
        };
        Self { states: settings.destinations.iter().map(state).collect(), turn: 0 }
    }

    pub(crate) fn up(&mut self, number: usize) {
        self.states[number].down = None;
    }

    pub(crate) fn set_down(&mut self, number: usize, why: String, now: Time) {
        let state = &mut self.states[number];
        let since = state.down.as_ref().map_or(now, |(since, _)| *since);
        state.down = Some((since, why));
    }

    /// Since when it is not connected, and why.
    pub(crate) fn down(&self, number: usize) -> Option<(Time, &str)> {
        self.states[number].down.as_ref().map(|(since, why)| (*since, why.as_str()))
    }

    /// A batch of this many rows was too much at once.
    pub(crate) fn halve(&mut self, number: usize, rows: usize) {
        self.states[number].batch = (rows / 2).max(1);
    }

    /// Events of a call.
    pub(crate) fn batch(&self, number: usize) -> usize {
        self.states[number].batch
    }

    pub(crate) fn is_free(&self, number: usize) -> bool {
        let state = &self.states[number];
        state.down.is_none() && state.calls < state.calls_max
    }

    /// Those that a call may go to, in turn.
    pub(crate) fn free(&self) -> Vec<usize> {
        let count = self.states.len();
        let numbers = (0..count).map(|step| (self.turn + step) % count);
        numbers.filter(|number| self.is_free(*number)).collect()
    }

    pub(crate) fn begin_call(&mut self, number: usize) {
        self.states[number].calls += 1;
        self.turn = (number + 1) % self.states.len();
    }

    pub(crate) fn end_call(&mut self, number: usize, went_well: bool) {
        let state = &mut self.states[number];
        state.calls -= 1;
        if went_well {
            state.batch = (state.batch * 2).min(state.batch_max);
        }
    }
}
