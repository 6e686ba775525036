//! Where a value of an event is taken from.

use std::{borrow::Cow, fmt};

use bytes::Bytes;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use crate::{Problem, Record, Text};

/// A place in a record. In a configuration it is a text: `header:NAME`, `key`, `pointer:/json/pointer`
/// (into a JSON payload), `topic`, or `value:CONSTANT`.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Source {
    /// The last header of a name.
    Header(Text),
    /// The record key.
    Key,
    /// A place in the JSON payload (RFC 6901).
    Pointer(String),
    /// The topic's name.
    Topic,
    /// The same for every record.
    Constant(Text),
}

impl Source {
    /// Reads the configuration's form.
    ///
    /// # Errors
    /// A sentence that names the forms there are.
    pub fn parse(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            None if text == "key" => Ok(Self::Key),
            None if text == "topic" => Ok(Self::Topic),
            Some(("header", name)) if !name.is_empty() => Ok(Self::Header(name.into())),
            Some(("pointer", pointer)) if pointer.starts_with('/') => {
                Ok(Self::Pointer(pointer.into()))
            }
            Some(("value", value)) if !value.is_empty() => Ok(Self::Constant(value.into())),
            _ => Err(format!(
                "`{text}` is no place in a record; write header:NAME, key, pointer:/a/b, topic or \
                 value:CONSTANT"
            )),
        }
    }

    /// Whether the payload has to be parsed for it.
    pub fn needs_payload(&self) -> bool {
        matches!(self, Self::Pointer(_))
    }

    /// The bytes there, without copying those of the record. Null and empty headers are absent.
    pub(super) fn bytes(
        &self,
        topic: &str,
        record: &Record,
        payload: Option<&Value>,
    ) -> Result<Option<Bytes>, Problem> {
        Ok(match self {
            Self::Header(name) => record.header(name).filter(|value| !value.is_empty()).cloned(),
            Self::Key => record.key.clone(),
            Self::Topic => Some(Bytes::copy_from_slice(topic.as_bytes())),
            Self::Constant(text) => Some(text.clone().into()),
            Self::Pointer(pointer) => match payload.and_then(|json| json.pointer(pointer)) {
                None | Some(Value::Null) => None,
                Some(Value::String(text)) => Some(Bytes::copy_from_slice(text.as_bytes())),
                Some(Value::Number(n)) if n.is_i64() || n.is_u64() => Some(n.to_string().into()),
                Some(_) => return Err(Problem::NotScalar),
            },
        })
    }

    /// The bytes for ordering: only what needs no payload.
    pub(super) fn order<'r>(&'r self, topic: &'r str, record: &'r Record) -> Option<Cow<'r, [u8]>> {
        match self {
            Self::Header(name) => {
                record.header(name).filter(|v| !v.is_empty()).map(|v| (&**v).into())
            }
            Self::Key => record.key.as_deref().map(Cow::Borrowed),
            Self::Topic => Some(topic.as_bytes().into()),
            Self::Constant(text) => Some(text.as_bytes().into()),
            Self::Pointer(_) => None,
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Header(name) => write!(f, "header:{name}"),
            Self::Key => f.write_str("key"),
            Self::Pointer(pointer) => write!(f, "pointer:{pointer}"),
            Self::Topic => f.write_str("topic"),
            Self::Constant(text) => write!(f, "value:{text}"),
        }
    }
}

impl<'de> Deserialize<'de> for Source {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).map_err(serde::de::Error::custom)
    }
}

impl Serialize for Source {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}
