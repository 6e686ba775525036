//! Standard Webhooks: the id is in a header, the payload is the body as it is. The relay's headers are read, too.

use axum::http::HeaderMap;
use bytes::Bytes;
use serde_json::Value;

use super::{BadInput, WebhookRules, decoded, draft::Draft, text};
use crate::webhook_headers::WebhookHeaders;

/// Reads a webhook.
pub(super) fn read(
    headers: &HeaderMap,
    body: &Bytes,
    rules: &WebhookRules,
) -> Result<Draft, BadInput> {
    let header = |name| decoded(headers, name);
    let tombstone = text(headers, "event-tombstone")?.is_some_and(|value| value == "true");
    let named = WebhookHeaders::of(headers).id;
    let id = header(named)?.ok_or_else(|| BadInput::new(format!("`{named}` is empty")))?;
    let (event_type, aggregate_id) = (header("event-type")?, header("aggregate-id")?);
    let occurred_at = header("occurred-at")?;
    // Parsed only for what the headers do not say.
    let pointer = rules.aggregate_id.as_deref().filter(|_| aggregate_id.is_none());
    let looks = event_type.is_none() || pointer.is_some();
    let parsed = if looks { parse(body)? } else { Value::Null };
    let event_type = match event_type {
        Some(event_type) => event_type,
        None => scalar(&parsed, "/type").ok_or_else(|| {
            BadInput::new("neither the header `Event-Type` nor `type` in the body says what it is")
        })?,
    };
    let aggregate_id = match pointer {
        Some(pointer) => Some(whole(&parsed, pointer).ok_or_else(|| {
            BadInput::new(format!(
                "the body has no text or whole number of 64 bits at `{pointer}`, the aggregate's id"
            ))
        })?),
        None => aggregate_id,
    };
    Ok(Draft {
        id,
        source: None,
        event_type,
        aggregate_type: header("aggregate-type")?,
        aggregate_id,
        aggregate_version: header("aggregate-version")?,
        occurred_at: occurred_at.or_else(|| time(&parsed)),
        schema_version: header("schema-version")?,
        correlation_id: header("correlation-id")?,
        causation_id: header("causation-id")?,
        traceparent: text(headers, "traceparent")?.map(str::to_owned),
        tracestate: text(headers, "tracestate")?.map(str::to_owned),
        headers: Vec::new(),
        payload: (!tombstone).then(|| body.clone()),
    })
}

fn parse(body: &Bytes) -> Result<Value, BadInput> {
    serde_json::from_slice(body)
        .map_err(|error| BadInput::new(format!("the body of the webhook is no JSON: {error}")))
}

/// The time in a body. Many senders count seconds; no webhook is from before 1973, which such a number would be in
/// milliseconds.
fn time(body: &Value) -> Option<String> {
    let text = scalar(body, "/timestamp")?;
    let seconds = text.parse().is_ok_and(|number: i64| (1..100_000_000_000).contains(&number));
    Some(if seconds { format!("{text}000") } else { text })
}

/// The same of what has to be the same to the last digit.
fn whole(value: &Value, pointer: &str) -> Option<String> {
    let is_fraction = value.pointer(pointer).is_some_and(Value::is_f64);
    (!is_fraction).then(|| scalar(value, pointer)).flatten()
}

fn scalar(value: &Value, pointer: &str) -> Option<String> {
    match value.pointer(pointer)? {
        Value::String(text) if !text.is_empty() => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_id_may_have_the_name_that_svix_gives_it() {
        let headers: HeaderMap = [("svix-id", "m-1"), ("event-type", "Paid")]
            .map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap()))
            .into_iter()
            .collect();
        let rules = WebhookRules::default();
        let read = super::super::read(&headers, &Bytes::from_static(b"{}"), &rules, 0).unwrap();
        assert_eq!(read.records[0].header("event_id").unwrap(), "m-1");
    }

    #[test]
    fn the_time_in_a_body_is_in_seconds_or_milliseconds() {
        for (json, wanted) in [
            ("1767323045", "1767323045000"),
            ("1767323045678", "1767323045678"),
            ("\"2026-01-02T03:04:05Z\"", "2026-01-02T03:04:05Z"),
        ] {
            let body = serde_json::from_str(&format!(r#"{{"timestamp":{json}}}"#)).unwrap();
            assert_eq!(time(&body).as_deref(), Some(wanted));
        }
    }

    /// A number that is rounded would be another aggregate.
    #[test]
    fn an_aggregate_is_a_text_or_a_whole_number() {
        let rules = WebhookRules { aggregate_id: Some("/data/id".into()) };
        let headers: HeaderMap = [
            ("webhook-id".parse().unwrap(), "m-1".parse().unwrap()),
            ("event-type".parse().unwrap(), "Paid".parse().unwrap()),
        ]
        .into_iter()
        .collect();
        let id = |json: &str| {
            let body = Bytes::from(format!(r#"{{"data":{{"id":{json}}}}}"#));
            read(&headers, &body, &rules).map(|draft| draft.aggregate_id)
        };
        for (json, wanted) in
            [("\"a\"", "a"), ("-7", "-7"), ("18446744073709551615", "18446744073709551615")]
        {
            assert_eq!(id(json).unwrap().as_deref(), Some(wanted));
        }
        for json in ["18446744073709551617", "1.5", "1e3", "true", "\"\"", "null"] {
            assert!(id(json).unwrap_err().error.contains("whole number of 64 bits"), "{json}");
        }
    }
}
