//! What Kafka Connect's converters make of a key, of headers and of a value.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use serde::de::IgnoredAny;

use super::{
    Pointer, ReadError, TimeUnit,
    pointer::{self, Pointed},
};
use crate::{Header, JsonFault, Record, time::rfc3339};

/// How `JsonConverter` begins what it gives a schema: it writes without white space.
const WITH_SCHEMA: &[u8] = b"{\"schema\":";
/// Fields of an envelope whose logical types are looked at.
const FIELDS_MAX: usize = 32;

/// A converter, as far as its output can be read.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum Converter {
    /// Not known: what is written as JSON, by the looks of it, is read as JSON.
    #[default]
    Any,
    /// Its output is the column's text or bytes.
    Plain,
    /// `JsonConverter`; whether it writes schemas, if that is known.
    Json(Option<bool>),
    /// `LongConverter`, `IntegerConverter` and `ShortConverter`: a number, the highest byte first.
    Number,
}

/// How values are written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Connect {
    pub(super) key: Converter,
    pub(super) value: Converter,
    pub(super) header: Converter,
    /// Whether the value is an object whose member `payload` is the payload.
    pub(super) envelope: bool,
    /// Whether a text is base64, whatever a schema says.
    pub(super) base64: bool,
}

/// A record's value, taken apart.
#[derive(Clone, Default, Debug)]
pub(super) struct Opened {
    /// The event's payload.
    pub(super) payload: Option<Bytes>,
    /// What stands behind the pointers of `envelope:` places, in their order.
    pub(super) around: Vec<Pointed>,
}

/// Why a value cannot be taken apart.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Closed {
    NoJson(JsonFault),
    /// It is JSON without a payload where that should be.
    NoPayload,
    /// It is JSON without a member of that name.
    NoMember(&'static str),
    /// It should have a schema around it.
    NoSchema,
    /// An envelope is written as Java shows it, by `StringConverter`.
    Struct,
    /// It is no base64.
    NoBase64,
}

impl From<Closed> for ReadError {
    fn from(closed: Closed) -> Self {
        let text = match closed {
            Closed::NoJson(fault) => return Self::InvalidJson(fault),
            Closed::NoMember(name) => {
                let text = format!(
                    "the value is a JSON object without the member `{name}`, which contains the payload"
                );
                return Self::Preset { reason: "invalid_payload", text };
            }
            Closed::NoPayload => {
                "the value is JSON without the member `payload`: `table.fields.additional.placement` in \
                 [events.debezium] requires an envelope with it; set it as in the connector"
            }
            Closed::NoSchema => {
                "the value has no schema, but `value.converter.schemas.enable` in [events.debezium] is true; set it \
                 as in the connector"
            }
            Closed::Struct => {
                "the value is an envelope written by StringConverter, which cannot be read: set `value.converter` of \
                 the connector to JsonConverter, or place the columns in headers by \
                 `table.fields.additional.placement`"
            }
            Closed::NoBase64 => {
                "the payload is not base64, as `payload.encoding` in [events.debezium] or its schema require; set \
                 `payload.encoding` to text, or remove it"
            }
        };
        Self::Preset { reason: "invalid_payload", text: text.to_owned() }
    }
}

impl Connect {
    /// Takes a value apart. `around` are the pointers of `envelope:` places.
    pub(super) fn open(&self, value: &Bytes, around: &[Pointer]) -> Result<Opened, Closed> {
        let plain =
            || Opened { payload: Some(value.clone()), around: vec![Pointed::Absent; around.len()] };
        if self.envelope && value.starts_with(b"Struct{") {
            return Err(Closed::Struct);
        }
        let begins = value.starts_with(WITH_SCHEMA);
        let with_schema = match self.value {
            Converter::Json(Some(true)) if !begins => return Err(Closed::NoSchema),
            Converter::Json(Some(schemas)) => schemas,
            Converter::Json(None) | Converter::Any => begins,
            Converter::Plain | Converter::Number if !self.envelope => return Ok(plain()),
            Converter::Plain | Converter::Number => false,
        };
        let sure = self.envelope || self.value != Converter::Any;
        if !sure && !with_schema && !value.starts_with(b"\"") {
            // Of what is no text only null stands for something else.
            return Ok(if **value == *b"null" {
                Opened { payload: None, ..plain() }
            } else {
                plain()
            });
        }
        let place = [with_schema, self.envelope]
            .iter()
            .filter(|deeper| **deeper)
            .fold(Pointer::whole(), |place, _| place.child("payload"));
        let below = |pointer: &Pointer| {
            if with_schema { pointer.below("payload") } else { pointer.clone() }
        };
        let mut pointers = vec![place, Pointer::whole().child("schema")];
        pointers.extend(around.iter().map(below));
        let mut found = vec![None; pointers.len()];
        match Pointer::find_all(&pointers, value, &mut found) {
            Err(_) if !sure => return Ok(plain()),
            Err(error) => return Err(Closed::NoJson(JsonFault::of(value, &error))),
            Ok(()) => {}
        }
        let payload = match found[0] {
            Some(json) => self.payload(value, json, found[1].filter(|_| with_schema), sure)?,
            None if sure => return Err(Closed::NoPayload),
            None => return Ok(plain()),
        };
        let pointed = found[2..].iter().map(|json| match json {
            Some(json) => pointer::value(value, json).map_err(Closed::NoJson),
            None => Ok(Pointed::Absent),
        });
        let mut pointed = pointed.collect::<Result<Vec<_>, _>>()?;
        if let Some(schema) = found[1].filter(|_| with_schema) {
            for (place, pointed) in around.iter().zip(&mut pointed) {
                read_time(schema, place, pointed);
            }
        }
        Ok(Opened { payload, around: pointed })
    }

    /// The record with the text of its key and of each header; nothing where it has that already.
    pub(super) fn texts(&self, record: &Record) -> Option<Record> {
        let key = record.key.as_ref().and_then(|key| self.key.text(key));
        let header = |header: &Header| {
            let value = header.value.as_ref().and_then(|value| self.header.header_text(value));
            Header { name: header.name.clone(), value }
        };
        let is_text = |header: &Header| {
            let value = header.value.as_ref();
            value.is_none_or(|value| self.header.is_text(value))
        };
        if key == record.key && record.headers.iter().all(is_text) {
            return None;
        }
        Some(Record { key, headers: record.headers.iter().map(header).collect(), ..record.clone() })
    }

    /// What a payload is, that is written as this JSON.
    fn payload(
        &self,
        value: &Bytes,
        json: &str,
        schema: Option<&str>,
        sure: bool,
    ) -> Result<Option<Bytes>, Closed> {
        if json == "null" {
            return Ok(None);
        }
        if !json.starts_with('"') {
            return Ok(Some(value.slice_ref(json.as_bytes())));
        }
        let text = match pointer::value(value, json).map_err(Closed::NoJson)? {
            Pointed::Scalar(text) => text,
            Pointed::Absent | Pointed::Unfit => return Err(Closed::NoPayload),
        };
        if self.base64 || schema.is_some_and(|schema| self.is_of_bytes(schema)) {
            return STANDARD
                .decode(&text)
                .map(|bytes| Some(bytes.into()))
                .map_err(|_| Closed::NoBase64);
        }
        // A text that holds no JSON may be JSON itself, which a converter has left as it is.
        let guessed = !sure && schema.is_none();
        if guessed && serde_json::from_slice::<IgnoredAny>(&text).is_err() {
            return Ok(Some(value.clone()));
        }
        Ok(Some(text))
    }

    /// Whether a schema is that of bytes, or of an envelope whose first field, the payload, is of bytes.
    fn is_of_bytes(&self, schema: &str) -> bool {
        let place = Pointer::whole();
        let place = if self.envelope {
            place.child("fields").child("0").child("type")
        } else {
            place.child("type")
        };
        let mut found = [None];
        let read = Pointer::find_all(&[place], schema.as_bytes(), &mut found);
        read.is_ok() && found[0] == Some("\"bytes\"")
    }
}

impl Converter {
    /// A record whose key is the text that a converter has written as JSON, or none where that is null: so order is kept
    /// by what the aggregate is called, and by nothing where it is none. Nothing where the key may stay as it is.
    pub(super) fn plain_key(self, record: &Record) -> Option<Record> {
        let key = record.key.as_ref()?;
        if !matches!(self, Self::Any | Self::Json(_)) {
            return None;
        }
        let text = self.text(key);
        // What would be read as another one once more stays.
        let stays = |text: &Bytes| text != key && self.text(text).as_ref() == Some(text);
        text.as_ref().is_none_or(stays).then(|| Record { key: text, ..record.clone() })
    }

    /// Whether bytes are the text that they stand for.
    fn is_text(self, bytes: &Bytes) -> bool {
        match self {
            Self::Plain => true,
            Self::Number => !matches!(bytes.len(), 2 | 4 | 8),
            Self::Any | Self::Json(_) => {
                let null = self != Self::Any && **bytes == *b"null";
                !null && !self.has_schema(bytes) && !bytes.starts_with(b"\"")
            }
        }
    }

    /// Whether bytes are JSON with a schema around it.
    fn has_schema(self, bytes: &Bytes) -> bool {
        bytes.starts_with(WITH_SCHEMA) && matches!(self, Self::Any | Self::Json(None | Some(true)))
    }

    /// The text that a header has. A time whose schema says what it counts is written as RFC 3339, which needs no unit.
    pub(super) fn header_text(self, bytes: &Bytes) -> Option<Bytes> {
        let text = self.text(bytes)?;
        if !self.has_schema(bytes) {
            return Some(text);
        }
        Some(time_of_schema(bytes, "/schema", &text).unwrap_or(text))
    }

    /// The text that a key or a header has; nothing for null. What cannot be read stays as it is.
    pub(super) fn text(self, bytes: &Bytes) -> Option<Bytes> {
        if self.is_text(bytes) {
            return Some(bytes.clone());
        }
        if self == Self::Number {
            return Some(number(bytes).unwrap_or_else(|| bytes.clone()));
        }
        let json = Pointer::whole();
        let json = if self.has_schema(bytes) { json.child("payload") } else { json };
        let mut found = [None];
        let read = Pointer::find_all(&[json], bytes, &mut found);
        let json = read.ok().and(found[0]);
        match json.map(|json| (json, pointer::value(bytes, json))) {
            Some((_, Ok(Pointed::Scalar(text)))) => Some(text),
            Some((_, Ok(Pointed::Absent))) => None,
            Some((json, _)) => Some(bytes.slice_ref(json.as_bytes())),
            None => Some(bytes.clone()),
        }
    }
}

/// Makes a text of a member of an envelope that is a time by the schema around it.
fn read_time(schema: &str, place: &Pointer, pointed: &mut Pointed) {
    let Pointed::Scalar(number) = pointed else { return };
    let fields: Vec<Pointer> = (0..FIELDS_MAX)
        .map(|at| Pointer::whole().child("fields").child(&at.to_string()).child("field"))
        .collect();
    let mut names = vec![None; fields.len()];
    if Pointer::find_all(&fields, schema.as_bytes(), &mut names).is_err() {
        return;
    }
    let named = |name: &str| *place == Pointer::whole().child(name.trim_matches('"'));
    if let Some(at) = names.iter().position(|name| name.is_some_and(named))
        && let Some(time) = time_of_schema(schema.as_bytes(), &format!("/fields/{at}"), number)
    {
        *pointed = Pointed::Scalar(time);
    }
}

/// The time that a number is by the logical type of its schema, which is at `place` of the JSON.
fn time_of_schema(json: &[u8], place: &str, number: &Bytes) -> Option<Bytes> {
    let name = format!("{place}/name").parse::<Pointer>().ok()?;
    let mut found = [None];
    Pointer::find_all(&[name], json, &mut found).ok()?;
    let unit = TimeUnit::of_logical_type(found[0]?.trim_matches('"'))?;
    let micros = unit.micros(std::str::from_utf8(number).ok()?.parse().ok()?)?;
    Some(rfc3339(micros).into())
}

/// A number of 2, 4 or 8 bytes, in decimal.
fn number(bytes: &[u8]) -> Option<Bytes> {
    let number = match bytes.len() {
        2 => i64::from(i16::from_be_bytes(bytes.try_into().ok()?)),
        4 => i64::from(i32::from_be_bytes(bytes.try_into().ok()?)),
        8 => i64::from_be_bytes(bytes.try_into().ok()?),
        _ => return None,
    };
    Some(number.to_string().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn any() -> Connect {
        let (key, value, header) = Default::default();
        Connect { key, value, header, envelope: false, base64: false }
    }

    fn payload(connect: &Connect, value: &str) -> Option<String> {
        let opened = connect.open(&Bytes::copy_from_slice(value.as_bytes()), &[]).unwrap();
        opened.payload.map(|bytes| String::from_utf8(bytes.to_vec()).unwrap())
    }

    #[test]
    fn a_value_is_read_by_its_looks_where_no_converter_is_named() {
        for (value, expected) in [
            (r#"{"n": 1}"#, Some(r#"{"n": 1}"#)),
            (r#""{\"n\": 1}""#, Some(r#"{"n": 1}"#)),
            (r#""a plain string""#, Some(r#""a plain string""#)),
            (r#""\"a plain string\"""#, Some(r#""a plain string""#)),
            ("null", None),
            ("no JSON", Some("no JSON")),
            (r#""no JSON"#, Some(r#""no JSON"#)),
            (r#"{"schema":{"type":"string"},"payload":"{\"n\": 1}"}"#, Some(r#"{"n": 1}"#)),
            (r#"{"schema":{"type":"struct"},"payload":{"n": 1}}"#, Some(r#"{"n": 1}"#)),
            (r#"{"schema":{"type":"string"},"payload":null}"#, None),
            (r#"{"schema":{"type":"bytes"},"payload":"aGk="}"#, Some("hi")),
            (r#"{"schema":1,"other":2}"#, Some(r#"{"schema":1,"other":2}"#)),
            (r#"{"schema":{"#, Some(r#"{"schema":{"#)),
        ] {
            assert_eq!(payload(&any(), value).as_deref(), expected, "{value}");
        }
    }

    #[test]
    fn a_value_is_what_a_named_converter_writes() {
        let by = |value| Connect { value, ..any() };
        let text = r#""a plain string""#;
        assert_eq!(payload(&by(Converter::Plain), text).as_deref(), Some(text));
        assert_eq!(payload(&by(Converter::Json(None)), text).as_deref(), Some("a plain string"));
        let json = by(Converter::Json(Some(true)));
        assert_eq!(json.open(&Bytes::from_static(b"{}"), &[]).unwrap_err(), Closed::NoSchema);
        let refused = by(Converter::Json(Some(false))).open(&Bytes::from_static(b"{"), &[]);
        assert!(matches!(refused, Err(Closed::NoJson(_))));
        let base64 = Connect { base64: true, ..by(Converter::Json(Some(false))) };
        assert_eq!(payload(&base64, r#""aGk=""#).as_deref(), Some("hi"));
        assert_eq!(base64.open(&Bytes::from_static(b"\"?\""), &[]).unwrap_err(), Closed::NoBase64);
    }

    #[test]
    fn keys_and_headers_are_texts_under_any_converter() {
        let text =
            |converter: Converter, bytes: &'static [u8]| converter.text(&Bytes::from_static(bytes));
        for (converter, bytes, expected) in [
            (Converter::Any, &b"order-7"[..], Some(&b"order-7"[..])),
            (Converter::Any, br#""order-7""#, Some(b"order-7")),
            (Converter::Any, br#""a\"b""#, Some(b"a\"b")),
            (Converter::Any, b"\"", Some(b"\"")),
            (Converter::Any, b"null", Some(b"null")),
            (Converter::Json(None), b"null", None),
            (Converter::Any, br#"{"schema":{"type":"int64"},"payload":42}"#, Some(b"42")),
            (Converter::Any, br#"{"schema":{"type":"string"},"payload":null}"#, None),
            (
                Converter::Json(Some(false)),
                br#"{"schema":1,"payload":2}"#,
                Some(br#"{"schema":1,"payload":2}"#),
            ),
            (Converter::Plain, br#""order-7""#, Some(br#""order-7""#)),
            (Converter::Number, &[0, 0, 0, 0, 0, 0, 0, 42], Some(b"42")),
            (Converter::Number, &[255, 255, 255, 255], Some(b"-1")),
            (Converter::Number, b"x", Some(b"x")),
        ] {
            assert_eq!(text(converter, bytes).as_deref(), expected, "{converter:?} {bytes:?}");
        }
    }
}
