//! CloudEvents 1.0 in structured mode: the event as one JSON document.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use outbox_core::Envelope;
use serde::Serialize;
use serde_json::value::RawValue;

use crate::{attempt::Attempt, tracing_context::TracingContext};

/// What a document in structured mode is.
pub(crate) const CONTENT_TYPE: &str = "application/cloudevents+json; charset=utf-8";

/// The attributes, extensions below the required and optional ones. All extensions are texts: the specification's
/// integers have 32 bits, which versions outgrow.
#[derive(Serialize)]
struct CloudEvent<'e> {
    specversion: &'static str,
    id: String,
    source: &'e str,
    #[serde(rename = "type")]
    event_type: &'e str,
    subject: &'e str,
    #[serde(skip_serializing_if = "Option::is_none")]
    time: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    datacontenttype: Option<&'e str>,
    aggregatetype: &'e str,
    #[serde(skip_serializing_if = "Option::is_none")]
    aggregateversion: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    schemaversion: Option<String>,
    partitionkey: &'e str,
    #[serde(skip_serializing_if = "Option::is_none")]
    dedupkey: Option<&'e str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    correlationid: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    causationid: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    traceparent: Option<&'e str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tracestate: Option<&'e str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<Inline<'e>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    data_base64: Option<String>,
}

/// A payload that JSON holds without base64.
#[derive(Serialize)]
#[serde(untagged)]
pub(crate) enum Inline<'e> {
    Json(&'e RawValue),
    Text(&'e str),
}

/// The document of an event, with its `source` and what its payload is.
///
/// # Errors
/// Never, as far as is known: all of it is text.
pub(crate) fn document(
    attempt: Attempt<'_>,
    source: &str,
    content_type: &str,
) -> Result<Vec<u8>, String> {
    let event = attempt.event.envelope();
    let context = TracingContext::of(attempt.event);
    let payload = event.payload.as_deref();
    let data = payload.and_then(|payload| inline(payload, content_type));
    let encoded = payload.filter(|_| data.is_none()).map(|payload| STANDARD.encode(payload));
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let document = CloudEvent {
        specversion: "1.0",
        id: event.event_id.to_string(),
        source,
        event_type: &event.event_type,
        subject: event.aggregate.aggregate_id(),
        time: time(event),
        datacontenttype: payload.map(|_| content_type),
        aggregatetype: event.aggregate.aggregate_type(),
        aggregateversion: event.aggregate_version.map(|version| version.to_string()),
        schemaversion: event.schema_version.map(|version| version.to_string()),
        partitionkey: event.aggregate.aggregate_id(),
        dedupkey: attempt.event.dedup_key(),
        correlationid: context.correlation_id.map(text),
        causationid: context.causation_id.map(text),
        traceparent: context.traceparent,
        tracestate: context.tracestate,
        data,
        data_base64: encoded,
    };
    serde_json::to_vec(&document)
        .map_err(|error| format!("cannot encode the event as a CloudEvent: {error}"))
}

/// When an event happened, by RFC 3339; `None` where no year of four digits has it.
pub(crate) fn time(event: &Envelope) -> Option<String> {
    const YEAR_10_000: u64 = 253_402_300_800_000;
    let millis =
        u64::try_from(event.occurred_at_ms?).ok().filter(|millis| *millis < YEAR_10_000)?;
    let time = std::time::UNIX_EPOCH + std::time::Duration::from_millis(millis);
    Some(humantime::format_rfc3339_millis(time).to_string())
}

/// A payload that is what its type says: JSON, or text. Anything else goes in base64.
pub(crate) fn inline<'e>(payload: &'e [u8], content_type: &str) -> Option<Inline<'e>> {
    let media = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    if media == "application/json" || media == "text/json" || media.ends_with("+json") {
        return serde_json::from_slice(payload).ok().map(Inline::Json);
    }
    let text = media.starts_with("text/").then(|| std::str::from_utf8(payload));
    text?.ok().map(Inline::Text)
}
