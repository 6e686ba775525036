//! What librdkafka can and rust-rdkafka does not show: events with the partition that an error is
//! about, leader epochs, commits with a ticket, topic ids, and the knobs of the mock cluster.
//!
//! The only file with `unsafe`. Its types free what they own, borrow from what they point into, and
//! hold the client that a pointer belongs to, so that their callers need not know any of it.
#![expect(unsafe_code, reason = "the bindings have these functions, the wrapper does not")]

use std::{
    ffi::{CStr, CString},
    fmt,
    marker::PhantomData,
    ptr::{self, NonNull},
    slice,
    sync::Arc,
    time::Duration,
};

use rdkafka::{
    TopicPartitionList, bindings as rd,
    consumer::{BaseConsumer, Consumer as _, ConsumerContext},
    types::{RDKafkaErrorCode, RDKafkaRespErr},
};

use uuid::Uuid;

use crate::{
    broker::TopicState,
    client::Client,
    event::{EventKind, EventPartition, HeaderView, Isolation, NoFacts, TopicDescription},
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

/// A record inside its event.
#[derive(Clone, Copy)]
pub(crate) struct RecordView<'e> {
    message: &'e rd::rd_kafka_message_t,
}

impl<'e> RecordView<'e> {
    pub(crate) fn error(&self) -> Option<RDKafkaErrorCode> {
        good(self.message.err).err()
    }

    pub(crate) fn topic(&self) -> &'e [u8] {
        // SAFETY: a consumed message has a topic, which lives as long as the message.
        unsafe { CStr::from_ptr(rd::rd_kafka_topic_name(self.message.rkt)) }.to_bytes()
    }

    pub(crate) fn partition(&self) -> i32 {
        self.message.partition
    }

    pub(crate) fn offset(&self) -> i64 {
        self.message.offset
    }

    /// -1 when unknown.
    pub(crate) fn leader_epoch(&self) -> i32 {
        // SAFETY: a live message.
        unsafe { rd::rd_kafka_message_leader_epoch(self.message) }
    }

    pub(crate) fn key(&self) -> Option<&'e [u8]> {
        // SAFETY: librdkafka's own pair of pointer and length.
        unsafe { bytes(self.message.key.cast(), self.message.key_len) }
    }

    pub(crate) fn payload(&self) -> Option<&'e [u8]> {
        // SAFETY: librdkafka's own pair of pointer and length.
        unsafe { bytes(self.message.payload.cast(), self.message.len) }
    }

    /// Milliseconds since 1970.
    pub(crate) fn timestamp_ms(&self) -> Option<i64> {
        let mut kind = rd::rd_kafka_timestamp_type_t::RD_KAFKA_TIMESTAMP_NOT_AVAILABLE;
        // SAFETY: a live message.
        let millis = unsafe { rd::rd_kafka_message_timestamp(self.message, &raw mut kind) };
        let told = kind != rd::rd_kafka_timestamp_type_t::RD_KAFKA_TIMESTAMP_NOT_AVAILABLE;
        (told && millis >= 0).then_some(millis)
    }

    /// Its headers, and what kept the client from reading them.
    pub(crate) fn headers(
        &self,
    ) -> (impl ExactSizeIterator<Item = HeaderView<'e>>, Option<RDKafkaErrorCode>) {
        let mut headers = ptr::null_mut();
        // SAFETY: a live message, which owns the headers.
        let code = unsafe { rd::rd_kafka_message_headers(self.message, &raw mut headers) };
        let (count, fault) = match good(code) {
            // SAFETY: the headers that the call just gave out.
            Ok(()) => (unsafe { rd::rd_kafka_header_cnt(headers) }, None),
            Err(RDKafkaErrorCode::NoEnt) => (0, None),
            Err(code) => (0, Some(code)),
        };
        let views = (0..count).map(move |index| {
            let (mut name, mut value, mut size) = (ptr::null(), ptr::null(), 0);
            // SAFETY: `index` is below the count, so all three are set; name and value live as long
            // as the message.
            unsafe {
                rd::rd_kafka_header_get_all(
                    headers,
                    index,
                    &raw mut name,
                    &raw mut value,
                    &raw mut size,
                );
                let (name, value) = (CStr::from_ptr(name).to_bytes(), bytes(value.cast(), size));
                // One allocation: behind the zero byte that ends the name comes the value.
                let next = name.as_ptr().addr() + name.len() + 1;
                let whole = value.is_none_or(|value| value.as_ptr().addr() == next);
                HeaderView { name, value, whole }
            }
        });
        (views, fault)
    }
}

/// Writes leader epochs into a list, one for each element in its order; -1 leaves it unknown.
pub(crate) fn set_leader_epochs(list: &mut TopicPartitionList, epochs: &[i32]) {
    // SAFETY: the list is alive and borrowed mutably, so nobody else looks at its elements.
    unsafe {
        let list = list.ptr();
        assert_eq!(elements(list).len(), epochs.len(), "one leader epoch for each element");
        for (index, epoch) in epochs.iter().enumerate() {
            let element = (*list).elems.add(index);
            rd::rd_kafka_topic_partition_set_leader_epoch(element, *epoch);
        }
    }
}

/// The metadata of a partition in a list. Anybody may have written it, so it may be no text.
pub(crate) fn metadata(list: &TopicPartitionList, topic: &str, partition: i32) -> String {
    // SAFETY: the list is alive and borrowed, its names end with NUL; librdkafka's own pairs of pointer and
    // length, copied here.
    unsafe {
        let of_it = |it: &&rd::rd_kafka_topic_partition_t| {
            it.partition == partition && CStr::from_ptr(it.topic).to_bytes() == topic.as_bytes()
        };
        let one = elements(list.ptr()).iter().find(of_it);
        let found = one.and_then(|it| bytes(it.metadata.cast::<u8>(), it.metadata_size));
        String::from_utf8_lossy(found.unwrap_or_default()).into_owned()
    }
}

/// Where a log ends, as the last fetch said; nothing is asked. `None` before the first.
pub(crate) fn log_end(client: &Client, topic: &str, partition: i32) -> Option<i64> {
    let (topic, mut low, mut high) = (CString::new(topic).ok()?, -1, -1);
    let (native, at) = (client.client().native_ptr(), topic.as_ptr());
    // SAFETY: the client and the name live longer than this call, which only writes the two numbers.
    let code = unsafe {
        rd::rd_kafka_get_watermark_offsets(native, at, partition, &raw mut low, &raw mut high)
    };
    good(code).ok().and((high >= 0).then_some(high))
}

/// Makes the mock cluster of a client form groups in milliseconds instead of seconds.
#[cfg(feature = "testing")]
pub(crate) fn quicken_mock(native: NonNull<rd::rd_kafka_t>, session: Duration) {
    // SAFETY: the caller's client is alive; a client without a mock cluster is left alone.
    unsafe {
        let cluster = rd::rd_kafka_handle_mock_cluster(native.as_ptr());
        if !cluster.is_null() {
            rd::rd_kafka_mock_group_initial_rebalance_delay_ms(cluster, 0);
            rd::rd_kafka_mock_set_group_consumer_heartbeat_interval_ms(cluster, 100);
            rd::rd_kafka_mock_set_group_consumer_session_timeout_ms(cluster, millis(session));
        }
    }
}

/// Asks the cluster what it knows of a topic. Blocks for `timeout` at most, and a little more.
pub(crate) fn topic<C: ConsumerContext>(
    client: &BaseConsumer<C>,
    topic: &str,
    timeout: Duration,
) -> Result<TopicState, NoFacts> {
    let failed = |why: &str| NoFacts::Failed(why.to_owned());
    let name = CString::new(topic).map_err(|_| failed("the name has a zero byte"))?;
    let native = client.client().native_ptr();
    // SAFETY: the client lives longer than this call; the queue is ours and is freed once, last. The answer
    // is read before its event is freed.
    unsafe {
        let queue = rd::rd_kafka_queue_new(native);
        describe(native, &[name], timeout, 0, queue);
        let event = rd::rd_kafka_queue_poll(queue, millis(timeout + Duration::from_millis(200)));
        let answer = NonNull::new(event).map(|event| read_descriptions(event.as_ptr()));
        if !event.is_null() {
            rd::rd_kafka_event_destroy(event);
        }
        rd::rd_kafka_queue_destroy(queue);
        let mut topics = answer.unwrap_or_else(|| Err(failed("no answer in time")))?;
        topics.pop().map_or_else(|| Err(failed("the answer is about no topic")), |(_, it)| it)
    }
}

/// Options of a question that is answered with a ticket.
///
/// # Safety
/// The client is alive. The options are the caller's to free.
unsafe fn options(
    native: *mut rd::rd_kafka_t,
    kind: rd::rd_kafka_admin_op_t,
    timeout: Duration,
    ticket: usize,
) -> *mut rd::rd_kafka_AdminOptions_t {
    // SAFETY: by contract; the ticket is carried as an opaque pointer that nobody follows.
    unsafe {
        let options = rd::rd_kafka_AdminOptions_new(native, kind);
        rd::rd_kafka_AdminOptions_set_request_timeout(options, millis(timeout), ptr::null_mut(), 0);
        rd::rd_kafka_AdminOptions_set_opaque(options, ptr::without_provenance_mut(ticket));
        options
    }
}

/// # Safety
/// Client and queue are alive.
unsafe fn describe(
    native: *mut rd::rd_kafka_t,
    topics: &[CString],
    timeout: Duration,
    ticket: usize,
    queue: *mut rd::rd_kafka_queue_t,
) {
    let mut names: Vec<_> = topics.iter().map(|topic| topic.as_ptr()).collect();
    // SAFETY: by contract; options and collection are ours, are used by the request only until it returned
    // (it copies them), and are freed once each.
    unsafe {
        let kind = rd::rd_kafka_admin_op_t::RD_KAFKA_ADMIN_OP_DESCRIBETOPICS;
        let options = options(native, kind, timeout, ticket);
        let topics = rd::rd_kafka_TopicCollection_of_topic_names(names.as_mut_ptr(), names.len());
        rd::rd_kafka_DescribeTopics(native, topics, options, queue);
        rd::rd_kafka_TopicCollection_destroy(topics);
        rd::rd_kafka_AdminOptions_destroy(options);
    }
}

/// Writes what librdkafka says of each of its settings into a file.
#[cfg(test)]
pub(crate) fn write_properties(path: &CStr) {
    // SAFETY: both names are texts; the file is open while it is written to, and closed once.
    unsafe {
        let file = libc::fopen(path.as_ptr(), c"w".as_ptr());
        assert!(!file.is_null(), "the file cannot be written");
        rd::rd_kafka_conf_properties_show(file);
        assert_eq!(libc::fclose(file), 0, "the file is not whole");
    }
}

/// Whether it is librdkafka's mock, by the id that it gives itself; false before the first metadata.
pub(crate) fn is_mock<C: ConsumerContext>(client: &BaseConsumer<C>) -> bool {
    let native = client.client().native_ptr();
    // SAFETY: the client is alive; the text is ours, is copied and freed once. Nothing is waited for.
    unsafe {
        let id = rd::rd_kafka_clusterid(native, 0);
        let mock = text(id).starts_with("mockCluster");
        if !id.is_null() {
            rd::rd_kafka_mem_free(native, id.cast());
        }
        mock
    }
}

/// # Safety
/// `event` is a live event.
unsafe fn read_descriptions(
    event: *mut rd::rd_kafka_event_t,
) -> Result<Vec<TopicDescription>, NoFacts> {
    // SAFETY: by contract; what the result points to lives as long as the event.
    unsafe {
        check_answer(rd::rd_kafka_event_error(event), rd::rd_kafka_event_error_string(event))?;
        let result = rd::rd_kafka_event_DescribeTopics_result(event);
        let mut count = 0;
        let topics = rd::rd_kafka_DescribeTopics_result_topics(result, &raw mut count);
        let all = (0..count).map(|at| {
            let topic = *topics.add(at);
            (text(rd::rd_kafka_TopicDescription_name(topic)), facts(topic))
        });
        Ok(all.collect())
    }
}

/// # Safety
/// `topic` is a description of a live event.
unsafe fn facts(topic: *const rd::rd_kafka_TopicDescription_t) -> Result<TopicState, NoFacts> {
    // SAFETY: by contract.
    unsafe {
        let error = rd::rd_kafka_TopicDescription_error(topic);
        check_answer(rd::rd_kafka_error_code(error), rd::rd_kafka_error_string(error))?;
        let id = rd::rd_kafka_TopicDescription_topic_id(topic);
        let high = rd::rd_kafka_Uuid_most_significant_bits(id).cast_unsigned();
        let low = rd::rd_kafka_Uuid_least_significant_bits(id).cast_unsigned();
        let mut count = 0;
        rd::rd_kafka_TopicDescription_partitions(topic, &raw mut count);
        let id = Uuid::from_u64_pair(high, low).into_bytes();
        Ok(TopicState { id, partitions: Some(count) })
    }
}

/// # Safety
/// `why` is null or a text that ends in a zero byte.
unsafe fn check_answer(code: RDKafkaRespErr, why: *const std::ffi::c_char) -> Result<(), NoFacts> {
    match good(code) {
        Ok(()) => Ok(()),
        Err(RDKafkaErrorCode::UnsupportedFeature | RDKafkaErrorCode::UnsupportedVersion) => {
            Err(NoFacts::Unsupported)
        }
        Err(RDKafkaErrorCode::UnknownTopicOrPartition | RDKafkaErrorCode::UnknownTopic) => {
            Err(NoFacts::Missing)
        }
        Err(RDKafkaErrorCode::TopicAuthorizationFailed) => Err(NoFacts::Forbidden),
        // SAFETY: by contract.
        Err(_) => Err(NoFacts::Failed(unsafe { text(why) })),
    }
}

pub(crate) fn good(code: RDKafkaRespErr) -> Result<(), RDKafkaErrorCode> {
    match code {
        RDKafkaRespErr::RD_KAFKA_RESP_ERR_NO_ERROR => Ok(()),
        code => Err(code.into()),
    }
}

fn millis(time: Duration) -> i32 {
    i32::try_from(time.as_millis()).unwrap_or(i32::MAX)
}

/// # Safety
/// `start` is null, or points to `length` bytes that live as long as `'a`.
unsafe fn bytes<'a>(start: *const u8, length: usize) -> Option<&'a [u8]> {
    // SAFETY: by contract.
    (!start.is_null()).then(|| unsafe { slice::from_raw_parts(start, length) })
}

/// # Safety
/// `start` is null or a text that ends in a zero byte.
unsafe fn text(start: *const std::ffi::c_char) -> String {
    if start.is_null() {
        return String::new();
    }
    // SAFETY: by contract.
    unsafe { CStr::from_ptr(start) }.to_string_lossy().trim().to_owned()
}

/// # Safety
/// `list` is null or a live list that outlives `'a` and is not changed meanwhile.
unsafe fn elements<'a>(
    list: *const rd::rd_kafka_topic_partition_list_t,
) -> &'a [rd::rd_kafka_topic_partition_t] {
    // SAFETY: by contract; a list has `cnt` elements.
    unsafe {
        match list.as_ref() {
            Some(list) if list.cnt > 0 => {
                slice::from_raw_parts(list.elems, usize::try_from(list.cnt).unwrap_or(0))
            }
            _ => &[],
        }
    }
}

/// # Safety
/// The element is alive, its topic a text.
unsafe fn copy_partition(element: &rd::rd_kafka_topic_partition_t) -> EventPartition {
    // SAFETY: by contract.
    let topic = unsafe { text(element.topic) };
    let (partition, offset) = (element.partition, element.offset);
    EventPartition { topic, partition, offset, error: element.err.into() }
}
