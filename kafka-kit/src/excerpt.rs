//! What is kept of a record that is too large: enough to know it again, and no more than a few kilobytes.
//!
//! Cut where it arrives, before anything of it is copied: whoever may write to a topic decides how large a record
//! is, and compressed a hundred megabytes are a hundred kilobytes.

use bytes::Bytes;
use outbox_core::{
    AGGREGATE_ID_BYTES_MAX, Header, ReadError, ReadRules, Record, Source, Sources, Text,
    internal::Excerpt,
};
use sha2::{Digest as _, Sha256};

/// The beginning of a payload.
const PAYLOAD_BYTES_MAX: usize = 1024;
/// A key, and the value of a header. What an aggregate is named by is never longer, so that such a record has the
/// same place in the order as ever.
const PART_BYTES_MAX: usize = AGGREGATE_ID_BYTES_MAX;
/// The name of a header.
const NAME_BYTES_MAX: usize = 256;
/// The first headers; behind them only what aggregates are named by.
const HEADERS_MAX: usize = 32;

/// What keeps a record from being read as it is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Flaw {
    /// It is too large, and kept in part.
    TooLarge(Excerpt),
    /// Its headers could not be read, and are left out.
    Headers(Text),
}

/// From which size on records are kept in part, and which parts never go.
#[derive(Clone, Debug)]
pub struct Excerpts {
    bytes_max: usize,
    /// The last header of each of these names.
    names: Vec<Text>,
}

impl Default for Excerpts {
    /// Whatever the size, records are kept whole.
    fn default() -> Self {
        Self { bytes_max: usize::MAX, names: Vec::new() }
    }
}

/// A record whose bytes are somebody else's.
pub(crate) struct BorrowedRecord<'r, H> {
    pub(crate) key: Option<&'r [u8]>,
    pub(crate) payload: Option<&'r [u8]>,
    pub(crate) headers: H,
    pub(crate) timestamp_ms: Option<i64>,
}

impl Excerpts {
    /// Of records with more bytes than an event may have, by these rules.
    pub fn of<'r>(rules: impl IntoIterator<Item = &'r ReadRules>, bytes_max: usize) -> Self {
        let places = |rules: &'r ReadRules| [&rules.aggregate_id, &rules.aggregate_type];
        let sources = rules.into_iter().flat_map(places).flat_map(Sources::as_slice);
        let mut names = Vec::new();
        for source in sources {
            match source {
                Source::Header(name) if !names.contains(name) => names.push(name.clone()),
                _ => {}
            }
        }
        Self { bytes_max, names }
    }

    /// The most bytes of a record that is kept whole.
    pub fn bytes_max(&self) -> usize {
        self.bytes_max
    }

    /// What is kept of a record that is too large.
    pub(crate) fn cut<'r>(
        &self,
        record: BorrowedRecord<'r, impl Iterator<Item = (&'r [u8], Option<&'r [u8]>)>>,
    ) -> (Record, Excerpt) {
        let BorrowedRecord { key, payload, headers, timestamp_ms } = record;
        let length = |bytes: Option<&[u8]>| bytes.map(<[u8]>::len);
        let mut excerpt = Excerpt {
            bytes: length(key).unwrap_or(0) + length(payload).unwrap_or(0),
            payload_bytes: length(payload),
            payload_sha256: payload.map(sha256),
            key_bytes: length(key),
            headers: 0,
        };
        let (mut kept, mut last) = (Vec::new(), vec![None; self.names.len()]);
        for (name, value) in headers {
            let text = String::from_utf8_lossy(name);
            excerpt.headers += 1;
            excerpt.bytes += text.len() + length(value).unwrap_or(0);
            let header = || Header {
                name: text[..text.floor_char_boundary(NAME_BYTES_MAX)].into(),
                value: value.map(|value| copy_prefix(value, PART_BYTES_MAX)),
            };
            if kept.len() < HEADERS_MAX {
                kept.push(header());
            } else if let Some(at) = self.names.iter().position(|known| known.as_bytes() == name) {
                last[at] = Some(header());
            }
        }
        kept.extend(last.into_iter().flatten());
        let record = Record {
            key: key.map(|key| copy_prefix(key, PART_BYTES_MAX)),
            headers: kept,
            payload: payload.map(|payload| copy_prefix(payload, PAYLOAD_BYTES_MAX)),
            timestamp_ms,
        };
        (record, excerpt)
    }

    /// The same of a record that came whole; `None` when it may stay so.
    pub fn of_whole(&self, record: &Record) -> Option<(Record, Excerpt)> {
        (record.size() > self.bytes_max).then(|| self.cut_whole(record))
    }

    /// The same, whatever its size is.
    pub fn cut_whole(&self, record: &Record) -> (Record, Excerpt) {
        self.cut(BorrowedRecord {
            key: record.key.as_deref(),
            payload: record.payload.as_deref(),
            headers: record.headers.iter().map(|h| (h.name.as_bytes(), h.value.as_deref())),
            timestamp_ms: record.timestamp_ms,
        })
    }

    /// Whether an excerpt is of this record.
    pub fn is_of(excerpt: &Excerpt, record: &Record) -> bool {
        let payload = record.payload.as_deref();
        (excerpt.bytes, excerpt.headers) == (record.size(), record.headers.len())
            && excerpt.payload_sha256 == payload.map(sha256)
    }
}

impl Flaw {
    /// Why the record is no event.
    pub fn error(&self, max: usize) -> ReadError {
        match self {
            Self::TooLarge(excerpt) => ReadError::TooLarge { bytes: excerpt.bytes, max },
            Self::Headers(problem) => ReadError::UnreadableHeaders { problem: problem.clone() },
        }
    }
}

fn sha256(bytes: &[u8]) -> String {
    let digest = Sha256::digest(bytes);
    let digits = digest.iter().flat_map(|byte| [byte >> 4, byte & 0xf]);
    digits.filter_map(|digit| char::from_digit(digit.into(), 16)).collect()
}

fn beginning(bytes: &[u8], max: usize) -> &[u8] {
    &bytes[..bytes.len().min(max)]
}

/// A copy: a slice would keep all of it in memory.
fn copy_prefix(bytes: &[u8], max: usize) -> Bytes {
    Bytes::copy_from_slice(beginning(bytes, max))
}
