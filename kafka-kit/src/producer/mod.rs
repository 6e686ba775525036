//! The producer of the relay: batches in order, as transactions where earlier producers are fenced.
//!
//! One story: its files know each other.
//!
//! A producer lives in a thread of its own, with one batch at a time. With fencing a batch is a
//! transaction: who reads with `read_committed` sees all of it or nothing. After any batch that did not
//! go through, the thread and its producer are given up: what was queued is purged, and the next producer
//! has a new epoch, which fences whatever of the old one is still under way.
#![expect(missing_docs, reason = "the relay alone sees it, and names say the rest")]

mod batch;
mod context;
mod fault;
mod inspection;
mod known_topics;
mod settings;
mod thread;

use outbox_core::Record;
use tokio::sync::oneshot;

use crate::forbidden::Forbidden;

#[cfg(feature = "testing")]
pub(crate) use batch::headers;
pub use inspection::{Partitions, TopicStatus, aging_topics, inspect};
pub use settings::ProducerSettings;

/// Until when a batch is waited for; it may be put off meanwhile.
pub trait Until: Send + 'static {
    fn passed(&self) -> bool;
}

/// Receives what goes wrong between a producer and its brokers.
pub trait Observer: Send + Sync + 'static {
    /// A line of librdkafka's, which may be for developers alone.
    fn line(&self, is_debug: bool, facility: &str, line: &str);
    /// What is wrong with the brokers, in a sentence.
    fn trouble(&self, error: String);
    /// Whether something was wrong with them, and nothing has shown since that one answers.
    fn is_doubtful(&self) -> bool;
    /// Brokers have taken something.
    fn works(&self);
}

/// One record to send.
#[derive(Clone, Debug)]
pub struct OutgoingRecord {
    pub topic: String,
    /// `None`: the key decides.
    pub partition: Option<i32>,
    /// What order is kept for: `type/id`.
    pub aggregate: String,
    pub record: Record,
}

/// A record that cannot be sent, and why.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Refusal {
    /// Its place in the batch.
    pub place: usize,
    pub aggregate: String,
    pub topic: String,
    pub error: String,
    /// What it waits for, if that is all.
    pub waits: Option<TopicWait>,
}

/// What the rows of a topic wait for; they go by themselves then.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TopicWait {
    /// That it is there.
    Presence,
    /// That the user may write to it.
    Permission,
    /// That a broker leads this partition of it.
    Leader(i32),
}

/// What became of a batch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Shipment {
    /// All but the refused and the left ones are acknowledged, and committed. `left` were not sent: they
    /// follow a refused one of their aggregate.
    Done { refused: Vec<Refusal>, left: Vec<usize> },
    /// It did not go through. `refused` cannot be sent; with `mixed` some further record cannot, either,
    /// and the broker does not say which. What became of the rest is not known, except that what was
    /// `acknowledged` need not be sent again (nothing ever is with fencing).
    Broken { refused: Vec<Refusal>, acknowledged: Vec<usize>, mixed: bool, why: String },
    /// Another producer has come.
    Fenced(String),
    /// Kafka does not allow the user to send anything.
    Forbidden(Forbidden),
}

/// Why no producer is ready.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ConnectError {
    /// It may pass by itself.
    Outage(String),
    /// The user lacks a right.
    Forbidden(Forbidden),
    /// A person has to act.
    Fatal(String),
}

/// What the thread is to do.
pub(crate) enum SinkCommand {
    /// Send a batch.
    Ship(SendBatch),
    /// Ask for topics.
    Look(Vec<String>, oneshot::Sender<Vec<(String, TopicStatus)>>),
}

/// A batch on its way to the thread.
pub(crate) struct SendBatch {
    records: Vec<OutgoingRecord>,
    until: Box<dyn Until>,
    answer: oneshot::Sender<Shipment>,
}

/// A producer that is ready: with fencing its epoch is the newest.
#[derive(Debug)]
pub struct Sink {
    commands: std::sync::mpsc::Sender<SinkCommand>,
}

impl Sink {
    /// Makes a producer ready. With fencing this fences all earlier ones, and ends what they left open.
    pub async fn connect<O: Observer>(settings: ProducerSettings<O>) -> Result<Self, ConnectError> {
        let (ready, answer) = oneshot::channel();
        let (commands, taken) = std::sync::mpsc::channel();
        let spawned = std::thread::Builder::new()
            .name("outbox-sink".into())
            .spawn(move || thread::run(&settings, ready, &taken));
        if let Err(error) = spawned {
            return Err(ConnectError::Outage(format!("cannot start a thread: {error}")));
        }
        match answer.await {
            Ok(Ok(())) => Ok(Self { commands }),
            Ok(Err(error)) => Err(error),
            Err(_) => Err(ConnectError::Outage("the producer's thread has died".into())),
        }
    }

    /// Sends a batch, in its order. It gives up when `until` has passed: the turn is over. After anything but
    /// [`Shipment::Done`] the sink is dead: make another.
    pub async fn ship(&self, records: Vec<OutgoingRecord>, until: impl Until) -> Shipment {
        let until = Box::new(until);
        let (answer, shipment) = oneshot::channel();
        let died = || Shipment::Broken {
            refused: Vec::new(),
            acknowledged: Vec::new(),
            mixed: false,
            why: "the producer's thread has died".into(),
        };
        if self.commands.send(SinkCommand::Ship(SendBatch { records, until, answer })).is_err() {
            return died();
        }
        shipment.await.unwrap_or_else(|_| died())
    }

    /// Asks for topics, all at once.
    pub async fn ask_topics(&self, topics: Vec<String>) -> Vec<(String, TopicStatus)> {
        let (answer, found) = oneshot::channel();
        if self.commands.send(SinkCommand::Look(topics, answer)).is_err() {
            return Vec::new(); // the next batch finds out, too
        }
        found.await.unwrap_or_default()
    }
}
