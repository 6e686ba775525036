//! A record as librdkafka has it.

use std::{ffi::CStr, ptr};

use rdkafka::{bindings as rd, types::RDKafkaErrorCode};

use super::copied::{bytes, good};
use crate::event::HeaderView;

/// A record inside its event.
#[derive(Clone, Copy)]
pub(crate) struct RecordView<'e> {
    pub(super) message: &'e rd::rd_kafka_message_t,
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
