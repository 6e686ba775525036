//! What is copied out of librdkafka's texts, bytes and lists.

use std::{ffi::CStr, slice, time::Duration};

use rdkafka::{
    bindings as rd,
    types::{RDKafkaErrorCode, RDKafkaRespErr},
};

use crate::event::EventPartition;

pub(crate) fn good(code: RDKafkaRespErr) -> Result<(), RDKafkaErrorCode> {
    match code {
        RDKafkaRespErr::RD_KAFKA_RESP_ERR_NO_ERROR => Ok(()),
        code => Err(code.into()),
    }
}

pub(super) fn millis(time: Duration) -> i32 {
    i32::try_from(time.as_millis()).unwrap_or(i32::MAX)
}

/// # Safety
/// `start` is null, or points to `length` bytes that live as long as `'a`.
pub(super) unsafe fn bytes<'a>(start: *const u8, length: usize) -> Option<&'a [u8]> {
    // SAFETY: by contract.
    (!start.is_null()).then(|| unsafe { slice::from_raw_parts(start, length) })
}

/// # Safety
/// `start` is null or a text that ends in a zero byte.
pub(super) unsafe fn text(start: *const std::ffi::c_char) -> String {
    if start.is_null() {
        return String::new();
    }
    // SAFETY: by contract.
    unsafe { CStr::from_ptr(start) }.to_string_lossy().trim().to_owned()
}

/// # Safety
/// `list` is null or a live list that outlives `'a` and is not changed meanwhile.
pub(super) unsafe fn elements<'a>(
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
pub(super) unsafe fn copy_partition(element: &rd::rd_kafka_topic_partition_t) -> EventPartition {
    // SAFETY: by contract.
    let topic = unsafe { text(element.topic) };
    let (partition, offset) = (element.partition, element.offset);
    EventPartition { topic, partition, offset, error: element.err.into() }
}
