//! The reader: rules that were checked once, applied to every record.

use std::cell::OnceCell;

use super::{Pointer, ReadError, ReadRules, RulesError, Source, rules::Places, seen::Seen};
use crate::{Envelope, Record, Text};

/// The name of the hash that lanes are computed with: the beginning of every
/// [`Reader::lane_rule`]. The hash itself is the consumer's.
pub const LANE_HASH: &str = "xxh3-64/v1";

/// Reads records as events, by rules that were checked when it was built. Shared by reference; it
/// keeps nothing about the records it saw.
///
/// With `preset = "own"` it allocates nothing per event: texts are slices of the record. (Give it
/// the topics with [`Reader::with_topics`] if the aggregate type is the topic's name.) A payload is
/// parsed only if a pointer is asked for, and once.
#[derive(Clone, Debug)]
pub struct Reader {
    pub(super) places: Places,
    /// Every pointer of the rules, once.
    pub(super) pointers: Vec<Pointer>,
    topics: Vec<Text>,
    event_bytes_max: usize,
    lane_rule: String,
}

impl Reader {
    /// A reader for these rules.
    ///
    /// # Errors
    ///
    /// When the rules leave out what the preset does not have, or contradict themselves.
    pub fn new(rules: &ReadRules) -> Result<Self, RulesError> {
        let (least, most) = (ReadRules::EVENT_BYTES_MAX_LEAST, ReadRules::EVENT_BYTES_MAX_MOST);
        let bytes = rules.event_bytes_max;
        if !(least..=most).contains(&bytes) {
            return Err(RulesError::EventBytesMax { bytes, least, most });
        }
        let places = Places::of(rules)?;
        let mut pointers: Vec<Pointer> = Vec::new();
        for pointer in places.each().flat_map(|(_, places)| places.pointers()) {
            if !pointers.contains(pointer) {
                pointers.push(pointer.clone());
            }
        }
        let lane_rule = format!("{LANE_HASH}:{}", places.aggregate);
        Ok(Self { places, pointers, topics: Vec::new(), event_bytes_max: bytes, lane_rule })
    }

    /// Tells it the topics it will read, so that their names need not be copied for each event.
    #[must_use]
    pub fn with_topics<T: Into<Text>>(mut self, topics: impl IntoIterator<Item = T>) -> Self {
        self.topics.extend(topics.into_iter().map(Into::into));
        self
    }

    /// Reads a record as an event.
    ///
    /// # Errors
    ///
    /// When it is larger than `event_bytes_max`, or a part is missing or wrong. The same record
    /// gives the same answer every time.
    pub fn read(
        &self,
        topic: &str,
        partition: i32,
        offset: i64,
        record: &Record,
    ) -> Result<Envelope, ReadError> {
        let (bytes, max) = (record.size(), self.event_bytes_max);
        if bytes > max {
            return Err(ReadError::TooLarge { bytes, max });
        }
        let pointed = OnceCell::new();
        Seen { reader: self, topic, partition, offset, record, pointed }.envelope()
    }

    /// The bytes that decide the record's lane, known without looking at the payload, so that also
    /// a record that cannot be read stays in line with its aggregate.
    ///
    /// All events of one aggregate have the same ones. `None` means that the record names no
    /// aggregate outside of its payload: either it has none, and then it cannot be read as an event
    /// either, or [`Reader::lane_needs_payload`]. So this serves for every rule:
    ///
    /// ```
    /// # use outbox_core::{Envelope, ReadError, Reader, Record};
    /// fn order_key<'a>(
    ///     reader: &'a Reader,
    ///     topic: &'a str,
    ///     record: &'a Record,
    ///     event: &'a Result<Envelope, ReadError>,
    /// ) -> Option<&'a [u8]> {
    ///     let of_event = |event: &'a Envelope| event.aggregate.aggregate_id().as_bytes();
    ///     reader.order_key(topic, record).or_else(|| event.as_ref().ok().map(of_event))
    /// }
    /// ```
    pub fn order_key<'a>(&'a self, topic: &'a str, record: &'a Record) -> Option<&'a [u8]> {
        let look = |at: &'a Source| -> Option<&'a [u8]> {
            match at {
                Source::Header(name) => record.header_bytes(name.as_bytes()).map(|v| &v[..]),
                Source::Key | Source::KeyHex => record.key.as_deref(),
                Source::Value(value) => Some(value.as_bytes()),
                Source::Topic => Some(topic.as_bytes()),
                Source::Pointer(_) | Source::Position => None,
            }
        };
        self.places.aggregate.as_slice().iter().filter_map(look).find(|key| !key.is_empty())
    }

    /// How lanes come about, as a text that is stored with them: `xxh3-64/v1:` and the places of
    /// the aggregate id, joined by `|`. Another text means that lanes mean something else.
    ///
    /// ```
    /// use outbox_core::{ReadRules, Reader};
    ///
    /// let reader = Reader::new(&ReadRules::own())?;
    /// assert_eq!(reader.lane_rule(), "xxh3-64/v1:header:aggregate_id|key");
    /// # Ok::<(), outbox_core::RulesError>(())
    /// ```
    pub fn lane_rule(&self) -> &str {
        &self.lane_rule
    }

    /// Whether the aggregate id is in the payload. An unreadable record then has no order key: which
    /// aggregate it belongs to is not known, and whoever keeps order has to hold the partition.
    pub fn lane_needs_payload(&self) -> bool {
        self.places.aggregate.pointers().next().is_some()
    }

    /// The largest record that it reads, in bytes.
    pub fn event_bytes_max(&self) -> usize {
        self.event_bytes_max
    }

    /// The topic's name, shared if it was told.
    pub(super) fn topic(&self, topic: &str) -> Text {
        self.topics.iter().find(|known| **known == *topic).cloned().unwrap_or_else(|| topic.into())
    }
}
