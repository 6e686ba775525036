//! Whether destinations can be used, and how much each is given at once.

use crate::types::{DestinationLimits, LaneKey, Time};

/// A destination as it is now.
#[derive(Clone, Debug)]
struct DestinationState {
    limits: DestinationLimits,
    calls: usize,
    /// Since when it is not connected, and why.
    down: Option<(Time, String)>,
    /// Events of a call; halved when a batch was too much.
    batch: usize,
}

/// All destinations, by their numbers.
#[derive(Clone, Debug)]
pub(crate) struct Destinations {
    states: Vec<DestinationState>,
    /// The one that comes first next.
    turn: usize,
}

impl Destinations {
    pub(crate) fn new(limits: &[DestinationLimits]) -> Self {
        let state = |limits: &DestinationLimits| DestinationState {
            limits: limits.clone(),
            calls: 0,
            down: limits.connects.then(|| (Time::ZERO, String::new())),
            batch: limits.batch_max.max(1),
        };
        Self { states: limits.iter().map(state).collect(), turn: 0 }
    }

    /// The name of a lane, as the parking store has it.
    pub(crate) fn lane_name(&self, lane: &LaneKey) -> String {
        let name = self.name(lane.destination);
        if lane.scope.is_empty() { name.to_owned() } else { format!("{name}/{}", lane.scope) }
    }

    pub(crate) fn name(&self, destination: usize) -> &str {
        &self.states[destination].limits.name
    }

    pub(crate) fn up(&mut self, destination: usize) {
        self.states[destination].down = None;
    }

    pub(crate) fn down(&mut self, destination: usize, why: String, now: Time) {
        let state = &mut self.states[destination];
        let since = state.down.as_ref().map_or(now, |(since, _)| *since);
        state.down = Some((since, why));
    }

    /// Since when it is not connected, and why.
    pub(crate) fn is_down(&self, destination: usize) -> Option<&(Time, String)> {
        self.states[destination].down.as_ref()
    }

    /// Whether rows with this name are of a destination that is not connected.
    pub(crate) fn is_name_down(&self, name: &str) -> bool {
        let base = name.split([':', '/']).next().unwrap_or_default();
        let state = self.states.iter().find(|state| state.limits.name == base);
        state.is_some_and(|state| state.down.is_some())
    }

    pub(crate) fn is_free(&self, destination: usize) -> bool {
        let state = &self.states[destination];
        state.down.is_none() && state.calls < state.limits.calls_max.max(1)
    }

    /// Those that a call may be begun of, in turn.
    pub(crate) fn free(&self) -> Vec<usize> {
        let count = self.states.len();
        let turns = (0..count).map(|step| (self.turn + step) % count);
        turns.filter(|destination| self.is_free(*destination)).collect()
    }

    pub(crate) fn takes_runs(&self, destination: usize) -> bool {
        self.states[destination].limits.takes_runs
    }

    /// Events of its next call.
    pub(crate) fn batch(&self, destination: usize) -> usize {
        self.states[destination].batch
    }

    /// A batch of this many rows was too much at once.
    pub(crate) fn halve(&mut self, destination: usize, rows: usize) {
        let state = &mut self.states[destination];
        state.batch = (rows / 2).clamp(1, state.limits.batch_max.max(1));
    }

    pub(crate) fn begin_call(&mut self, destination: usize) {
        self.states[destination].calls += 1;
        self.turn = (destination + 1) % self.states.len();
    }

    pub(crate) fn end_call(&mut self, destination: usize, went_well: bool) {
        let state = &mut self.states[destination];
        state.calls -= 1;
        if went_well {
            state.batch = (state.batch * 2).min(state.limits.batch_max.max(1));
        }
    }
}
