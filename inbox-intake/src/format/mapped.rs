//! Requests of senders that have a form of their own: a map of the configuration says where the parts are.

use axum::http::HeaderMap;
use bytes::Bytes;

use super::{BadInput, WebhookRules, draft::Draft, names::PartNames, pointed::pointed, text};

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

    fn pointer(&self) -> Option<&str> {
        match self {
            Self::Header(_) => None,
            Self::Pointer(pointer) => Some(pointer),
        }
    }

    /// What is there, where `json` is in the body: a text, or a whole number.
    fn value(&self, headers: &HeaderMap, json: Option<&str>) -> Result<Option<String>, BadInput> {
        match self {
            Self::Header(name) => {
                let value = text(headers, name)?.filter(|value| !value.is_empty());
                Ok(value.map(str::to_owned))
            }
            Self::Pointer(_) => Ok(json.and_then(scalar)),
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
    let aggregate = rules.aggregate_id.as_deref();
    let pointers = [map.id.pointer(), map.event_type.pointer(), aggregate, map.payload.as_deref()];
    // A body that is no JSON has none of them.
    let [in_id, in_type, in_aggregate, in_payload] = pointed(body, pointers).unwrap_or_default();
    let Some(id) = map.id.value(headers, in_id)? else { return Ok(None) };
    let missing = |name: &str| BadInput::new(format!("`{name}` is missing or empty"));
    let event_type = map.event_type.value(headers, in_type)?;
    let event_type = event_type.ok_or_else(|| missing(&map.event_type.name()))?;
    let mut names = PartNames {
        id: map.id.name().into(),
        event_type: map.event_type.name().into(),
        ..PartNames::WEBHOOK
    };
    let mut aggregate_id = text(headers, "aggregate-id")?.map(str::to_owned);
    if let Some(pointer) = aggregate.filter(|_| aggregate_id.is_none()) {
        aggregate_id = in_aggregate.and_then(scalar);
        if aggregate_id.is_none() {
            return Err(missing(pointer));
        }
        names.aggregate_id = pointer.to_owned().into();
    }
    let payload = match &map.payload {
        None => Some(body.clone()),
        Some(pointer) => {
            let json = in_payload.ok_or_else(|| {
                BadInput::new(format!("`{pointer}` is missing; `null` says that there is none"))
            })?;
            (json != "null").then(|| body.slice_ref(json.as_bytes()))
        }
    };
    let aggregate_type = text(headers, "aggregate-type")?.map(str::to_owned);
    Ok(Some(Draft { id, event_type, aggregate_type, aggregate_id, payload, ..Draft::of(names) }))
}

/// A text that is not empty, or a whole number, to the last digit.
fn scalar(json: &str) -> Option<String> {
    if json.starts_with('"') {
        return serde_json::from_str(json).ok().filter(|text: &String| !text.is_empty());
    }
    let digits = json.strip_prefix('-').unwrap_or(json);
    (!digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()))
        .then(|| json.to_owned())
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
