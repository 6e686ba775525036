//! Places where a part of an event is found.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de, ser::SerializeSeq};

use super::{Pointer, topic_pattern::TopicPattern};
use crate::{Record, Text};

/// A place where a part of an event is found, and how a configuration writes it.
///
/// | written | is |
/// |---|---|
/// | `header:NAME` | the last header of that name |
/// | `key` | the record key, as text |
/// | `key:hex` | the record key in lower-case hexadecimal, for keys that are no text |
/// | `pointer:/json/pointer` | a text or whole number in a JSON payload (RFC 6901) |
/// | `value:CONSTANT` | always this |
/// | `topic` | the topic's name |
/// | `topic:PRE*POST` | the part of the topic's name that `*` stands for; `PRE` begins the name or follows a dot |
/// | `envelope:/json/pointer` | the same as `pointer:`, in the value of the record around the payload: for formats that have one |
/// | `position` | topic, partition and offset: for `id` only, as the last resort |
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Source {
    /// The last header of that name.
    Header(Text),
    /// The record key, as text.
    Key,
    /// The record key in hexadecimal.
    KeyHex,
    /// A scalar in the payload.
    Pointer(Pointer),
    /// A constant.
    Constant(Text),
    /// The topic's name.
    Topic,
    /// A part of the topic's name.
    TopicPart(TopicPattern),
    /// A scalar in what the format has around the payload.
    Envelope(Pointer),
    /// The record's position.
    Position,
}

impl Source {
    /// For sentences: `the header "x"`.
    fn describe(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Header(name) => write!(f, "the header `{name}`"),
            Self::Key | Self::KeyHex => f.write_str("the record key"),
            Self::Pointer(pointer) => write!(f, "the payload at `{pointer}`"),
            Self::Constant(_) => f.write_str("the configured value"),
            Self::Topic => f.write_str("the topic's name"),
            Self::TopicPart(pattern) => write!(f, "the topic's name as `{pattern}`"),
            Self::Envelope(pointer) => write!(f, "the record's value at `{pointer}`"),
            Self::Position => f.write_str("the record's position"),
        }
    }
}

impl Source {
    /// The same bytes that a part is made of, as far as they are outside of the payload.
    fn bytes<'a>(&'a self, topic: &'a str, record: &'a Record) -> Option<&'a [u8]> {
        match self {
            Self::Header(name) => record.header_bytes(name.as_bytes()).map(|value| &value[..]),
            Self::Key | Self::KeyHex => record.key.as_deref(),
            Self::Constant(text) => Some(text.as_bytes()),
            Self::Topic => Some(topic.as_bytes()),
            Self::TopicPart(pattern) => pattern.part(topic).map(|part| topic[part].as_bytes()),
            Self::Pointer(_) | Self::Envelope(_) | Self::Position => None,
        }
    }
}

impl FromStr for Source {
    type Err = SourceError;

    fn from_str(text: &str) -> Result<Self, SourceError> {
        let wrong = || SourceError::Unknown(text.to_owned());
        match text.split_once(':') {
            None => match text {
                "key" => Ok(Self::Key),
                "topic" => Ok(Self::Topic),
                "position" => Ok(Self::Position),
                _ => Err(wrong()),
            },
            Some(("header", name)) => header(name).map(Self::Header),
            Some(("key", "hex")) => Ok(Self::KeyHex),
            Some(("topic", pattern)) if pattern.contains('*') => TopicPattern::new(pattern)
                .map(Self::TopicPart)
                .ok_or_else(|| SourceError::TopicPattern(pattern.to_owned())),
            Some(("pointer", pointer)) => pointer.parse().map(Self::Pointer),
            Some(("envelope", pointer)) => pointer.parse().map(Self::Envelope),
            Some(("value", value)) if !value.is_empty() => Ok(Self::Constant(value.into())),
            Some(_) => Err(wrong()),
        }
    }
}

/// `|` separates sources in the lane rule.
fn header(name: &str) -> Result<Text, SourceError> {
    if name.is_empty() || name.contains(|c: char| c.is_control() || c == '|') {
        return Err(SourceError::HeaderName(name.to_owned()));
    }
    Ok(name.into())
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Header(name) => write!(f, "header:{name}"),
            Self::Key => f.write_str("key"),
            Self::KeyHex => f.write_str("key:hex"),
            Self::Pointer(pointer) => write!(f, "pointer:{pointer}"),
            Self::Constant(value) => write!(f, "value:{value}"),
            Self::Topic => f.write_str("topic"),
            Self::TopicPart(pattern) => write!(f, "topic:{pattern}"),
            Self::Envelope(pointer) => write!(f, "envelope:{pointer}"),
            Self::Position => f.write_str("position"),
        }
    }
}

/// Places to look at in turn: the first one that has something counts. Null and empty values count
/// as nothing. A configuration writes one text or a list of texts.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Sources(Vec<Source>);

impl Sources {
    /// The most places of one part.
    pub const COUNT_MAX: usize = 8;

    /// Places to look at, in this order.
    ///
    /// # Errors
    ///
    /// When there are none, or more than [`Sources::COUNT_MAX`].
    pub fn new(sources: impl IntoIterator<Item = Source>) -> Result<Self, SourceError> {
        let sources: Vec<Source> = sources.into_iter().collect();
        if sources.is_empty() || sources.len() > Self::COUNT_MAX {
            return Err(SourceError::Count(sources.len()));
        }
        Ok(Self(sources))
    }

    /// The bytes of the first place that has any, known without looking at the payload: a slice of the
    /// record, empty when no place has any. `None`: a place is inside the payload.
    #[doc(hidden)]
    pub fn outside_payload<'a>(&'a self, topic: &'a str, record: &'a Record) -> Option<&'a [u8]> {
        if self.pointers().next().is_some() {
            return None;
        }
        let mut places = self.0.iter();
        let found = places.find_map(|at| at.bytes(topic, record).filter(|bytes| !bytes.is_empty()));
        Some(found.unwrap_or_default())
    }

    pub(crate) fn then(mut self, source: Source) -> Self {
        self.0.push(source);
        self
    }

    /// The places, in order; at least one.
    pub fn as_slice(&self) -> &[Source] {
        &self.0
    }

    pub(crate) fn has(&self, source: &Source) -> bool {
        self.0.contains(source)
    }

    pub(crate) fn has_key(&self) -> bool {
        self.has(&Source::Key) || self.has(&Source::KeyHex)
    }

    /// Whether records of one topic may differ in what is found: not so where a constant or the topic's
    /// name comes first. A part of the name may not be there, in any record of the topic.
    #[doc(hidden)]
    pub fn varies(&self) -> bool {
        let mut places = self.0.iter().skip_while(|at| matches!(at, Source::TopicPart(_)));
        places.next().is_some_and(|at| !matches!(at, Source::Constant(_) | Source::Topic))
    }

    /// The places that are inside of the record's value.
    #[doc(hidden)]
    pub fn pointers(&self) -> impl Iterator<Item = &Pointer> {
        self.0.iter().filter_map(|source| match source {
            Source::Pointer(pointer) | Source::Envelope(pointer) => Some(pointer),
            _ => None,
        })
    }

    /// For sentences: the places joined by "or".
    pub(crate) fn described(&self) -> impl fmt::Display {
        fmt::from_fn(|f| {
            for (i, source) in self.0.iter().enumerate() {
                f.write_str(if i == 0 { "" } else { " or " })?;
                source.describe(f)?;
            }
            Ok(())
        })
    }
}

/// The places joined by `|`, as a lane rule has them.
impl fmt::Display for Sources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, source) in self.0.iter().enumerate() {
            write!(f, "{}{source}", if i == 0 { "" } else { "|" })?;
        }
        Ok(())
    }
}

/// What [`Display`](fmt::Display) has written. A constant that may hold a `|` of its own is not guessed at.
impl FromStr for Sources {
    type Err = SourceError;

    fn from_str(text: &str) -> Result<Self, SourceError> {
        if text.starts_with("pointer:") || text.starts_with("envelope:") {
            return text.parse().map(|only: Source| only.into());
        }
        let places: Vec<&str> = text.split('|').collect();
        if places.len() > 1 && places.iter().any(|place| place.starts_with("value:")) {
            return Err(SourceError::Unknown(text.to_owned()));
        }
        let places: Vec<Source> =
            places.into_iter().map(str::parse).collect::<Result<_, SourceError>>()?;
        Self::new(places)
    }
}

impl From<Source> for Sources {
    fn from(source: Source) -> Self {
        Self(vec![source])
    }
}

impl Serialize for Sources {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if let [one] = self.as_slice() {
            return serializer.collect_str(one);
        }
        let mut list = serializer.serialize_seq(Some(self.0.len()))?;
        for source in &self.0 {
            list.serialize_element(&source.to_string())?;
        }
        list.end()
    }
}

impl<'de> Deserialize<'de> for Sources {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(OneOrMany)
    }
}

struct OneOrMany;

impl<'de> de::Visitor<'de> for OneOrMany {
    type Value = Sources;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a place such as `header:NAME`, or a list of places")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Sources, E> {
        text.parse().map(|one: Source| one.into()).map_err(E::custom)
    }

    fn visit_seq<A: de::SeqAccess<'de>>(self, mut list: A) -> Result<Sources, A::Error> {
        let mut sources: Vec<Source> = Vec::new();
        while let Some(text) = list.next_element::<String>()? {
            sources.push(text.parse().map_err(de::Error::custom)?);
        }
        Sources::new(sources).map_err(de::Error::custom)
    }
}

/// Why a text names no place.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SourceError {
    /// It is none of the forms.
    #[error(
        "`{0}` is not a place in a record; write `header:NAME`, `key`, `key:hex`, \
         `pointer:/json/pointer`, `envelope:/json/pointer`, `value:CONSTANT`, `topic`, \
         `topic:PRE*POST` or, for an id, `position`"
    )]
    Unknown(String),
    /// The header's name is no name.
    #[error(
        "`header:{0}` is not a header name: it must not be empty, and must not contain `|` or \
         control characters"
    )]
    HeaderName(String),
    /// The pattern of a topic's name is none.
    #[error(
        "`topic:{0}` is not a part of a topic's name: it has letters, digits, `.`, `_` and `-`, \
         and one `*`"
    )]
    TopicPattern(String),
    /// The pointer is none.
    #[error(
        "`pointer:{0}` is not a JSON pointer: it begins with `/`, writes `~` as `~0` and `/` as \
         `~1`, and has 32 steps at most"
    )]
    Pointer(String),
    /// Too few or too many.
    #[error("a list of {0} places: 1 to 8 are allowed")]
    Count(usize),
}
