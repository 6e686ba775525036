//! What becomes of events that are parked: how many there may be, and when they are released.

use std::{collections::BTreeMap, time::Duration};

use inbox_engine::internal::{Doom, ParkReason};
use inbox_handler::Schedule;
use inbox_store::internal::port::{ParkedLoad, Transactions};
use service_kit::chance;

use super::{
    Delivered,
    disposition::Dispositions,
    parked::event_labels,
    transaction::{Transaction, Work},
};
use crate::telemetry::Signal;

/// As the configuration says.
#[derive(Clone, Copy, Debug)]
pub struct ParkingRules {
    /// For events whose route has no schedule of its own.
    pub schedule: Schedule,
    /// What a partition may hold.
    pub limit: ParkedLoad,
}

impl<DB: Transactions> Work<DB> {
    /// When an event is released by itself that is parked now.
    pub(super) fn first_delay(&self, item: &Delivered) -> Option<Duration> {
        let event = item.event.event.as_ref().ok()?;
        self.delay(&event.event_type, 0)
    }

    /// When an event is released by itself after so many rounds.
    pub(super) fn delay(&self, event_type: &str, releases: u32) -> Option<Duration> {
        let schedule = self.routes.schedule(event_type).unwrap_or(self.parking.schedule);
        schedule.delay(releases, chance())
    }
}

impl<DB: Transactions> Transaction<'_, DB> {
    /// Counts what is parked now, by why; what a person has to look into is told one by one.
    pub(super) fn tell_parked(&self, dispositions: &Dispositions<'_>) {
        let mut reasons: BTreeMap<&str, u64> = BTreeMap::new();
        for (item, reason, doom) in dispositions.parkings() {
            self.work.meters.parked(reason);
            *reasons.entry(reason.as_str()).or_default() += 1;
            let (partition, offset) = (item.event.partition.clone(), item.offset.0);
            match doom {
                Some(Doom { reason: ParkReason::Mismatch, error }) => {
                    Signal::Mismatch { partition, offset, error: error.clone() }.emit();
                }
                Some(Doom { reason: ParkReason::Torn, error }) => {
                    Signal::Torn { partition, offset, error: error.clone() }.emit();
                }
                _ => {}
            }
        }
        // That an event waits for another is no trouble yet.
        let mut told = dispositions.parkings().filter(|(_, reason, _)| *reason != ParkReason::Gap);
        let Some(first) = told.next() else { return };
        let with_error = dispositions.parkings().find(|(_, _, doom)| doom.is_some());
        let (item, _, doom) = with_error.unwrap_or(first);
        let [event_type, event_id, aggregate] = event_labels(item);
        let counted = reasons.iter().map(|(reason, events)| format!("{reason} {events}"));
        let follows = "an earlier event of their aggregate is parked";
        Signal::Parked {
            partition: item.event.partition.clone(),
            events: reasons.values().sum(),
            reasons: counted.collect::<Vec<_>>().join(", "),
            offset: item.offset.0,
            event_type,
            event_id,
            aggregate,
            error: doom.map_or(follows, |doom| &doom.error).to_owned(),
        }
        .emit();
    }
}
