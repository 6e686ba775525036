//! The thread that owns the consumer: it polls, answers the group, executes commands, and never waits
//! for anything longer than one poll.
//!
//! One story: its files know each other.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    time::{Duration, Instant},
};

use inbox_engine::internal::{LeaderEpoch, NextOffset, Offset, Rule};
use outbox_core::TopicPartition;
use rdkafka::types::RDKafkaErrorCode;
use tokio::sync::{mpsc::UnboundedSender, oneshot};

use crate::{
    broker::BrokerEvent,
    client::Client,
    client_stats::ClientStats,
    command::{Command, Mailbox, Question},
    commits::OpenCommit,
    event::{EventKind, EventPartition},
    excerpt::Excerpts,
    ffi::{Event, Queue, RecordView},
    gather::Gather,
    group::Misfit,
    hold::Holds,
    in_flight_bytes::{self, InFlightBytes},
    partition_state::{PartitionStates, RecordAction},
    query_thread::QueryThread,
    questions::OpenQuestions,
    rebalance::Revocation,
    seeks::DueSeek,
    trouble::Troubles,
};

/// How long a poll waits when nothing arrives. A command ends the wait.
const POLL_WAIT: Duration = Duration::from_millis(50);
/// Events of one round, so that commands are served while records flow.
const ROUND_MAX: usize = 1000;
/// Bytes of one round, for the same reason.
const ROUND_BYTES_MAX: usize = 4 << 20;

/// The thread that polls, and everything that it owns.
pub(crate) struct PollLoop {
    pub(crate) client: Arc<Client>,
    pub(crate) states: PartitionStates,
    pub(crate) troubles: Troubles,
    /// What the group waits for.
    pub(crate) revocation: Option<Revocation>,
    /// Seeks to be tried again.
    pub(crate) due: Vec<DueSeek>,
    pub(crate) tickets: u64,
    /// What is held back and not paused.
    pub(crate) holds: Holds,
    /// What is to be paused and could not be.
    pub(crate) unpaused: Vec<usize>,
    #[cfg(feature = "testing")]
    pub(crate) refused_pauses: u32,
    pub(crate) stats: Arc<ClientStats>,
    /// When the ends of the logs are noted next.
    pub(crate) ends_due: Instant,
    /// What is wrong with what the group gives.
    pub(crate) misfit: Misfit,
    /// A member that the group knows by a name of its own, and whose assignment members make.
    pub(crate) is_static: bool,
    /// When brokers are asked for them next.
    pub(crate) asked_due: Instant,
    seeker: QueryThread,
    asker: QueryThread,
    /// Questions to brokers that are open.
    pub(crate) open_questions: OpenQuestions,
    pub(crate) queue: Arc<Queue>,
    mailbox: Arc<Mailbox>,
    commands: mpsc::Receiver<Command>,
    /// Unbounded, so that the poll loop never waits for a lane: while it waited, every other
    /// partition would starve. It is bounded in effect: the pipeline counts bytes and pauses.
    events: UnboundedSender<BrokerEvent>,
    in_flight: InFlightBytes,
    closing: Arc<AtomicBool>,
    gather: Gather,
    pub(crate) commits: HashMap<usize, OpenCommit>,
    /// The metadata of commits.
    pub(crate) mark: String,
    pub(crate) confirms: Vec<(TopicPartition, oneshot::Sender<bool>)>,
    closed: Option<oneshot::Sender<()>>,
    fatal: bool,
}

/// What the thread starts with.
pub(crate) struct Parts {
    pub(crate) client: Arc<Client>,
    pub(crate) queue: Arc<Queue>,
    pub(crate) troubles: Troubles,
    pub(crate) seeker: QueryThread,
    pub(crate) asker: QueryThread,
    pub(crate) mailbox: Arc<Mailbox>,
    pub(crate) commands: mpsc::Receiver<Command>,
    pub(crate) events: UnboundedSender<BrokerEvent>,
    pub(crate) closing: Arc<AtomicBool>,
    pub(crate) stats: Arc<ClientStats>,
    pub(crate) excerpts: Excerpts,
    pub(crate) is_static: bool,
}

impl PollLoop {
    pub(crate) fn new(parts: Parts) -> Self {
        let Parts {
            client,
            queue,
            troubles,
            seeker,
            asker,
            mailbox,
            commands,
            events,
            closing,
            stats,
            excerpts,
            is_static,
        } = parts;
        Self {
            client,
            queue,
            states: PartitionStates::default(),
            troubles,
            revocation: None,
            due: Vec::new(),
            tickets: 0,
            holds: Holds::default(),
            unpaused: Vec::new(),
            #[cfg(feature = "testing")]
            refused_pauses: 0,
            stats,
            ends_due: Instant::now(),
            misfit: Misfit::default(),
            is_static,
            asked_due: Instant::now(),
            seeker,
            asker,
            open_questions: OpenQuestions::default(),
            mailbox,
            commands,
            events,
            in_flight: InFlightBytes::default(),
            closing,
            gather: Gather::new(excerpts),
            commits: HashMap::new(),
            mark: String::new(),
            confirms: Vec::new(),
            closed: None,
            fatal: false,
        }
    }

    /// Polls until told to close.
    pub(crate) fn run(mut self) {
        let queue = Arc::clone(&self.queue);
        while self.serve_commands() {
            self.tick();
            let now = Instant::now();
            self.seek_due(now);
            self.pause_long_holds(now);
            self.pause_refused();
            self.notice_loss();
            self.round(&queue);
            self.answer_confirms();
        }
        drop(queue);
        self.close();
    }

    pub(crate) fn tell(&self, event: BrokerEvent) {
        // Without a pipeline nobody is interested.
        let _ = self.events.send(event);
    }

    /// Tells that the client is dead, once.
    pub(crate) fn tell_fatal(&mut self, sentence: String) {
        if !self.fatal {
            self.fatal = true;
            self.tell(BrokerEvent::Fatal(sentence));
        }
    }

    pub(crate) fn ask_seeker(&self, question: Question) {
        self.seeker.ask(question);
    }

    pub(crate) fn ask_asker(&self, question: Question) {
        self.asker.ask(question);
    }

    fn round(&mut self, queue: &Queue) {
        if self.in_flight.full() && Rule::IntakePauses.on() {
            return std::thread::sleep(in_flight_bytes::WAIT);
        }
        let mut wait = POLL_WAIT;
        for _ in 0..ROUND_MAX {
            let Some(event) = queue.poll(wait) else { break };
            wait = Duration::ZERO;
            self.handle_event(&event);
            if self.gather.bytes() >= ROUND_BYTES_MAX {
                break;
            }
        }
        self.flush();
    }

    fn handle_event(&mut self, event: &Event<'_>) {
        match event.kind() {
            EventKind::Record => {
                if let Some(record) = event.record() {
                    self.handle_record(&record);
                }
            }
            EventKind::Error => {
                // What came before it goes out before it.
                self.flush();
                self.handle_error(event);
            }
            EventKind::Rebalance => {
                self.flush();
                self.handle_rebalance(event.code(), &event.partitions());
            }
            EventKind::Committed => self.handle_committed(event),
            EventKind::Answer => self.handle_answer(event),
            EventKind::Log => {
                if let Some((level, facility, line)) = event.log() {
                    self.notice_topic(&line);
                    self.troubles.line(level, &facility, &line, Instant::now());
                }
            }
            EventKind::Other => {}
        }
    }

    fn handle_record(&mut self, record: &RecordView<'_>) {
        let Some(number) = self.states.find(record.topic(), record.partition()) else { return };
        let state = self.states.get_mut(number);
        if state.accepting().is_none() {
            return;
        }
        if let Some(code) = record.error() {
            self.flush();
            return self.reread(number, code, "a record with an error");
        }
        match state.advance(Offset(record.offset()), LeaderEpoch(record.leader_epoch())) {
            RecordAction::Deliver => {
                self.stats.note_allowed(Some(record.topic()));
                self.gather.take_in(number, record);
            }
            RecordAction::Drop => {}
            RecordAction::Rewritten => {
                self.flush();
                let why = format!("offset {} was rewritten", record.offset());
                self.offset_gone(number, why);
            }
        }
    }

    /// Sends what was gathered: one message per partition.
    pub(crate) fn flush(&mut self) {
        for (number, arrivals) in self.gather.take() {
            let state = self.states.get(number);
            let Some(generation) = state.accepting() else { continue };
            let partition = state.topic_partition.clone();
            let guard = self.in_flight.guard(&arrivals);
            self.tell(BrokerEvent::Arrived { partition, generation, arrivals, guard });
        }
    }

    fn handle_error(&mut self, event: &Event<'_>) {
        let (code, text) = (event.code(), event.text());
        if event.fatal() {
            let sentence = self.troubles.fatal(code, &text);
            return self.tell_fatal(sentence);
        }
        if code == RDKafkaErrorCode::PollExceeded {
            return self.lose_all(&text);
        }
        let partition = event.partition();
        self.notice_forbidden(code, partition.as_ref());
        match partition {
            Some(partition) => self.handle_partition_error(&partition, code, text),
            // Who the others are is told with it.
            None if code == RDKafkaErrorCode::InconsistentGroupProtocol => self.ask_who(),
            None => self.tell_trouble(code, &text),
        }
    }

    fn handle_partition_error(
        &mut self,
        partition: &EventPartition,
        code: RDKafkaErrorCode,
        text: String,
    ) {
        let Some(number) = self.states.find(partition.topic.as_bytes(), partition.partition) else {
            return self.tell_trouble(code, &text);
        };
        match code {
            RDKafkaErrorCode::PartitionEOF => self.handle_end(number, NextOffset(partition.offset)),
            RDKafkaErrorCode::AutoOffsetReset => {
                self.offset_gone(number, format!("{text}, at offset {}", partition.offset));
            }
            _ => self.reread(number, code, &text),
        }
    }

    /// The end of a partition tells the offset behind what can be read, be it behind markers.
    fn handle_end(&mut self, number: usize, position: NextOffset) {
        let state = self.states.get_mut(number);
        let Some(generation) = state.accepting() else { return };
        if position < state.next {
            return;
        }
        (state.next, state.validating) = (position, None);
        let partition = state.topic_partition.clone();
        self.stats.note_allowed(Some(partition.topic.as_bytes()));
        self.tell(BrokerEvent::Position { partition, generation, position });
    }

    pub(crate) fn tell_trouble(&self, code: RDKafkaErrorCode, why: &str) {
        self.tell(BrokerEvent::Trouble(self.troubles.trouble(code, why)));
    }

    /// False when the thread is to close.
    fn serve_commands(&mut self) -> bool {
        loop {
            match self.commands.try_recv() {
                Ok(Command::Close(closed)) => {
                    self.closed = Some(closed);
                    return false;
                }
                Ok(command) => self.execute(command),
                Err(mpsc::TryRecvError::Empty) => return true,
                // Every handle is gone, and no close was asked for.
                Err(mpsc::TryRecvError::Disconnected) => return false,
            }
        }
    }

    fn execute(&mut self, command: Command) {
        match command {
            // Taken out by `serve_commands`.
            Command::Close(closed) => self.closed = Some(closed),
            Command::Ask(question) => self.ask_asker(question),
            Command::Commit(offsets, reply) => self.commit(offsets, reply),
            Command::Confirm(topic_partition, reply) => {
                self.confirms.push((topic_partition, reply));
            }
            Command::AckRevocation(partitions) => self.ack_revocation(&partitions),
            Command::Group(described) => self.handle_group(described),
            Command::GroupAnswer(RDKafkaErrorCode::NoError) => self.stats.note_allowed(None),
            Command::GroupAnswer(code) => self.notice_forbidden(code, None),
            Command::LogRange(topic_partition, reply) => self.ask_range(topic_partition, reply),
            Command::Mark(mark) => self.mark = mark,
            Command::Pause(topic_partition, paused) => self.handle_pause(&topic_partition, paused),
            Command::Seek(topic_partition, seek, reply) => self.seek(&topic_partition, seek, reply),
            Command::SeekResult(topic_partition, ticket, sought) => {
                self.handle_seek_result(&topic_partition, ticket, sought);
            }
            #[cfg(feature = "testing")]
            Command::RefusePauses(times) => self.refused_pauses = times,
            #[cfg(feature = "testing")]
            Command::Stall(time) => std::thread::sleep(time),
            Command::Topic(topic, reply) => self.ask_topic(topic, reply),
        }
    }

    /// Answers the group, waits for open questions, drops the client (which leaves the group), and
    /// only then says so.
    fn close(mut self) {
        self.closing.store(true, Ordering::SeqCst);
        if let Some(revocation) = self.revocation.take() {
            self.unassign(&revocation.partitions);
        }
        self.resume_all();
        self.commits.clear();
        self.open_questions.clear();
        self.confirms.clear();
        self.seeker.end();
        self.asker.end();
        self.mailbox.silence();
        drop(self.queue);
        match Arc::into_inner(self.client) {
            Some(client) => drop(client),
            None => tracing::error!("the Kafka client is still in use and was not closed"),
        }
        if let Some(closed) = self.closed.take() {
            // Whoever asked may have run out of patience.
            let _ = closed.send(());
        }
    }
}
