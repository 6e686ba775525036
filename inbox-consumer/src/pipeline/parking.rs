//! What becomes of events that are parked: how many there may be, and when they are released.

use std::time::Duration;

use uuid::Uuid;

use super::{
    port::{Delivered, ParkedLoad, Store},
    transaction::Work,
};
use crate::router::Schedule;

/// As the configuration says.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ParkingRules {
    /// For events whose route has no schedule of its own.
    pub(crate) schedule: Schedule,
    /// What a partition may hold.
    pub(crate) limit: ParkedLoad,
}

impl<DB: Store> Work<DB> {
    /// When an event is released by itself that is parked now.
    pub(super) fn first_delay(&self, item: &Delivered) -> Option<Duration> {
        let event = item.event.event.as_ref().ok()?;
        self.delay(&event.event_type, 0)
    }

    /// When an event is released by itself after so many rounds.
    pub(super) fn delay(&self, event_type: &str, releases: u32) -> Option<Duration> {
        let schedule = self.routes.schedule(event_type).unwrap_or(self.parking.schedule);
        // The lower half of a random UUID: all chance but for two bits at its top.
        schedule.delay(releases, Uuid::new_v4().as_u64_pair().1)
    }
}
