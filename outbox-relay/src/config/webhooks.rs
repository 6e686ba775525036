//! `[[webhooks]]`: destinations that are told by HTTP. What a value may be, the destination knows.

use std::time::Duration;

#[cfg(feature = "webhook")]
use service_kit::{Key, Problem, Section as _};
use service_kit::{choice, section};

section! {
    /// `[[webhooks]]`: an HTTP destination. Each event is one POST; `docs/webhooks.md` tells what a receiver gets.
    pub struct Webhook as "webhooks" {
        /// Its name in messages: letters, digits, `.`, `_` and `-`, at most 63.
        name: String = required;
        /// The target: `https://…`. Path and query may contain `{event_type}`, `{aggregate_type}`,
        /// `{aggregate_id}` and `{topic}`, each percent-encoded as one segment; scheme, host and
        /// port may not, so that no event chooses its receiver. The environment's proxies are not
        /// used.
        url: String = required;
        /// `payload`: the event's payload as it is. `cloudevents`: a CloudEvent 1.0 in structured mode (JSON).
        /// `json`: an object with the fields of `body_fields`.
        body: WebhookBody;
        /// Fields of the body `json`, in order: `"name: content"`, by default `id: id`, `type:
        /// type` and `payload: payload`. Contents: `id`, `type`, `aggregate_type`, `aggregate_id`,
        /// `aggregate_version`, `schema_version`, `occurred_at`, `dedup_key`, `topic`, `attempt`,
        /// `payload`. A payload that is neither JSON nor text by `content_type` is sent in base64,
        /// under the name with `_base64`.
        body_fields: Vec<String>;
        /// The attribute `source` of CloudEvents, a URI reference.
        source: String = "/outbox";
        /// The type of payloads: `Content-Type`, or with `cloudevents` the attribute
        /// `datacontenttype`. With `json` the call itself is `application/json`.
        content_type: String = "application/json";
        /// Timeout of a call: from the connection to the head of the response.
        timeout: Duration = "10s", in 1ms..=10m;
        /// Timeout of a connection, TLS included.
        connect_timeout: Duration = "3s", in 1ms..=10m;
        /// Maximum number of concurrent calls, each of a different aggregate.
        calls_max: u16 = "64", in 1..=10_000;
        /// Longest `Retry-After` that is honoured; longer ones are cut to it.
        retry_after_max: Duration = "1h", in 0s..=7d;
        /// How much of the body of a failed response is kept for the error.
        response_bytes_max: usize = "1KiB", in 0..=64KiB;
        /// Files with the secrets that sign calls (Standard Webhooks): `whsec_…`, one per line, at
        /// most 8. All of them sign, so that a new one works next to the old one while receivers
        /// rotate. Like all files of a webhook, they are read again every 10 s, without a restart.
        secret_files: Vec<String>;
        /// File with a token, sent as `Authorization: Bearer`.
        bearer_file: Option<String>;
        /// File with `user:password`, sent as `Authorization: Basic`.
        basic_file: Option<String>;
        /// Other names for the headers of a call: `"Event-Type: X-Event-Type"`; without a second
        /// name the header is not sent. Headers of signatures, traces and the body keep their
        /// names.
        header_names: Vec<String>;
        /// Additional headers of each call: `"Name: value"`. They are shown in logs, so put no secrets here.
        headers: Vec<String>;
        /// Additional headers with values from files, such as keys: `"Name: FILE"`.
        header_files: Vec<String>;
        /// File of trusted certificates (PEM), instead of the system's.
        ca_file: Option<String>;
        /// Allow unencrypted calls to another machine (`http://`): anybody on the network can read
        /// and change events, read the credentials, and impersonate the receiver. `check` and every
        /// start warn.
        insecure_http: bool;
    }
}

choice! {
    /// What the body of a call is.
    pub enum WebhookBody {
        /// The payload as it is.
        Payload = "payload",
        /// A CloudEvent in structured mode.
        CloudEvents = "cloudevents",
        /// An object with configured fields.
        Json = "json",
    }
}

#[cfg(feature = "webhook")]
impl Webhook {
    /// What is out of bounds, in values that were set without reading a file.
    pub(crate) fn out_of_bounds(&self) -> Vec<Problem> {
        let values = toml::Table::try_from(self).unwrap_or_default();
        let wrong = |key: &Key| {
            let complaint = key.kind.read(values.get(key.name())?, false).err()?;
            let text = format!("`{}` of {:?} is invalid: {complaint}", key.path, self.name);
            Some(Problem::fatal(&[key.path], text))
        };
        Self::KEYS.iter().filter_map(wrong).collect()
    }

    /// The same settings in the form that the caller of webhooks takes.
    pub(crate) fn to_caller_settings(&self) -> outbox_webhook::internal::Webhook {
        let webhook = self.clone();
        outbox_webhook::internal::Webhook {
            name: webhook.name,
            url: webhook.url,
            body: match webhook.body {
                WebhookBody::Payload => outbox_webhook::internal::WebhookBody::Payload,
                WebhookBody::CloudEvents => outbox_webhook::internal::WebhookBody::CloudEvents,
                WebhookBody::Json => outbox_webhook::internal::WebhookBody::Json,
            },
            body_fields: webhook.body_fields,
            source: webhook.source,
            content_type: webhook.content_type,
            timeout: webhook.timeout,
            connect_timeout: webhook.connect_timeout,
            calls_max: webhook.calls_max,
            retry_after_max: webhook.retry_after_max,
            response_bytes_max: webhook.response_bytes_max,
            secret_files: webhook.secret_files,
            bearer_file: webhook.bearer_file,
            basic_file: webhook.basic_file,
            header_names: webhook.header_names,
            headers: webhook.headers,
            header_files: webhook.header_files,
            ca_file: webhook.ca_file,
            insecure_http: webhook.insecure_http,
        }
    }
}

#[cfg(all(test, feature = "webhook"))]
mod tests {
    use super::*;

    #[test]
    fn webhooks_have_the_same_defaults_on_both_sides() {
        assert_eq!(
            Webhook::default().to_caller_settings(),
            outbox_webhook::internal::Webhook::new("", "")
        );
    }
}
