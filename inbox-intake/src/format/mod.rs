//! Bodies of requests become records as they would come from Kafka, with the headers of this project.
//!
//! | body | by |
//! |---|---|
//! | JSON envelope, or a list of them | `Content-Type: application/json`, or [`ENVELOPE`] |
//! | `CloudEvent` | `Content-Type: application/cloudevents+json`; `…-batch+json` for a list; headers `ce-…` (binary) |
//! | a form of its sender's | an id where the configuration's map says |
//! | Standard Webhook | the header `webhook-id` or `svix-id`, with any other content type |
//!
//! One story: its files know each other.

mod cloud_event;
mod draft;
mod envelope;
mod mapped;
mod names;
mod percent;
mod pointed;
mod scalar;
mod webhook;

use axum::http::{HeaderMap, StatusCode, header::CONTENT_TYPE};
use bytes::Bytes;
use outbox_core::{Pointer, Record};

use crate::webhook_headers::WebhookHeaders;

pub(crate) use draft::reader;
pub use mapped::FieldMap;
pub(crate) use names::PartNames;

/// What says that a body is our envelope where `webhook-id` says otherwise.
pub(crate) const ENVELOPE: &str = "application/vnd.inbox.events+json";
const STRUCTURED: &str = "application/cloudevents+json";
const BATCH: &str = "application/cloudevents-batch+json";

/// Why a request holds no events that can be taken.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct BadInput {
    /// 400 or 415.
    pub(crate) status: StatusCode,
    /// Which event of the body is wrong, from 0, if it is one.
    pub(crate) at: Option<usize>,
    /// What is wrong with it.
    pub(crate) error: String,
}

impl BadInput {
    pub(crate) fn new(error: impl Into<String>) -> Self {
        Self { status: StatusCode::BAD_REQUEST, at: None, error: error.into() }
    }

    fn at(self, at: usize) -> Self {
        Self { at: Some(at), ..self }
    }
}

/// The events of a request.
#[derive(Debug)]
pub(crate) struct Events {
    pub(crate) records: Vec<Record>,
    /// What their sender calls their parts: all alike.
    pub(crate) names: PartNames,
    /// The body was a list, and so is the answer.
    pub(crate) is_list: bool,
}

/// Where the parts of webhooks are that their headers do not say.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct WebhookRules {
    /// Where the aggregate's id is in the body, such as `/data/order_id`. Without it, and without a header
    /// `Aggregate-Id`, each webhook is an aggregate of its own.
    pub aggregate_id: Option<Pointer>,
    /// Where the parts are of requests in a form of their senders' own.
    pub map: Option<FieldMap>,
}

/// Reads the events of a request that came at a time, in milliseconds since 1970.
pub(crate) fn read(
    headers: &HeaderMap,
    body: &Bytes,
    rules: &WebhookRules,
    now_ms: i64,
) -> Result<Events, BadInput> {
    let media = media(headers)?;
    if matches!(media.as_str(), "application/json" | "")
        && !has_attributes(headers)
        && let Some(draft) = mapped::read(headers, body, rules)?
    {
        return Ok(one(draft, now_ms));
    }
    let drafts = match media.as_str() {
        STRUCTURED => return Ok(one(cloud_event::structured(body)?, now_ms)),
        BATCH => cloud_event::batch(body)?,
        ENVELOPE => envelope::read(body)?,
        _ if has_attributes(headers) => {
            return Ok(one(cloud_event::binary(headers, body)?, now_ms));
        }
        _ if headers.contains_key(WebhookHeaders::of(headers).id) => {
            return Ok(one(webhook::read(headers, body, rules)?, now_ms));
        }
        "application/json" | "" => envelope::read(body)?,
        other => {
            let error = format!(
                "`Content-Type: {other}` is not supported: send application/json (the envelope), \
                 {STRUCTURED}, {BATCH}, a CloudEvent in headers `ce-…`, or a webhook with \
                 `webhook-id`"
            );
            return Err(BadInput { status: StatusCode::UNSUPPORTED_MEDIA_TYPE, at: None, error });
        }
    };
    let is_list = drafts.is_list;
    let names = drafts.all.first().map_or(PartNames::ENVELOPE, |draft| draft.names.clone());
    let records = drafts.all.into_iter().map(|draft| draft.record(now_ms)).collect();
    Ok(Events { records, names, is_list })
}

/// Whether a request would be read as a `CloudEvent` whose attributes are headers.
pub(crate) fn is_binary(headers: &HeaderMap) -> bool {
    let whole = |media: String| [STRUCTURED, BATCH, ENVELOPE].contains(&media.as_str());
    has_attributes(headers) && !media(headers).is_ok_and(whole)
}

fn has_attributes(headers: &HeaderMap) -> bool {
    headers.contains_key("ce-specversion")
}

/// The media type that a body is said to be of, without its parameters.
fn media(headers: &HeaderMap) -> Result<String, BadInput> {
    let content_type = text(headers, CONTENT_TYPE.as_str())?.unwrap_or_default();
    Ok(content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase())
}

/// What a body holds before it is made records.
struct Drafts {
    all: Vec<draft::Draft>,
    is_list: bool,
}

fn one(draft: draft::Draft, now_ms: i64) -> Events {
    let names = draft.names.clone();
    Events { records: vec![draft.record(now_ms)], names, is_list: false }
}

/// A header as text.
pub(crate) fn text<'h>(headers: &'h HeaderMap, name: &str) -> Result<Option<&'h str>, BadInput> {
    let Some(value) = headers.get(name) else { return Ok(None) };
    let value = value.to_str();
    value.map(Some).map_err(|_| BadInput::new(format!("the header `{name}` is not ASCII text")))
}

/// A header whose value may be percent-encoded.
fn decoded(headers: &HeaderMap, name: &str) -> Result<Option<String>, BadInput> {
    let Some(value) = text(headers, name)?.filter(|value| !value.is_empty()) else {
        return Ok(None);
    };
    let wrong = || BadInput::new(format!("the header `{name}` is not percent-encoded UTF-8"));
    percent::decode(value).map(Some).ok_or_else(wrong)
}
