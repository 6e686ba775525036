//! What the thread knows of each partition.

use std::{collections::HashMap, sync::Arc, time::Instant};

use inbox_engine::internal::{Generation, LeaderEpoch, NextOffset, Offset, Rule};
use outbox_core::TopicPartition;

use rdkafka::types::RDKafkaErrorCode;

use crate::{
    command::{Reply, Seek},
    health::Unread,
    unread::{self, FailedRead},
};

/// Where a partition stands between the group, librdkafka and the pipeline.
#[derive(Debug)]
pub(crate) enum Phase {
    /// Not ours.
    Away,
    /// Ours; whatever arrives is dropped until a seek is confirmed.
    Idle,
    /// The pipeline was told that it is lost; the group's own word is still to come.
    Lost,
    /// Arrivals go to the pipeline under this generation.
    Reading(Generation),
    /// The group waits for it to be let go; whatever arrives is dropped.
    Revoked,
    /// A seek is under way.
    Seeking(Seeking),
}

/// A seek under way.
#[derive(Debug)]
pub(crate) struct Seeking {
    /// Tells this seek's answers from those of an earlier one.
    pub(crate) ticket: u64,
    pub(crate) seek: Seek,
    /// `None` when the thread itself reads again.
    pub(crate) reply: Option<Reply<()>>,
    pub(crate) since: Instant,
    /// The log did not have the offset, perhaps that of the time before this seek.
    pub(crate) gone: Option<String>,
    pub(crate) restarts: u8,
}

/// Where what is fetched of a partition goes (see `hold`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Flow {
    /// librdkafka forwards it to the consumer's queue.
    ByItself,
    /// It does not do so any more, so it is done here.
    ByHand,
    /// It waits in the partition's own queue.
    Held,
}

/// One partition.
#[derive(Debug)]
pub(crate) struct PartitionState {
    pub(crate) topic_partition: TopicPartition,
    pub(crate) phase: Phase,
    /// The generation of the pipeline's last seek since the group gave it. Before the first one nothing of
    /// it can have been settled: what is committed then is of an assignment that was lost.
    pub(crate) begun: Option<Generation>,
    /// What librdkafka was told last. It keeps a pause through revocation and assignment, and going
    /// on with what is not paused makes it read older offsets again, so this is the only truth.
    pub(crate) paused: bool,
    /// Where what is fetched goes.
    pub(crate) flow: Flow,
    /// What the pipeline wants.
    pub(crate) hold_wanted: bool,
    /// librdkafka has given up on it (the log did not have the offset) and refuses to seek.
    pub(crate) stopped: bool,
    /// Since when the broker may be validating the leader epoch of a seek.
    pub(crate) validating: Option<Instant>,
    /// What was read in vain.
    pub(crate) failed_read: Option<FailedRead>,
    /// Nothing below was left out since the seek.
    pub(crate) next: NextOffset,
    /// The leader epoch of the record before `next`.
    pub(crate) leader_epoch: LeaderEpoch,
}

/// What to do with a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum RecordAction {
    Deliver,
    Drop,
    /// Its offset was used before for another record: the log was cut and written again.
    Rewritten,
}

impl PartitionState {
    /// Notes what could not be read; returns when it is to be read again.
    pub(crate) fn note_unread(
        &mut self,
        code: RDKafkaErrorCode,
        why: &str,
        now: Instant,
    ) -> Instant {
        unread::note(&mut self.failed_read, self.next, (code, why), now)
    }

    /// What is to be said of a batch that was read in vain for long enough.
    pub(crate) fn unread(&self, now: Instant) -> Option<Unread> {
        self.failed_read.as_ref()?.unread(self.next, now)
    }

    /// The generation that arrivals carry, if any may go out.
    pub(crate) fn accepting(&self) -> Option<Generation> {
        match &self.phase {
            Phase::Reading(generation) => Some(*generation),
            Phase::Seeking(seeking) if !Rule::SeekConfirmed.on() => Some(seeking.seek.generation),
            _ => None,
        }
    }

    pub(crate) fn ours(&self) -> bool {
        !matches!(self.phase, Phase::Away | Phase::Lost)
    }

    /// Whether what the pipeline has settled can be of this assignment.
    pub(crate) fn settles(&self) -> bool {
        self.ours() && self.begun.is_some()
    }

    /// Notes a record that arrived. Offsets only grow within a generation.
    pub(crate) fn advance(&mut self, offset: Offset, leader_epoch: LeaderEpoch) -> RecordAction {
        self.validating = None;
        if offset.0 >= self.next.0 {
            self.next = offset.next();
            self.leader_epoch = leader_epoch;
            return RecordAction::Deliver;
        }
        let later = leader_epoch.known() && self.leader_epoch.known();
        if later && leader_epoch > self.leader_epoch {
            RecordAction::Rewritten
        } else {
            RecordAction::Drop
        }
    }
}

/// All partitions this client has ever had, by their number here.
#[derive(Debug, Default)]
pub(crate) struct PartitionStates {
    all: Vec<PartitionState>,
    numbers: HashMap<Arc<str>, HashMap<i32, usize>>,
    last: usize,
}

impl PartitionStates {
    /// The number of a partition, which is made known.
    pub(crate) fn number(&mut self, topic: &str, partition: i32) -> usize {
        if let Some(number) = self.find(topic.as_bytes(), partition) {
            return number;
        }
        let topic: Arc<str> = match self.numbers.get_key_value(topic) {
            Some((known, _)) => Arc::clone(known),
            None => topic.into(),
        };
        let number = self.all.len();
        self.numbers.entry(Arc::clone(&topic)).or_default().insert(partition, number);
        self.all.push(PartitionState {
            topic_partition: TopicPartition { topic, partition },
            phase: Phase::Away,
            begun: None,
            paused: false,
            flow: Flow::ByItself,
            hold_wanted: true,
            stopped: false,
            validating: None,
            failed_read: None,
            next: NextOffset(0),
            leader_epoch: LeaderEpoch::UNKNOWN,
        });
        number
    }

    /// The number of a known partition. Records come in runs, so the last one asked for is tried
    /// first.
    pub(crate) fn find(&mut self, topic: &[u8], partition: i32) -> Option<usize> {
        if let Some(state) = self.all.get(self.last)
            && state.topic_partition.partition == partition
            && state.topic_partition.topic.as_bytes() == topic
        {
            return Some(self.last);
        }
        let topic = std::str::from_utf8(topic).ok()?;
        let number = *self.numbers.get(topic)?.get(&partition)?;
        self.last = number;
        Some(number)
    }

    pub(crate) fn of(
        &mut self,
        topic_partition: &TopicPartition,
    ) -> Option<(usize, &mut PartitionState)> {
        let number = self.find(topic_partition.topic.as_bytes(), topic_partition.partition)?;
        Some((number, &mut self.all[number]))
    }

    pub(crate) fn get(&self, number: usize) -> &PartitionState {
        &self.all[number]
    }

    pub(crate) fn get_mut(&mut self, number: usize) -> &mut PartitionState {
        &mut self.all[number]
    }

    /// The numbers of the partitions that are ours.
    pub(crate) fn ours(&self) -> Vec<usize> {
        (0..self.all.len()).filter(|number| self.all[*number].ours()).collect()
    }

    pub(crate) fn topic_partitions(&self, numbers: &[usize]) -> Vec<TopicPartition> {
        numbers.iter().map(|number| self.all[*number].topic_partition.clone()).collect()
    }
}
