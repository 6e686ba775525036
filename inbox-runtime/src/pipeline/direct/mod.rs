//! Events that a caller waits for, such as those of HTTP requests: claimed, handled and committed as those of Kafka are.
//!
//! They come to any process, in any order, and have no log. One partition stands for them in the database. It has no
//! owner: a transaction locks the lanes that it moves, and gives its events the next offsets of their lanes, so that
//! order per aggregate and the place of what is parked hold between processes. What fails is told to the caller, who
//! sends it again; the id recognises it.
//!
//! `settle` runs one transaction, `settlement` is what became of an event in it, `parked` releases what is parked.
//!
//! One story: its files know each other.

mod open;
mod parked;
mod settle;
mod settlement;
mod tell;

use std::sync::{Arc, Mutex, PoisonError};

use inbox_engine::internal::{LeaderEpoch, Offset};
use inbox_handler::internal::Delivery;
use inbox_kafka::internal::Arrival;
use inbox_store::internal::port::{IntakePartition, Lanes, Owner, Owners};
use outbox_core::{IdScope, Record, TopicPartition};

pub use self::settlement::Settlement;
use self::{parked::Resting, tell::Trouble};
use super::{Delivered, transaction::Work};

/// The consumer's partition for events that callers wait for.
#[derive(Debug)]
pub struct Direct<DB: Owners> {
    work: Arc<Work<DB>>,
    settings: DirectSettings,
    /// As the database has it; nothing before the first look.
    partition: Mutex<Option<IntakePartition>>,
    /// What keeps the upkeep from its work.
    trouble: Mutex<Trouble>,
    /// Parked queues that it looks past.
    resting: Mutex<Resting>,
}

/// Who takes such events, and what for.
#[derive(Clone, Debug)]
pub struct DirectSettings {
    /// The consumer's name.
    pub consumer: String,
    /// This process.
    pub owner: Owner,
    /// What stands for the events in the tables. No topic of Kafka has the name.
    pub place: TopicPartition,
    /// How the partition is divided when it is made; then the database's number holds.
    pub lanes: Lanes,
    /// Where an event's id is one event's.
    pub id_scope: IdScope,
}

/// An event on its way to [`Direct::settle`].
///
/// It is `suspect` once a transaction with it was torn by a handler, and its row is there. It runs beside others all the
/// same: what becomes of it is told by the claim.
#[derive(Debug)]
pub struct DirectEvent(pub(super) Delivered);

impl DirectEvent {
    /// The queue that it has to wait in: events of one aggregate share it.
    pub fn lane(&self) -> u16 {
        self.0.lane.0
    }

    /// What it takes in memory, in bytes.
    pub fn bytes(&self) -> usize {
        self.0.bytes as usize
    }

    /// The event's id as its producer wrote it.
    pub fn id(&self) -> String {
        self.0.event.id()
    }

    /// The key of its aggregate.
    pub fn aggregate(&self) -> [u8; 16] {
        self.0.aggregate
    }

    /// Whether it is to be parked instead of run.
    pub fn is_doomed(&self) -> bool {
        self.0.doomed.is_some()
    }

    /// Has it parked, when its transaction runs again.
    pub fn doom(&mut self, doom: inbox_engine::internal::Doom) {
        self.0.attempts += 1;
        self.0.doomed = Some(doom);
    }
}

impl<DB: Owners> Direct<DB> {
    /// Of a consumer; nothing is asked yet.
    pub fn new(work: Arc<Work<DB>>, settings: DirectSettings) -> Self {
        Self {
            work,
            settings,
            partition: Mutex::default(),
            trouble: Mutex::default(),
            resting: Mutex::default(),
        }
    }

    /// Reads a record as an event, or says why it is none.
    ///
    /// # Errors
    /// A sentence for its sender.
    pub fn event(&self, record: Record) -> Result<DirectEvent, String> {
        let Some(partition) = self.known() else { return Err("nothing is ready yet".into()) };
        let DirectSettings { place, lanes, .. } = &self.settings;
        let lanes = Lanes { count: partition.lane_count, ..lanes.clone() };
        let at = lanes.place(&place.topic, Offset(0), &record);
        let arrival =
            Arrival { offset: Offset(0), leader_epoch: LeaderEpoch::UNKNOWN, record, flaw: None };
        let item = self.work.intake.item(place, arrival, at, &self.work.routes);
        match &item.event.event {
            Ok(_) => Ok(DirectEvent(item)),
            Err(error) => Err(error.to_string()),
        }
    }

    /// What is counted.
    pub fn meters(&self) -> &Arc<crate::telemetry::meters::Meters> {
        &self.work.meters
    }

    /// Closes idle connections.
    pub async fn close(&self) {
        self.work.sessions.close().await;
    }

    fn known(&self) -> Option<IntakePartition> {
        self.partition.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set(&self, partition: IntakePartition) {
        *self.partition.lock().unwrap_or_else(PoisonError::into_inner) = Some(partition);
    }
}

/// Gives an item its offset, in the delivery that handlers see, too.
fn place_at(item: &mut Delivered, offset: Offset) {
    item.offset = offset;
    if let Some(delivery) = Arc::get_mut(&mut item.event) {
        delivery.offset = offset;
        return;
    }
    // A handler of an attempt before has kept it.
    let Delivery { partition, record, excerpt, event, read_as, .. } = &*item.event;
    let Ok(event) = event else { return };
    let (partition, record, excerpt) = (partition.clone(), record.clone(), excerpt.clone());
    item.event = Arc::new(Delivery {
        partition,
        offset,
        record,
        excerpt,
        event: Ok(event.clone()),
        read_as: read_as.clone(),
    });
}
