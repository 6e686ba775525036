//! The reader: rules that were checked once, applied to every record.

use std::cell::OnceCell;

use super::{
    Pointer, Preset, ReadError, ReadRules, RuleKeys, RulesError, Source, Sources, seen::Seen,
    shape::Shape,
};
use crate::{Envelope, Record, Text};

/// What a reader finds out besides the event.
#[derive(Clone, Default, Debug)]
pub struct ReadAs {
    /// The record with key and headers as rules read them, where it is written in another way: what handlers are given.
    /// In a box, since few events have one and each waits in memory.
    pub record: Option<Box<Record>>,
    /// Whether the event's id alone tells which event it is, so that a duplicate may have another payload: it is the
    /// place of one change in its database's log.
    pub told_by_id: bool,
    /// Whether the event is an aggregate of its own, named by where the record is: a duplicate has another name.
    pub is_alone: bool,
    /// Whether a text that a schema describes holds the payload: see [`Payload`](crate::Payload).
    pub is_text_in_schema: bool,
}

/// Where an event id is one event's.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum IdScope {
    /// In all topics of a consumer: an event that is copied or moved to another topic is recognised, and whoever may
    /// write to one topic can take the id of another topic's event before it comes.
    #[default]
    Consumer,
    /// In its topic: see [`EventId::within`](crate::EventId::within).
    Topic,
}

/// Reads records as events, by rules that were checked when it was built. Shared by reference; it
/// keeps nothing about the records it saw.
///
/// [`Reader::own`] allocates nothing per event: texts are slices of the record. (Give it the topics
/// with [`Reader::with_topics`] if the aggregate type is the topic's name.) A payload is parsed only
/// if a pointer is asked for, and once; nothing but the way to the pointers is looked at.
#[derive(Clone, Debug)]
pub struct Reader {
    pub(super) rules: ReadRules,
    /// Every pointer of the rules into the payload, once.
    pub(super) pointers: Vec<Pointer>,
    /// The same of those into what is around it.
    pub(super) around: Vec<Pointer>,
    /// What is around it.
    pub(super) shape: Shape,
    pub(super) preset: Option<Preset>,
    /// Whether the id is where the preset has it.
    has_own_id: bool,
    /// Topics that are read by another reader.
    others: Vec<(Text, Self)>,
    pub(super) id_scope: IdScope,
    topics: Vec<Text>,
    bytes_max: usize,
    lane_rule: String,
}

impl Reader {
    /// A reader by rules. Records above `bytes_max` bytes of key, headers and payload together are
    /// refused before anything in them is looked at.
    ///
    /// # Errors
    ///
    /// When the rules contradict themselves.
    pub fn new(rules: ReadRules, bytes_max: usize) -> Result<Self, RulesError> {
        rules.check()?;
        Ok(Self::checked(rules, None, bytes_max))
    }

    /// A reader of a format that has a name. What `keys` has goes before the format's own places.
    ///
    /// # Errors
    ///
    /// When the rules that come of it contradict themselves.
    pub fn preset(preset: Preset, keys: &RuleKeys, bytes_max: usize) -> Result<Self, RulesError> {
        let rules = keys.over(preset.rules());
        rules.check()?;
        let has_own_id = keys.id.is_none();
        Ok(Self { has_own_id, ..Self::checked(rules, Some(preset), bytes_max) })
    }

    /// A reader of this project's own headers: see [`header_names`](crate::header_names).
    pub fn own(bytes_max: usize) -> Self {
        Self::checked(ReadRules::own(), None, bytes_max)
    }

    fn checked(rules: ReadRules, preset: Option<Preset>, bytes_max: usize) -> Self {
        let pointers = pointers_of(&rules, |at| match at {
            Source::Pointer(pointer) => Some(pointer),
            _ => None,
        });
        let around = pointers_of(&rules, |at| match at {
            Source::Envelope(pointer) => Some(pointer),
            _ => None,
        });
        let lane_rule = rules.aggregate_id.to_string();
        let shape = preset.as_ref().map_or(Shape::Plain, Preset::shape);
        let (id_scope, topics, others) = (IdScope::default(), Vec::new(), Vec::new());
        Self {
            rules,
            pointers,
            around,
            shape,
            preset,
            has_own_id: false,
            others,
            id_scope,
            topics,
            bytes_max,
            lane_rule,
        }
    }

    /// Reads the records of one topic by another reader.
    #[must_use]
    pub fn with_topic(mut self, topic: impl Into<Text>, reader: Self) -> Self {
        self.others.push((topic.into(), reader));
        self
    }

    /// The reader of a topic's records.
    #[doc(hidden)]
    pub fn of_topic(&self, topic: &str) -> &Self {
        // Nearly always there is none.
        self.others.iter().find(|(name, _)| *name == *topic).map_or(self, |(_, reader)| reader)
    }

    /// The rules of all topics.
    #[doc(hidden)]
    pub fn all_rules(&self) -> impl Iterator<Item = &ReadRules> {
        std::iter::once(&self.rules).chain(self.others.iter().map(|(_, reader)| &reader.rules))
    }

    /// Tells it the topics it will read, so that their names need not be copied for each event.
    #[must_use]
    pub fn with_topics<T: Into<Text>>(mut self, topics: impl IntoIterator<Item = T>) -> Self {
        self.topics.extend(topics.into_iter().map(Into::into));
        for (_, reader) in &mut self.others {
            reader.topics.clone_from(&self.topics);
        }
        self
    }

    /// Tells it where an event id is one event's; [`IdScope::Consumer`] unless it is told.
    #[must_use]
    pub fn with_id_scope(mut self, id_scope: IdScope) -> Self {
        self.id_scope = id_scope;
        for (_, reader) in &mut self.others {
            reader.id_scope = id_scope;
        }
        self
    }

    /// Reads a record as an event.
    ///
    /// # Errors
    ///
    /// When it is too large, or a part is missing or wrong. The same record gives the same answer
    /// every time.
    pub fn read(
        &self,
        topic: &str,
        partition: i32,
        offset: i64,
        record: &Record,
    ) -> Result<Envelope, ReadError> {
        self.read_as(topic, partition, offset, record).map(|(event, _)| event)
    }

    /// The same, with what handlers and the inbox have to know besides.
    ///
    /// # Errors
    ///
    /// As [`Reader::read`].
    #[doc(hidden)]
    pub fn read_as(
        &self,
        topic: &str,
        partition: i32,
        offset: i64,
        record: &Record,
    ) -> Result<(Envelope, ReadAs), ReadError> {
        let (bytes, max) = (record.size(), self.bytes_max);
        if bytes > max {
            return Err(ReadError::TooLarge { bytes, max });
        }
        let reader = self.of_topic(topic);
        let (event, read_as) = match &reader.preset {
            None => (reader.seen(topic, partition, offset, record).envelope()?, ReadAs::default()),
            Some(preset) => {
                let read = preset.plain(topic, record).and_then(|plain| {
                    let event = reader.seen(topic, partition, offset, &plain.record).envelope()?;
                    let told_by_id = plain.told_by_id && reader.has_own_id;
                    let record = reader.shape.texts(plain.record).map(Box::new);
                    let is_text_in_schema = preset.has_text_in_schema();
                    let read_as =
                        ReadAs { record, told_by_id, is_text_in_schema, ..ReadAs::default() };
                    Ok((event, read_as))
                });
                read.map_err(|error| preset.explain(error, record))?
            }
        };
        let name = event.aggregate.aggregate_id();
        let is_alone = name.starts_with('@') && name == alone(partition, offset);
        Ok((event, ReadAs { is_alone, ..read_as }))
    }

    fn seen<'a>(
        &'a self,
        topic: &'a str,
        partition: i32,
        offset: i64,
        record: &'a Record,
    ) -> Seen<'a> {
        let (pointed, opened) = (OnceCell::new(), OnceCell::new());
        Seen { reader: self, topic, partition, offset, record, pointed, opened }
    }

    /// A record in the form that order is kept by, where its format has such a form: a `CloudEvent` in structured mode
    /// as one in binary mode, so that handlers find its attributes, too; a key that a converter has written as JSON as
    /// the text that it is. The same event is read from it. Nothing where the record may stay as it is.
    #[doc(hidden)]
    pub fn unfold(&self, topic: &str, record: &Record) -> Option<Record> {
        let reader = self.of_topic(topic);
        let unfolded = reader.preset.as_ref()?.unfold(&reader.shape, record)?;
        // What looks at the key's bytes would find others.
        let hex = || reader.rules.each().any(|(_, places)| places.has(&Source::KeyHex));
        (unfolded.key == record.key || !hex()).then_some(unfolded)
    }

    /// What order is kept by, known without looking at the payload, so that a record that cannot be
    /// read has its place, too (finding 3 of the protocol).
    ///
    /// All events of one aggregate have the same one. Empty: the record names no aggregate; then
    /// either its key is null, and it asks for no order, or it cannot be read as an event. `None`:
    /// the aggregate is inside the payload, and the whole partition is one sequence.
    #[doc(hidden)]
    pub fn order_key<'a>(&'a self, topic: &'a str, record: &'a Record) -> Option<&'a [u8]> {
        self.of_topic(topic).rules.aggregate_id.outside_payload(topic, record)
    }

    /// The rules that it reads by.
    pub fn rules(&self) -> &ReadRules {
        &self.rules
    }

    /// Where the aggregate comes from, as the database keeps it: the places joined by `|`. Another
    /// text means other lanes.
    ///
    /// ```
    /// use outbox_core::Reader;
    ///
    /// assert_eq!(Reader::own(1 << 20).lane_rule(), "header:aggregate_id|key");
    /// ```
    #[doc(hidden)]
    pub fn lane_rule(&self) -> &str {
        &self.lane_rule
    }

    /// The topic's name, shared if it was told.
    pub(super) fn topic(&self, topic: &str) -> Text {
        self.topics.iter().find(|known| **known == *topic).cloned().unwrap_or_else(|| topic.into())
    }
}

/// The id of an aggregate that is one event, whose record has no key: where that is.
pub(super) fn alone(partition: i32, offset: i64) -> String {
    format!("@{partition}-{offset}")
}

/// Every pointer of the rules that is of one kind, once.
fn pointers_of<'r>(
    rules: &'r ReadRules,
    kind: impl Fn(&'r Source) -> Option<&'r Pointer>,
) -> Vec<Pointer> {
    let mut pointers: Vec<Pointer> = Vec::new();
    for pointer in
        rules.each().map(|(_, places)| places).flat_map(Sources::as_slice).filter_map(kind)
    {
        if !pointers.contains(pointer) {
            pointers.push(pointer.clone());
        }
    }
    pointers
}
