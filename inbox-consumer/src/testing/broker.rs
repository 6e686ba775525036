//! Kafka inside the process: librdkafka's mock cluster, and a small producer for any Kafka.
//!
//! The mock speaks Kafka's protocol on local ports, so other processes can join. It keeps at most
//! 5 MiB per partition and drops the oldest records without a word, does not abort transactions, and
//! has no administration: what rests on those is tested against a real Kafka.

use std::{fmt, time::Duration};

use inbox_engine::Offset;
use outbox_core::Record;

pub use crate::kafka::mock::{Failure, Request};
use crate::{
    kafka::{mock::Mock, producer::Producing},
    pipeline::port::{BrokerError, TopicPartition},
};

/// After this long without a heartbeat the mock takes a member of the protocol `consumer` for dead.
const SESSION: Duration = Duration::from_secs(10);

/// A Kafka cluster inside the process; gone when dropped.
pub struct MockBroker {
    mock: Mock,
}

impl fmt::Debug for MockBroker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MockBroker").field("bootstrap", &self.bootstrap()).finish()
    }
}

impl MockBroker {
    /// One broker with these topics: name and number of partitions. Its classic groups wait for a
    /// session timeout less one second at each rebalance, and a client may be a second late with its
    /// heartbeat: 2.5 s serve well. With the protocol `consumer` a rebalance takes a quarter of a second.
    pub fn start(topics: &[(&str, u16)]) -> Result<Self, BrokerError> {
        Self::start_with(1, topics)
    }

    /// As [`MockBroker::start`], with several brokers, numbered from 1.
    pub fn start_with(brokers: u16, topics: &[(&str, u16)]) -> Result<Self, BrokerError> {
        let broker = Self { mock: Mock::start(brokers, SESSION)? };
        for (topic, partitions) in topics {
            broker.create_topic(topic, *partitions)?;
        }
        Ok(broker)
    }

    /// Where clients connect to.
    pub fn bootstrap(&self) -> String {
        self.mock.bootstrap().unwrap_or_default()
    }

    /// Creates a topic.
    pub fn create_topic(&self, topic: &str, partitions: u16) -> Result<(), BrokerError> {
        self.mock.create_topic(topic, partitions)
    }

    /// Makes the next requests of a kind fail, one after the other.
    pub fn fail_next(&self, request: Request, failures: &[Failure]) -> Result<(), BrokerError> {
        self.mock.fail_next(request, failures)
    }

    /// Breaks all connections of a broker and refuses new ones. Not for a test whose process starts others
    /// meanwhile: a child holds the broker's port until it is executed, and librdkafka's mock (2.12) ends
    /// the process when it cannot take that port again. [`MockBroker::round_trip`] has no such bound.
    pub fn down(&self, broker: u16) -> Result<(), BrokerError> {
        self.mock.down(broker)
    }

    /// Ends [`MockBroker::down`].
    pub fn up(&self, broker: u16) -> Result<(), BrokerError> {
        self.mock.up(broker)
    }

    /// Answers of a broker take this long from now on.
    pub fn round_trip(&self, broker: u16, time: Duration) -> Result<(), BrokerError> {
        self.mock.round_trip(broker, time)
    }

    /// Makes a broker the coordinator of a group.
    pub fn coordinate(&self, group: &str, broker: u16) -> Result<(), BrokerError> {
        self.mock.coordinate(group, broker)
    }

    /// Makes another broker the leader of a partition, or none. While there is none nobody may produce
    /// to it: librdkafka's mock (2.12) would end the process.
    pub fn lead(
        &self,
        topic: &str,
        partition: u16,
        broker: Option<u16>,
    ) -> Result<(), BrokerError> {
        self.mock.lead(topic, partition, broker)
    }
}

/// Writes records to a Kafka, mock or real: idempotent, every acknowledgement waited for, keys on the
/// partitions that Java's clients choose.
#[derive(Clone)]
pub struct Producer(Producing);

impl fmt::Debug for Producer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Producer").finish_non_exhaustive()
    }
}

impl Producer {
    /// A producer for the Kafka at `bootstrap`.
    pub fn new(bootstrap: &str) -> Result<Self, BrokerError> {
        Producing::new(bootstrap, &[]).map(Self)
    }

    /// The same with TLS, SASL or further settings of librdkafka.
    pub fn with_properties(
        bootstrap: &str,
        properties: &[(String, String)],
    ) -> Result<Self, BrokerError> {
        Producing::new(bootstrap, properties).map(Self)
    }

    /// Sends a record to the partition of its key; answers where it was written.
    pub async fn send(
        &self,
        topic: &str,
        record: &Record,
    ) -> Result<(TopicPartition, Offset), BrokerError> {
        self.0.send(topic, None, record).await
    }

    /// Sends a record to a partition.
    pub async fn send_to(
        &self,
        topic: &str,
        partition: i32,
        record: &Record,
    ) -> Result<(TopicPartition, Offset), BrokerError> {
        self.0.send(topic, Some(partition), record).await
    }
}
