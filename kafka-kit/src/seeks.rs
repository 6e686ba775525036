//! Seeks, pauses, and reading again what librdkafka left out.
//!
//! A seek pauses its partition first and it stays paused until the pipeline resumes it: the side
//! thread hears of the confirmation before this thread does, and a record that arrived between the two
//! would be dropped, and be lost.

use std::time::{Duration, Instant};

use inbox_engine::internal::Rule;
use outbox_core::TopicPartition;
use rdkafka::{Offset, consumer::Consumer as _, types::RDKafkaErrorCode};

use crate::{
    broker::{BrokerError, BrokerEvent, Trouble},
    client::{list, partition_label},
    command::{Question, Reply, Seek, SeekResult},
    partition_state::{Phase, Seeking},
    poll_loop::PollLoop,
};

/// A seek that cannot succeed yet is tried again after this long: fetching begins in milliseconds.
const AGAIN_AFTER: Duration = Duration::from_millis(20);
/// A seek has this long; the pipeline then waits and asks anew.
const DEADLINE: Duration = Duration::from_secs(5);
/// Two seeks that want their leader epoch validated are this far apart, or the answer to the first is
/// taken for the answer to the second. (Unless a record shows that the first was answered.)
const VALIDATION: Duration = Duration::from_secs(1);
/// What nobody but this thread asks for is asked for again after this long.
const REREAD_AFTER: Duration = Duration::from_secs(1);
/// A partition that librdkafka stops again and again within one seek is reported.
const RESTARTS_MAX: u8 = 3;

/// A seek to be tried again.
#[derive(Debug)]
pub(crate) struct DueSeek {
    at: Instant,
    number: usize,
    ticket: u64,
}

impl PollLoop {
    /// What the pipeline asked for.
    pub(crate) fn seek(&mut self, topic_partition: &TopicPartition, seek: Seek, reply: Reply<()>) {
        let found = self.states.of(topic_partition).map(|(number, state)| {
            (number, matches!(state.phase, Phase::Idle | Phase::Reading(_) | Phase::Seeking(_)))
        });
        let Some((number, true)) = found else {
            let refusal = format!(
                "{} is no longer assigned to this member",
                partition_label(topic_partition)
            );
            // The pipeline may have ended meanwhile.
            return drop(reply.send(Err(BrokerError(refusal))));
        };
        if Rule::SeekConfirmed.on() {
            self.states.get_mut(number).hold_wanted = true;
        }
        self.begin(number, seek, Some(reply), Instant::now());
    }

    /// Part of the log was left out (a damaged batch, an error of the broker): it is asked for again
    /// and again, for what is passed over without a word would be lost.
    pub(crate) fn reread(&mut self, number: usize, code: RDKafkaErrorCode, why: &str) {
        let state = self.states.get_mut(number);
        let sentence =
            format!("{}: {why}; reading it again", partition_label(&state.topic_partition));
        if let Phase::Reading(generation) = state.phase {
            let at = state.note_unread(code, why, Instant::now());
            let seek = Seek { generation, to: state.next, leader_epoch: state.leader_epoch };
            self.begin(number, seek, None, at);
        }
        self.tell_trouble(code, &sentence);
    }

    /// The log does not have the offset: librdkafka stops fetching.
    pub(crate) fn offset_gone(&mut self, number: usize, why: String) {
        let state = self.states.get_mut(number);
        state.stopped = true;
        match &mut state.phase {
            Phase::Reading(generation) => {
                let (generation, partition) = (*generation, state.topic_partition.clone());
                state.phase = Phase::Idle;
                self.tell(BrokerEvent::OffsetGone { partition, generation, error: why });
            }
            Phase::Seeking(seeking) => seeking.gone = Some(why),
            Phase::Away | Phase::Idle | Phase::Lost | Phase::Revoked => {}
        }
    }

    fn begin(&mut self, number: usize, seek: Seek, reply: Option<Reply<()>>, at: Instant) {
        self.tickets += 1;
        let ticket = self.tickets;
        if Rule::SeekConfirmed.on() {
            self.pause_partition(number);
        }
        let state = self.states.get_mut(number);
        let seeking = Seeking { ticket, seek, reply, since: at, gone: None, restarts: 0 };
        // An earlier seek is answered by its dropped reply.
        (state.phase, state.begun) = (Phase::Seeking(seeking), Some(seek.generation));
        (state.next, state.leader_epoch) = (seek.to, seek.leader_epoch);
        self.due.push(DueSeek { at, number, ticket });
        self.seek_due(Instant::now());
    }

    /// Tries the seeks whose time has come.
    pub(crate) fn seek_due(&mut self, now: Instant) {
        let mut index = 0;
        while index < self.due.len() {
            if self.due[index].at > now {
                index += 1;
                continue;
            }
            let DueSeek { number, ticket, .. } = self.due.swap_remove(index);
            self.try_seek(number, ticket);
        }
    }

    fn try_seek(&mut self, number: usize, ticket: u64) {
        let state = self.states.get_mut(number);
        let Phase::Seeking(seeking) = &mut state.phase else { return };
        if seeking.ticket != ticket {
            return;
        }
        let now = Instant::now();
        let (topic_partition, to, epoch) =
            (state.topic_partition.clone(), seeking.seek.to, seeking.seek.leader_epoch);
        if let Some(free) = state.validating.map(|since| since + VALIDATION).filter(|at| *at > now)
        {
            return self.due.push(DueSeek { at: free, number, ticket });
        }
        // While it is read, a record could arrive between the confirmation and this thread's hearing of it.
        if Rule::SeekConfirmed.on() && !state.paused && !state.stopped {
            self.pause_partition(number);
            if !self.states.get(number).paused {
                return self.try_later(number, "it cannot be paused".to_owned());
            }
        }
        let state = self.states.get_mut(number);
        let Phase::Seeking(seeking) = &mut state.phase else { return };
        state.validating = epoch.known().then_some(now);
        if state.stopped {
            seeking.gone = None;
            seeking.restarts += 1;
            if let Err(error) = self.restart(number) {
                return self.try_later(number, error.0);
            }
        }
        self.ask_seeker(Question::Seek(topic_partition, ticket, to, epoch));
    }

    pub(crate) fn handle_seek_result(
        &mut self,
        topic_partition: &TopicPartition,
        ticket: u64,
        sought: SeekResult,
    ) {
        let Some((number, state)) = self.states.of(topic_partition) else { return };
        let Phase::Seeking(seeking) = &state.phase else { return };
        if seeking.ticket != ticket {
            return;
        }
        match sought {
            // The word that the offset is gone may be about the time before this seek.
            SeekResult::Done if seeking.gone.is_some() && seeking.restarts < RESTARTS_MAX => {
                self.try_later(number, "fetching has stopped".to_owned());
            }
            SeekResult::Done => self.confirm_seek(number),
            SeekResult::NotYet(why) => self.try_later(number, why),
            SeekResult::Refused(why) => self.fail_seek(number, &why),
        }
    }

    fn confirm_seek(&mut self, number: usize) {
        let state = self.states.get_mut(number);
        let Phase::Seeking(seeking) = std::mem::replace(&mut state.phase, Phase::Idle) else {
            return;
        };
        state.phase = Phase::Reading(seeking.seek.generation);
        self.restore_forwarding(number);
        if let Some(reply) = seeking.reply {
            // The pipeline may have ended meanwhile.
            let _ = reply.send(Ok(()));
        }
        if let Some(why) = seeking.gone {
            return self.offset_gone(number, why);
        }
        self.unpause_partition(number);
    }

    fn try_later(&mut self, number: usize, why: String) {
        let now = Instant::now();
        let state = self.states.get_mut(number);
        let Phase::Seeking(seeking) = &mut state.phase else { return };
        let ticket = seeking.ticket;
        let late = now.saturating_duration_since(seeking.since) > DEADLINE;
        match (late, seeking.reply.is_some()) {
            (false, _) => self.due.push(DueSeek { at: now + AGAIN_AFTER, number, ticket }),
            // Nobody but this thread would ever ask for it again.
            (true, false) => self.due.push(DueSeek { at: now + REREAD_AFTER, number, ticket }),
            (true, true) => self.fail_seek(number, &why),
        }
    }

    fn fail_seek(&mut self, number: usize, why: &str) {
        let state = self.states.get_mut(number);
        let Phase::Seeking(seeking) = std::mem::replace(&mut state.phase, Phase::Idle) else {
            return;
        };
        let sentence = format!(
            "{} cannot be read from {}: {why}",
            partition_label(&state.topic_partition),
            seeking.seek.to.0
        );
        match seeking.reply {
            // The pipeline may have ended meanwhile.
            Some(reply) => drop(reply.send(Err(BrokerError(sentence)))),
            None => {
                let (partition, generation) =
                    (state.topic_partition.clone(), seeking.seek.generation);
                self.tell(BrokerEvent::OffsetGone { partition, generation, error: sentence });
            }
        }
    }

    /// What the pipeline wants: to hold, or to go on.
    pub(crate) fn handle_pause(&mut self, topic_partition: &TopicPartition, hold: bool) {
        let Some((number, state)) = self.states.of(topic_partition) else { return };
        state.hold_wanted = hold;
        let reads = matches!(state.phase, Phase::Reading(_)) && !state.paused;
        match hold {
            true if reads && self.hold(number) => {}
            true => self.pause_partition(number),
            false => {
                self.resume(number);
                self.unpause_partition(number);
            }
        }
    }

    /// What was held flows behind the pause, so librdkafka throws it away.
    pub(crate) fn pause_partition(&mut self, number: usize) {
        let state = self.states.get(number);
        if state.ours() && !state.paused {
            let partitions = [state.topic_partition.clone()];
            if let Err(error) = self.pause(&partitions) {
                // The pipeline believes that nothing arrives: it is tried again in each round.
                self.tell_trouble(RDKafkaErrorCode::State, &error.0);
                if !self.unpaused.contains(&number) {
                    self.unpaused.push(number);
                }
            }
        }
        self.resume(number);
    }

    /// Pauses what could not be paused before and is still to be.
    pub(crate) fn pause_refused(&mut self) {
        for number in std::mem::take(&mut self.unpaused) {
            if self.states.get(number).hold_wanted {
                self.pause_partition(number);
            }
        }
    }

    /// Goes on only with what reads, what is paused, and what nobody holds.
    fn unpause_partition(&mut self, number: usize) {
        let state = self.states.get(number);
        if !state.paused || state.hold_wanted || !matches!(state.phase, Phase::Reading(_)) {
            return;
        }
        let topic_partition = state.topic_partition.clone();
        let resumed = list([&topic_partition], Offset::Invalid).and_then(|list| {
            self.client.resume(&list).map_err(|error| {
                BrokerError(format!(
                    "{} cannot be resumed: {error}",
                    partition_label(&topic_partition)
                ))
            })
        });
        match resumed {
            Ok(()) => {
                self.states.get_mut(number).paused = false;
                self.wake(topic_partition);
            }
            Err(error) => {
                self.tell(BrokerEvent::Trouble(Trouble { error: error.0, passing: false }));
            }
        }
    }

    /// Pausing throws away what was fetched and not yet polled; going on fetches it again.
    pub(crate) fn pause(&mut self, partitions: &[TopicPartition]) -> Result<(), BrokerError> {
        if partitions.is_empty() {
            return Ok(());
        }
        let list = list(partitions, Offset::Invalid)?;
        let refused = |error| {
            let partitions: Vec<String> = partitions.iter().map(partition_label).collect();
            BrokerError(format!("{} cannot be paused: {error}; retrying", partitions.join(", ")))
        };
        #[cfg(feature = "testing")]
        if let Some(left) = self.refused_pauses.checked_sub(1) {
            self.refused_pauses = left;
            let unknown = RDKafkaErrorCode::UnknownPartition;
            return Err(refused(rdkafka::error::KafkaError::PauseResume(unknown.to_string())));
        }
        self.client.pause(&list).map_err(refused)?;
        list.elements()
            .iter()
            .try_for_each(rdkafka::topic_partition_list::TopicPartitionListElem::error)
            .map_err(refused)?;
        for topic_partition in partitions {
            if let Some((_, state)) = self.states.of(topic_partition) {
                state.paused = true;
            }
        }
        Ok(())
    }
}
