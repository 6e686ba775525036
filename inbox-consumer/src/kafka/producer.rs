//! A small producer, for [`crate::testing`].

use std::time::Duration;

use outbox_core::Record;
use rdkafka::{
    ClientConfig,
    message::{Header, OwnedHeaders},
    producer::{FutureProducer, FutureRecord},
    util::Timeout,
};

use super::settings::refusal;
use crate::pipeline::port::{BrokerError, TopicPartition};
use inbox_engine::Offset;

/// An idempotent producer that waits for every acknowledgement, and that puts a key on the partition
/// that Java's clients put it on.
#[derive(Clone)]
pub(crate) struct Producing(FutureProducer);

impl Producing {
    pub(crate) fn new(
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

    /// Where the record was written. `partition: None` leaves it to the key.
    pub(crate) async fn send(
        &self,
        topic: &str,
        partition: Option<i32>,
        record: &Record,
    ) -> Result<(TopicPartition, Offset), BrokerError> {
        let mut headers = OwnedHeaders::new_with_capacity(record.headers.len());
        for header in &record.headers {
            headers = headers.insert(Header { key: &header.name, value: header.value.as_deref() });
        }
        let mut sent = FutureRecord::<[u8], [u8]>::to(topic).headers(headers);
        sent.key = record.key.as_deref();
        sent.payload = record.payload.as_deref();
        sent.timestamp = record.timestamp_ms;
        sent.partition = partition;
        let acknowledged = self.0.send(sent, Timeout::After(Duration::from_secs(30))).await;
        let delivery = acknowledged.map_err(|(error, _)| {
            BrokerError(format!("a record for {topic} was not acknowledged: {error}"))
        })?;
        let place = TopicPartition { topic: topic.into(), partition: delivery.partition };
        Ok((place, Offset(delivery.offset)))
    }
}
