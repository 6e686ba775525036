//! The Kafka clients of inbox-consumer and of inbox-outbox-relay: the only crate that names rdkafka.
//!
//! ```text
//! KafkaBroker --commands--> poll loop --questions--> two side threads (calls that wait)
//!   (pipeline)  <--events--   | polls, answers the group, pauses, commits, asks brokers
//! ```
//!
//! - One thread owns the client of librdkafka (`poll_loop`), in rounds: execute commands, poll, send what arrived. A
//!   command wakes it out of its poll. It makes no call that waits for the network: answers arrive as
//!   events (`questions`), or a side thread waits (`query_thread`).
//! - It polls events itself instead of through the wrapper, which drops the topic of errors and of
//!   ends of partitions.
//! - What the group gives is answered at once; what it takes, when the pipeline has let go
//!   (`rebalance`). What arrives is passed on only after a confirmed seek (`seeks`).
//!
//! The *pipeline* is whoever handles what arrives. `Broker` is what can be asked of a member,
//! `BrokerEvent` what it tells; `connect` makes one. `inspect`, `topic`, `topics` and `committed_of` look at
//! Kafka without a group.
//!
//! The relay's producer is `producer`: a thread of its own, and a batch at a time. What users set of librdkafka
//! (`properties`), what a client says of its brokers (`trouble`, `reasons`) and how topics are kept (`topics`) is
//! written once for both.
//!
//! Use it through `inbox-consumer` and `inbox-outbox-relay`, which export what is on this page.
#![cfg_attr(docsrs, feature(doc_cfg))]

mod broker;
mod client;
mod client_stats;
mod command;
mod commits;
mod event;
mod excerpt;
mod ffi;
mod forbidden;
mod gather;
mod group;
mod group_view;
mod health;
mod hold;
mod in_flight_bytes;
mod inspect;
mod kafka_broker;
#[cfg(feature = "testing")]
mod mock;
mod partition_state;
mod poll_loop;
mod producer;
mod properties;
mod query_thread;
mod questions;
mod reasons;
mod rebalance;
mod recreated;
mod reread;
mod seeks;
mod settings;
#[cfg(feature = "testing")]
mod test_producer;
#[cfg(feature = "testing")]
mod topic_admin;
mod topic_state;
mod topics;
mod trouble;
mod unread;

/// What `inbox-runtime` and `inbox-consumer` ask of Kafka, for them alone: no promise of stability, any version may
/// change it.
#[doc(hidden)]
pub mod internal {
    pub use crate::{
        broker::{
            Arrival, Broker, BrokerError, BrokerEvent, ByteGuard, Committed, TopicState, Trouble,
        },
        excerpt::{Excerpts, Flaw},
        forbidden::Forbidden,
        health::{BrokerHealth, LogEnds, TopicPresence, Unread},
        inspect::{LogFacts, Logs, TopicLogs, committed_of, inspect, topic},
        kafka_broker::{KafkaBroker, connect},
        properties::Properties,
        settings::{KafkaSettings, Protocol},
        topic_state::missing,
        topics::{TopicFacts, TopicPolicy, topics},
    };

    /// What `inbox-outbox-relay` writes with.
    pub mod producer {
        pub use crate::producer::{
            ConnectError, Observer, OutgoingRecord, Partitions, ProducerSettings, Refusal,
            Shipment, Sink, TopicStatus, TopicWait, Until, aging_topics, inspect,
        };
    }
}

/// Kafka inside the process: librdkafka's mock cluster, and a small producer for any Kafka.
///
/// The mock speaks Kafka's protocol on local ports, so other processes can join. It keeps at most
/// 5 MiB per partition and drops the oldest records without a word, does not abort transactions, and
/// has no administration: what rests on those is tested against a real Kafka.
#[cfg(feature = "testing")]
pub mod testing {
    pub use crate::{
        broker::BrokerError,
        mock::{Failure, MockBroker, Request},
        test_producer::Producer,
        topic_admin::{create_topic, delete_topic},
    };
}
