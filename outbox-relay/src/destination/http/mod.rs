//! The HTTP destination: `[[webhooks]]`. Signed by Standard Webhooks, judged by the status of the answer.
//!
//! Nothing of an event decides which host is called, no value of it can end a header, and no secret is in an error,
//! a log line or a `Debug`. `docs/webhooks.md` tells receivers what they get.

mod address;
mod answer;
mod body;
mod client;
mod cloud_event;
mod content;
mod echo;
mod files;
mod json_body;
mod percent;
mod request;
mod settings;
mod sink;
mod tracing_context;

pub(crate) use settings::problems;
pub use sink::WebhookSink;
