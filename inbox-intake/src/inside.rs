//! What reads strangers' bytes inside, for the targets in `fuzz/`.

use axum::http::{HeaderMap, HeaderName, HeaderValue};
use bytes::Bytes;
use outbox_core::{Record, internal::request_pointer};
use service_kit::WebhookKey;

use crate::{
    format::{self, WebhookRules},
    signature,
};

/// Why a request holds no events: the status, the place in its list, the sentence.
pub type Refused = (u16, Option<usize>, String);

/// The records of a request's events, in their order. Headers that HTTP would not carry are left out.
///
/// # Errors
/// Why it holds none that can be taken.
pub fn records(
    headers: &[(&str, &[u8])],
    body: &Bytes,
    aggregate_id: Option<&str>,
) -> Result<Vec<Record>, Refused> {
    let aggregate_id = aggregate_id.and_then(request_pointer);
    let rules = WebhookRules { aggregate_id, ..WebhookRules::default() };
    match format::read(&map(headers), body, &rules, 0) {
        Ok(events) => Ok(events.records),
        Err(bad) => Err((bad.status.as_u16(), bad.at, bad.error)),
    }
}

/// Whether a request is signed by a secret, at a time in seconds since 1970.
///
/// # Errors
/// What is wrong with the secret, or with the signature.
pub fn signed(
    secret: &str,
    headers: &[(&str, &[u8])],
    body: &[u8],
    (now, tolerance): (u64, u64),
) -> Result<(), String> {
    let key = WebhookKey::read(secret)?;
    signature::verify(&[key], &map(headers), body, now, tolerance)
}

fn map(headers: &[(&str, &[u8])]) -> HeaderMap {
    let header = |(name, value): &(&str, &[u8])| {
        let name = HeaderName::from_bytes(name.as_bytes()).ok()?;
        Some((name, HeaderValue::from_bytes(value).ok()?))
    };
    let mut map = HeaderMap::new();
    for (name, value) in headers.iter().filter_map(header) {
        map.append(name, value);
    }
    map
}
