//! PostgreSQL 13 and later.

#[cfg(feature = "ablation")]
mod ablation;
mod advice;
mod claim;
mod claim_values;
mod client;
mod corrections;
mod declared;
mod fault;
mod inspection;
mod intake;
mod intents;
mod keys;
mod lanes;
mod ownership;
mod parked;
mod parking;
mod queue;
mod release;
mod retention;
mod savepoint;
mod schema;
mod sent;
mod session;
mod settings;
mod suspects;
mod versions;

#[cfg(feature = "testing")]
pub(crate) use queue::functions as functions_of_queued;
pub use settings::PgSettings;

use inbox_engine::internal::LaneMove;

/// The columns of lane moves, as arrays for `unnest`.
struct Moves {
    lanes: Vec<i32>,
    prevs: Vec<i64>,
    news: Vec<i64>,
    leader_epochs: Vec<i32>,
}

impl Moves {
    fn new(moves: &[LaneMove]) -> Self {
        Self {
            lanes: moves.iter().map(|m| i32::from(m.lane.0)).collect(),
            prevs: moves.iter().map(|m| m.prev.0).collect(),
            news: moves.iter().map(|m| m.new.0).collect(),
            leader_epochs: moves.iter().map(|m| m.leader_epoch.0).collect(),
        }
    }
}
