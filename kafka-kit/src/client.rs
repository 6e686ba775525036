//! The client, its callbacks, and lists for its calls.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use inbox_engine::internal::{LeaderEpoch, NextOffset};
use outbox_core::TopicPartition;
use rdkafka::{
    ClientContext, Offset, TopicPartitionList,
    config::RDKafkaLogLevel,
    consumer::{BaseConsumer, Consumer as _, ConsumerContext},
    error::KafkaError,
    types::RDKafkaRespErr,
};
use service_kit::throttle::Occurrences;

use crate::{broker::BrokerError, ffi, trouble::ONCE};

/// The consumer of librdkafka with our callbacks.
pub(crate) type Client = BaseConsumer<Callbacks>;

/// What librdkafka calls. Events are polled and handled by the thread itself, so that errors keep
/// the partition they are about; only while the client is being dropped does the wrapper poll, and
/// then every revocation has to be answered at once, or the drop would wait for ever.
#[derive(Debug, Default)]
pub(crate) struct Callbacks {
    pub(crate) closing: Arc<AtomicBool>,
}

impl ClientContext for Callbacks {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, line: &str) {
        // The variants are numbered as syslog does.
        let level = i32::try_from(level as u32).unwrap_or(i32::MAX);
        log(level, facility, line, ONCE);
    }

    fn error(&self, error: KafkaError, reason: &str) {
        tracing::debug!(target: "librdkafka", %error, reason, "the client is closing");
    }
}

impl ConsumerContext for Callbacks {
    fn rebalance(
        &self,
        client: &BaseConsumer<Self>,
        event: RDKafkaRespErr,
        list: &mut TopicPartitionList,
    ) {
        debug_assert!(self.closing.load(Ordering::SeqCst), "only a closing client polls itself");
        let answer = match event {
            RDKafkaRespErr::RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS => client.incremental_assign(list),
            _ => client.incremental_unassign(list),
        };
        if let Err(error) = answer {
            tracing::debug!(target: "librdkafka", %error, "a rebalance while closing");
        }
    }
}

/// Passes a line of librdkafka's on, that has come so often and for so long; `level` counts as syslog does.
pub(crate) fn log(level: i32, facility: &str, line: &str, occurrences: Occurrences) {
    let Occurrences { times, seconds } = occurrences;
    match level {
        ..=3 => tracing::error!(target: "librdkafka", facility, times, seconds, "{line}"),
        4 => tracing::warn!(target: "librdkafka", facility, times, seconds, "{line}"),
        5 => tracing::info!(target: "librdkafka", facility, times, seconds, "{line}"),
        _ => tracing::debug!(target: "librdkafka", facility, "{line}"),
    }
}

/// A list of partitions, all with one offset. Lists are made for a call and dropped after it: one
/// that outlives its client keeps librdkafka's threads alive.
pub(crate) fn list<'p>(
    partitions: impl IntoIterator<Item = &'p TopicPartition>,
    offset: Offset,
) -> Result<TopicPartitionList, BrokerError> {
    let mut list = TopicPartitionList::new();
    for topic_partition in partitions {
        add(&mut list, topic_partition, offset)?;
    }
    Ok(list)
}

/// A list of next offsets with their leader epochs.
pub(crate) fn list_at<'p>(
    offsets: impl IntoIterator<Item = (&'p TopicPartition, NextOffset, LeaderEpoch)>,
) -> Result<TopicPartitionList, BrokerError> {
    let mut list = TopicPartitionList::new();
    let mut epochs = Vec::new();
    for (topic_partition, next, epoch) in offsets {
        add(&mut list, topic_partition, Offset::Offset(next.0))?;
        epochs.push(epoch.0);
    }
    ffi::set_leader_epochs(&mut list, &epochs);
    Ok(list)
}

/// The same with metadata, for a commit.
pub(crate) fn list_marked<'p>(
    offsets: impl IntoIterator<Item = (&'p TopicPartition, NextOffset, LeaderEpoch)>,
    metadata: &str,
) -> Result<TopicPartitionList, BrokerError> {
    let list = list_at(offsets)?;
    if !metadata.is_empty() {
        list.elements().iter_mut().for_each(|element| element.set_metadata(metadata));
    }
    Ok(list)
}

fn add(
    list: &mut TopicPartitionList,
    topic_partition: &TopicPartition,
    offset: Offset,
) -> Result<(), BrokerError> {
    list.add_partition_offset(&topic_partition.topic, topic_partition.partition, offset).map_err(
        |error| {
            BrokerError(format!(
                "{}: {offset:?} is no offset: {error}",
                partition_label(topic_partition)
            ))
        },
    )
}

/// A partition as people write it.
pub(crate) fn partition_label(topic_partition: &TopicPartition) -> String {
    format!("{}/{}", topic_partition.topic, topic_partition.partition)
}
