//! The names of the headers that make a request a webhook.

use axum::http::HeaderMap;

/// The names that a sender has for the three headers of Standard Webhooks.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct WebhookHeaders {
    pub(crate) id: &'static str,
    pub(crate) timestamp: &'static str,
    pub(crate) signature: &'static str,
}

const STANDARD: WebhookHeaders = WebhookHeaders {
    id: "webhook-id",
    timestamp: "webhook-timestamp",
    signature: "webhook-signature",
};
const SVIX: WebhookHeaders =
    WebhookHeaders { id: "svix-id", timestamp: "svix-timestamp", signature: "svix-signature" };

impl WebhookHeaders {
    /// Those of a request: Svix's names where it has an id by them, and none by the standard's. What is signed and what is
    /// read go by the same names.
    pub(crate) fn of(headers: &HeaderMap) -> &'static Self {
        let has = |name| headers.contains_key(name);
        if !has(STANDARD.id) && has(SVIX.id) { &SVIX } else { &STANDARD }
    }
}
