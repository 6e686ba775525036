//! Kafka, the only room that names librdkafka.
//!
//! One story: its files know each other.
//!
//! A producer lives in a thread of its own, with one batch at a time. With fencing a batch is a
//! transaction: who reads with `read_committed` sees all of it or nothing. After any batch that did not
//! go through, the thread and its producer are given up: what was queued is purged, and the next producer
//! has a new epoch, which fences whatever of the old one is still under way.

#[cfg(feature = "cli")]
mod aging;
mod batch;
mod context;
mod fault;
mod inspection;
mod settings;
mod thread;

use outbox_core::Record;
use tokio::sync::oneshot;

use crate::deadline::Deadline;

#[cfg(feature = "cli")]
pub(crate) use aging::aging_topics;
pub(crate) use fault::Forbidden;
pub(crate) use inspection::{TopicStatus, inspect};
pub(crate) use settings::SinkSettings;

/// One record to send.
#[derive(Clone, Debug)]
pub(crate) struct OutgoingRecord {
    pub(crate) topic: String,
    /// `None`: the key decides.
    pub(crate) partition: Option<i32>,
    /// What order is kept for: `type/id`.
    pub(crate) aggregate: String,
    pub(crate) record: Record,
}

/// A record that cannot be sent, and why.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Refusal {
    /// Its place in the batch.
    pub(crate) place: usize,
    pub(crate) aggregate: String,
    pub(crate) topic: String,
    pub(crate) error: String,
    /// What it waits for, if that is all.
    pub(crate) waits: Option<TopicWait>,
}

/// What the rows of a topic wait for; they go by themselves then.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum TopicWait {
    /// That it is there.
    Presence,
    /// That the user may write to it.
    Permission,
}

/// What became of a batch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Shipment {
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
pub(crate) enum ConnectError {
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
    until: Deadline,
    answer: oneshot::Sender<Shipment>,
}

/// A producer that is ready: with fencing its epoch is the newest.
pub(crate) struct Sink {
    commands: std::sync::mpsc::Sender<SinkCommand>,
}

impl Sink {
    /// Makes a producer ready. With fencing this fences all earlier ones, and ends what they left open.
    pub(crate) async fn connect(settings: SinkSettings) -> Result<Self, ConnectError> {
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
    pub(crate) async fn ship(&self, records: Vec<OutgoingRecord>, until: Deadline) -> Shipment {
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
    pub(crate) async fn ask_topics(&self, topics: Vec<String>) -> Vec<(String, TopicStatus)> {
        let (answer, found) = oneshot::channel();
        if self.commands.send(SinkCommand::Look(topics, answer)).is_err() {
            return Vec::new(); // the next batch finds out, too
        }
        found.await.unwrap_or_default()
    }
}
