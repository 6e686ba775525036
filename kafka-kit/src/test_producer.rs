//! A small producer, for [`crate::testing`].

use std::{fmt, time::Duration};

use inbox_engine::internal::Offset;
use outbox_core::{Record, TopicPartition};
use rdkafka::{
    ClientConfig,
    producer::{FutureProducer, FutureRecord},
    util::Timeout,
};

use crate::{broker::BrokerError, producer::headers, properties::refusal};

/// Writes records to a Kafka, mock or real: idempotent, every acknowledgement waited for, keys on the
/// partitions that Java's clients choose.
#[derive(Clone)]
pub struct Producer(FutureProducer);

impl fmt::Debug for Producer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Producer").finish_non_exhaustive()
    }
}

impl Producer {
    /// A producer for the Kafka at `bootstrap`.
    pub fn new(bootstrap: &str) -> Result<Self, BrokerError> {
        Self::with_properties(bootstrap, &[])
    }

    /// The same with TLS, SASL or further settings of librdkafka.
    pub fn with_properties(
        bootstrap: &str,
        properties: &[(String, String)],
    ) -> Result<Self, BrokerError> {
        let mut config = ClientConfig::new();
        for (name, value) in properties {
            config.set(name, value);
        }
        config
            .set("bootstrap.servers", bootstrap)
            .set("enable.idempotence", "true")
            .set("acks", "all")
            .set("partitioner", "murmur2_random")
            .set("linger.ms", "1");
        config.create().map(Self).map_err(|error| refusal(&error))
    }

    /// Sends a record to the partition of its key; answers where it was written.
    pub async fn send(
        &self,
        topic: &str,
        record: &Record,
    ) -> Result<(TopicPartition, Offset), BrokerError> {
        self.write(topic, None, record).await
    }

    /// Sends a record to a partition.
    pub async fn send_to(
        &self,
        topic: &str,
        partition: i32,
        record: &Record,
    ) -> Result<(TopicPartition, Offset), BrokerError> {
        self.write(topic, Some(partition), record).await
    }

    async fn write(
        &self,
        topic: &str,
        partition: Option<i32>,
        record: &Record,
    ) -> Result<(TopicPartition, Offset), BrokerError> {
        let mut sent = FutureRecord::<[u8], [u8]>::to(topic).headers(headers(record));
        sent.key = record.key.as_deref();
        sent.payload = record.payload.as_deref();
        sent.timestamp = record.timestamp_ms;
        sent.partition = partition;
        let acknowledged = self.0.send(sent, Timeout::After(Duration::from_secs(30))).await;
        let delivery = acknowledged.map_err(|(error, _)| {
            BrokerError(format!("a record for {topic} was not acknowledged: {error}"))
        })?;
        let topic_partition = TopicPartition { topic: topic.into(), partition: delivery.partition };
        Ok((topic_partition, Offset(delivery.offset)))
    }
}
