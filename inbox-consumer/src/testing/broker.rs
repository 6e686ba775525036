//! Kafka inside the process: librdkafka's mock cluster; and for any Kafka a small producer, and topics made and
//! deleted.
//!
//! The mock speaks Kafka's protocol on local ports, so other processes can join. It keeps at most
//! 5 MiB per partition and drops the oldest records without a word, does not abort transactions, and
//! has no administration: what rests on those is tested against a real Kafka.

pub use kafka_kit::testing::{
    BrokerError, Failure, MockBroker, Producer, Request, create_topic, delete_topic,
};
