//! The queue of a client, and what arrives on it.

use std::{
    ffi::CString,
    fmt,
    marker::PhantomData,
    ptr::{self, NonNull},
    slice,
    sync::Arc,
    time::Duration,
};

use rdkafka::{
    TopicPartitionList, bindings as rd, consumer::Consumer as _, types::RDKafkaErrorCode,
};

use super::{
    copied::{copy_partition, elements, good, millis, text},
    record::RecordView,
    topics::{describe, options, read_descriptions},
};
use crate::{
    client::Client,
    event::{EventKind, EventPartition, Isolation, NoFacts, TopicDescription},
};

/// The queue on which everything of a consumer arrives. Keeps its client alive.
pub(crate) struct Queue {
    queue: NonNull<rd::rd_kafka_queue_t>,
    client: Arc<Client>,
}

// SAFETY: librdkafka's queues are guarded by their own lock; every function used on them here
// (poll, yield, forward, destroy, commit) is documented as thread-safe.
unsafe impl Send for Queue {}
// SAFETY: as above.
unsafe impl Sync for Queue {}

impl fmt::Debug for Queue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Queue").finish_non_exhaustive()
    }
}

impl Queue {
    /// The consumer's queue; `None` for a client without a group.
    pub(crate) fn of(client: &Arc<Client>) -> Option<Self> {
        // SAFETY: the client is alive; the function hands out a reference of its own.
        let queue = unsafe { rd::rd_kafka_queue_get_consumer(client.client().native_ptr()) };
        Some(Self { queue: NonNull::new(queue)?, client: Arc::clone(client) })
    }

    /// Forwards what is fetched of a partition into this queue, behind what waits in its own; or lets it wait
    /// there from now on. False when librdkafka has no such partition.
    pub(crate) fn forward_partition(&self, topic: &str, partition: i32, flows: bool) -> bool {
        let Ok(topic) = CString::new(topic) else { return false };
        let (native, name) = (self.client.client().native_ptr(), topic.as_ptr());
        let into = if flows { self.queue.as_ptr() } else { ptr::null_mut() };
        // SAFETY: the client, the name and this queue are alive; the partition's queue is a reference of
        // our own, given back once. Where it flows to keeps a reference inside librdkafka.
        unsafe {
            let own = NonNull::new(rd::rd_kafka_queue_get_partition(native, name, partition));
            own.is_some_and(|own| {
                rd::rd_kafka_queue_forward(own.as_ptr(), into);
                rd::rd_kafka_queue_destroy(own.as_ptr());
                true
            })
        }
    }

    /// Makes a poll that waits return at once, or else the next one that would wait.
    pub(crate) fn wake(&self) {
        // SAFETY: the queue is a live reference until drop.
        unsafe { rd::rd_kafka_queue_yield(self.queue.as_ptr()) }
    }

    /// The next event, waiting at most `timeout` (whole milliseconds).
    pub(crate) fn poll(&self, timeout: Duration) -> Option<Event<'_>> {
        // SAFETY: the queue is a live reference; the event is owned by the caller, see `Event`.
        let event = unsafe { rd::rd_kafka_queue_poll(self.queue.as_ptr(), millis(timeout)) };
        Some(Event { event: NonNull::new(event)?, queue: PhantomData })
    }

    /// Asks where logs begin or end, as the list's offsets say; the answer arrives as an event that carries
    /// the ticket.
    pub(crate) fn ask_offsets(
        &self,
        list: &TopicPartitionList,
        isolation: Isolation,
        timeout: Duration,
        ticket: usize,
    ) {
        let level = match isolation {
            Isolation::Committed => {
                rd::rd_kafka_IsolationLevel_t::RD_KAFKA_ISOLATION_LEVEL_READ_COMMITTED
            }
            Isolation::Uncommitted => {
                rd::rd_kafka_IsolationLevel_t::RD_KAFKA_ISOLATION_LEVEL_READ_UNCOMMITTED
            }
        };
        let native = self.client.client().native_ptr();
        // SAFETY: client, list and queue are alive; the request copies list and options. A refusal of the level
        // is null or ours to free.
        unsafe {
            let kind = rd::rd_kafka_admin_op_t::RD_KAFKA_ADMIN_OP_LISTOFFSETS;
            let options = options(native, kind, timeout, ticket);
            let refused = rd::rd_kafka_AdminOptions_set_isolation_level(options, level);
            rd::rd_kafka_error_destroy(refused);
            rd::rd_kafka_ListOffsets(native, list.ptr(), options, self.queue.as_ptr());
            rd::rd_kafka_AdminOptions_destroy(options);
        }
    }

    /// Asks what is known of topics; the answer arrives as an event that carries the ticket. False when there can
    /// be no topic of such a name.
    pub(crate) fn ask_topics(&self, topics: &[&str], timeout: Duration, ticket: usize) -> bool {
        let names: Result<Vec<_>, _> = topics.iter().map(|topic| CString::new(*topic)).collect();
        let Ok(names) = names else { return false };
        let native = self.client.client().native_ptr();
        // SAFETY: client and queue are alive.
        unsafe { describe(native, &names, timeout, ticket, self.queue.as_ptr()) };
        true
    }

    /// Commits a list; the answer arrives as an event that carries the ticket.
    pub(crate) fn commit(
        &self,
        list: &TopicPartitionList,
        ticket: usize,
    ) -> Result<(), RDKafkaErrorCode> {
        // SAFETY: client, list and queue are alive; the list is copied by the call; the ticket is
        // carried as an opaque pointer that nobody follows, there being no callback.
        let code = unsafe {
            rd::rd_kafka_commit_queue(
                self.client.client().native_ptr(),
                list.ptr(),
                self.queue.as_ptr(),
                None,
                ptr::without_provenance_mut(ticket),
            )
        };
        good(code)
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        // SAFETY: our own reference, given back once, while the client is alive.
        unsafe { rd::rd_kafka_queue_destroy(self.queue.as_ptr()) }
    }
}

/// One event of a queue; freed when dropped.
pub(crate) struct Event<'q> {
    event: NonNull<rd::rd_kafka_event_t>,
    queue: PhantomData<&'q Queue>,
}

impl Event<'_> {
    pub(crate) fn kind(&self) -> EventKind {
        // SAFETY: a live event.
        match unsafe { rd::rd_kafka_event_type(self.event.as_ptr()) } {
            rd::RD_KAFKA_EVENT_FETCH => EventKind::Record,
            rd::RD_KAFKA_EVENT_ERROR => EventKind::Error,
            rd::RD_KAFKA_EVENT_REBALANCE => EventKind::Rebalance,
            rd::RD_KAFKA_EVENT_OFFSET_COMMIT => EventKind::Committed,
            rd::RD_KAFKA_EVENT_LOG => EventKind::Log,
            rd::RD_KAFKA_EVENT_LISTOFFSETS_RESULT | rd::RD_KAFKA_EVENT_DESCRIBETOPICS_RESULT => {
                EventKind::Answer
            }
            _ => EventKind::Other,
        }
    }

    /// The record of a record event.
    pub(crate) fn record(&self) -> Option<RecordView<'_>> {
        // SAFETY: a live event; the message lives as long as the event, which the view borrows.
        let message = unsafe { rd::rd_kafka_event_message_next(self.event.as_ptr()).as_ref() }?;
        Some(RecordView { message })
    }

    pub(crate) fn code(&self) -> RDKafkaErrorCode {
        // SAFETY: a live event.
        unsafe { rd::rd_kafka_event_error(self.event.as_ptr()) }.into()
    }

    /// What librdkafka says about an error.
    pub(crate) fn text(&self) -> String {
        // SAFETY: a live event; the text is copied before the event can be freed.
        unsafe { text(rd::rd_kafka_event_error_string(self.event.as_ptr())) }
    }

    pub(crate) fn fatal(&self) -> bool {
        // SAFETY: a live event.
        unsafe { rd::rd_kafka_event_error_is_fatal(self.event.as_ptr()) != 0 }
    }

    /// The partition that an error is about.
    pub(crate) fn partition(&self) -> Option<EventPartition> {
        // SAFETY: a live event; the answer is ours and is freed once, after it was copied.
        unsafe {
            let found = NonNull::new(rd::rd_kafka_event_topic_partition(self.event.as_ptr()))?;
            let partition = copy_partition(found.as_ref());
            rd::rd_kafka_topic_partition_destroy(found.as_ptr());
            Some(partition)
        }
    }

    /// The partitions of a rebalance or of a commit, copied: no list of librdkafka's is ever kept, as
    /// one that outlives its client keeps the process from ending.
    pub(crate) fn partitions(&self) -> Vec<EventPartition> {
        // SAFETY: a live event, which owns the list; the elements are copied while it lives.
        unsafe {
            let list = rd::rd_kafka_event_topic_partition_list(self.event.as_ptr());
            elements(list).iter().map(|element| copy_partition(element)).collect()
        }
    }

    /// Where logs begin or end, as [`Queue::ask_offsets`] asked.
    pub(crate) fn offsets(&self) -> Vec<EventPartition> {
        let mut count = 0;
        // SAFETY: a live event, which owns result and elements; they are copied while it lives.
        unsafe {
            let result = rd::rd_kafka_event_ListOffsets_result(self.event.as_ptr());
            if result.is_null() {
                return Vec::new();
            }
            let infos = rd::rd_kafka_ListOffsets_result_infos(result, &raw mut count);
            if infos.is_null() || count == 0 {
                return Vec::new();
            }
            let infos = slice::from_raw_parts(infos, count).iter();
            let elements =
                infos.map(|info| rd::rd_kafka_ListOffsetsResultInfo_topic_partition(*info));
            elements
                .filter_map(|element| element.as_ref())
                .map(|element| copy_partition(element))
                .collect()
        }
    }

    /// What [`Queue::ask_topics`] asked for, topic by topic.
    pub(crate) fn topics(&self) -> Result<Vec<TopicDescription>, NoFacts> {
        // SAFETY: a live event.
        unsafe { read_descriptions(self.event.as_ptr()) }
    }

    /// The ticket of a commit or of a question.
    pub(crate) fn ticket(&self) -> usize {
        // SAFETY: a live event; the pointer is only looked at as a number.
        unsafe { rd::rd_kafka_event_opaque(self.event.as_ptr()) }.addr()
    }

    /// Level (as syslog counts), facility and text of a log line.
    pub(crate) fn log(&self) -> Option<(i32, String, String)> {
        let (mut facility, mut line, mut level) = (ptr::null(), ptr::null(), 0);
        // SAFETY: a live event; both texts are copied before it can be freed.
        unsafe {
            let event = self.event.as_ptr();
            let found =
                rd::rd_kafka_event_log(event, &raw mut facility, &raw mut line, &raw mut level);
            (found == 0).then(|| (level, text(facility), text(line)))
        }
    }
}

impl Drop for Event<'_> {
    fn drop(&mut self) {
        // SAFETY: our own event, freed once; every view of it has ended by its lifetime.
        unsafe { rd::rd_kafka_event_destroy(self.event.as_ptr()) }
    }
}
