//! What the group gives and takes, answered incrementally.
//!
//! An assignment is answered at once, so that the group settles however long the database takes. The
//! partitions start at offset 0, paused before they start, so that nothing is fetched, and nothing of
//! them is delivered before a seek was confirmed. (Not at their end: while librdkafka asks a broker
//! where that is, a seek comes to nothing, for the late answer moves the partition there. Measured with
//! 2.12.1: records lost without a word.) A revocation is answered when the pipeline has let go; until
//! then librdkafka delivers nothing at all, and heartbeats go on.

use inbox_engine::internal::Rule;
use outbox_core::TopicPartition;
use rdkafka::{Offset, consumer::Consumer as _, types::RDKafkaErrorCode};

use crate::{
    broker::{BrokerError, BrokerEvent},
    client::{list, partition_label},
    event::EventPartition,
    partition_state::Phase,
    poll_loop::PollLoop,
};

/// A revocation that the group waits for.
#[derive(Debug)]
pub(crate) struct Revocation {
    /// What has to be unassigned, in one answer.
    pub(crate) partitions: Vec<TopicPartition>,
    /// What the pipeline has not let go yet.
    waiting: Vec<TopicPartition>,
}

impl PollLoop {
    pub(crate) fn handle_rebalance(
        &mut self,
        code: RDKafkaErrorCode,
        partitions: &[EventPartition],
    ) {
        let numbers: Vec<usize> =
            partitions.iter().map(|p| self.states.number(&p.topic, p.partition)).collect();
        match code {
            RDKafkaErrorCode::AssignPartitions => self.handle_assigned(&numbers),
            RDKafkaErrorCode::RevokePartitions => self.handle_revoked(&numbers),
            code => self.tell_trouble(code, "a rebalance failed"),
        }
    }

    fn handle_assigned(&mut self, numbers: &[usize]) {
        let taken = self.refuse_unconfigured(numbers);
        let numbers = &taken[..];
        let partitions = self.states.topic_partitions(numbers);
        // An empty assignment is ordinary, and has to be answered too.
        let assigned = self.assign(&partitions);
        for number in numbers {
            let state = self.states.get_mut(*number);
            (state.phase, state.begun) = (Phase::Idle, None);
            (state.hold_wanted, state.stopped, state.failed_read) = (true, false, None);
        }
        if let Err(error) = assigned {
            return self.tell_fatal(error.0);
        }
        self.stats.joined(true);
        self.stats.note_allowed(None);
        if !partitions.is_empty() {
            self.tell(BrokerEvent::Assigned(partitions));
        }
    }

    fn handle_revoked(&mut self, numbers: &[usize]) {
        let taken = self.forget_refused(numbers);
        let numbers = &taken[..];
        let partitions = self.states.topic_partitions(numbers);
        // A client that overslept `max.poll.interval` was told so before; librdkafka does not always
        // call that revocation a loss.
        let told = |number: &usize| matches!(self.states.get(*number).phase, Phase::Lost);
        let lost = self.client_lost() || numbers.iter().any(told);
        if lost {
            // Whoever is out has nothing, and is not ready with that.
            self.stats.joined(false);
        }
        if numbers.is_empty() || (lost && Rule::LostCommitsNothing.on()) {
            let fresh: Vec<usize> = numbers.iter().copied().filter(|n| !told(n)).collect();
            self.unassign(&partitions);
            return self.lose(&fresh);
        }
        for number in numbers {
            self.states.get_mut(*number).phase = Phase::Revoked;
        }
        self.revocation =
            Some(Revocation { partitions: partitions.clone(), waiting: partitions.clone() });
        self.tell(BrokerEvent::Revoked(partitions));
    }

    /// The pipeline has let go of these; the group is answered when it has let go of all.
    pub(crate) fn ack_revocation(&mut self, partitions: &[TopicPartition]) {
        let Some(revocation) = &mut self.revocation else { return };
        revocation.waiting.retain(|topic_partition| !partitions.contains(topic_partition));
        if revocation.waiting.is_empty() {
            let partitions = std::mem::take(&mut revocation.partitions);
            self.revocation = None;
            self.unassign(&partitions);
        }
    }

    /// While the group waits for partitions, it may lose patience.
    pub(crate) fn notice_loss(&mut self) {
        if self.revocation.is_some() && self.client_lost() && Rule::LostCommitsNothing.on() {
            self.lose_revoked();
        }
    }

    fn lose_revoked(&mut self) {
        let Some(revocation) = self.revocation.take() else { return };
        let numbers: Vec<usize> = revocation
            .partitions
            .iter()
            .filter_map(|topic_partition| self.states.of(topic_partition).map(|(number, _)| number))
            .collect();
        self.stats.joined(false);
        self.unassign(&revocation.partitions);
        self.lose(&numbers);
    }

    /// The member overslept: everything is lost, though the group's own word is still to come.
    pub(crate) fn lose_all(&mut self, why: &str) {
        self.tell_trouble(RDKafkaErrorCode::PollExceeded, why);
        self.stats.joined(false);
        if !Rule::LostCommitsNothing.on() {
            return;
        }
        self.lose_revoked();
        let ours = self.states.ours();
        for number in &ours {
            self.states.get_mut(*number).phase = Phase::Lost;
        }
        self.tell_lost(&ours);
    }

    fn lose(&mut self, numbers: &[usize]) {
        for number in numbers {
            self.states.get_mut(*number).phase = Phase::Away;
        }
        self.tell_lost(numbers);
    }

    fn tell_lost(&self, numbers: &[usize]) {
        if !numbers.is_empty() {
            self.tell(BrokerEvent::Lost(self.states.topic_partitions(numbers)));
        }
    }

    pub(crate) fn client_lost(&self) -> bool {
        self.client.assignment_lost()
    }

    /// After a poll the client knows what the group last said.
    pub(crate) fn answer_confirms(&mut self) {
        if self.confirms.is_empty() {
            return;
        }
        let lost = self.client_lost();
        for (topic_partition, reply) in std::mem::take(&mut self.confirms) {
            let state = self.states.of(&topic_partition);
            let ours = state.is_some_and(|(_, state)| {
                matches!(state.phase, Phase::Idle | Phase::Reading(_) | Phase::Seeking(_))
            });
            // The pipeline may have ended meanwhile.
            let _ = reply.send(ours && !lost);
        }
    }

    /// Takes partitions, paused. Their state is the caller's to set.
    pub(crate) fn assign(&mut self, partitions: &[TopicPartition]) -> Result<(), BrokerError> {
        let list = list(partitions, Offset::Offset(0))?;
        // A partition that the client has never met cannot be paused yet.
        let paused = self.pause(partitions);
        self.client.incremental_assign(&list).map_err(|error| {
            BrokerError(format!("librdkafka refused the assigned partitions: {error}"))
        })?;
        paused.or_else(|_| self.pause(partitions))
    }

    /// Gives partitions back. A refusal leaves the group waiting for ever, so it is the end.
    pub(crate) fn unassign(&mut self, partitions: &[TopicPartition]) {
        for topic_partition in partitions {
            if let Some((number, state)) = self.states.of(topic_partition) {
                state.phase = Phase::Away;
                self.resume(number);
            }
        }
        let answered = list(partitions, Offset::Invalid).and_then(|list| {
            self.client.incremental_unassign(&list).map_err(|error| {
                BrokerError(format!("librdkafka refused to release partitions: {error}"))
            })
        });
        if let Err(error) = answered {
            self.tell_fatal(error.0);
        }
    }

    /// Starts a partition anew that librdkafka has stopped, as it refuses to seek in one.
    pub(crate) fn restart(&mut self, number: usize) -> Result<(), BrokerError> {
        let topic_partition = self.states.get(number).topic_partition.clone();
        if self.revocation.is_some() {
            // Unassigning now would be taken for the answer to the revocation.
            return Err(BrokerError(format!(
                "{} cannot be restarted while a rebalance is in progress; try again",
                partition_label(&topic_partition)
            )));
        }
        let partitions = [topic_partition];
        let given_back = list(&partitions, Offset::Invalid)?;
        self.client.incremental_unassign(&given_back).map_err(|error| {
            BrokerError(format!("{} cannot be restarted: {error}", partition_label(&partitions[0])))
        })?;
        self.assign(&partitions)?;
        self.states.get_mut(number).stopped = false;
        Ok(())
    }
}
