//! Calls of librdkafka that wait for a broker, on side threads.
//!
//! The thread that owns the consumer must answer the group every few milliseconds, so it never makes
//! a call that waits for the network. Two side threads do, each with its own list of questions: one
//! for seeks, which take microseconds, and one for the group's offsets, which may take until their time-out
//! when the coordinator is gone; whoever asks meanwhile is answered by the next call, all together. Neither
//! polls; librdkafka allows such calls from any thread. Committing, and what else is asked of brokers, needs
//! none: the answer arrives as an event (`questions`).

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use inbox_engine::internal::{LeaderEpoch, NextOffset};
use outbox_core::{TopicPartition, internal::CommitMark};
use rdkafka::{
    Offset, TopicPartitionList,
    consumer::Consumer as _,
    error::{KafkaError, RDKafkaErrorCode},
};

use crate::{
    broker::{BrokerError, Committed},
    client::{Client, list, list_at, partition_label},
    command::{Command, Mailbox, Question, Reply, SeekResult},
    ffi,
    forbidden::Forbidden,
    group_view,
    questions::ASK_TIMEOUT,
};

/// How long one try of a seek may wait for librdkafka's own main thread.
const SEEK_TIMEOUT: Duration = Duration::from_secs(2);

/// A side thread. Ends when every sender of its questions is gone.
#[derive(Debug)]
pub(crate) struct QueryThread {
    questions: Option<mpsc::Sender<Question>>,
    thread: Option<JoinHandle<()>>,
}

impl QueryThread {
    pub(crate) fn start(
        name: &str,
        group: String,
        client: Arc<Client>,
        closing: Arc<AtomicBool>,
        mailbox: Arc<Mailbox>,
    ) -> std::io::Result<Self> {
        // Unbounded, yet bounded in effect: a few questions per partition.
        let (questions, receiver) = mpsc::channel();
        let thread = thread::Builder::new().name(name.to_owned()).spawn(move || {
            while let Ok(question) = receiver.recv() {
                if closing.load(Ordering::SeqCst) {
                    break;
                }
                // What has been asked meanwhile.
                let all = std::iter::once(question).chain(receiver.try_iter());
                answer(&client, &group, all, &mailbox);
            }
        })?;
        Ok(Self { questions: Some(questions), thread: Some(thread) })
    }

    pub(crate) fn ask(&self, question: Question) {
        // A side thread that has ended was told to: the answer is no longer waited for.
        let _ = self.questions.as_ref().map(|questions| questions.send(question));
    }

    /// Waits for the open question.
    pub(crate) fn end(&mut self) {
        self.questions = None;
        if let Some(thread) = self.thread.take() {
            // It panics only if this file has a fault; there is nothing to be saved then.
            let _ = thread.join();
        }
    }
}

fn answer(
    client: &Client,
    group: &str,
    questions: impl Iterator<Item = Question>,
    mailbox: &Mailbox,
) {
    let mut asked = Vec::new();
    for question in questions {
        match question {
            // An answer that nobody waits for any more is not asked for.
            Question::Committed(topic_partition, reply) if !reply.is_closed() => {
                asked.push((topic_partition, reply));
            }
            Question::Committed(..) => {}
            Question::Group => {
                mailbox.send(Command::Group(group_view::describe(client, group, ASK_TIMEOUT)));
            }
            Question::Seek(topic_partition, ticket, to, leader_epoch) => {
                let sought = seek(client, &topic_partition, to, leader_epoch);
                mailbox.send(Command::SeekResult(topic_partition, ticket, sought));
            }
        }
    }
    if !asked.is_empty() {
        answer_committed(client, group, asked, mailbox);
    }
}

/// Asks for the committed offsets of all these partitions in one call.
fn answer_committed(
    client: &Client,
    group: &str,
    asked: Vec<(TopicPartition, Reply<Option<Committed>>)>,
    mailbox: &Mailbox,
) {
    let answer = list(asked.iter().map(|(topic_partition, _)| topic_partition), Offset::Invalid)
        .and_then(|list| {
            let answer = client.committed_offsets(list, ASK_TIMEOUT);
            let code = answer
                .as_ref()
                .map_or_else(KafkaError::rdkafka_error_code, |_| Some(RDKafkaErrorCode::NoError));
            mailbox.send(Command::GroupAnswer(code.unwrap_or(RDKafkaErrorCode::Fail)));
            answer.map_err(|error| match code {
                Some(RDKafkaErrorCode::GroupAuthorizationFailed) => {
                    BrokerError(Forbidden::reading("group", group).to_string())
                }
                _ => BrokerError(error.to_string()),
            })
        });
    for (topic_partition, reply) in asked {
        let failed = |why: String| {
            BrokerError(format!(
                "querying the committed offset of {} failed: {why}",
                partition_label(&topic_partition)
            ))
        };
        let one = match &answer {
            Ok(list) => one_of(list, &topic_partition).map_err(|error| failed(error.to_string())),
            Err(error) => Err(failed(error.0.clone())),
        };
        // Whoever asked may have ended meanwhile.
        let _ = reply.send(one);
    }
}

/// What the group has committed of one partition, in an answer.
fn one_of(
    list: &TopicPartitionList,
    topic_partition: &TopicPartition,
) -> Result<Option<Committed>, KafkaError> {
    let found = list.find_partition(&topic_partition.topic, topic_partition.partition);
    let element = found.ok_or(KafkaError::NoMessageReceived)?;
    element.error()?;
    Ok(match element.offset() {
        Offset::Offset(next) => {
            let mark = CommitMark::read(&ffi::metadata(
                list,
                &topic_partition.topic,
                topic_partition.partition,
            ));
            Some(Committed { next: NextOffset(next), mark })
        }
        _ => None,
    })
}

/// One try. Confirmed means: librdkafka has thrown away what it had fetched, and fetches from `to`,
/// after validating the leader epoch.
fn seek(
    client: &Client,
    topic_partition: &TopicPartition,
    to: NextOffset,
    epoch: LeaderEpoch,
) -> SeekResult {
    let asked = match list_at([(topic_partition, to, epoch)]) {
        Ok(list) => list,
        Err(error) => return SeekResult::Refused(error.0),
    };
    let answer = match client.seek_partitions(asked, SEEK_TIMEOUT) {
        Ok(list) => list,
        Err(error) => return SeekResult::NotYet(error.to_string()),
    };
    match only(&answer) {
        Ok(_) => SeekResult::Done,
        Err(error) if may_pass(&error) => SeekResult::NotYet(error.to_string()),
        Err(error) => SeekResult::Refused(error.to_string()),
    }
}

/// The one element of an answer.
fn only(list: &TopicPartitionList) -> Result<Offset, KafkaError> {
    let element = list.elements().into_iter().next().ok_or(KafkaError::NoMessageReceived)?;
    element.error()?;
    Ok(element.offset())
}

/// Whether a seek may succeed in a moment: fetching has not begun or is being stopped, or the
/// partition is not known yet.
fn may_pass(error: &KafkaError) -> bool {
    matches!(
        error.rdkafka_error_code(),
        Some(
            RDKafkaErrorCode::State
                | RDKafkaErrorCode::PreviousInProgress
                | RDKafkaErrorCode::InProgress
                | RDKafkaErrorCode::OperationTimedOut
                | RDKafkaErrorCode::UnknownPartition
        )
    )
}
