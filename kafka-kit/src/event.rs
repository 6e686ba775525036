//! What events of librdkafka are about.

use outbox_core::TopicPartition;
use rdkafka::types::RDKafkaErrorCode;

use crate::{
    broker::{BrokerError, TopicState},
    forbidden::Forbidden,
};

/// What an event is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum EventKind {
    /// To a question about offsets or a topic's id.
    Answer,
    Committed,
    Error,
    Log,
    Other,
    Rebalance,
    Record,
}

/// A partition as an event names it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct EventPartition {
    pub(crate) topic: String,
    pub(crate) partition: i32,
    /// Of an error: the offset it is about.
    pub(crate) offset: i64,
    pub(crate) error: RDKafkaErrorCode,
}

impl EventPartition {
    pub(crate) fn topic_partition(&self) -> TopicPartition {
        TopicPartition { topic: self.topic.as_str().into(), partition: self.partition }
    }
}

/// Why nothing is known of a topic.
#[derive(Clone, Debug)]
pub(crate) enum NoFacts {
    Failed(String),
    /// The brokers do not let the user look at it.
    Forbidden,
    /// There is no such topic.
    Missing,
    /// The broker does not know the question.
    Unsupported,
}

/// What an answer says of a topic; `None` when it is not there.
pub(crate) fn topic_state(
    topic: &str,
    answer: Result<TopicState, NoFacts>,
) -> Result<Option<TopicState>, BrokerError> {
    match answer {
        Ok(state) => Ok(Some(state)),
        Err(NoFacts::Missing) => Ok(None),
        Err(NoFacts::Forbidden) => Err(BrokerError(Forbidden::reading("topic", topic).to_string())),
        Err(NoFacts::Unsupported) => Ok(Some(TopicState::UNKNOWN)),
        Err(NoFacts::Failed(why)) => {
            Err(BrokerError(format!("querying the topic {topic} failed: {why}")))
        }
    }
}

/// A topic, and what is known of it.
pub(crate) type TopicDescription = (String, Result<TopicState, NoFacts>);

/// Which records a question about the end of a log counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Isolation {
    /// Up to the first transaction that is open.
    Committed,
    /// All of them.
    Uncommitted,
}

/// A header inside its record.
pub(crate) struct HeaderView<'e> {
    pub(crate) name: &'e [u8],
    pub(crate) value: Option<&'e [u8]>,
    /// The name has no zero byte. Where there is no value, nothing shows whether it has.
    pub(crate) whole: bool,
}
