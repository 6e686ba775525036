//! `CloudEvents` 1.0: the structured mode as the binary one, and a request of HTTP as a record of Kafka.
//!
//! In binary mode an attribute is a header (`ce_id`), and the value is the data. In structured mode the value is a JSON
//! object with all of it, of which the same headers are made: what reads the one reads the other.

use std::{borrow::Cow, fmt};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use serde::de::{Deserializer as _, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::{
    Part, ReadError, ReadRules, Source, Sources,
    pointer::{self, Pointed},
};
use crate::{Header, JsonFault, Record, Text};

/// What the headers of attributes begin with, on Kafka and in HTTP.
const ON_KAFKA: &str = "ce_";
const IN_HTTP: &str = "ce-";
const CONTENT_TYPE: &str = "content-type";
const MEDIA_TYPE: &str = "application/cloudevents";
/// Headers by which a record is in binary mode, whatever its value looks like.
const BINARY: [&str; 3] = ["ce_id", "ce_specversion", "ce_partitionkey"];

/// Where the parts are in binary mode.
pub(super) fn rules() -> ReadRules {
    let header = |name| Source::Header(Text::from_static(name));
    let mut rules = ReadRules::new(header("ce_id"), header("ce_type"));
    rules.id_source = header("ce_source").into();
    // The key is made of `partitionkey` by the binding's own rule; not every producer follows it.
    rules.aggregate_id = Sources::from(Source::Key).then(header("ce_partitionkey"));
    rules.occurred_at = Some(header("ce_time").into());
    rules
}

/// What to say when a part is missing, or JSON is none.
pub(super) fn advice(part: Option<Part>) -> Option<&'static str> {
    Some(match part {
        Some(Part::Id | Part::Type | Part::IdSource) => {
            "an attribute is a header (`ce_id`, `ce_source`, `ce_type`) in binary mode, and a \
             member of the JSON value in structured mode (content type \
             application/cloudevents+json); have the producer send all required attributes"
        }
        Some(Part::AggregateId) => {
            "have the producer set the attribute `partitionkey`, from which the key is derived, \
             or no key; or set `events.rules.aggregate_id` to another attribute, such as \
             `header:ce_subject`"
        }
        None => {
            "by its content type, or by its member `specversion`, it is a CloudEvent in \
             structured mode; have the producer send JSON, or the content type of the data in \
             binary mode"
        }
        Some(_) => return None,
    })
}

/// How much of an attribute's name is shown, in bytes.
const NAME_SHOWN_MAX: usize = 64;

enum Mode {
    Binary,
    Structured,
    /// Structured, if it has a version: no content type says so.
    Unnamed,
    Batch,
    /// Structured in a format other than JSON.
    Other,
}

/// A `CloudEvent` in binary mode, whatever its mode is.
pub(super) fn binary(record: &Record) -> Result<Cow<'_, Record>, ReadError> {
    let mode = mode(record);
    match mode {
        Mode::Binary => of_known_version(Cow::Borrowed(record)),
        Mode::Structured | Mode::Unnamed => {
            // Of what only looks like one, rules may know where its parts are.
            let opened = structured(record, &mode)?.map_or(Cow::Borrowed(record), Cow::Owned);
            of_known_version(opened)
        }
        Mode::Batch => Err(refused(
            "batch",
            "the record is a batch of CloudEvents (its content type is \
             application/cloudevents-batch), but each event must be a separate record; have the \
             producer send them one by one, in binary or structured mode",
        )),
        Mode::Other => Err(refused(
            "unknown_format",
            "the record is a CloudEvent in a format other than JSON (by its content type); have \
             the producer send application/cloudevents+json, or binary mode",
        )),
    }
}

/// Whether events of this `specversion` are read, from Kafka as by HTTP: patches of 1.0 change no event.
pub fn is_read(version: &[u8]) -> bool {
    version == b"1" || version.starts_with(b"1.")
}

fn of_known_version(record: Cow<'_, Record>) -> Result<Cow<'_, Record>, ReadError> {
    let Some(version) = record.header("ce_specversion") else { return Ok(record) };
    if is_read(version) || version.starts_with(b"0.3") {
        return Ok(record);
    }
    // Event Hubs and others keep the headers of AMQP as they are: a text, of up to 255 bytes or more.
    if matches!(version.first(), Some(0xa1 | 0xb1)) {
        return Err(refused(
            "unknown_version",
            "its headers are AMQP values, as Azure Event Hubs stores them for events received by \
             AMQP: have the producer send by Kafka, or in structured mode",
        ));
    }
    Err(refused(
        "unknown_version",
        "its `specversion` is neither 1.x nor 0.3; have the producer send CloudEvents 1.0",
    ))
}

/// One in structured mode that can be opened, in binary mode. Where an attribute is missing, for which a rule may
/// stand, the others are found in headers all the same: order may be kept by one of them.
pub(super) fn unfold(record: &Record) -> Option<Record> {
    let mode = mode(record);
    if !matches!(mode, Mode::Structured | Mode::Unnamed) {
        return None;
    }
    let unfolded = structured(record, &mode).ok()??;
    // The data of one with hardly an attribute may look like an event itself, and would be unfolded once more.
    matches!(self::mode(&unfolded), Mode::Binary).then_some(unfolded)
}

/// A request of HTTP that holds a `CloudEvent`, in binary or structured mode, as a record in binary mode as the binding
/// of Kafka has it: `ce-id` is the header `ce_id`, other headers keep their names, in lower case; the attribute
/// `partitionkey` is the key. [`Preset::CloudEvents`](super::Preset::CloudEvents) reads it.
///
/// ```
/// use outbox_core::{Preset, Reader, RuleKeys, cloud_event_of_request};
///
/// let headers = [("ce-id", "17"), ("ce-source", "/shop"), ("ce-type", "OrderPaid"), ("ce-partitionkey", "7")];
/// let headers = headers.map(|(name, value)| (name, value.as_bytes()));
/// let record = cloud_event_of_request(headers, "{}".into())?;
/// let reader = Reader::preset(Preset::CloudEvents, &RuleKeys::default(), 1 << 20)?;
/// let event = reader.read("hooks", 0, 0, &record)?;
/// assert_eq!((event.event_type.as_str(), event.aggregate.aggregate_id()), ("OrderPaid", "7"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// When it is a batch, or its structured form cannot be read.
pub fn cloud_event_of_request<'h>(
    headers: impl IntoIterator<Item = (&'h str, &'h [u8])>,
    body: Bytes,
) -> Result<Record, ReadError> {
    let header = |(name, value): (&str, &[u8])| {
        let name = name.to_ascii_lowercase();
        match name.strip_prefix(IN_HTTP) {
            Some(attribute) => Header {
                name: format!("{ON_KAFKA}{attribute}").into(),
                value: Some(percent_decoded(value)),
            },
            None => Header { name: name.into(), value: Some(Bytes::copy_from_slice(value)) },
        }
    };
    let headers = headers.into_iter().map(header).collect();
    let record = Record { key: None, headers, payload: Some(body), timestamp_ms: None };
    let record = binary(&record)?.into_owned();
    let key = record.header("ce_partitionkey").filter(|key| !key.is_empty()).cloned();
    Ok(Record { key, ..record })
}

fn percent_decoded(value: &[u8]) -> Bytes {
    let digit = |at: usize| value.get(at).and_then(|byte| char::from(*byte).to_digit(16));
    let (mut decoded, mut at) = (Vec::with_capacity(value.len()), 0);
    while let Some(byte) = value.get(at) {
        match (byte, digit(at + 1), digit(at + 2)) {
            (b'%', Some(high), Some(low)) => {
                decoded.push(u8::try_from(high * 16 + low).unwrap_or(b'%'));
                at += 3;
            }
            _ => {
                decoded.push(*byte);
                at += 1;
            }
        }
    }
    decoded.into()
}

fn refused(reason: &'static str, text: &str) -> ReadError {
    ReadError::Preset { reason, text: format!("cloudevents record: {text}") }
}

fn mode(record: &Record) -> Mode {
    let is_binary = || BINARY.iter().any(|name| record.header(name).is_some());
    match format_of(media_type(record)) {
        Some(format) if format.eq_ignore_ascii_case(b"+json") => Mode::Structured,
        Some(format) if format.to_ascii_lowercase().starts_with(b"-batch") => Mode::Batch,
        Some(_) => Mode::Other,
        None if !is_binary() && is_like_structured(record) => Mode::Unnamed,
        None => Mode::Binary,
    }
}

/// What follows the media type of a `CloudEvent` in a content type; nothing of another content.
fn format_of(content_type: &[u8]) -> Option<&[u8]> {
    let media = without_parameters(content_type);
    let (start, format) = media.split_at_checked(MEDIA_TYPE.len())?;
    start.eq_ignore_ascii_case(MEDIA_TYPE.as_bytes()).then_some(format)
}

/// The content type that a record has in a header, without parameters; empty where it has none.
pub(super) fn media_type(record: &Record) -> &[u8] {
    let content_type = record.headers.iter().rev().find(|header| is_content_type(header));
    let content_type = content_type.and_then(|header| header.value.as_deref());
    without_parameters(content_type.unwrap_or_default())
}

fn without_parameters(content_type: &[u8]) -> &[u8] {
    content_type.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii()
}

fn is_content_type(header: &Header) -> bool {
    header.name.as_bytes().eq_ignore_ascii_case(CONTENT_TYPE.as_bytes())
}

/// Whether a value without a content type looks like a `CloudEvent`, such as those of Debezium's converter.
fn is_like_structured(record: &Record) -> bool {
    let value = record.payload.as_deref().unwrap_or_default().trim_ascii_start();
    let named = || value.windows(SPEC_VERSION.len()).any(|text| text == SPEC_VERSION);
    value.starts_with(b"{") && named()
}

const SPEC_VERSION: &[u8] = b"\"specversion\"";

/// The members of a JSON object, each of which is looked at once.
struct Members<'p>(Vec<(Cow<'p, str>, &'p RawValue)>);

impl<'p> Visitor<'p> for Members<'p> {
    type Value = Self;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'p>>(mut self, mut map: A) -> Result<Self, A::Error> {
        while let Some(name) = map.next_key::<Name<'p>>()? {
            self.0.push((name.0, map.next_value()?));
        }
        Ok(self)
    }
}

/// A name that is borrowed where it has no escapes.
#[derive(serde::Deserialize)]
struct Name<'p>(#[serde(borrow)] Cow<'p, str>);

/// One in binary mode; nothing where no content type says that it is an event, and it has no version.
fn structured(record: &Record, mode: &Mode) -> Result<Option<Record>, ReadError> {
    let Some(value) = &record.payload else {
        return Err(refused(
            "tombstone",
            "the content type indicates structured mode, but the record is a tombstone, without a \
             value",
        ));
    };
    let mut json = serde_json::Deserializer::from_slice(value);
    let members = json.deserialize_map(Members(Vec::new()));
    let members = members.and_then(|members| json.end().map(|()| members));
    let Members(members) =
        members.map_err(|error| ReadError::InvalidJson(JsonFault::of(value, &error)))?;
    let version = members.iter().rfind(|(name, _)| name == "specversion");
    if matches!(mode, Mode::Unnamed) && version.is_none_or(|(_, json)| json.get() == "null") {
        return Ok(None);
    }
    // It has `datacontentencoding` in place of `data_base64`.
    let is_old = version.is_some_and(|(_, json)| json.get().starts_with("\"0.3"));

    let mut headers: Vec<Header> =
        record.headers.iter().filter(|header| !is_content_type(header)).cloned().collect();
    let (mut data, mut base64, mut content_type, mut is_coded) = (None, None, None, false);
    for (name, json) in members {
        let json = json.get();
        match &*name {
            "data" => data = Some(json).filter(|json| *json != "null"),
            "data_base64" => base64 = Some(json).filter(|json| *json != "null"),
            _ => {
                let Some(text) = attribute(&name, value, json)? else { continue };
                if name == "datacontenttype" && text.is_empty() {
                    continue;
                }
                if is_old && name == "datacontentencoding" {
                    is_coded = text.eq_ignore_ascii_case(b"base64");
                    continue;
                }
                // An event within an event would be taken for the outer one.
                if name == "datacontenttype" && format_of(&text).is_none() {
                    content_type = Some(text);
                    continue;
                }
                headers
                    .push(Header { name: format!("{ON_KAFKA}{name}").into(), value: Some(text) });
            }
        }
    }
    let is_json = content_type.as_deref().is_none_or(is_json);
    let is_text = |json: &&str| json.starts_with('"');
    let (data, base64) = match (data, base64) {
        (data, None) if is_coded && data.as_ref().is_some_and(is_text) => (None, data),
        both => both,
    };
    let payload = match (data, base64) {
        (None, None) => None,
        (Some(json), None) => Some(payload_of(value, json, is_json)?),
        (None, Some(json)) => {
            let Ok(Pointed::Scalar(text)) = pointer::value(value, json) else {
                return Err(no_base64());
            };
            Some(STANDARD.decode(&text).map_err(|_| no_base64())?.into())
        }
        (Some(_), Some(_)) => {
            return Err(refused(
                "invalid_payload",
                "it has both `data` and `data_base64`, but an event has only one of them",
            ));
        }
    };
    let content_type = content_type.unwrap_or_else(|| Bytes::from_static(b"application/json"));
    headers.push(Header { name: Text::from_static(CONTENT_TYPE), value: Some(content_type) });
    let (key, timestamp_ms) = (record.key.clone(), record.timestamp_ms);
    Ok(Some(Record { key, headers, payload, timestamp_ms }))
}

fn no_base64() -> ReadError {
    refused(
        "invalid_payload",
        "its member `data_base64`, or `data` under `datacontentencoding`, is not base64",
    )
}

/// The text of an attribute; null is as if it were not there.
fn attribute(name: &str, value: &Bytes, json: &str) -> Result<Option<Bytes>, ReadError> {
    match pointer::value(value, json).map_err(ReadError::InvalidJson)? {
        Pointed::Absent => Ok(None),
        Pointed::Scalar(text) => Ok(Some(text)),
        Pointed::Unfit if matches!(json, "true" | "false") => {
            Ok(Some(value.slice_ref(json.as_bytes())))
        }
        Pointed::Unfit => Err(refused(
            "invalid_attribute",
            &format!(
                "one of its attributes is neither a string, an integer nor a boolean: {:?}; only \
                 `data` may be an object or a list; have the producer omit it, or send it as a \
                 string",
                &name[..name.floor_char_boundary(NAME_SHOWN_MAX)]
            ),
        )),
    }
}

/// Data that is JSON is taken as it is written; of another type a text is what it says.
fn payload_of(value: &Bytes, json: &str, is_json: bool) -> Result<Bytes, ReadError> {
    if is_json || !json.starts_with('"') {
        return Ok(value.slice_ref(json.as_bytes()));
    }
    match pointer::value(value, json).map_err(ReadError::InvalidJson)? {
        Pointed::Scalar(text) => Ok(text),
        Pointed::Absent | Pointed::Unfit => Ok(value.slice_ref(json.as_bytes())),
    }
}

fn is_json(content_type: &[u8]) -> bool {
    let media = without_parameters(content_type).to_ascii_lowercase();
    media.ends_with(b"/json") || media.ends_with(b"+json")
}
