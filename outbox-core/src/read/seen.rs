//! One record under the reader's eyes: the parts it has, where the rules say they are.

use std::{borrow::Cow, cell::OnceCell};

use bytes::Bytes;

use super::{
    Part, ReadError, Source, Sources,
    connect::Opened,
    envelopes,
    pointer::{self, Pointed},
    reader::{IdScope, Reader, alone},
    rules::{bytes_max, whole},
    shape::Shape,
    time,
};
use crate::{
    Aggregate, Envelope, EventId, IdError, JsonFault, Problem, Record, Text,
    problem::{SOURCE_ID_BYTES_MAX, check_text},
};

/// A record and where it is.
pub(super) struct Seen<'a> {
    pub(super) reader: &'a Reader,
    pub(super) topic: &'a str,
    pub(super) partition: i32,
    pub(super) offset: i64,
    pub(super) record: &'a Record,
    /// What stands behind the reader's pointers; parsed when the first of them is asked for.
    pub(super) pointed: OnceCell<Result<Vec<Pointed>, JsonFault>>,
    /// The record's value, taken apart; nothing of a format that has nothing around the payload.
    pub(super) opened: OnceCell<Result<Opened, ReadError>>,
}

/// What a place had: never empty.
struct Found<'a> {
    at: &'a Source,
    /// Borrowed of the record: only what is kept counts as an owner.
    bytes: Cow<'a, Bytes>,
}

impl<'a> Seen<'a> {
    pub(super) fn envelope(&self) -> Result<Envelope, ReadError> {
        let rules = &self.reader.rules;
        let (event_id, source_id) = self.id()?;
        Ok(Envelope {
            event_id,
            source_id,
            event_type: self.text(Part::Type, &rules.event_type)?,
            aggregate: self.aggregate()?,
            aggregate_version: self.parsed(
                Part::AggregateVersion,
                rules.aggregate_version.as_ref(),
                whole,
            )?,
            occurred_at_ms: self.parsed(Part::OccurredAt, rules.occurred_at.as_ref(), |text| {
                time::millis(text, rules.occurred_at_unit)
            })?,
            schema_version: self.parsed(
                Part::SchemaVersion,
                rules.schema_version.as_ref(),
                whole,
            )?,
            payload: self.payload()?.cloned(),
        })
    }

    /// The id, and what the producer wrote where that is not what the id shows.
    fn id(&self) -> Result<(EventId, Option<Text>), ReadError> {
        let (id, source_id) = self.id_of_consumer()?;
        let id = match self.reader.id_scope {
            IdScope::Consumer => id,
            // The topic itself: where an id's source is read from the record, its producer chooses it.
            IdScope::Topic => id.within(self.topic).map_err(ReadError::InvalidId)?,
        };
        Ok((id, source_id))
    }

    fn id_of_consumer(&self) -> Result<(EventId, Option<Text>), ReadError> {
        let rules = &self.reader.rules;
        let Some(found) = self.find(Part::Id, &rules.id)? else {
            if !rules.id.has(&Source::Position) {
                return Err(self.missing(Part::Id, &rules.id));
            }
            let source = self.text(Part::IdSource, &rules.id_source)?;
            let id = EventId::at(&source, self.partition, self.offset);
            return Ok((id.map_err(ReadError::InvalidId)?, None));
        };
        if let Some(own) = EventId::from_uuid_text(&**found.bytes) {
            let scoped = self.reader.id_scope == IdScope::Topic;
            return Ok((own, scoped.then(|| shown(&found.bytes))));
        }
        // What is no text is no id that two systems would write alike.
        if std::str::from_utf8(&found.bytes).is_err() {
            return Err(invalid(Part::Id, found.at, Problem::NotUtf8));
        }
        let source = self.text(Part::IdSource, &rules.id_source)?;
        match EventId::foreign(&source, &**found.bytes) {
            Ok(id) => Ok((id, Some(shown(&found.bytes)))),
            Err(IdError::TooLong { bytes, max }) => {
                Err(invalid(Part::Id, found.at, Problem::TooLong { bytes, max }))
            }
            Err(error) => Err(ReadError::InvalidId(error)),
        }
    }

    /// A null key asks for no order: the event is an aggregate of its own, named by its position (C4).
    fn aggregate(&self) -> Result<Aggregate, ReadError> {
        let places = &self.reader.rules.aggregate_id;
        let keyless = places.has_key() && self.key().is_none();
        let aggregate_id = match self.find(Part::AggregateId, places)? {
            Some(found) => Self::checked(Part::AggregateId, found)?,
            None if keyless => alone(self.partition, self.offset).into(),
            None => return Err(self.missing(Part::AggregateId, places)),
        };
        let aggregate_type = self.text(Part::AggregateType, &self.reader.rules.aggregate_type)?;
        Ok(Aggregate { aggregate_type, aggregate_id })
    }

    /// A text that has to be there.
    fn text(&self, part: Part, places: &'a Sources) -> Result<Text, ReadError> {
        let found = self.find(part, places)?.ok_or_else(|| self.missing(part, places))?;
        Self::checked(part, found)
    }

    fn checked(part: Part, found: Found<'_>) -> Result<Text, ReadError> {
        check_text(&found.bytes, bytes_max(part))
            .map(drop)
            .and_then(|()| Text::try_from(found.bytes.into_owned()).map_err(|_| Problem::NotUtf8))
            .map_err(|problem| invalid(part, found.at, problem))
    }

    /// A value that may be absent, but not wrong.
    fn parsed<T>(
        &self,
        part: Part,
        places: Option<&'a Sources>,
        parse: impl Fn(&str) -> Result<T, Problem>,
    ) -> Result<Option<T>, ReadError> {
        let Some(places) = places else { return Ok(None) };
        let Some(found) = self.find(part, places)? else { return Ok(None) };
        check_text(&found.bytes, bytes_max(part))
            .and_then(parse)
            .map(Some)
            .map_err(|problem| invalid(part, found.at, problem))
    }

    /// What the first place has that has anything.
    fn find(&self, part: Part, places: &'a Sources) -> Result<Option<Found<'a>>, ReadError> {
        for at in places.as_slice() {
            if let Some(bytes) = self.look(part, at)?.filter(|bytes| !bytes.is_empty()) {
                return Ok(Some(Found { at, bytes }));
            }
        }
        Ok(None)
    }

    fn look(&self, part: Part, at: &Source) -> Result<Option<Cow<'a, Bytes>>, ReadError> {
        Ok(match at {
            Source::Header(name) => {
                let header = self.record.header_bytes(name.as_bytes());
                match &self.reader.shape {
                    Shape::Connect(connect) => {
                        header.and_then(|header| connect.header.header_text(header)).map(Cow::Owned)
                    }
                    Shape::Envelope(_) => {
                        header.map(|header| Cow::Owned(envelopes::first_type(name, header)))
                    }
                    Shape::Plain => header.map(Cow::Borrowed),
                }
            }
            // Some such bytes look like a text, with a length or quotes around it.
            Source::Key if self.record.is_key_of_schema() => {
                return Err(invalid(part, at, Problem::OfSchema));
            }
            Source::Key => self.key(),
            Source::KeyHex => self.record.key.as_ref().map(|key| Cow::Owned(hex(key))),
            Source::Pointer(pointer) => {
                let Some(payload) = self.payload()? else { return Ok(None) };
                let pointers = &self.reader.pointers;
                let pointed = self.pointed.get_or_init(|| pointer::take(pointers, payload));
                let pointed =
                    pointed.as_ref().map_err(|fault| ReadError::InvalidJson(fault.clone()))?;
                let here = pointers.iter().position(|it| it == pointer);
                scalar(part, at, here.and_then(|i| pointed.get(i)))?
            }
            Source::Envelope(pointer) => {
                let around = &self.open()?.around;
                let here = self.reader.around.iter().position(|it| it == pointer);
                scalar(part, at, here.and_then(|i| around.get(i)))?
            }
            Source::Constant(value) => Some(Cow::Owned(value.clone().into())),
            Source::Topic => Some(Cow::Owned(self.reader.topic(self.topic).into())),
            Source::TopicPart(pattern) => pattern
                .part(self.topic)
                .map(|part| Cow::Owned(Bytes::from(self.reader.topic(self.topic)).slice(part))),
            Source::Position => None,
        })
    }

    /// The event's payload.
    fn payload(&self) -> Result<Option<&Bytes>, ReadError> {
        match self.reader.shape {
            Shape::Plain => Ok(self.record.payload.as_ref()),
            Shape::Connect(_) | Shape::Envelope(_) => Ok(self.open()?.payload.as_ref()),
        }
    }

    fn open(&self) -> Result<&Opened, ReadError> {
        let Reader { shape, around, .. } = self.reader;
        let open = || shape.open(self.record, around).map_err(ReadError::from);
        self.opened.get_or_init(open).as_ref().map_err(Clone::clone)
    }

    /// The key as text, where a converter wrote it.
    fn key(&self) -> Option<Cow<'a, Bytes>> {
        let key = self.record.key.as_ref()?;
        match &self.reader.shape {
            Shape::Plain | Shape::Envelope(_) => Some(Cow::Borrowed(key)),
            Shape::Connect(connect) => connect.key.text(key).map(Cow::Owned),
        }
    }

    fn missing(&self, part: Part, places: &Sources) -> ReadError {
        match (&self.record.payload, places.pointers().next()) {
            (None, Some(pointer)) => ReadError::Tombstone { part, pointer: pointer.clone() },
            _ => ReadError::missing(part, places),
        }
    }
}

/// What a pointer has led to, as a place that has it or not.
fn scalar<'a>(
    part: Part,
    at: &Source,
    pointed: Option<&Pointed>,
) -> Result<Option<Cow<'a, Bytes>>, ReadError> {
    match pointed {
        None | Some(Pointed::Absent) => Ok(None),
        Some(Pointed::Scalar(bytes)) => Ok(Some(Cow::Owned(bytes.clone()))),
        Some(Pointed::Unfit) => Err(invalid(part, at, Problem::NotScalar)),
    }
}

fn invalid(part: Part, at: &Source, problem: Problem) -> ReadError {
    match at {
        Source::Header(name) => ReadError::InvalidHeader { name: name.clone(), part, problem },
        Source::Key | Source::KeyHex => ReadError::InvalidKey { part, problem },
        Source::Pointer(pointer) | Source::Envelope(pointer) => {
            ReadError::InvalidPointer { pointer: pointer.clone(), part, problem }
        }
        Source::Constant(_) | Source::Topic | Source::TopicPart(_) | Source::Position => {
            ReadError::InvalidPart { part, problem }
        }
    }
}

fn hex(key: &[u8]) -> Bytes {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |nibble: u8| DIGITS[usize::from(nibble)];
    key.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

/// A foreign id for people: cut to its limit, without what a database's text cannot hold.
fn shown(id: &Bytes) -> Text {
    if let Ok(text) = std::str::from_utf8(id)
        && !id.contains(&0)
    {
        let end = text.floor_char_boundary(SOURCE_ID_BYTES_MAX);
        return Text::try_from(id.slice(..end)).unwrap_or_default();
    }
    let mut text = String::from_utf8_lossy(id).replace('\0', "\u{fffd}");
    text.truncate(text.floor_char_boundary(SOURCE_ID_BYTES_MAX));
    text.into()
}
