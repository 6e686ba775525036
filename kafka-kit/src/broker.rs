//! What can be asked of Kafka, and what it tells.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use futures::future::BoxFuture;
use inbox_engine::internal::{Generation, LeaderEpoch, LogRange, NextOffset, Offset};
use outbox_core::{Header, Record, TopicPartition, internal::CommitMark};

pub use crate::topic_state::TopicState;

use crate::{excerpt::Flaw, health::BrokerHealth};

/// One record as it arrived: everything owned, nothing of librdkafka's kept.
#[derive(Clone, Debug)]
pub struct Arrival {
    /// Its offset.
    pub offset: Offset,
    /// The leader epoch it was written under, or unknown.
    pub leader_epoch: LeaderEpoch,
    /// Key, headers, payload and timestamp.
    pub record: Record,
    /// Why that is not all of it, and cannot be read as an event.
    pub flaw: Option<Box<Flaw>>,
}

impl Arrival {
    /// What it takes in memory, besides structures that every record has.
    pub fn weight(&self) -> usize {
        self.record.size() + self.record.headers.len() * size_of::<Header>()
    }
}

/// What was sent to the pipeline and has not been taken out of its queue yet: who sends counts it, and
/// waits while it is much. The pipeline's own limits begin behind the queue.
#[derive(Debug, Default)]
pub struct ByteGuard(Option<(Arc<AtomicUsize>, usize)>);

impl ByteGuard {
    /// Counts so many bytes until it is dropped.
    pub(crate) fn of(bytes: usize, all: &Arc<AtomicUsize>) -> Self {
        all.fetch_add(bytes, Relaxed);
        Self(Some((Arc::clone(all), bytes)))
    }
}

impl Drop for ByteGuard {
    fn drop(&mut self) {
        if let Some((all, bytes)) = &self.0 {
            all.fetch_sub(*bytes, Relaxed);
        }
    }
}

/// What the thread that owns the consumer tells. One message per poll round, never per record.
#[derive(Debug)]
pub enum BrokerEvent {
    /// Assigned; answered already, and paused until `resume`. Every arrival before a confirmed seek
    /// is dropped by the thread.
    Assigned(Vec<TopicPartition>),
    /// Revoked; the group waits for [`Broker::ack_revocation`] with exactly these partitions.
    Revoked(Vec<TopicPartition>),
    /// Lost; answered already.
    Lost(Vec<TopicPartition>),
    /// Records of one partition in offset order, under the generation of the last confirmed seek.
    Arrived {
        /// Which partition.
        partition: TopicPartition,
        /// The generation that [`Broker::seek`] was given.
        generation: Generation,
        /// The records.
        arrivals: Vec<Arrival>,
        /// What they weigh until they are taken out of here.
        guard: ByteGuard,
    },
    /// The partition was read to its end: nothing below `position` is still to come, be it that
    /// offsets are missing (compaction, transaction markers).
    Position {
        /// Which partition.
        partition: TopicPartition,
        /// The generation that [`Broker::seek`] was given.
        generation: Generation,
        /// The next offset that a record can have.
        position: NextOffset,
    },
    /// The log does not have the offset that was asked for (truncated, or cleaned by retention).
    OffsetGone {
        /// Which partition.
        partition: TopicPartition,
        /// The generation that [`Broker::seek`] was given.
        generation: Generation,
        /// What the client said.
        error: String,
    },
    /// A fault that the client retries: brokers down, authentication.
    Trouble(Trouble),
    /// A broker has answered.
    Answered,
    /// The client is dead and has to be built anew (fenced instance id, fatal error).
    Fatal(String),
}

/// What the client retries.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Trouble {
    /// What, in a sentence.
    pub error: String,
    /// Whether it is over when a broker answers.
    pub passing: bool,
}

/// An error of the broker port: a sentence for people.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{0}")]
pub struct BrokerError(pub String);

/// An offset of the group.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Committed {
    /// The next offset.
    pub next: NextOffset,
    /// Whose it is, if it is a consumer's of this framework.
    pub mark: Option<CommitMark>,
}

/// The thread that owns the consumer, seen from the pipeline. Every call is sent to that thread;
/// none blocks the caller.
pub trait Broker: Send + Sync + 'static {
    /// The group's committed offset.
    fn committed(
        &self,
        partition: &TopicPartition,
    ) -> BoxFuture<'static, Result<Option<Committed>, BrokerError>>;
    /// What the metadata of every commit from now on says.
    fn mark(&self, mark: &CommitMark);
    /// Where the log begins and ends.
    fn log_range(
        &self,
        partition: &TopicPartition,
    ) -> BoxFuture<'static, Result<LogRange, BrokerError>>;
    /// What the brokers know of a topic; `None` when it is not there.
    fn topic(&self, topic: &str) -> BoxFuture<'static, Result<Option<TopicState>, BrokerError>>;
    /// One record of a partition, read once more beside all others; `None` when its log does not have it.
    fn record(
        &self,
        partition: &TopicPartition,
        offset: Offset,
    ) -> BoxFuture<'static, Result<Option<Arrival>, BrokerError>>;
    /// Reads on from `to`. Resolves only when the client has confirmed it; from then on arrivals
    /// carry `generation`. An error leaves the partition without deliveries.
    fn seek(
        &self,
        partition: &TopicPartition,
        generation: Generation,
        to: NextOffset,
        leader_epoch: LeaderEpoch,
    ) -> BoxFuture<'static, Result<(), BrokerError>>;
    /// Stops (`true`) or goes on (`false`) fetching.
    fn pause(&self, partition: &TopicPartition, paused: bool);
    /// Commits next offsets; resolves with the partitions of them that were refused, or why all were. One at a
    /// time is the caller's duty.
    fn commit(
        &self,
        offsets: Vec<(TopicPartition, NextOffset, LeaderEpoch)>,
    ) -> BoxFuture<'static, Result<Vec<TopicPartition>, BrokerError>>;
    /// Answers a revocation: the group may give these partitions to others.
    fn ack_revocation(&self, partitions: Vec<TopicPartition>);
    /// Answers whether the partition is still assigned, after one more poll of the group.
    fn confirm(&self, partition: &TopicPartition) -> BoxFuture<'static, bool>;
    /// What can be seen without asking the thread.
    fn health(&self) -> BrokerHealth;
    /// Leaves the group and ends the thread; resolves when it has ended or the deadline has passed.
    fn close(&self, deadline: Duration) -> BoxFuture<'static, Result<(), BrokerError>>;
}
