//! Records of a poll round, copied out of librdkafka and grouped by partition.

use bytes::{Bytes, BytesMut};
use inbox_engine::internal::{LeaderEpoch, Offset};
use outbox_core::{Header, Record, Text, header_names};

use crate::{
    broker::Arrival,
    event::HeaderView,
    excerpt::{BorrowedRecord, Excerpts, Flaw},
    ffi::RecordView,
};

/// Small pieces share an allocation of this many bytes; larger ones have their own. A record that
/// waits in a held lane keeps its neighbours' bytes alive, so it must not be much. A slab of jemalloc holds 16
/// allocations of this size, but only 2 of 2,048 bytes.
const CHUNK: usize = 1_792;

/// Names that most records have: not copied each time.
const NAMES: [&str; 11] = [
    header_names::EVENT_ID,
    header_names::EVENT_TYPE,
    header_names::AGGREGATE_TYPE,
    header_names::OCCURRED_AT,
    header_names::AGGREGATE_ID,
    header_names::AGGREGATE_VERSION,
    header_names::SCHEMA_VERSION,
    header_names::CORRELATION_ID,
    header_names::CAUSATION_ID,
    header_names::TRACEPARENT,
    header_names::TRACESTATE,
];

/// What keeps the client from reading headers.
const TOO_MANY: &str = "there are more than 100,000, the limit of the Kafka client, or they are \
                        malformed; have its producer send fewer";

/// What has arrived in this round and was not sent yet.
#[derive(Debug, Default)]
pub(crate) struct Gather {
    open: Vec<(usize, Vec<Arrival>)>,
    last: usize,
    chunk: BytesMut,
    bytes: usize,
    excerpts: Excerpts,
}

impl Gather {
    /// Records that are too large are kept in part.
    pub(crate) fn new(excerpts: Excerpts) -> Self {
        Self { excerpts, ..Self::default() }
    }

    /// Bytes gathered since the last [`Gather::take`].
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn take_in(&mut self, number: usize, record: &RecordView<'_>) {
        let arrival = self.arrival(record);
        self.bytes += arrival.weight();
        self.arrivals(number).push(arrival);
    }

    /// A record, copied out.
    pub(crate) fn arrival(&mut self, record: &RecordView<'_>) -> Arrival {
        let (copied, flaw) = self.copy(record);
        Arrival {
            offset: Offset(record.offset()),
            leader_epoch: LeaderEpoch(record.leader_epoch()),
            record: copied,
            flaw: flaw.map(Box::new),
        }
    }

    /// Everything gathered, by partition.
    pub(crate) fn take(&mut self) -> Vec<(usize, Vec<Arrival>)> {
        (self.last, self.bytes) = (0, 0);
        std::mem::take(&mut self.open)
    }

    fn arrivals(&mut self, number: usize) -> &mut Vec<Arrival> {
        if self.open.get(self.last).is_none_or(|(open, _)| *open != number) {
            let found = self.open.iter().position(|(open, _)| *open == number);
            self.last = found.unwrap_or_else(|| {
                self.open.push((number, Vec::new()));
                self.open.len() - 1
            });
        }
        &mut self.open[self.last].1
    }

    fn copy(&mut self, record: &RecordView<'_>) -> (Record, Option<Flaw>) {
        let (headers, fault) = record.headers();
        let length = |bytes: Option<&[u8]>| bytes.map_or(0, <[u8]>::len);
        let bytes = length(record.key()) + length(record.payload());
        let Some(mut room) = self.excerpts.bytes_max().checked_sub(bytes) else {
            return self.cut(record);
        };
        let mut problem = fault.map(|_| Text::from_static(TOO_MANY));
        let mut copied = Vec::with_capacity(headers.len());
        for HeaderView { name, value, whole } in headers {
            let Some(left) = room.checked_sub(name.len() + length(value)) else {
                return self.cut(record);
            };
            room = left;
            if !whole {
                problem = Some(zero_byte_name(name));
            }
            let name = self.text_of(name);
            copied.push(Header { name, value: value.map(|bytes| self.bytes_of(bytes)) });
        }
        let key = record.key().map(|bytes| self.bytes_of(bytes));
        let payload = record.payload().map(|bytes| self.bytes_of(bytes));
        let timestamp_ms = record.timestamp_ms();
        let copied = Record { key, headers: copied, payload, timestamp_ms };
        (copied, problem.map(Flaw::Headers))
    }

    /// What is too large is not copied whole.
    fn cut(&self, record: &RecordView<'_>) -> (Record, Option<Flaw>) {
        let borrowed = BorrowedRecord {
            key: record.key(),
            payload: record.payload(),
            headers: record.headers().0.map(|header| (header.name, header.value)),
            timestamp_ms: record.timestamp_ms(),
        };
        let (kept, excerpt) = self.excerpts.cut(borrowed);
        (kept, Some(Flaw::TooLarge(excerpt)))
    }

    /// Kafka says that names are UTF-8; what is not is made so, visibly.
    fn text_of(&mut self, name: &[u8]) -> Text {
        if let Some(known) = NAMES.iter().find(|known| known.as_bytes() == name) {
            return Text::from_static(known);
        }
        let copied = self.bytes_of(name);
        Text::try_from(copied).unwrap_or_else(|_| String::from_utf8_lossy(name).into_owned().into())
    }

    fn bytes_of(&mut self, bytes: &[u8]) -> Bytes {
        if bytes.is_empty() {
            return Bytes::new();
        }
        if bytes.len() > CHUNK / 2 {
            return Bytes::copy_from_slice(bytes);
        }
        if self.chunk.capacity() < bytes.len() {
            self.chunk = BytesMut::with_capacity(CHUNK);
        }
        self.chunk.extend_from_slice(bytes);
        self.chunk.split().freeze()
    }
}

/// What is wrong with a header whose name goes on behind a zero byte: the client shows the beginning alone, which
/// may be the name of another.
fn zero_byte_name(name: &[u8]) -> Text {
    let name = String::from_utf8_lossy(&name[..name.len().min(64)]).escape_debug().to_string();
    format!("one name contains a zero byte, after `{name}`; have its producer remove it").into()
}
