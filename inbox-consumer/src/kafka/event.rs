//! What events of librdkafka are about.

use rdkafka::types::RDKafkaErrorCode;

use crate::pipeline::port::{BrokerError, TopicPartition, TopicState};

/// What an event is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
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
pub(super) struct Place {
    pub(super) topic: String,
    pub(super) partition: i32,
    /// Of an error: the offset it is about.
    pub(super) offset: i64,
    pub(super) error: RDKafkaErrorCode,
}

impl Place {
    pub(super) fn partition(&self) -> TopicPartition {
        TopicPartition { topic: self.topic.as_str().into(), partition: self.partition }
    }
}

/// Why nothing is known of a topic.
#[derive(Clone, Debug)]
pub(super) enum NoFacts {
    Failed(String),
    /// There is no such topic.
    Missing,
    /// The broker does not know the question.
    Unsupported,
}

/// What an answer says of a topic; `None` when it is not there.
pub(super) fn topic_state(
    topic: &str,
    answer: Result<TopicState, NoFacts>,
) -> Result<Option<TopicState>, BrokerError> {
    match answer {
        Ok(state) => Ok(Some(state)),
        Err(NoFacts::Missing) => Ok(None),
        Err(NoFacts::Unsupported) => Ok(Some(TopicState::UNKNOWN)),
        Err(NoFacts::Failed(why)) => {
            Err(BrokerError(format!("asking about the topic {topic} failed: {why}")))
        }
    }
}

/// A topic, and what is known of it.
pub(super) type Described = (String, Result<TopicState, NoFacts>);

/// Which records a question about the end of a log counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Isolation {
    /// Up to the first transaction that is open.
    Committed,
    /// All of them.
    Uncommitted,
}

/// A header inside its record.
pub(super) struct HeaderView<'e> {
    pub(super) name: &'e [u8],
    pub(super) value: Option<&'e [u8]>,
    /// The name has no zero byte. Where there is no value, nothing shows whether it has.
    pub(super) whole: bool,
}
