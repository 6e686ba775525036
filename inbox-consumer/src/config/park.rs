//! `[park]`: what happens to an event after it was parked.

use std::time::Duration;

use inbox_handler::Schedule;
use service_kit::section;

section! {
    /// `[park]`: when an event is released by itself that was parked after its last quick attempt. A
    /// route may have its own: `Routes::schedule`.
    #[derive(Copy)]
    pub struct Park as "park" {
        /// The delay before a parked event with exhausted retries is released automatically; it
        /// doubles each time, with jitter in its upper half. A route may have its own schedule
        /// (`Routes::schedule`).
        delay_min: Duration = "1m", in 1ms..=1d;
        /// The longest delay between two releases.
        delay_max: Duration = "1h", in 1ms..=365d;
        /// Automatic releases; then the event needs manual action. 0 disables automatic releases.
        releases_max: u32 = "20", in 0..=1_000_000;
    }
}

impl From<Park> for Schedule {
    fn from(park: Park) -> Self {
        let Park { delay_min, delay_max, releases_max } = park;
        Self { delay_min, delay_max, releases_max }
    }
}
