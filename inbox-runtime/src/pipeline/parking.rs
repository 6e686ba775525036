//! What becomes of events that are parked: how many there may be, and when they are released.

use std::{collections::BTreeMap, time::Duration};

use inbox_engine::internal::{BatchOutcome, Doom, ParkReason, Rule};
use inbox_handler::Schedule;
use inbox_store::internal::port::{ParkedLoad, Transactions};
use service_kit::chance;

use super::{
    Delivered,
    disposition::Dispositions,
    fault_point,
    parked::event_labels,
    transaction::{EarlyEnd, Transaction, Work},
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
    /// Writes what is parked.
    pub(super) async fn park(&mut self, dispositions: &Dispositions<'_>) -> Result<(), EarlyEnd> {
        let rows = dispositions.parked(|item| self.work.first_delay(item), &self.versions);
        if rows.is_empty() || !Rule::ParkInTransaction.on() {
            return Ok(());
        }
        let alone = DB::park_alone(self.conn, &self.scope).await;
        alone.map_err(|error| self.statement_failed("the lock for parking", &error))?;
        // A follower is as it came; that it cannot be parked is never its fault.
        self.handled |= dispositions.parkings().any(|(_, _, doom)| doom.is_some());
        let parked = DB::park(self.conn, &self.scope, &rows).await;
        let marked = parked.map_err(|error| self.statement_failed("parking", &error))?;
        self.changed = self.changed.map(|changed| changed.saturating_add_unsigned(marked));
        self.set_joins(dispositions).await?;
        fault_point::pass("live.after_park");
        self.check_limit().await
    }

    /// The limits are kept exactly: nobody else parks here until this transaction ends.
    async fn check_limit(&mut self) -> Result<(), EarlyEnd> {
        let limit = self.work.parking.limit;
        let load = DB::parked_load(self.conn, &self.scope, limit).await;
        let load = load.map_err(|error| self.statement_failed("counting parked events", &error))?;
        if load.within(limit) || !Rule::ParkedLimitCounted.on() {
            return Ok(());
        }
        Err(EarlyEnd::RolledBack(BatchOutcome::Full(load.beyond(limit))))
    }

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
