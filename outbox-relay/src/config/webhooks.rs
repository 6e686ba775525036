//! `[[webhooks]]`: destinations that are told by HTTP. What a value may be, the destination knows.

use std::time::Duration;

use service_kit::{choice, section};

section! {
    /// `[[webhooks]]`: an HTTP destination. Each event is one POST; `docs/webhooks.md` tells what a receiver gets.
    pub struct Webhook as "webhooks" {
        /// Its name, in messages: letters, digits, `.`, `_` and `-`, at most 63.
        name: String = required;
        /// Where events go: `https://…`. Path and query may hold `{event_type}`, `{aggregate_type}`,
        /// `{aggregate_id}` and `{topic}`, each percent-encoded as one segment; scheme, host and port may not, so
        /// that no event chooses who gets it. The environment's proxies are not used.
        url: String = required;
        /// `payload`: the event's payload as it is. `cloudevents`: a CloudEvent 1.0 in structured mode (JSON).
        /// `json`: an object with the fields of `body_fields`.
        body: WebhookBody;
        /// Fields of the body `json`, in order: `"name: content"`, by default `id: id`, `type: type` and
        /// `payload: payload`. Contents: `id`, `type`, `aggregate_type`, `aggregate_id`, `aggregate_version`,
        /// `schema_version`, `occurred_at`, `dedup_key`, `topic`, `attempt`, `payload`. A payload that is neither JSON
        /// nor text by `content_type` is sent in base64, under the name with `_base64`.
        body_fields: Vec<String>;
        /// What CloudEvents are from: their attribute `source`, a URI reference.
        source: String = "/outbox";
        /// What payloads are: `Content-Type`, or with `cloudevents` the attribute `datacontenttype`. With `json` the call
        /// itself is `application/json`.
        content_type: String = "application/json";
        /// Longest call: from the connection to the head of the answer.
        timeout: Duration = "10s", in 1ms..=10m;
        /// Longest wait for a connection, TLS included.
        connect_timeout: Duration = "3s", in 1ms..=10m;
        /// Most calls at once, each of another aggregate.
        calls_max: u16 = "64", in 1..=10_000;
        /// Longest wait that a `Retry-After` is granted; a longer one is cut to it.
        retry_after_max: Duration = "1h", in 0s..=7d;
        /// How much of the body of a failed answer is kept for the error.
        response_bytes_max: usize = "1KiB", in 0..=64KiB;
        /// Files with the secrets that calls are signed with (Standard Webhooks): `whsec_…`, one in a line; 8 at most.
        /// Each signs, so that a new one stands beside the old one while receivers change over. These files, as all
        /// others of a webhook, are read again every 10 s: nothing has to be restarted.
        secret_files: Vec<String>;
        /// File with a token, sent as `Authorization: Bearer`.
        bearer_file: Option<String>;
        /// File with `user:password`, sent as `Authorization: Basic`.
        basic_file: Option<String>;
        /// Other names for the headers of a call: `"Event-Type: X-Event-Type"`; without a second name the header is not
        /// sent. Those of signatures, traces and the body keep theirs.
        header_names: Vec<String>;
        /// Further headers of each call: `"Name: value"`. They are shown, so nothing secret goes here.
        headers: Vec<String>;
        /// Further headers with values out of files, such as keys: `"Name: FILE"`.
        header_files: Vec<String>;
        /// File of trusted certificates (PEM), in place of the system's.
        ca_file: Option<String>;
        /// Lets events go unencrypted to another machine (`http://`): whoever is on the way reads and changes them,
        /// reads the credentials beside them, and can be the receiver. `check` and each start say so.
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
