//! Calls of librdkafka that wait for a broker, on side threads.
//!
//! The thread that owns the consumer must answer the group every few milliseconds, so it never makes
//! a call that waits for the network. Three side threads do, each with its own list of questions: one
//! for seeks, which take microseconds, one for questions to the brokers, which may take until their
//! time-out when a broker is gone, and one that wakes the client's own threads. None polls; librdkafka allows such calls from any thread.
//! Committing does not need one: its answer arrives as an event.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use inbox_engine::{LeaderEpoch, NextOffset};
use rdkafka::{
    Offset, TopicPartitionList,
    consumer::Consumer as _,
    error::{KafkaError, RDKafkaErrorCode},
};

use super::{
    client::{Client, list, list_at, named},
    command::{Command, Mailbox, Question, Sought},
    ffi,
};
use crate::pipeline::port::{BrokerError, Committed, LogRange, Mark, TopicPartition};

/// How long a question to the brokers may take; the pipeline asks again.
const ASK_TIMEOUT: Duration = Duration::from_secs(5);
/// Ids are asked for once per take-over, and a broker that does not know the question may be silent.
const TOPIC_ID_TIMEOUT: Duration = Duration::from_secs(1);
/// How long a broker may take to answer what is asked only to wake a thread.
const WAKE_TIMEOUT: Duration = Duration::from_secs(1);
/// How long one try of a seek may wait for librdkafka's own main thread.
const SEEK_TIMEOUT: Duration = Duration::from_secs(2);

/// A side thread. Ends when every sender of its questions is gone.
#[derive(Debug)]
pub(super) struct Asker {
    questions: Option<mpsc::Sender<Question>>,
    thread: Option<JoinHandle<()>>,
}

impl Asker {
    pub(super) fn start(
        name: &str,
        client: Arc<Client>,
        closing: Arc<AtomicBool>,
        mailbox: Arc<Mailbox>,
    ) -> std::io::Result<Self> {
        // Unbounded, yet bounded in effect: a few questions per partition.
        let (questions, receiver) = mpsc::channel();
        let thread = thread::Builder::new().name(name.to_owned()).spawn(move || {
            let mut no_ids = false;
            for question in receiver {
                if closing.load(Ordering::SeqCst) {
                    break;
                }
                answer(&client, question, &mailbox, &mut no_ids);
            }
        })?;
        Ok(Self { questions: Some(questions), thread: Some(thread) })
    }

    pub(super) fn ask(&self, question: Question) {
        // A side thread that has ended was told to: the answer is no longer waited for.
        let _ = self.questions.as_ref().map(|questions| questions.send(question));
    }

    /// Waits for the open question.
    pub(super) fn end(&mut self) {
        self.questions = None;
        if let Some(thread) = self.thread.take() {
            // It panics only if this file has a fault; there is nothing to be saved then.
            let _ = thread.join();
        }
    }
}

fn answer(client: &Client, question: Question, mailbox: &Mailbox, no_ids: &mut bool) {
    // An answer that nobody waits for any more is dropped.
    match question {
        Question::Wake(place) => wake(client, &place),
        Question::Committed(place, reply) => drop(reply.send(committed(client, &place))),
        Question::LogRange(place, reply) => drop(reply.send(log_range(client, &place))),
        Question::TopicId(topic, reply) => drop(reply.send(topic_id(client, &topic, no_ids))),
        Question::Seek(place, ticket, to, leader_epoch) => {
            let sought = seek(client, &place, to, leader_epoch);
            mailbox.send(Command::Sought(place, ticket, sought));
        }
    }
}

/// Going on with a paused partition does not wake the client's thread of its broker: while nothing else is
/// fetched there, that thread looks once a second (librdkafka 2.12). A question to the broker passes
/// through it, and so does the answer. Whether it is answered does not matter.
fn wake(client: &Client, place: &TopicPartition) {
    drop(client.fetch_watermarks(&place.topic, place.partition, WAKE_TIMEOUT));
}

fn committed(client: &Client, place: &TopicPartition) -> Result<Option<Committed>, BrokerError> {
    let asked = list([place], Offset::Invalid)?;
    let failed = |why: String| {
        BrokerError(format!("asking for the committed offset of {} failed: {why}", named(place)))
    };
    let answer =
        client.committed_offsets(asked, ASK_TIMEOUT).map_err(|error| failed(error.to_string()))?;
    match only(&answer).map_err(|error| failed(error.to_string()))? {
        Offset::Offset(next) => {
            let mark = Mark::read(&ffi::metadata(&answer));
            Ok(Some(Committed { next: NextOffset(next), mark }))
        }
        _ => Ok(None),
    }
}

fn log_range(client: &Client, place: &TopicPartition) -> Result<LogRange, BrokerError> {
    let (start, end) =
        client.fetch_watermarks(&place.topic, place.partition, ASK_TIMEOUT).map_err(|error| {
            BrokerError(format!("asking where the log of {} begins failed: {error}", named(place)))
        })?;
    Ok(LogRange { start: NextOffset(start), end: NextOffset(end) })
}

/// All zero when the broker does not know the question. A cluster without a controller (the mock)
/// never answers it: that is waited for once, not for each partition.
fn topic_id(client: &Client, topic: &str, no_ids: &mut bool) -> Result<[u8; 16], BrokerError> {
    if *no_ids {
        return Ok([0; 16]);
    }
    match ffi::topic_id(client, topic, TOPIC_ID_TIMEOUT) {
        Ok(id) => Ok(id),
        Err(ffi::NoId::Unsupported) => Ok([0; 16]),
        Err(ffi::NoId::Failed(why)) if why.contains("waiting for controller") => {
            *no_ids = true;
            Ok([0; 16])
        }
        Err(ffi::NoId::Failed(why)) => {
            Err(BrokerError(format!("asking for the id of topic {topic} failed: {why}")))
        }
    }
}

/// One try. Confirmed means: librdkafka has thrown away what it had fetched, and fetches from `to`,
/// after validating the leader epoch.
fn seek(client: &Client, place: &TopicPartition, to: NextOffset, epoch: LeaderEpoch) -> Sought {
    let asked = match list_at([(place, to, epoch)]) {
        Ok(list) => list,
        Err(error) => return Sought::Refused(error.0),
    };
    let answer = match client.seek_partitions(asked, SEEK_TIMEOUT) {
        Ok(list) => list,
        Err(error) => return Sought::NotYet(error.to_string()),
    };
    match only(&answer) {
        Ok(_) => Sought::Done,
        Err(error) if passing(&error) => Sought::NotYet(error.to_string()),
        Err(error) => Sought::Refused(error.to_string()),
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
fn passing(error: &KafkaError) -> bool {
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
