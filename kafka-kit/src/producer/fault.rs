//! What errors of librdkafka mean for a batch.

use rdkafka::{error::KafkaError, types::RDKafkaErrorCode as Code};

use crate::forbidden::Forbidden;

/// The class of an error.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum SendFault {
    /// This very record cannot be sent.
    Record,
    /// Some record that travelled with it cannot be sent.
    Neighbour,
    /// Nobody knows; it may pass.
    Unknown,
    /// Another producer has come.
    Fenced,
    /// The user lacks a right without which nothing can be sent.
    Forbidden,
}

/// What a code of the class [`SendFault::Forbidden`] is about.
pub(super) fn forbidden(code: Code, transactional_id: Option<&str>) -> Forbidden {
    let (resource, name, operation) = match (code, transactional_id) {
        (Code::TransactionalIdAuthorizationFailed, Some(id)) => ("transactional_id", id, "WRITE"),
        _ => ("cluster", "kafka-cluster", "IDEMPOTENT_WRITE"),
    };
    Forbidden { resource, name: name.into(), operation }
}

/// The class of a code.
pub(super) fn classify(code: Code) -> SendFault {
    match code {
        Code::UnknownTopic
        | Code::UnknownTopicOrPartition
        | Code::UnknownPartition
        | Code::InvalidTopic
        | Code::TopicAuthorizationFailed => SendFault::Record,
        // The broker refuses the whole set of records that one of them was in.
        Code::MessageSizeTooLarge
        | Code::InvalidMessage
        | Code::InvalidMessageSize
        | Code::InvalidRecord
        | Code::InvalidTimestamp
        | Code::PolicyViolation
        | Code::UnsupportedForMessageFormat => SendFault::Neighbour,
        Code::Fenced | Code::ProducerFenced | Code::InvalidProducerEpoch => SendFault::Fenced,
        Code::TransactionalIdAuthorizationFailed | Code::ClusterAuthorizationFailed => {
            SendFault::Forbidden
        }
        _ => SendFault::Unknown,
    }
}

/// The code of an error, whatever it is about.
pub(super) fn code(error: &KafkaError) -> Code {
    match error {
        KafkaError::Transaction(said) => said.code(),
        other => other.rdkafka_error_code().unwrap_or(Code::Fail),
    }
}

/// What is wrong with a row whose record cannot be sent, and what to do.
pub(super) fn of_record(code: Code, topic: &str, bytes: usize) -> String {
    match code {
        Code::UnknownTopic | Code::UnknownTopicOrPartition => format!(
            "topic {topic} does not exist; create it, or correct `kafka.topic` or the row's own \
             topic, and retry the row"
        ),
        Code::TopicAuthorizationFailed => Forbidden::topic(topic).to_string(),
        Code::MessageSizeTooLarge | Code::InvalidMessageSize => format!(
            "the record of {bytes} bytes is larger than `kafka.message_bytes_max` or than topic \
             {topic} accepts (`max.message.bytes`); raise both and retry the row, or discard it"
        ),
        Code::UnknownPartition => format!(
            "topic {topic} has no partition with the number in the row; add partitions and retry \
             the row, or discard it"
        ),
        Code::InvalidTopic => {
            format!("{topic} is not a valid topic name; correct it and retry the row")
        }
        other => format!(
            "topic {topic} refused the record ({other}); check the topic's settings and retry the \
             row, or discard it"
        ),
    }
}

/// What is wrong with a record's timestamp: that of its event, or the time of sending.
pub(super) fn of_timestamp(topic: &str, event_ms: Option<i64>) -> String {
    let limits = "`message.timestamp.after.max.ms` (an hour by default) or `message.timestamp.before.max.ms`";
    match event_ms {
        Some(millis) => format!(
            "topic {topic} refused the record's timestamp, {millis} ms since 1970: it is the \
             event's own time, from the column that `debezium.table_field_event_timestamp` names, \
             and further from the broker's clock than {limits} of the topic allow; correct the \
             column, or set `message.timestamp.type` of the topic to LogAppendTime, and retry the \
             row, or discard it"
        ),
        None => format!(
            "topic {topic} refused the record's timestamp, the time of sending by this machine's \
             clock: it is further from the broker's clock than {limits} of the topic allow; \
             synchronize both clocks by NTP and retry the row"
        ),
    }
}
