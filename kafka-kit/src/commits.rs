//! Committing offsets: asked for in one round, answered as an event of a later one.

use inbox_engine::internal::{LeaderEpoch, NextOffset, Rule};
use outbox_core::TopicPartition;
use rdkafka::types::RDKafkaErrorCode;

use crate::{
    broker::BrokerError,
    client::{list_marked, partition_label},
    command::Reply,
    event::EventPartition,
    ffi::Event,
    poll_loop::PollLoop,
};

/// A commit that was asked for.
#[derive(Debug)]
pub(crate) struct OpenCommit {
    /// Partitions that were not ours: nothing of them was sent.
    foreign: Vec<TopicPartition>,
    reply: Reply<Vec<TopicPartition>>,
}

impl PollLoop {
    /// The broker would take offsets of partitions that are not ours, or that were lost and came back
    /// meanwhile, so they are refused here. The others are committed.
    pub(crate) fn commit(
        &mut self,
        offsets: Vec<(TopicPartition, NextOffset, LeaderEpoch)>,
        reply: Reply<Vec<TopicPartition>>,
    ) {
        let (own, foreign): (Vec<_>, Vec<_>) =
            offsets.into_iter().partition(|(topic_partition, ..)| {
                let settles =
                    self.states.of(topic_partition).is_some_and(|(_, state)| state.settles());
                settles || !Rule::LostCommitsNothing.on()
            });
        let foreign: Vec<TopicPartition> =
            foreign.into_iter().map(|(topic_partition, ..)| topic_partition).collect();
        let submitted = if own.is_empty() {
            let names: Vec<String> = foreign.iter().map(partition_label).collect();
            Err(BrokerError(format!(
                "offsets were not committed: the assignment of {} that they belong to has ended",
                names.join(", ")
            )))
        } else {
            self.submit(&own)
        };
        match submitted {
            Ok(ticket) => drop(self.commits.insert(ticket, OpenCommit { foreign, reply })),
            // The pipeline may have ended meanwhile.
            Err(error) => drop(reply.send(Err(error))),
        }
    }

    fn submit(
        &mut self,
        offsets: &[(TopicPartition, NextOffset, LeaderEpoch)],
    ) -> Result<usize, BrokerError> {
        let offsets =
            offsets.iter().map(|(topic_partition, next, epoch)| (topic_partition, *next, *epoch));
        let list = list_marked(offsets, &self.mark)?;
        let ticket = self.next_ticket();
        self.queue
            .commit(&list, ticket)
            .map_err(|code| BrokerError(format!("offsets cannot be committed to Kafka: {code}")))?;
        Ok(ticket)
    }

    /// What the broker refuses of single partitions it says of these.
    pub(crate) fn handle_committed(&mut self, event: &Event<'_>) {
        let Some(OpenCommit { foreign, reply }) = self.commits.remove(&event.ticket()) else {
            return;
        };
        let answered = event.partitions();
        self.notice_forbidden(event.code(), answered.first());
        if event.code() == RDKafkaErrorCode::NoError {
            self.stats.note_allowed(None);
        }
        let refused =
            answered.iter().filter(|partition| partition.error != RDKafkaErrorCode::NoError);
        let first = refused.clone().next().map(|partition| partition.error);
        let refused: Vec<TopicPartition> =
            refused.map(EventPartition::topic_partition).chain(foreign).collect();
        let all = first.filter(|_| {
            answered.iter().all(|partition| partition.error != RDKafkaErrorCode::NoError)
        });
        // librdkafka says the first partition's error of the whole, too, when others were taken.
        let whole = match event.code() {
            RDKafkaErrorCode::NoError => all,
            code => Some(code).filter(|_| first.is_none() || all.is_some()),
        };
        let answer = match whole {
            None => Ok(refused),
            Some(code) => Err(BrokerError(format!("committing offsets to Kafka failed: {code}"))),
        };
        // The pipeline may have ended meanwhile.
        let _ = reply.send(answer);
    }
}
