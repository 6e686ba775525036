//! Records for tests: any key, any headers, any partition, any ending of a transaction.

use std::time::Duration;

use futures::future::join_all;
use outbox_core::header_names;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{DeliveryFuture, FutureProducer, FutureRecord, Producer as _};

use crate::topic::client_settings;
use crate::unique;

const CALL_MAX: Duration = Duration::from_secs(30);

/// One record, well formed or not.
#[derive(Clone, Debug, Default)]
pub struct Record {
    key: Option<Vec<u8>>,
    payload: Option<Vec<u8>>,
    headers: Vec<(String, Option<Vec<u8>>)>,
    partition: Option<i32>,
    timestamp: Option<i64>,
}

impl Record {
    /// An event as our own outbox writes it: the key is the aggregate.
    pub fn event(id: &str, event_type: &str, aggregate: &str, payload: &str) -> Self {
        Self::default()
            .key(aggregate)
            .payload(payload)
            .header(header_names::EVENT_ID, id)
            .header(header_names::EVENT_TYPE, event_type)
    }

    /// The key; a record without one goes to any partition.
    #[must_use]
    pub fn key(mut self, key: impl Into<Vec<u8>>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// The payload; a record without one is a tombstone.
    #[must_use]
    pub fn payload(mut self, payload: impl Into<Vec<u8>>) -> Self {
        self.payload = Some(payload.into());
        self
    }

    /// One more header, behind the others.
    #[must_use]
    pub fn header(mut self, name: &str, value: impl Into<Vec<u8>>) -> Self {
        self.headers.push((name.to_owned(), Some(value.into())));
        self
    }

    /// One more header, without a value.
    #[must_use]
    pub fn null_header(mut self, name: &str) -> Self {
        self.headers.push((name.to_owned(), None));
        self
    }

    /// The partition; otherwise the key decides, as it does for Java's producer.
    #[must_use]
    pub fn partition(mut self, partition: i32) -> Self {
        self.partition = Some(partition);
        self
    }

    /// The time that the producer claims, in milliseconds since 1970; otherwise that of sending.
    #[must_use]
    pub fn timestamp(mut self, millis: i64) -> Self {
        self.timestamp = Some(millis);
        self
    }

    /// The same as a reader gets it, for a consumer without Kafka.
    #[must_use]
    pub fn as_read(&self) -> outbox_core::Record {
        let header = |(name, value): &(String, Option<Vec<u8>>)| outbox_core::Header {
            name: name.as_str().into(),
            value: value.clone().map(Into::into),
        };
        outbox_core::Record {
            key: self.key.clone().map(Into::into),
            headers: self.headers.iter().map(header).collect(),
            payload: self.payload.clone().map(Into::into),
            timestamp_ms: self.timestamp,
        }
    }

    fn owned_headers(&self) -> OwnedHeaders {
        let none = OwnedHeaders::new_with_capacity(self.headers.len());
        self.headers.iter().fold(none, |headers, (key, value)| {
            headers.insert(Header { key, value: value.as_ref() })
        })
    }
}

/// How a transaction of a producer ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ending {
    /// Readers see its records.
    Commit,
    /// Readers that ask for committed records see a gap.
    Abort,
}

/// An idempotent producer.
pub struct Producer(FutureProducer);

impl std::fmt::Debug for Producer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Producer")
    }
}

impl Producer {
    /// A producer for a bootstrap list.
    pub fn new(bootstrap: &str) -> Self {
        Self(settings(bootstrap).create().expect("a producer"))
    }

    /// The same with a setting of the client, such as `("compression.type", "lz4")`.
    pub fn with(bootstrap: &str, key: &str, value: &str) -> Self {
        Self(settings(bootstrap).set(key, value).create().expect("a producer"))
    }

    /// The same for records of any size, compressed by a codec.
    pub fn compressing(bootstrap: &str, codec: &str) -> Self {
        let mut settings = settings(bootstrap);
        settings.set("compression.type", codec).set("message.max.bytes", "1000000000");
        Self(settings.create().expect("a producer"))
    }

    /// Sends records in their order; returns partition and offset of each when all are acknowledged.
    pub async fn send(&self, topic: &str, records: &[Record]) -> Vec<(i32, i64)> {
        let mut acknowledgements = Vec::with_capacity(records.len());
        for record in records {
            acknowledgements.push(self.enqueue(topic, record).await);
        }
        let results = join_all(acknowledgements).await;
        let each = results.into_iter().map(|result| {
            let delivered = result.expect("the producer lives on");
            let delivery = delivered.unwrap_or_else(|(error, _)| panic!("not delivered: {error}"));
            (delivery.partition, delivery.offset)
        });
        each.collect()
    }

    /// Puts a record into the producer's queue, waiting while that is full.
    async fn enqueue(&self, topic: &str, record: &Record) -> DeliveryFuture {
        loop {
            let mut next = FutureRecord::<[u8], [u8]>::to(topic).headers(record.owned_headers());
            next.key = record.key.as_deref();
            next.payload = record.payload.as_deref();
            next.partition = record.partition;
            next.timestamp = record.timestamp;
            match self.0.send_result(next) {
                Ok(acknowledgement) => return acknowledgement,
                Err((KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull), _)) => {
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
                Err((error, _)) => panic!("cannot send: {error}"),
            }
        }
    }

    /// Sends records in one transaction of a producer of its own, and ends it.
    pub async fn send_in_transaction(
        bootstrap: &str,
        topic: &str,
        records: &[Record],
        ending: Ending,
    ) -> Vec<(i32, i64)> {
        let mut settings = settings(bootstrap);
        settings.set("transactional.id", unique("tests"));
        let producer = Self(settings.create().expect("a producer"));
        producer.blocking(|producer| producer.init_transactions(CALL_MAX)).await;
        producer.blocking(FutureProducer::begin_transaction).await;
        let sent = producer.send(topic, records).await;
        producer
            .blocking(move |producer| match ending {
                Ending::Commit => producer.commit_transaction(CALL_MAX),
                Ending::Abort => producer.abort_transaction(CALL_MAX),
            })
            .await;
        sent
    }

    async fn blocking<F>(&self, call: F)
    where
        F: FnOnce(&FutureProducer) -> Result<(), KafkaError> + Send + 'static,
    {
        let producer = self.0.clone();
        let done = tokio::task::spawn_blocking(move || call(&producer)).await;
        done.expect("the call ends").expect("Kafka goes along with the transaction");
    }
}

fn settings(bootstrap: &str) -> rdkafka::ClientConfig {
    let mut settings = client_settings(bootstrap);
    settings.set("enable.idempotence", "true");
    settings.set("partitioner", "murmur2_random");
    settings.set("linger.ms", "2");
    settings.set("message.max.bytes", "33554432");
    settings.set("queue.buffering.max.messages", "200000");
    settings
}
