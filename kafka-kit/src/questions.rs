//! Questions to brokers whose answers arrive as events of later rounds. Nobody waits for one, so a broker
//! that is silent delays nothing but what is asked of it.
//!
//! Each partition's leader is asked in a request of its own: librdkafka answers a request for several
//! partitions when the last of their leaders has answered, or its time is up.

use std::{collections::HashMap, time::Duration};

use inbox_engine::internal::{LogRange, NextOffset, Rule};
use outbox_core::TopicPartition;
use rdkafka::{Offset, types::RDKafkaErrorCode};

use crate::{
    broker::{BrokerError, BrokerEvent, TopicState},
    client::{list, partition_label},
    command::Reply,
    event::{EventPartition, Isolation, NoFacts, TopicDescription, topic_state},
    ffi::{self, Event},
    poll_loop::PollLoop,
};

/// How long a question to the brokers may take; the pipeline asks again.
pub(crate) const ASK_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a broker may take to answer what is asked only to wake a thread.
const WAKE_TIMEOUT: Duration = Duration::from_secs(1);

/// What is open.
#[derive(Debug, Default)]
pub(crate) struct OpenQuestions {
    /// By the ticket of the request.
    open: HashMap<usize, Subject>,
    /// By the ticket of its first request.
    ranges: HashMap<usize, Range>,
    /// By topic: one request serves all who ask while it is open.
    topics: HashMap<String, Vec<Reply<Option<TopicState>>>>,
}

/// What a request is about.
#[derive(Debug)]
enum Subject {
    /// Where a log begins or ends, for the range of that ticket.
    LogEdge(usize, LogEdge),
    /// Where logs end for readers with this isolation, for those who look at the thread.
    Ends(Isolation),
    /// What is known of a topic, for those who asked.
    Topic(String),
    /// What is known of all topics, for those who look at the thread.
    Topics,
    /// Nothing is wanted but that a thread of the client wakes.
    Wake,
}

#[derive(Clone, Copy, Debug)]
enum LogEdge {
    Start,
    End,
}

#[derive(Debug)]
struct Range {
    topic_partition: TopicPartition,
    start: Option<NextOffset>,
    end: Option<NextOffset>,
    reply: Reply<LogRange>,
}

impl OpenQuestions {
    /// Nobody waits any more.
    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Whether the ends of logs are still being asked for.
    pub(crate) fn asks_for_ends(&self) -> bool {
        self.open.values().any(|subject| matches!(subject, Subject::Ends(_)))
    }

    /// The same of topics.
    pub(crate) fn asks_for_topics(&self) -> bool {
        self.open.values().any(|subject| matches!(subject, Subject::Topics))
    }
}

impl PollLoop {
    /// Where the log begins, and where it ends for those who read what is committed.
    pub(crate) fn ask_range(&mut self, topic_partition: TopicPartition, reply: Reply<LogRange>) {
        let partitions = [topic_partition.clone()];
        let first = self.next_ticket();
        self.open_questions
            .ranges
            .insert(first, Range { topic_partition, start: None, end: None, reply });
        let edges = [
            (LogEdge::Start, Offset::Beginning, first),
            (LogEdge::End, Offset::End, self.next_ticket()),
        ];
        for (edge, offset, ticket) in edges {
            let subject = Subject::LogEdge(first, edge);
            if let Err(error) = self.ask_offsets(
                &partitions,
                offset,
                Isolation::Committed,
                ticket,
                subject,
                ASK_TIMEOUT,
            ) {
                self.fail_range(first, &error.0);
            }
        }
    }

    /// Going on with a paused partition does not wake the client's thread of its broker: while nothing else is
    /// fetched there, that thread looks once a second (librdkafka 2.12). A question to the broker passes
    /// through it, and so does the answer. Whether it is answered does not matter.
    pub(crate) fn wake(&mut self, topic_partition: TopicPartition) {
        let ticket = self.next_ticket();
        // Without it the thread looks a second later.
        let _ = self.ask_offsets(
            &[topic_partition],
            Offset::End,
            Isolation::Committed,
            ticket,
            Subject::Wake,
            WAKE_TIMEOUT,
        );
    }

    /// Where the logs end, for readers with this isolation, for those who look at the thread.
    pub(crate) fn ask_ends(&mut self, partitions: &[TopicPartition], isolation: Isolation) {
        let ticket = self.next_ticket();
        // It is asked again soon.
        let _ = self.ask_offsets(
            partitions,
            Offset::End,
            isolation,
            ticket,
            Subject::Ends(isolation),
            ASK_TIMEOUT,
        );
    }

    /// Only of partitions that are assigned, whose topics librdkafka knows. It looks for their leaders on the thread that
    /// asks. Where it does not know a topic, its own thread goes on when metadata arrives, at the same time, and frees
    /// what the other one uses (2.12.1, `rd_kafka_topic_partition_list_query_leaders_async`): the process ends.
    fn ask_offsets(
        &mut self,
        partitions: &[TopicPartition],
        offset: Offset,
        isolation: Isolation,
        ticket: usize,
        subject: Subject,
        timeout: Duration,
    ) -> Result<(), BrokerError> {
        if let Some(other) = partitions.iter().find(|it| self.states.of(it).is_none()) {
            return Err(BrokerError(format!("{} is not assigned", partition_label(other))));
        }
        let list = list(partitions, offset)?;
        self.open_questions.open.insert(ticket, subject);
        self.queue.ask_offsets(&list, isolation, timeout, ticket);
        Ok(())
    }

    /// Nothing is known when the broker does not know the question, or the cluster is librdkafka's mock, which has
    /// no controller to answer it. That it was not answered says nothing of the topic: it is asked again.
    pub(crate) fn ask_topic(&mut self, topic: String, reply: Reply<Option<TopicState>>) {
        if ffi::is_mock(&self.client) {
            // Whoever asked may have ended meanwhile.
            return drop(reply.send(Ok(Some(TopicState::UNKNOWN))));
        }
        let waiting = self.open_questions.topics.entry(topic.clone()).or_default();
        waiting.push(reply);
        if waiting.len() > 1 {
            return;
        }
        let ticket = self.next_ticket();
        if self.queue.ask_topics(&[&topic], ASK_TIMEOUT, ticket) {
            self.open_questions.open.insert(ticket, Subject::Topic(topic));
        } else {
            let no_name = NoFacts::Failed("its name contains a zero byte".to_owned());
            self.answer_topic(&topic, Err(no_name));
        }
    }

    /// What is known of all topics, for those who look at the thread.
    pub(crate) fn ask_all_topics(&mut self) {
        if ffi::is_mock(&self.client) || self.open_questions.asks_for_topics() {
            return;
        }
        let topics = self.stats.topics();
        let names: Vec<&str> = topics.iter().map(|topic| &**topic).collect();
        let ticket = self.next_ticket();
        if self.queue.ask_topics(&names, ASK_TIMEOUT, ticket) {
            self.open_questions.open.insert(ticket, Subject::Topics);
        }
    }

    pub(crate) fn next_ticket(&mut self) -> usize {
        self.tickets += 1;
        usize::try_from(self.tickets).unwrap_or(usize::MAX)
    }

    /// An answer, or that there is none.
    pub(crate) fn handle_answer(&mut self, event: &Event<'_>) {
        match self.open_questions.open.remove(&event.ticket()) {
            None | Some(Subject::Wake) => {}
            Some(Subject::LogEdge(range, edge)) => {
                let answer = offsets(event).map(|partitions| partitions.into_iter().next());
                match answer {
                    Ok(Some(partition)) if known(&partition) => {
                        self.take_in_edge(range, edge, partition.offset);
                    }
                    Ok(Some(partition)) if partition.error != RDKafkaErrorCode::NoError => {
                        self.fail_range(range, &partition.error.to_string());
                    }
                    Ok(_) => self.fail_range(range, "its leader did not answer in time"),
                    Err(why) => self.fail_range(range, &why),
                }
            }
            Some(Subject::Ends(isolation)) => {
                // Without an answer nothing is known of any.
                let answered = offsets(event).unwrap_or_default();
                let ends = answered.iter().map(|partition| {
                    (
                        partition.topic_partition(),
                        known(partition).then_some(NextOffset(partition.offset)),
                    )
                });
                self.stats.note_ends(isolation, ends);
                if answered.iter().any(known) {
                    self.tell(BrokerEvent::Answered);
                }
            }
            Some(Subject::Topic(topic)) => {
                let no_answer = || Err(NoFacts::Failed("the answer names no topic".to_owned()));
                let one =
                    |mut all: Vec<TopicDescription>| all.pop().map_or_else(no_answer, |(_, it)| it);
                self.answer_topic(&topic, event.topics().and_then(one));
            }
            Some(Subject::Topics) => {
                // Without an answer what was known stays: it is asked again soon.
                let topics = event.topics().unwrap_or_default();
                let said = |facts: &Result<_, NoFacts>| !matches!(facts, Err(NoFacts::Failed(_)));
                if self.states.ours().is_empty() && topics.iter().any(|(_, facts)| said(facts)) {
                    self.stats.note_answer();
                    self.tell(BrokerEvent::Answered);
                }
                for (topic, facts) in topics {
                    self.stats.note_topic(&topic, &facts);
                }
            }
        }
    }

    fn take_in_edge(&mut self, ticket: usize, edge: LogEdge, offset: i64) {
        let Some(range) = self.open_questions.ranges.get_mut(&ticket) else { return };
        match edge {
            LogEdge::Start => range.start = Some(NextOffset(offset)),
            LogEdge::End => range.end = Some(NextOffset(offset)),
        }
        if let (Some(start), Some(end)) = (range.start, range.end)
            && let Some(range) = self.open_questions.ranges.remove(&ticket)
        {
            // Whoever asked may have ended meanwhile.
            let _ = range.reply.send(Ok(LogRange { start, end }));
        }
    }

    fn fail_range(&mut self, ticket: usize, why: &str) {
        let Some(range) = self.open_questions.ranges.remove(&ticket) else { return };
        let error = format!(
            "querying the beginning and end of the log of {} failed: {why}",
            partition_label(&range.topic_partition)
        );
        // Whoever asked may have ended meanwhile.
        let _ = range.reply.send(Err(BrokerError(error)));
    }

    fn answer_topic(&mut self, topic: &str, answer: Result<TopicState, NoFacts>) {
        let answer = match answer {
            Err(NoFacts::Failed(_)) if !Rule::TopicIdAskedAgain.on() => {
                Ok(Some(TopicState::UNKNOWN))
            }
            answer => topic_state(topic, answer),
        };
        for reply in self.open_questions.topics.remove(topic).unwrap_or_default() {
            // Whoever asked may have ended meanwhile.
            let _ = reply.send(answer.clone());
        }
    }
}

/// What was answered, partition by partition; or why nothing was.
fn offsets(event: &Event<'_>) -> Result<Vec<EventPartition>, String> {
    match event.code() {
        RDKafkaErrorCode::NoError => Ok(event.offsets()),
        _ => Err(event.text()),
    }
}

/// A leader that did not answer leaves its partitions without an offset, be it without an error.
fn known(partition: &EventPartition) -> bool {
    partition.error == RDKafkaErrorCode::NoError && partition.offset >= 0
}
