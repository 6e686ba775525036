//! What transactions share, out of the configuration.

use std::sync::Arc;

use inbox_runtime::internal::{Intake, ParkingRules, Sessions, Work, WorkState};
use inbox_store::internal::port::{ParkedLoad, StatementRegistry, Store, TxLimits};
use kafka_kit::internal::Excerpts;
use outbox_core::Reader;
use uuid::Uuid;

use super::{
    Consumer,
    identity::{content, excerpts, unwanted},
};

impl<DB: Store> Consumer<DB> {
    /// What transactions of Kafka's events share.
    pub(super) fn work(&self, incarnation: Uuid) -> Work<DB> {
        self.work_of((self.reader.clone(), excerpts(&self.config)), incarnation)
    }

    /// The same of events that are read in another way.
    pub(super) fn work_of(
        &self,
        (reader, excerpts): (Reader, Excerpts),
        incarnation: Uuid,
    ) -> Work<DB> {
        let config = &self.config;
        let intake = Intake {
            excerpts,
            reader,
            unwanted: unwanted(&config.events),
            content: content(config.events.content),
        };
        let meters = Arc::clone(&self.meters);
        Work {
            routes: Arc::clone(&self.routes),
            registry: Arc::new(StatementRegistry::new(DB::prepares(&self.settings))),
            sessions: Sessions::with_meters(self.settings.clone(), Arc::clone(&meters)),
            limits: TxLimits {
                statement_timeout: config.database.statement_timeout,
                lock_timeout: config.database.lock_timeout,
                idle_timeout: config.database.idle_timeout,
            },
            outbox: config.outbox.into(),
            attempt_deadline: config.retry.attempt_deadline,
            intake,
            parking: ParkingRules {
                schedule: config.park.into(),
                limit: ParkedLoad {
                    aggregates: config.limits.parked_aggregates_max.into(),
                    events: config.limits.parked_events_max.into(),
                    bytes: config.limits.parked_bytes_max as u64,
                },
            },
            meters,
            incarnation,
            trials: Arc::clone(&self.trials),
            shared: false,
            state: WorkState::beside(&self.aside),
        }
    }
}
