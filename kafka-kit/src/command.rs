//! What the thread that owns the consumer is asked to do, and how it is woken.

use std::sync::{Arc, Mutex, PoisonError, mpsc};

use inbox_engine::internal::{Generation, LeaderEpoch, LogRange, NextOffset};
use outbox_core::TopicPartition;
use rdkafka::types::RDKafkaErrorCode;
use tokio::sync::oneshot;

use crate::{
    broker::{BrokerError, Committed, TopicState},
    ffi::Queue,
    group_view::GroupView,
};

/// Where an answer goes. Dropped unanswered when the thread ends.
pub(crate) type Reply<T> = oneshot::Sender<Result<T, BrokerError>>;

/// What the thread does.
#[derive(Debug)]
pub(crate) enum Command {
    Ask(Question),
    Close(oneshot::Sender<()>),
    Commit(Vec<(TopicPartition, NextOffset, LeaderEpoch)>, Reply<Vec<TopicPartition>>),
    Confirm(TopicPartition, oneshot::Sender<bool>),
    AckRevocation(Vec<TopicPartition>),
    /// A side thread's answer, or why there is none.
    Group(Result<GroupView, String>),
    /// What the group's coordinator said to a side thread: whether the group is forbidden.
    GroupAnswer(RDKafkaErrorCode),
    LogRange(TopicPartition, Reply<LogRange>),
    /// What commits carry from now on.
    Mark(String),
    Pause(TopicPartition, bool),
    Seek(TopicPartition, Seek, Reply<()>),
    /// A side thread's answer to the seek of that ticket.
    SeekResult(TopicPartition, u64, SeekResult),
    #[cfg(feature = "testing")]
    RefusePauses(u32),
    #[cfg(feature = "testing")]
    Stall(std::time::Duration),
    Topic(String, Reply<Option<TopicState>>),
}

/// Where to read on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seek {
    pub(crate) generation: Generation,
    pub(crate) to: NextOffset,
    pub(crate) leader_epoch: LeaderEpoch,
}

/// How one try of a seek ended.
#[derive(Debug)]
pub(crate) enum SeekResult {
    Done,
    /// Not now: the partition is still being started, or its leader is unknown.
    NotYet(String),
    Refused(String),
}

/// What blocks, and so is asked on a side thread.
#[derive(Debug)]
pub(crate) enum Question {
    Committed(TopicPartition, Reply<Option<Committed>>),
    Group,
    Seek(TopicPartition, u64, NextOffset, LeaderEpoch),
}

/// Sends commands and wakes the thread out of its poll.
#[derive(Debug)]
pub(crate) struct Mailbox {
    commands: mpsc::Sender<Command>,
    /// Emptied before the client is dropped, as a queue keeps it alive.
    bell: Mutex<Option<Arc<Queue>>>,
}

impl Mailbox {
    pub(crate) fn new(bell: Arc<Queue>) -> (Self, mpsc::Receiver<Command>) {
        // Unbounded, yet bounded in effect: the pipeline has few questions open per partition.
        let (commands, receiver) = mpsc::channel();
        (Self { commands, bell: Mutex::new(Some(bell)) }, receiver)
    }

    /// False when the thread has ended; the command, and the reply in it, are then dropped.
    pub(crate) fn send(&self, command: Command) -> bool {
        let sent = self.commands.send(command).is_ok();
        if let Some(bell) = &*self.bell.lock().unwrap_or_else(PoisonError::into_inner) {
            bell.wake();
        }
        sent
    }

    pub(crate) fn silence(&self) {
        self.bell.lock().unwrap_or_else(PoisonError::into_inner).take();
    }
}
