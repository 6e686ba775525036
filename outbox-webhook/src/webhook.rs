//! The settings of a webhook, as a configuration gives them.

use std::time::Duration;

/// The settings of a webhook. `docs/relay-reference.md` describes each field under its name.
#[expect(missing_docs, reason = "the configuration of the relay describes each field")]
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Webhook {
    pub name: String,
    pub url: String,
    pub body: WebhookBody,
    pub body_fields: Vec<String>,
    pub source: String,
    pub content_type: String,
    pub timeout: Duration,
    pub connect_timeout: Duration,
    pub calls_max: u16,
    pub retry_after_max: Duration,
    pub response_bytes_max: usize,
    pub secret_files: Vec<String>,
    pub bearer_file: Option<String>,
    pub basic_file: Option<String>,
    pub header_names: Vec<String>,
    pub headers: Vec<String>,
    pub header_files: Vec<String>,
    pub ca_file: Option<String>,
    pub insecure_http: bool,
}

/// What the body of a call is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WebhookBody {
    /// The payload as it is.
    Payload,
    /// One document by the specification of CloudEvents, in structured mode.
    CloudEvents,
    /// An object with configured fields.
    Json,
}

impl Webhook {
    /// One that calls `url`, with the defaults of the relay's configuration.
    pub fn new(name: impl Into<String>, url: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            url: url.into(),
            body: WebhookBody::Payload,
            body_fields: Vec::new(),
            source: "/outbox".to_owned(),
            content_type: "application/json".to_owned(),
            timeout: Duration::from_secs(10),
            connect_timeout: Duration::from_secs(3),
            calls_max: 64,
            retry_after_max: Duration::from_hours(1),
            response_bytes_max: 1 << 10,
            secret_files: Vec::new(),
            bearer_file: None,
            basic_file: None,
            header_names: Vec::new(),
            headers: Vec::new(),
            header_files: Vec::new(),
            ca_file: None,
            insecure_http: false,
        }
    }
}
