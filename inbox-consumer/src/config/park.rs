//! `[park]`: what happens to an event after it was parked.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use service_kit::duration;

use inbox_handler::Schedule;

/// `[park]`: when an event is released by itself that was parked after its last quick attempt. A
/// route may have its own: `Routes::schedule`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Park {
    /// Delay before the first release; it doubles.
    #[serde(with = "duration")]
    pub delay_min: Duration,
    /// Longest delay.
    #[serde(with = "duration")]
    pub delay_max: Duration,
    /// Releases before the event waits for a person.
    pub releases_max: u32,
}

impl Default for Park {
    fn default() -> Self {
        Self {
            delay_min: Duration::from_mins(1),
            delay_max: Duration::from_hours(1),
            releases_max: 20,
        }
    }
}

impl From<Park> for Schedule {
    fn from(park: Park) -> Self {
        let Park { delay_min, delay_max, releases_max } = park;
        Self { delay_min, delay_max, releases_max }
    }
}
