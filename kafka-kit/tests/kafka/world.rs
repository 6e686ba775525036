//! The Kafkas to test against.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use kafka_kit::{
    internal::{Excerpts, KafkaSettings, Protocol},
    testing::{MockBroker, Producer},
};
use outbox_core::{Header, Record, TopicPartition};
use rdkafka::{
    ClientConfig,
    admin::{AdminClient, AdminOptions, NewTopic, TopicReplication},
    client::DefaultClientContext,
};

/// A Kafka, and how groups are formed on it.
pub(crate) struct World {
    pub(crate) bootstrap: String,
    pub(crate) mock: Option<MockBroker>,
    pub(crate) protocol: Protocol,
    pub(crate) producer: Producer,
    name: String,
}

static NAMES: AtomicU32 = AtomicU32::new(0);

impl World {
    pub(crate) fn mock(protocol: Protocol) -> Self {
        let mock = MockBroker::start(&[]).unwrap();
        Self::over(mock.bootstrap(), Some(mock), protocol)
    }

    fn over(bootstrap: String, mock: Option<MockBroker>, protocol: Protocol) -> Self {
        let number = NAMES.fetch_add(1, Ordering::Relaxed);
        let name = format!("t{}-{number}", uuid::Uuid::now_v7().simple());
        let producer = Producer::new(&bootstrap).unwrap();
        Self { bootstrap, mock, protocol, producer, name }
    }

    /// The real Kafka; `None` when there is none, which is an error where it has to be there.
    pub(crate) fn real(protocol: Protocol) -> Option<Self> {
        match std::env::var("INBOX_TEST_KAFKA") {
            Ok(bootstrap) => Some(Self::over(bootstrap, None, protocol)),
            Err(_) => {
                let wanted = std::env::var("CI").is_ok_and(|ci| ci == "true");
                assert!(!wanted, "set INBOX_TEST_KAFKA to the bootstrap list of a real Kafka");
                eprintln!("skipped against a real Kafka: INBOX_TEST_KAFKA is not set");
                None
            }
        }
    }

    /// The mock cluster and the real Kafka, with both protocols.
    pub(crate) fn all() -> Vec<Self> {
        let protocols = [Protocol::Classic, Protocol::Consumer];
        let mocks = protocols.map(Self::mock).into_iter();
        mocks.chain(protocols.into_iter().filter_map(Self::real)).collect()
    }

    pub(crate) fn told(&self) -> String {
        let kind = if self.mock.is_some() { "mock" } else { "real" };
        format!("{kind}, {:?}", self.protocol)
    }

    /// A topic of this test's own.
    pub(crate) async fn topic(&self, partitions: u16) -> String {
        let topic = format!("{}-{}", self.name, NAMES.fetch_add(1, Ordering::Relaxed));
        match &self.mock {
            Some(mock) => mock.create_topic(&topic, partitions).unwrap(),
            None => self.create(&topic, partitions).await,
        }
        topic
    }

    async fn create(&self, topic: &str, partitions: u16) {
        // The records say that they are from 2023: retention would remove them at once.
        let new = NewTopic::new(topic, i32::from(partitions), TopicReplication::Fixed(1))
            .set("retention.ms", "-1");
        let options = AdminOptions::new().operation_timeout(Some(Duration::from_secs(10)));
        let created = self.admin().create_topics([&new], &options).await.unwrap();
        for one in created {
            drop(one.unwrap());
        }
    }

    pub(crate) fn admin(&self) -> AdminClient<DefaultClientContext> {
        ClientConfig::new().set("bootstrap.servers", &self.bootstrap).create().unwrap()
    }

    pub(crate) fn settings(&self, topics: &[&str]) -> KafkaSettings {
        // The mock's classic groups wait for a session timeout less a second, and librdkafka may be a
        // second late with a heartbeat; a real broker takes nothing below six seconds.
        let session = if self.mock.is_some() { 2500 } else { 6000 };
        KafkaSettings {
            bootstrap: self.bootstrap.clone(),
            group: self.name.clone(),
            topics: topics.iter().map(|topic| (*topic).to_owned()).collect(),
            instance_id: None,
            protocol: self.protocol,
            session_timeout: Duration::from_millis(session),
            max_poll_interval: Duration::from_secs(30),
            excerpts: Excerpts::default(),
            properties: vec![("reconnect.backoff.max.ms".into(), "200".into())].into(),
        }
    }

    /// Writes numbered records to a partition, in order.
    pub(crate) async fn write(&self, topic: &str, partition: i32, numbers: std::ops::Range<u32>) {
        let records: Vec<Record> = numbers.map(numbered).collect();
        let sends = records.iter().map(|r| self.producer.send_to(topic, partition, r));
        for sent in futures::future::join_all(sends).await {
            sent.unwrap();
        }
    }
}

pub(crate) fn numbered(number: u32) -> Record {
    Record {
        key: Some(Bytes::from(format!("key-{number}"))),
        headers: vec![
            Header { name: "event-id".into(), value: Some(Bytes::from(number.to_string())) },
            Header { name: "nothing".into(), value: None },
            Header { name: "nothing".into(), value: Some(Bytes::new()) },
        ],
        payload: Some(Bytes::from(format!("payload of {number}"))),
        timestamp_ms: Some(1_700_000_000_000),
    }
}

pub(crate) fn topic_partition(topic: &str, partition: i32) -> TopicPartition {
    TopicPartition { topic: Arc::from(topic), partition }
}
