//! A member of a consumer group: what starts its threads, and the handle that commands go through.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use futures::{FutureExt as _, future::BoxFuture};
use inbox_engine::internal::{Generation, LeaderEpoch, LogRange, NextOffset, Offset};
use outbox_core::{TopicPartition, internal::CommitMark};
use rdkafka::{
    config::{FromClientConfigAndContext as _, RDKafkaLogLevel},
    consumer::{BaseConsumer, Consumer as _},
};
use tokio::sync::{mpsc::UnboundedSender, oneshot};

use crate::{
    broker::{Arrival, Broker, BrokerError, BrokerEvent, Committed, TopicState},
    client::Callbacks,
    client_stats::ClientStats,
    command::{Command, Mailbox, Question, Reply, Seek},
    ffi::Queue,
    health::BrokerHealth,
    poll_loop::{Parts, PollLoop},
    properties::refusal,
    query_thread::QueryThread,
    reread,
    settings::{KafkaSettings, Protocol},
    trouble::Troubles,
};

/// Joins the group in the background. `events` tells everything that happens; it ends when the
/// client has closed.
///
/// # Errors
/// When the settings are refused. That Kafka cannot be reached is told by [`BrokerEvent::Trouble`].
pub fn connect(
    settings: KafkaSettings,
    events: UnboundedSender<BrokerEvent>,
) -> Result<KafkaBroker, BrokerError> {
    let mut config = settings.client_config()?;
    config.set("debug", settings.debug()).set_log_level(RDKafkaLogLevel::Debug);
    let callbacks = Callbacks::default();
    let closing = Arc::clone(&callbacks.closing);
    let client = BaseConsumer::from_config_and_context(&config, callbacks)
        .map(Arc::new)
        .map_err(|error| refusal(&error))?;
    let queue = Queue::of(&client)
        .map(Arc::new)
        .ok_or_else(|| BrokerError("the Kafka client has no group: set one".into()))?;
    let topics: Vec<&str> = settings.topics.iter().map(String::as_str).collect();
    client
        .subscribe(&topics)
        .map_err(|error| BrokerError(format!("subscribing to the topics failed: {error}")))?;

    let (mailbox, commands) = Mailbox::new(Arc::clone(&queue));
    let mailbox = Arc::new(mailbox);
    let start = |name: &str| {
        let (client, group) = (Arc::clone(&client), settings.group.clone());
        QueryThread::start(name, group, client, Arc::clone(&closing), Arc::clone(&mailbox))
            .map_err(|error| no_thread(&error))
    };
    let (seeker, asker) = (start("inbox-seek")?, start("inbox-ask")?);
    let names = settings.topics.iter().map(|topic| topic.as_str().into());
    let stats = Arc::new(ClientStats::new(&settings.group, names));
    let is_static = settings.instance_id.is_some() && settings.protocol == Protocol::Classic;
    let parts = Parts {
        client,
        queue,
        troubles: Troubles::new(settings.bootstrap.clone()),
        seeker,
        asker,
        mailbox: Arc::clone(&mailbox),
        commands,
        events,
        closing: Arc::clone(&closing),
        stats: Arc::clone(&stats),
        excerpts: settings.excerpts.clone(),
        is_static,
    };
    let poll_loop = PollLoop::new(parts);
    thread::Builder::new()
        .name("kafka-kit".into())
        .spawn(move || poll_loop.run())
        .map_err(|error| no_thread(&error))?;
    Ok(KafkaBroker { mailbox, closing, stats, settings })
}

fn no_thread(error: &std::io::Error) -> BrokerError {
    BrokerError(format!("cannot start the thread of the Kafka client: {error}"))
}

/// A member of a consumer group. Dropping it leaves the group in the background; [`Broker::close`]
/// waits for that.
#[derive(Debug)]
pub struct KafkaBroker {
    mailbox: Arc<Mailbox>,
    closing: Arc<AtomicBool>,
    stats: Arc<ClientStats>,
    settings: KafkaSettings,
}

impl KafkaBroker {
    fn command<T: Send + 'static>(
        &self,
        command: impl FnOnce(Reply<T>) -> Command,
    ) -> BoxFuture<'static, Result<T, BrokerError>> {
        let (reply, answer) = oneshot::channel();
        self.mailbox.send(command(reply));
        await_reply(answer)
    }

    /// Makes the next pauses fail, as librdkafka does when it does not know a partition.
    #[cfg(feature = "testing")]
    pub fn refuse_pauses(&self, times: u32) {
        self.mailbox.send(Command::RefusePauses(times));
    }

    /// Keeps the thread from polling, as a debugger or a starved machine would.
    #[cfg(feature = "testing")]
    pub fn stall(&self, time: Duration) {
        self.mailbox.send(Command::Stall(time));
    }
}

/// The answer, or that there will be none.
fn await_reply<T: Send + 'static>(
    answer: oneshot::Receiver<Result<T, BrokerError>>,
) -> BoxFuture<'static, Result<T, BrokerError>> {
    let gone = || BrokerError("superseded, or the Kafka client is closed".into());
    async move { answer.await.unwrap_or_else(|_| Err(gone())) }.boxed()
}

impl Broker for KafkaBroker {
    fn committed(
        &self,
        partition: &TopicPartition,
    ) -> BoxFuture<'static, Result<Option<Committed>, BrokerError>> {
        self.command(|reply| Command::Ask(Question::Committed(partition.clone(), reply)))
    }

    fn mark(&self, mark: &CommitMark) {
        self.mailbox.send(Command::Mark(mark.to_string()));
    }

    fn log_range(
        &self,
        partition: &TopicPartition,
    ) -> BoxFuture<'static, Result<LogRange, BrokerError>> {
        self.command(|reply| Command::LogRange(partition.clone(), reply))
    }

    fn topic(&self, topic: &str) -> BoxFuture<'static, Result<Option<TopicState>, BrokerError>> {
        self.command(|reply| Command::Topic(topic.to_owned(), reply))
    }

    fn record(
        &self,
        partition: &TopicPartition,
        offset: Offset,
    ) -> BoxFuture<'static, Result<Option<Arrival>, BrokerError>> {
        let (settings, topic_partition) = (self.settings.clone(), partition.clone());
        let read =
            tokio::task::spawn_blocking(move || reread::read(&settings, &topic_partition, offset));
        let ended = |error| BrokerError(format!("reading a record failed: {error}"));
        async move { read.await.unwrap_or_else(|error| Err(ended(error))) }.boxed()
    }

    fn seek(
        &self,
        partition: &TopicPartition,
        generation: Generation,
        to: NextOffset,
        leader_epoch: LeaderEpoch,
    ) -> BoxFuture<'static, Result<(), BrokerError>> {
        let seek = Seek { generation, to, leader_epoch };
        self.command(|reply| Command::Seek(partition.clone(), seek, reply))
    }

    fn pause(&self, partition: &TopicPartition, paused: bool) {
        self.mailbox.send(Command::Pause(partition.clone(), paused));
    }

    fn commit(
        &self,
        offsets: Vec<(TopicPartition, NextOffset, LeaderEpoch)>,
    ) -> BoxFuture<'static, Result<Vec<TopicPartition>, BrokerError>> {
        self.command(|reply| Command::Commit(offsets, reply))
    }

    fn ack_revocation(&self, partitions: Vec<TopicPartition>) {
        self.mailbox.send(Command::AckRevocation(partitions));
    }

    fn confirm(&self, partition: &TopicPartition) -> BoxFuture<'static, bool> {
        let (reply, answer) = oneshot::channel();
        self.mailbox.send(Command::Confirm(partition.clone(), reply));
        async move { answer.await.unwrap_or(false) }.boxed()
    }

    fn health(&self) -> BrokerHealth {
        self.stats.read()
    }

    /// After the deadline the thread is left to itself: librdkafka can hang while it closes, and the
    /// process is about to end.
    fn close(&self, deadline: Duration) -> BoxFuture<'static, Result<(), BrokerError>> {
        self.closing.store(true, Ordering::SeqCst);
        let (closed, answer) = oneshot::channel();
        self.mailbox.send(Command::Close(closed));
        async move {
            // An error of the answer means that the thread has closed before.
            match tokio::time::timeout(deadline, answer).await {
                Ok(_) => Ok(()),
                Err(_) => Err(BrokerError(format!(
                    "the Kafka client did not close within {deadline:?}; its thread keeps running"
                ))),
            }
        }
        .boxed()
    }
}

impl Drop for KafkaBroker {
    fn drop(&mut self) {
        self.mailbox.send(Command::Close(oneshot::channel().0));
    }
}
