//! What is asked of the database besides transactions of events: take-over, watermark, standstill.

use std::{sync::Arc, time::Duration};

use inbox_engine::{Due, Limits, Standstill, Start, TakeOverFault, WatermarkWrite, Written};
use tokio::sync::Semaphore;

use super::{
    port::{
        Broker, BrokerError, Fit, Lanes, OpenError, Owner, Scope, Store, TakeOver, TakeOverError,
        Taken, TopicPartition, WatermarkMove, release::DueQueue,
    },
    sessions::Sessions,
};

/// Connections for control statements, beside those for transactions.
pub(crate) const CONTROL_SESSIONS: usize = 2;

/// Take-over, watermark and standstill of a consumer's partitions.
pub(crate) struct Control<DB: Store> {
    pub(crate) sessions: Sessions<DB>,
    permits: Semaphore,
    broker: Arc<dyn Broker>,
    identity: Identity,
}

/// What a take-over says of this consumer.
#[derive(Clone, Debug)]
pub(crate) struct Identity {
    pub(crate) consumer: String,
    pub(crate) owner: Owner,
    pub(crate) lanes: Lanes,
    pub(crate) start: Start,
}

impl<DB: Store> Control<DB> {
    pub(crate) fn new(settings: DB::Settings, broker: Arc<dyn Broker>, identity: Identity) -> Self {
        let permits = Semaphore::new(CONTROL_SESSIONS);
        Self { sessions: Sessions::new(settings), permits, broker, identity }
    }

    /// Asks Kafka where the group and the log stand, then takes the partition over in the database.
    pub(super) async fn take_over(&self, place: TopicPartition) -> Result<Taken, TakeOverFault> {
        let request = self.request(place).await.map_err(|e| TakeOverFault::Again(e.0))?;
        let _permit = self.permits.acquire().await;
        let mut conn = self.sessions.take().await.map_err(|error| match error {
            OpenError::Outage(text) | OpenError::Refused(text) => TakeOverFault::Again(text),
        })?;
        if let Err(fault) = fits::<DB>(&mut conn).await {
            match fault {
                TakeOverFault::Again(_) => conn.close_hard().await,
                _ => self.sessions.give_back(conn).await,
            }
            return Err(fault);
        }
        match DB::take_over(&mut conn, &request).await {
            Ok(taken) => {
                self.sessions.give_back(conn).await;
                Ok(taken)
            }
            Err(TakeOverError::Standstill(reason)) => {
                self.sessions.give_back(conn).await;
                Err(if reason.may_pass() {
                    TakeOverFault::Wait(reason)
                } else {
                    TakeOverFault::Stop(reason)
                })
            }
            Err(TakeOverError::Database(error)) => {
                conn.close_hard().await;
                let error = DB::explain(&error);
                Err(TakeOverFault::Again(format!("taking the partition over failed: {error}")))
            }
        }
    }

    async fn request(&self, partition: TopicPartition) -> Result<TakeOver, BrokerError> {
        let (committed, log, topic_id) = futures::try_join!(
            self.broker.committed(&partition),
            self.broker.log_range(&partition),
            self.broker.topic_id(&partition.topic),
        )?;
        let Identity { consumer, owner, lanes, start } = self.identity.clone();
        Ok(TakeOver { consumer, partition, topic_id, owner, lanes, committed, log, start })
    }

    pub(super) async fn write_watermark(&self, scope: Scope, write: &WatermarkWrite) -> Written {
        let change = WatermarkMove {
            old: write.old,
            new: write.new,
            leader_epoch: write.leader_epoch,
            expected: write.expected.iter().map(|offset| offset.0).collect(),
        };
        let _permit = self.permits.acquire().await;
        let mut conn = match self.sessions.take().await {
            Ok(conn) => conn,
            Err(error) => return Written::Outage(error.to_string()),
        };
        match DB::write_watermark(&mut conn, &scope, &change).await {
            Ok(written) => {
                self.sessions.give_back(conn).await;
                if written { Written::Yes } else { Written::Fenced }
            }
            Err(error) => {
                conn.close_hard().await;
                Written::Outage(format!("writing the watermark failed: {error}"))
            }
        }
    }

    /// The parked queues that have something to do, each in the lane that its aggregate has today.
    pub(super) async fn find_due(
        &self,
        taken: &Taken,
        place: &TopicPartition,
    ) -> Result<Vec<Due>, String> {
        let below = taken.ownership.remapped_below;
        let max = Limits::default().due_max;
        let _permit = self.permits.acquire().await;
        let mut conn = self.sessions.take().await.map_err(|error| error.to_string())?;
        match DB::find_due(&mut conn, &taken.scope, below, max).await {
            Ok(found) => {
                self.sessions.give_back(conn).await;
                let lane = |queue: &DueQueue| taken.lanes.of_queue(place, queue);
                let due = |queue| Due { lane: lane(&queue), aggregate: queue.aggregate };
                Ok(found.into_iter().map(due).collect())
            }
            Err(error) => {
                conn.close_hard().await;
                Err(format!("looking for parked events that are due failed: {error}"))
            }
        }
    }

    /// For people only: a failure changes nothing.
    pub(super) async fn tell_standstill(&self, scope: Scope, reason: Option<String>) {
        let _permit = self.permits.acquire().await;
        let Ok(mut conn) = self.sessions.take().await else { return };
        match DB::write_standstill(&mut conn, &scope, reason.as_deref()).await {
            Ok(()) => self.sessions.give_back(conn).await,
            Err(_) => conn.close_hard().await,
        }
    }

    /// Waits, for a moment at most, until what was asked last has been said.
    pub(crate) async fn quiet(&self) {
        let all = u32::try_from(CONTROL_SESSIONS).unwrap_or(1);
        let _ = tokio::time::timeout(Duration::from_secs(1), self.permits.acquire_many(all)).await;
    }

    /// Says that this process does not own the partition any more; for people and for the check of
    /// two live processes with one instance id.
    pub(super) async fn disown(&self, scope: Scope) {
        let _permit = self.permits.acquire().await;
        let Ok(mut conn) = self.sessions.take().await else { return };
        match DB::disown(&mut conn, &scope).await {
            Ok(()) => self.sessions.give_back(conn).await,
            Err(_) => conn.close_hard().await,
        }
    }
}

/// Whether the tables are still what this build works with: they may have been migrated, or brought
/// back from an older copy, since the consumer was built.
async fn fits<DB: Store>(conn: &mut DB::Connection) -> Result<(), TakeOverFault> {
    match DB::version(conn).await.map(|version| Fit::of("inbox", version, DB::newest())) {
        Ok(Fit::Own | Fit::Newer(_)) => Ok(()),
        Ok(Fit::Unfit(text)) => Err(TakeOverFault::Wait(Standstill::Schema(text))),
        Err(error) => {
            Err(TakeOverFault::Again(format!("taking the partition over failed: {error}")))
        }
    }
}
