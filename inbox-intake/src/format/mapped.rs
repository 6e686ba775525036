//! Requests of senders that have a form of their own: a map of the configuration says where the parts are.

use std::{borrow::Cow, collections::BTreeMap};

use axum::http::HeaderMap;
use bytes::Bytes;
use serde_json::value::RawValue;

use super::{BadInput, WebhookRules, draft::Draft, names::PartNames, text};

/// What a place in a header begins with.
const HEADER: &str = "header:";

/// Where a part is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Place {
    /// In this header.
    Header(String),
    /// In the body, at this JSON pointer.
    Pointer(String),
}

impl Place {
    /// Reads `header:Name`, or a JSON pointer; `None` where it is neither.
    #[must_use]
    pub fn read(text: &str) -> Option<Self> {
        if let Some(name) = text.strip_prefix(HEADER) {
            return (!name.is_empty()).then(|| Self::Header(name.to_ascii_lowercase()));
        }
        text.starts_with('/').then(|| Self::Pointer(text.to_owned()))
    }

    fn name(&self) -> String {
        match self {
            Self::Header(name) | Self::Pointer(name) => name.clone(),
        }
    }

    /// What is there: a text, or a whole number.
    fn value(&self, headers: &HeaderMap, body: &[u8]) -> Result<Option<String>, BadInput> {
        match self {
            Self::Header(name) => {
                let value = text(headers, name)?.filter(|value| !value.is_empty());
                Ok(value.map(str::to_owned))
            }
            Self::Pointer(pointer) => Ok(raw_at(body, pointer).and_then(scalar)),
        }
    }
}

/// Where the parts of such requests are.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FieldMap {
    /// The id. A request without it is not of this form.
    pub id: Place,
    /// The type.
    pub event_type: Place,
    /// A JSON pointer to the payload; without it the payload is the body as it is.
    pub payload: Option<String>,
}

/// Reads a request that has an id where the map says; `None` for others.
pub(super) fn read(
    headers: &HeaderMap,
    body: &Bytes,
    rules: &WebhookRules,
) -> Result<Option<Draft>, BadInput> {
    let Some(map) = &rules.map else { return Ok(None) };
    let Some(id) = map.id.value(headers, body)? else { return Ok(None) };
    let missing = |name: &str| BadInput::new(format!("`{name}` is missing or empty"));
    let event_type = map.event_type.value(headers, body)?;
    let event_type = event_type.ok_or_else(|| missing(&map.event_type.name()))?;
    let mut names = PartNames {
        id: map.id.name().into(),
        event_type: map.event_type.name().into(),
        ..PartNames::WEBHOOK
    };
    let mut aggregate_id = text(headers, "aggregate-id")?.map(str::to_owned);
    if let Some(pointer) = rules.aggregate_id.as_ref().filter(|_| aggregate_id.is_none()) {
        aggregate_id = raw_at(body, pointer).and_then(scalar);
        if aggregate_id.is_none() {
            return Err(missing(pointer));
        }
        names.aggregate_id = pointer.clone().into();
    }
    let payload = match &map.payload {
        None => Some(body.clone()),
        Some(pointer) => {
            let raw = raw_at(body, pointer);
            let raw = raw.ok_or_else(|| {
                BadInput::new(format!("`{pointer}` is missing; `null` says that there is none"))
            })?;
            (raw.get() != "null").then(|| body.slice_ref(raw.get().as_bytes()))
        }
    };
    let aggregate_type = text(headers, "aggregate-type")?.map(str::to_owned);
    Ok(Some(Draft { id, event_type, aggregate_type, aggregate_id, payload, ..Draft::of(names) }))
}

/// A text that is not empty, or a whole number, to the last digit.
fn scalar(raw: &RawValue) -> Option<String> {
    let text = raw.get();
    if text.starts_with('"') {
        return serde_json::from_str(text).ok().filter(|text: &String| !text.is_empty());
    }
    let digits = text.strip_prefix('-').unwrap_or(text);
    (!digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()))
        .then(|| text.to_owned())
}

/// The value at a pointer, as it is written.
fn raw_at<'b>(body: &'b [u8], pointer: &str) -> Option<&'b RawValue> {
    let mut raw: &RawValue = serde_json::from_slice(body).ok()?;
    for part in pointer.split('/').skip(1) {
        let part = part.replace("~1", "/").replace("~0", "~");
        raw = match raw.get().as_bytes().first()? {
            b'{' => {
                let members: BTreeMap<Cow<'b, str>, &'b RawValue> =
                    serde_json::from_str(raw.get()).ok()?;
                *members.get(&*part)?
            }
            b'[' => {
                let parts: Vec<&'b RawValue> = serde_json::from_str(raw.get()).ok()?;
                *parts.get(part.parse::<usize>().ok()?)?
            }
            _ => return None,
        };
    }
    Some(raw)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(id: &str, event_type: &str, payload: Option<&str>) -> WebhookRules {
        let [id, event_type] = [id, event_type].map(|place| Place::read(place).unwrap());
        let map = FieldMap { id, event_type, payload: payload.map(str::to_owned) };
        WebhookRules { map: Some(map), ..WebhookRules::default() }
    }

    fn record(
        headers: &[(&str, &str)],
        body: &'static str,
        rules: &WebhookRules,
    ) -> Result<outbox_core::Record, BadInput> {
        let headers: HeaderMap = headers
            .iter()
            .map(|(name, value)| {
                (name.parse::<axum::http::HeaderName>().unwrap(), value.parse().unwrap())
            })
            .collect();
        let read = super::super::read(&headers, &Bytes::from_static(body.as_bytes()), rules, 0);
        read.map(|mut events| events.records.remove(0))
    }

    #[test]
    fn a_body_with_id_type_and_payload_is_read_by_its_map() {
        let rules = rules("/id", "/type", Some("/payload"));
        let json = [("content-type", "application/json")];
        let body = r#"{"id":"e-1","type":"Paid","payload":{"amount":1.10}}"#;
        let read = record(&json, body, &rules).unwrap();
        assert_eq!(read.header("event_id").unwrap(), "e-1");
        assert_eq!(read.header("event_type").unwrap(), "Paid");
        assert_eq!(read.payload.unwrap(), r#"{"amount":1.10}"#);
        let signed = [json[0], ("webhook-id", "m-1")];
        assert_eq!(record(&signed, body, &rules).unwrap().header("event_id").unwrap(), "e-1");
        let error = record(&json, r#"{"id":"e-1","payload":1}"#, &rules).unwrap_err().error;
        assert!(error.contains("`/type` is missing"), "{error}");
        let envelope = r#"{"event_id":"e-2","event_type":"Paid","payload":1}"#;
        assert_eq!(record(&json, envelope, &rules).unwrap().header("event_id").unwrap(), "e-2");
        let tombstone = r#"{"id":7,"type":"Paid","payload":null}"#;
        let read = record(&json, tombstone, &rules).unwrap();
        assert_eq!(read.header("event_id").unwrap(), "7");
        assert_eq!(read.payload, None);
    }

    #[test]
    fn a_payload_with_id_and_type_in_headers_is_read_by_its_map() {
        let rules = rules("header:Idempotency-Key", "header:X-Event-Type", None);
        let headers = [
            ("content-type", "application/json"),
            ("idempotency-key", "k-1"),
            ("x-event-type", "Paid"),
        ];
        let read = record(&headers, r#"{"amount":1.10}"#, &rules).unwrap();
        assert_eq!(read.header("event_id").unwrap(), "k-1");
        assert_eq!(read.payload.unwrap(), r#"{"amount":1.10}"#);
        let error = record(&headers[..2], "{}", &rules).unwrap_err().error;
        assert!(error.contains("`x-event-type` is missing"), "{error}");
    }
}
