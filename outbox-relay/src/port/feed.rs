//! The traits by who asks: each user of a feed can name its own statements, and no others.

use super::{
    Inspection, Measurements, Numbers, Parked, Retention, Rights, Rows, Schema, Sessions, Turns,
    Wakes, Writers,
};

/// What ships rows: reads and stores, the parking store, and the turn, without which nothing is changed.
pub(crate) trait Rounds: Sessions + Rows + Parked + Writers + Turns {}

impl<DB: Sessions + Rows + Parked + Writers + Turns> Rounds for DB {}

/// What the owner of the turn asks beside its rounds: the numbers of new rows, retention, being told.
pub(crate) trait Owners: Rounds + Numbers + Retention + Wakes {}

impl<DB: Rounds + Numbers + Retention + Wakes> Owners for DB {}

/// What a relay asks while it runs: as the owner of the turn, and for its metrics.
pub(crate) trait Relays: Owners + Measurements {}

impl<DB: Owners + Measurements> Relays for DB {}

/// What a relay asks once, before its first turn: whether the tables are there and fit, and what is wrong with them.
pub(crate) trait Openings: Sessions + Schema + Inspection + Rights {}

impl<DB: Sessions + Schema + Inspection + Rights> Openings for DB {}
