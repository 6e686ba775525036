//! What a cluster knows of topics: the question, and its answer.

use std::{ffi::CString, ptr, ptr::NonNull, time::Duration};

use rdkafka::{
    bindings as rd,
    consumer::{BaseConsumer, Consumer as _, ConsumerContext},
    types::{RDKafkaErrorCode, RDKafkaRespErr},
};
use uuid::Uuid;

use super::copied::{good, millis, text};
use crate::{
    broker::TopicState,
    event::{NoFacts, TopicDescription},
};

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
pub(super) unsafe fn options(
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
pub(super) unsafe fn describe(
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
        let refused = rd::rd_kafka_AdminOptions_set_include_authorized_operations(options, 1);
        debug_assert!(refused.is_null(), "this kind of question has that option");
        if !refused.is_null() {
            rd::rd_kafka_error_destroy(refused);
        }
        let topics = rd::rd_kafka_TopicCollection_of_topic_names(names.as_mut_ptr(), names.len());
        rd::rd_kafka_DescribeTopics(native, topics, options, queue);
        rd::rd_kafka_TopicCollection_destroy(topics);
        rd::rd_kafka_AdminOptions_destroy(options);
    }
}

/// # Safety
/// `event` is a live event.
pub(super) unsafe fn read_descriptions(
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
        let mut known = 0;
        let operations = rd::rd_kafka_TopicDescription_authorized_operations(topic, &raw mut known);
        let read = rd::rd_kafka_AclOperation_t::RD_KAFKA_ACL_OPERATION_READ;
        let is_forbidden =
            !operations.is_null() && (0..known).all(|at| *operations.add(at) != read);
        Ok(TopicState { id, partitions: Some(count), is_forbidden })
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
