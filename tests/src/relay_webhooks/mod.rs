//! How a relay delivers by HTTP: how fast, beside loops written by hand; after an outage of the receiver; beside an
//! event that the receiver never takes. The receiver tells order, losses and copies.

mod away;
mod hand_loop;
mod poison;
mod receiver;
mod scene;
mod speed;

pub use away::{Away, Refusal, measure as measure_away};
pub use poison::{Poison, measure as measure_poison};
pub use speed::{Speed, measure as measure_speed};
