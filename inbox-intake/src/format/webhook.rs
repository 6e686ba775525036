//! Standard Webhooks: the id is in a header, the payload is the body as it is. The relay's headers are read, too.

use std::sync::LazyLock;

use axum::http::HeaderMap;
use bytes::Bytes;
use outbox_core::Pointer;

use super::{
    BadInput, ENVELOPE, WebhookRules, decoded, draft::Draft, names::PartNames, pointed::pointed,
    scalar::Scalar, text,
};
use crate::webhook_headers::WebhookHeaders;

static TYPE: LazyLock<Pointer> = LazyLock::new(|| known("/type"));
static TIMESTAMP: LazyLock<Pointer> = LazyLock::new(|| known("/timestamp"));

fn known(pointer: &str) -> Pointer {
    pointer.parse().expect("a pointer")
}

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
    // Looked into only for what the headers do not say.
    let pointer = rules.aggregate_id.as_ref().filter(|_| aggregate_id.is_none());
    let looks = event_type.is_none() || pointer.is_some();
    let pointers = [Some(&*TYPE), Some(&*TIMESTAMP), pointer];
    let [in_type, in_timestamp, in_aggregate] =
        if looks { find(body, pointers)? } else { [const { None }; 3] };
    let mut names = PartNames { id: named.into(), ..PartNames::WEBHOOK };
    let event_type = match event_type {
        Some(event_type) => event_type,
        None => {
            names.event_type = "type".into();
            in_type.and_then(Scalar::text).ok_or_else(|| untyped(body, named))?
        }
    };
    let aggregate_id = match pointer {
        Some(pointer) => {
            names.aggregate_id = pointer.to_string().into();
            Some(in_aggregate.and_then(Scalar::whole).ok_or_else(|| {
                BadInput::new(format!(
                    "the body has no string or 64-bit integer at `{pointer}`, the aggregate's id"
                ))
            })?)
        }
        None => aggregate_id,
    };
    let occurred_at = occurred_at.or_else(|| {
        names.occurred_at = "timestamp".into();
        in_timestamp?.text().map(time)
    });
    Ok(Draft {
        names,
        id,
        source: None,
        event_type,
        aggregate_type: header("aggregate-type")?,
        aggregate_id,
        aggregate_version: header("aggregate-version")?,
        occurred_at,
        schema_version: header("schema-version")?,
        correlation_id: header("correlation-id")?,
        causation_id: header("causation-id")?,
        traceparent: text(headers, "traceparent")?.map(str::to_owned),
        tracestate: text(headers, "tracestate")?.map(str::to_owned),
        headers: Vec::new(),
        payload: (!tombstone).then(|| body.clone()),
    })
}

/// The time in a body. Many senders count seconds; no webhook is from before 1973, which such a number would be in
/// milliseconds.
fn time(text: String) -> String {
    let seconds = text.parse().is_ok_and(|number: i64| (1..100_000_000_000).contains(&number));
    if seconds { format!("{text}000") } else { text }
}

/// What a webhook without a type is told: it may be an envelope that lacks its content type.
fn untyped(body: &Bytes, named: &str) -> BadInput {
    let ids = pointed(body, ["/event_id", "/0/event_id"].map(known).each_ref().map(Some));
    if ids.is_ok_and(|ids| ids.iter().any(Option::is_some)) {
        return BadInput::new(format!(
            "a request with `{named}` is read as a webhook, and its body is an envelope: send it with `Content-Type: \
             {ENVELOPE}`"
        ));
    }
    BadInput::new("neither the header `Event-Type` nor `type` in the body gives the event's type")
}

/// What is behind pointers into the body.
fn find(body: &Bytes, pointers: [Option<&Pointer>; 3]) -> Result<[Option<Scalar>; 3], BadInput> {
    let not_json = |error| BadInput::new(format!("the body of the webhook is not JSON: {error}"));
    let found = pointed(body, pointers).map_err(not_json)?;
    let mut scalars = [const { None }; 3];
    for (scalar, json) in scalars.iter_mut().zip(found) {
        *scalar = json.map(serde_json::from_str).transpose().map_err(not_json)?;
    }
    Ok(scalars)
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
            let scalar: Scalar = serde_json::from_str(json).unwrap();
            assert_eq!(scalar.text().map(time).as_deref(), Some(wanted));
        }
    }

    /// Whoever signs an envelope has `webhook-id`, too.
    #[test]
    fn a_signed_envelope_is_told_its_content_type() {
        let headers: HeaderMap = [("webhook-id", "m-1"), ("content-type", "application/json")]
            .map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap()))
            .into_iter()
            .collect();
        let one = r#"{"event_id":"1","event_type":"Paid","payload":1}"#;
        for body in [one.to_owned(), format!("[{one}]")] {
            let read = super::super::read(&headers, &body.into(), &WebhookRules::default(), 0);
            let error = read.unwrap_err().error;
            assert!(error.contains(ENVELOPE), "{error}");
        }
    }

    /// A number that is rounded would be another aggregate.
    #[test]
    fn an_aggregate_is_a_text_or_a_whole_number() {
        let rules =
            WebhookRules { aggregate_id: Some(known("/data/id")), ..WebhookRules::default() };
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
            assert!(id(json).unwrap_err().error.contains("64-bit integer"), "{json}");
        }
    }
}
