//! What librdkafka can and rust-rdkafka does not show: events with the partition that an error is
//! about, leader epochs, commits with a ticket, topic ids, and the knobs of the mock cluster.
//!
//! The only folder with `unsafe`. Its types free what they own, borrow from what they point into, and
//! hold the client that a pointer belongs to, so that their callers need not know any of it.
#![expect(unsafe_code, reason = "the bindings have these functions, the wrapper does not")]

mod copied;
mod queue;
mod record;
mod topics;

use std::ffi::{CStr, CString};
#[cfg(feature = "testing")]
use std::{ptr::NonNull, time::Duration};

use rdkafka::{
    TopicPartitionList, bindings as rd,
    consumer::{BaseConsumer, Consumer as _, ConsumerContext},
};

pub(crate) use copied::good;
#[cfg(feature = "testing")]
use copied::millis;
use copied::{bytes, elements, text};
pub(crate) use queue::{Event, Queue};
pub(crate) use record::RecordView;
pub(crate) use topics::topic;

use crate::client::Client;

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

/// The partition of a key, as producers with `murmur2_random` choose it.
pub(crate) fn partition_of(key: &[u8], partitions: i32) -> i32 {
    // SAFETY: the function reads the bytes that the pair of pointer and length names, and none of the other pointers.
    unsafe {
        let none = std::ptr::null_mut();
        let key = (key.as_ptr().cast(), key.len());
        rd::rd_kafka_msg_partitioner_murmur2(
            none,
            key.0,
            key.1,
            partitions,
            none.cast(),
            none.cast(),
        )
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
