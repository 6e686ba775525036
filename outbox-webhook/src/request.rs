//! The headers of a call.

use outbox_core::OutboxEvent;
use reqwest::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};

use crate::{
    attempt::Attempt, cloud_event, files::Snapshot, percent, settings::Settings,
    tracing_context::TracingContext,
};

/// The longest value of a header that a stranger chooses, encoded. An id of the longest kind fits.
const VALUE_BYTES_MAX: usize = 4 << 10;

/// The headers of a call at a time, in seconds since 1970.
pub(crate) fn headers(
    attempt: Attempt<'_>,
    settings: &Settings,
    files: &Snapshot,
    timestamp: u64,
    body: &[u8],
) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in &settings.headers {
        headers.append(name, value.clone());
    }
    for (name, value) in files.headers() {
        headers.append(name, value.clone());
    }
    headers.insert(CONTENT_TYPE, settings.content_header.clone());
    if body.is_empty() {
        // The client leaves it out, and there are servers that answer 411.
        headers.insert(CONTENT_LENGTH, HeaderValue::from_static("0"));
    }
    let mut put = |name: &'static str, value: &[u8]| {
        let name = match settings.header_names.get(name) {
            None => HeaderName::from_static(name),
            Some(Some(other)) => other.clone(),
            Some(None) => return,
        };
        let encoded = percent::header(value);
        if let Some(value) =
            HeaderValue::from_str(&encoded).ok().filter(|_| encoded.len() <= VALUE_BYTES_MAX)
        {
            headers.insert(name, value);
        }
    };
    let id = attempt.event.id().to_string();
    put("idempotency-key", id.as_bytes());
    put("webhook-id", id.as_bytes());
    let timestamp = timestamp.to_string();
    put("webhook-timestamp", timestamp.as_bytes());
    put("delivery-attempt", attempt.number.to_string().as_bytes());
    for (name, value) in event_headers(attempt.event) {
        put(name, value.as_bytes());
    }
    if let Some(topic) = attempt.topic {
        put("event-topic", topic.as_bytes());
    }
    let context = TracingContext::of(attempt.event);
    for (name, value) in
        [("correlation-id", context.correlation_id), ("causation-id", context.causation_id)]
    {
        if let Some(value) = value {
            put(name, value);
        }
    }
    // Well-formed, with spaces and signs that mean something.
    for (name, value) in [("traceparent", context.traceparent), ("tracestate", context.tracestate)]
    {
        if let Some(value) = value.and_then(|value| HeaderValue::from_str(value).ok()) {
            headers.insert(HeaderName::from_static(name), value);
        }
    }
    let signatures: Vec<String> =
        files.signing_keys().map(|key| key.sign(&id, &timestamp, body)).collect();
    if let Some(value) =
        HeaderValue::from_str(&signatures.join(" ")).ok().filter(|_| !signatures.is_empty())
    {
        headers.insert(HeaderName::from_static("webhook-signature"), value);
    }
    headers
}

/// What the event itself says.
fn event_headers(event: &OutboxEvent) -> impl Iterator<Item = (&'static str, String)> {
    let (event, dedup_key) = (event.envelope(), event.dedup_key());
    let aggregate = &event.aggregate;
    [
        ("event-type", Some(event.event_type.to_string())),
        ("aggregate-type", Some(aggregate.aggregate_type().to_owned())),
        ("aggregate-id", Some(aggregate.aggregate_id().to_owned())),
        ("aggregate-version", event.aggregate_version.map(|version| version.to_string())),
        ("schema-version", event.schema_version.map(|version| version.to_string())),
        ("occurred-at", cloud_event::time(event)),
        ("event-tombstone", event.payload.is_none().then(|| "true".to_owned())),
        ("dedup-key", dedup_key.map(str::to_owned)),
    ]
    .into_iter()
    .filter_map(|(name, value)| Some((name, value?)))
}
