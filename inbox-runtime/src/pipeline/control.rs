//! What is asked of the database besides transactions of events: take-over, watermark, standstill.

use std::{
    collections::HashMap,
    fmt,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use inbox_engine::internal::{
    Due, Held, NextOffset, Standstill, Start, TakeOverFault, WatermarkWrite, Written,
};
use inbox_store::internal::port::{
    Fit, Lanes, OpenError, Owner, Owners, Placement, Scope, TakeOver, TakeOverError, Taken,
    WatermarkMove, release::DueQueue,
};
use kafka_kit::internal::{Broker, BrokerError, Committed, TopicState, missing};
use outbox_core::{IdScope, TopicPartition, internal::CommitMark};
use tokio::sync::Semaphore;

use super::{
    direct::Direct,
    grouped::{DueQuery, GROUP_MAX},
    pending_notes::PendingNotes,
    sessions::Sessions,
};

/// How long Kafka may take to say where the group and the log stand, all of it: then the take-over is tried
/// again, with whatever has answered by then.
const ASK_MAX: Duration = Duration::from_secs(6);

/// Connections for control statements, beside those for transactions.
pub const CONTROL_SESSIONS: usize = 2;

/// Take-over, watermark and standstill of a consumer's partitions.
pub struct Control<DB: Owners> {
    /// Sessions of its own.
    pub sessions: Sessions<DB>,
    pub(super) permits: Semaphore,
    /// What is to be written down for people.
    pub(super) standstills: PendingNotes,
    pub(super) held_lanes: PendingNotes,
    /// Watermarks that are written in one transaction.
    group_max: AtomicUsize,
    broker: Arc<dyn Broker>,
    identity: Identity,
    /// What is asked instead where the partition is other processes', too.
    shared: Option<Arc<Direct<DB>>>,
}

impl<DB: Owners> fmt::Debug for Control<DB> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Control").field("identity", &self.identity).finish_non_exhaustive()
    }
}

/// What a take-over says of this consumer.
#[derive(Clone, Debug)]
pub struct Identity {
    /// The consumer's name.
    pub consumer: String,
    /// This process.
    pub owner: Owner,
    /// How partitions are divided.
    pub lanes: Lanes,
    /// Topics whose aggregates are found by other rules.
    pub placements: HashMap<String, Arc<Placement>>,
    /// Where an event's id is one event's.
    pub id_scope: IdScope,
    /// Where it begins without history.
    pub start: Start,
}

impl<DB: Owners> Control<DB> {
    /// For one consumer, with sessions of its own.
    pub fn new(settings: DB::Settings, broker: Arc<dyn Broker>, identity: Identity) -> Self {
        let permits = Semaphore::new(CONTROL_SESSIONS);
        Self {
            sessions: Sessions::new(settings),
            permits,
            standstills: PendingNotes::default(),
            held_lanes: PendingNotes::default(),
            group_max: AtomicUsize::new(GROUP_MAX),
            broker,
            identity,
            shared: None,
        }
    }

    /// For the partition of an intake, which is other processes', too.
    pub(super) fn of_intake(direct: Arc<Direct<DB>>, broker: Arc<dyn Broker>) -> Self {
        let (settings, identity) = direct.identity();
        Self { shared: Some(direct), ..Self::new(settings, broker, identity) }
    }

    /// Whether its partition is other processes', too: it has no log, and nobody is told that it comes and goes.
    pub(super) fn is_shared(&self) -> bool {
        self.shared.is_some()
    }

    /// Whether nothing more is taken into it, though what was taken is not settled yet.
    pub(super) fn is_ending(&self) -> bool {
        self.shared.as_ref().is_some_and(|direct| direct.is_ending())
    }

    /// Whether how its partitions are is told here.
    pub(super) fn publishes(&self) -> bool {
        self.shared.as_ref().is_none_or(|direct| direct.publishes())
    }

    /// Asks Kafka where the group and the log stand, then takes the partition over in the database.
    pub(super) async fn take_over(
        &self,
        place: TopicPartition,
        held: Option<Box<Held>>,
    ) -> Result<Taken, TakeOverFault> {
        if let Some(direct) = &self.shared {
            let _permit = self.permits.acquire().await;
            return direct.take_over().await;
        }
        let request = self.request(place, held).await?;
        let _permit = self.permits.acquire().await;
        let mut conn = self.sessions.take().await.map_err(|error| match error {
            OpenError::Outage(text) | OpenError::Refused(text) => TakeOverFault::Again(text),
        })?;
        if let Err(fault) = check_schema::<DB>(&mut conn).await {
            match fault {
                TakeOverFault::Again(_) => self.sessions.give_up(conn).await,
                _ => self.sessions.give_back(conn).await,
            }
            return Err(fault);
        }
        match DB::take_over(&mut conn, &request).await {
            Ok(taken) => {
                self.sessions.give_back(conn).await;
                let consumer = self.identity.consumer.clone();
                self.broker.mark(&CommitMark { inbox_id: taken.inbox_id, consumer });
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
                self.sessions.give_up(conn).await;
                let error = self.sessions.explain(&error);
                Err(TakeOverFault::Again(format!("acquiring the partition failed: {error}")))
            }
        }
    }

    async fn request(
        &self,
        partition: TopicPartition,
        held: Option<Box<Held>>,
    ) -> Result<TakeOver, TakeOverFault> {
        let asked = async {
            futures::join!(
                self.broker.topic(&partition.topic),
                self.broker.committed(&partition),
                self.broker.log_range(&partition),
            )
        };
        let late = |_| {
            let TopicPartition { topic, partition } = &partition;
            TakeOverFault::Again(format!(
                "Kafka did not report the offsets of the group and of the log of \
                 {topic}/{partition} within {ASK_MAX:?}"
            ))
        };
        let (topic, committed, log) = tokio::time::timeout(ASK_MAX, asked).await.map_err(late)?;
        let again = |error: BrokerError| match self.broker.health().forbidden_to(&partition.topic) {
            Some(forbidden) => TakeOverFault::Wait(Standstill::Forbidden(forbidden.to_string())),
            None => TakeOverFault::Again(error.0),
        };
        // Without the topic the others have no answer, or one that says less.
        let topic = find_topic(&partition, topic.map_err(again)?)?;
        let (committed, log) = (committed.map_err(again)?, log.map_err(again)?);
        let (committed, mark) = match committed {
            Some(Committed { next, mark }) => (Some(next), mark),
            None => (None, None),
        };
        let Identity { consumer, owner, mut lanes, placements, id_scope, start } =
            self.identity.clone();
        if let Some(placement) = placements.get(&*partition.topic) {
            lanes.placement = Arc::clone(placement);
        }
        Ok(TakeOver {
            consumer,
            partition,
            topic_id: topic.id,
            partitions: topic.partitions.map(|count| i32::try_from(count).unwrap_or(i32::MAX)),
            owner,
            lanes,
            id_scope,
            committed,
            mark,
            log,
            start,
            held,
        })
    }

    pub(super) async fn write_watermark(&self, scope: Scope, write: &WatermarkWrite) -> Written {
        let change = watermark_move(write);
        let _permit = self.permits.acquire().await;
        if let Some(direct) = &self.shared {
            return direct.settle_lanes(scope).await;
        }
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
                self.sessions.give_up(conn).await;
                let error = self.sessions.explain(&error);
                Written::Outage(format!("writing the watermark failed: {error}"))
            }
        }
    }

    /// How many watermarks are written in one transaction: fewer after a failure, in case it was too much.
    pub(super) fn group_max(&self) -> usize {
        self.group_max.load(Relaxed)
    }

    /// Writes those watermarks that nothing keeps from being written; the others have to be written by
    /// themselves, which says why.
    pub(super) async fn write_watermarks(
        &self,
        writes: &[(Scope, WatermarkWrite)],
    ) -> Result<Vec<bool>, String> {
        let changes = writes.iter().map(|(scope, write)| (*scope, watermark_move(write)));
        let changes: Vec<_> = changes.collect();
        let _permit = self.permits.acquire().await;
        let mut conn = self.sessions.take().await.map_err(|error| error.to_string())?;
        match DB::write_watermarks(&mut conn, &changes).await {
            Ok(moved) => {
                self.sessions.give_back(conn).await;
                self.group_max.store((self.group_max() * 2).min(GROUP_MAX), Relaxed);
                Ok(moved)
            }
            Err(error) => {
                self.sessions.give_up(conn).await;
                self.group_max.store((self.group_max() / 2).max(1), Relaxed);
                let error = self.sessions.explain(&error);
                Err(format!("writing {} watermarks failed: {error}", writes.len()))
            }
        }
    }

    /// The parked queues that have something to do, of each partition, at most `max` of each; each queue in the
    /// lane that its aggregate has today.
    pub(super) async fn find_due(
        &self,
        queries: &[DueQuery],
        max: usize,
    ) -> Result<Vec<Vec<Due>>, String> {
        let asked =
            queries.iter().map(|query| (query.taken.scope, query.taken.ownership.remapped_below));
        let asked: Vec<(Scope, NextOffset)> = asked.collect();
        let _permit = self.permits.acquire().await;
        let mut conn = self.sessions.take().await.map_err(|error| error.to_string())?;
        match DB::find_due(&mut conn, &asked, max).await {
            Ok(found) => {
                self.sessions.give_back(conn).await;
                let of_one = |(query, found): (&DueQuery, Vec<DueQueue>)| {
                    let lane =
                        |queue: &DueQueue| query.taken.lanes.of_queue(&query.place.topic, queue);
                    let due =
                        |queue: DueQueue| Due { lane: lane(&queue), aggregate: queue.aggregate };
                    found.into_iter().map(due).collect()
                };
                Ok(queries.iter().zip(found).map(of_one).collect())
            }
            Err(error) => {
                self.sessions.give_up(conn).await;
                let error = self.sessions.explain(&error);
                Err(format!("polling for due parked events failed: {error}"))
            }
        }
    }

    /// Waits, for a moment at most, until what was asked last has been said.
    pub async fn wait_until_idle(&self) {
        let all = u32::try_from(CONTROL_SESSIONS).unwrap_or(1);
        let idle = async {
            drop(self.permits.acquire_many(all).await);
            while !(self.standstills.is_idle() && self.held_lanes.is_idle()) {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        let _ = tokio::time::timeout(Duration::from_secs(1), idle).await;
    }

    /// Says that this process does not own the partitions any more; for people and for the check of
    /// two live processes with one instance id.
    pub(super) async fn disown(&self, scopes: &[Scope]) {
        let _permit = self.permits.acquire().await;
        let Ok(mut conn) = self.sessions.take().await else { return };
        match DB::disown(&mut conn, scopes).await {
            Ok(()) => self.sessions.give_back(conn).await,
            Err(_) => self.sessions.give_up(conn).await,
        }
    }
}

/// A partition's topic, if both are there.
fn find_topic(
    place: &TopicPartition,
    topic: Option<TopicState>,
) -> Result<TopicState, TakeOverFault> {
    let lacks = match topic {
        Some(state) => state.lacks(place).map_or(Ok(state), Err),
        None => Err(missing(&place.topic)),
    };
    lacks.map_err(|text| TakeOverFault::Wait(Standstill::TopicMissing(text)))
}

/// A write as the store takes it.
fn watermark_move(write: &WatermarkWrite) -> WatermarkMove {
    WatermarkMove {
        old: write.old,
        new: write.new,
        leader_epoch: write.leader_epoch,
        record: write.record,
        expected: write.expected.iter().map(|offset| offset.0).collect(),
    }
}

/// Whether the tables are still what this build works with: they may have been migrated, or brought
/// back from an older copy, since the consumer was built.
async fn check_schema<DB: Owners>(conn: &mut DB::Connection) -> Result<(), TakeOverFault> {
    match DB::version(conn).await.map(|version| Fit::of("inbox", version, DB::newest())) {
        Ok(Fit::Own | Fit::Newer(_)) => Ok(()),
        Ok(Fit::Unfit(text)) => Err(TakeOverFault::Wait(Standstill::Schema(text))),
        Err(error) => {
            let error = DB::explain(&error);
            Err(TakeOverFault::Again(format!("acquiring the partition failed: {error}")))
        }
    }
}
