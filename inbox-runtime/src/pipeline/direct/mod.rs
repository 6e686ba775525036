//! Events that a caller waits for, such as those of HTTP requests: claimed, handled and committed as those of Kafka are.
//!
//! They come to any process, in any order, and have no log. One partition stands for them in the database. It has no
//! owner: a transaction locks the lanes that it moves, and gives its events the next offsets of their lanes, so that
//! order per aggregate and the place of what is parked hold between processes. What fails is told to the caller, who
//! sends it again; the id recognises it.
//!
//! `settle` runs one transaction, `settlement` is what became of an event in it. What is parked is released by a `driver` as
//! that of Kafka is, over a broker without a log (`no_log`); its take-over is `open`.
//!
//! One story: its files know each other.

mod no_log;
mod open;
mod settle;
mod settlement;
mod tell;
mod unclean;

use std::sync::{
    Arc, Mutex, MutexGuard, PoisonError,
    atomic::{AtomicBool, Ordering::Relaxed},
};

use inbox_engine::internal::{Engine, LeaderEpoch, Limits, Offset};
use inbox_handler::internal::Delivery;
use inbox_store::internal::port::{IntakePartition, Lanes, Owner, Owners};
use kafka_kit::internal::{Arrival, Broker, BrokerEvent};
use outbox_core::{IdScope, ReadError, Record, TopicPartition};
use tokio::sync::mpsc::UnboundedReceiver;

pub use self::settlement::Settlement;
use self::{no_log::NoLog, unclean::UncleanEnd};
use super::{Delivered, control::Control, driver::Driver, transaction::Work};

/// The consumer's partition for events that callers wait for.
#[derive(Debug)]
pub struct Direct<DB: Owners> {
    work: Arc<Work<DB>>,
    settings: DirectSettings,
    /// As the database has it; nothing before the first look.
    partition: Mutex<Option<IntakePartition>>,
    unclean: Mutex<UncleanEnd>,
    /// Nothing more is taken.
    ending: AtomicBool,
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
    /// Of what releases parked events.
    pub limits: Limits,
    /// How things are is told by the intake: nothing of Kafka is read.
    pub publishes: bool,
}

/// An event on its way to [`Direct::settle`].
#[derive(Debug)]
pub struct DirectEvent {
    item: Delivered,
    /// A transaction with it was torn by a handler, and its row is there: what becomes of it is told by the claim.
    torn: bool,
}

impl DirectEvent {
    /// The queue that it has to wait in: events of one aggregate share it.
    pub fn lane(&self) -> u16 {
        self.item.lane.0
    }

    /// What it takes in memory, in bytes.
    pub fn bytes(&self) -> usize {
        self.item.bytes as usize
    }

    /// The event's id as its producer wrote it.
    pub fn id(&self) -> String {
        self.item.event.id()
    }

    /// The key of its aggregate.
    pub fn aggregate(&self) -> [u8; 16] {
        self.item.aggregate
    }

    /// Whether it is to be parked instead of run.
    pub fn is_doomed(&self) -> bool {
        self.item.doomed.is_some()
    }

    /// Whether a process may have ended with it: then it has to be the only one of its transaction.
    pub fn is_suspect(&self) -> bool {
        self.item.is_suspect()
    }

    /// Has it parked, when its transaction runs again.
    pub fn doom(&mut self, doom: inbox_engine::internal::Doom) {
        self.item.attempts += 1;
        self.item.doomed = Some(doom);
    }
}

impl<DB: Owners> Direct<DB> {
    /// Of a consumer; nothing is asked yet.
    pub fn new(work: Arc<Work<DB>>, settings: DirectSettings) -> Self {
        let ending = AtomicBool::new(false);
        Self { work, settings, partition: Mutex::default(), unclean: Mutex::default(), ending }
    }

    /// What releases parked events of the partition, as those of Kafka are released: the same engine, with the same
    /// faults. It is to be run on what comes with it.
    pub fn driver(
        self: &Arc<Self>,
    ) -> (Driver<DB>, Arc<Control<DB>>, UnboundedReceiver<BrokerEvent>) {
        let (broker, events) = NoLog::of(self.settings.place.clone());
        let broker: Arc<dyn Broker> = Arc::new(broker);
        let control = Arc::new(Control::of_intake(Arc::clone(self), Arc::clone(&broker)));
        let engine = Engine::new(self.settings.limits, service_kit::chance());
        let (work, meters) = (Arc::clone(&self.work), Arc::clone(&self.work.meters));
        (Driver::new(engine, broker, work, Arc::clone(&control), meters), control, events)
    }

    /// Reads a record as an event.
    ///
    /// # Errors
    /// Why it is none; `None`: nothing is ready yet.
    pub fn event(&self, record: Record) -> Result<DirectEvent, Option<ReadError>> {
        let Some(partition) = self.known() else { return Err(None) };
        let DirectSettings { place, lanes, .. } = &self.settings;
        let lanes = Lanes { count: partition.lane_count, ..lanes.clone() };
        let at = lanes.place(&place.topic, Offset(0), &record);
        let arrival =
            Arrival { offset: Offset(0), leader_epoch: LeaderEpoch::UNKNOWN, record, flaw: None };
        let mut item = self.work.intake.item(place, arrival, at, &self.work.routes);
        match &item.event.event {
            Ok(_) => {
                self.unclean().judge(&mut item);
                Ok(DirectEvent { item, torn: false })
            }
            Err(error) => Err(Some(error.clone())),
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

    /// Nothing more is taken from now on.
    pub fn end(&self) {
        self.ending.store(true, Relaxed);
    }

    /// Whether nothing more is taken.
    pub(super) fn is_ending(&self) -> bool {
        self.ending.load(Relaxed)
    }

    /// Whether how the intake is is told by it.
    pub(super) fn publishes(&self) -> bool {
        self.settings.publishes
    }

    /// Tries an event in the process of a trial.
    pub(super) fn tries(&self, place: &TopicPartition) -> Option<&Work<DB>> {
        (self.settings.place == *place).then_some(&*self.work)
    }

    fn unclean(&self) -> MutexGuard<'_, UncleanEnd> {
        self.unclean.lock().unwrap_or_else(PoisonError::into_inner)
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
