//! Requests of senders that have a form of their own: a map of the configuration says where the parts are.

use axum::http::HeaderMap;
use bytes::Bytes;
use outbox_core::{Pointer, internal::RequestPlace};

use super::{BadInput, WebhookRules, draft::Draft, names::PartNames, pointed::pointed, text};

/// Where the parts of such requests are.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FieldMap {
    /// The id. A request without it is not of this form.
    pub id: RequestPlace,
    /// The type.
    pub event_type: RequestPlace,
    /// The payload in the body; without it the payload is the body as it is.
    pub payload: Option<Pointer>,
}

/// What senders call it.
fn name(place: &RequestPlace) -> String {
    match place {
        RequestPlace::Header(name) => name.clone(),
        RequestPlace::Body(pointer) => pointer.to_string(),
    }
}

fn in_body(place: &RequestPlace) -> Option<&Pointer> {
    match place {
        RequestPlace::Header(_) => None,
        RequestPlace::Body(pointer) => Some(pointer),
    }
}

/// What is there, where `json` is in the body: a text, or a whole number.
fn value(
    place: &RequestPlace,
    headers: &HeaderMap,
    json: Option<&str>,
) -> Result<Option<String>, BadInput> {
    match place {
        RequestPlace::Header(name) => {
            let value = text(headers, name)?.filter(|value| !value.is_empty());
            Ok(value.map(str::to_owned))
        }
        RequestPlace::Body(_) => Ok(json.and_then(scalar)),
    }
}

/// Reads a request that has an id where the map says; `None` for others.
pub(super) fn read(
    headers: &HeaderMap,
    body: &Bytes,
    rules: &WebhookRules,
) -> Result<Option<Draft>, BadInput> {
    let Some(map) = &rules.map else { return Ok(None) };
    let aggregate = rules.aggregate_id.as_ref();
    let pointers = [in_body(&map.id), in_body(&map.event_type), aggregate, map.payload.as_ref()];
    // A body that is no JSON has none of them.
    let [in_id, in_type, in_aggregate, in_payload] = pointed(body, pointers).unwrap_or_default();
    let Some(id) = value(&map.id, headers, in_id)? else { return Ok(None) };
    let missing = |name: &str| BadInput::new(format!("`{name}` is missing or empty"));
    let event_type = value(&map.event_type, headers, in_type)?;
    let event_type = event_type.ok_or_else(|| missing(&name(&map.event_type)))?;
    let mut names = PartNames {
        id: name(&map.id).into(),
        event_type: name(&map.event_type).into(),
        ..PartNames::WEBHOOK
    };
    let mut aggregate_id = text(headers, "aggregate-id")?.map(str::to_owned);
    if let Some(pointer) = aggregate.filter(|_| aggregate_id.is_none()) {
        aggregate_id = in_aggregate.and_then(scalar);
        if aggregate_id.is_none() {
            return Err(missing(&pointer.to_string()));
        }
        names.aggregate_id = pointer.to_string().into();
    }
    let payload = match &map.payload {
        None => Some(body.clone()),
        Some(pointer) => {
            let json = in_payload.ok_or_else(|| {
                BadInput::new(format!("`{pointer}` is missing; write `null` for none"))
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
        let [id, event_type] = [id, event_type].map(|place| RequestPlace::read(place).unwrap());
        let map =
            FieldMap { id, event_type, payload: payload.map(|pointer| pointer.parse().unwrap()) };
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
