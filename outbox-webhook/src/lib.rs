//! The HTTP destination of `inbox-outbox-relay`. Signed by Standard Webhooks, judged by the status of the answer.
//!
//! Nothing of an event decides which host is called, no value of it can end a header, and no secret is in an error,
//! a log line or a `Debug`. `docs/webhooks.md` tells receivers what they get.
//!
//! Use it through `inbox-outbox-relay`, whose feature `webhook` reads `[[webhooks]]` and brings events here.
#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]

mod address;
mod answer;
mod attempt;
mod body;
mod caller;
mod client;
mod cloud_event;
mod content;
mod echo;
mod files;
mod json_body;
mod percent;
mod request;
mod settings;
mod tracing_context;
mod webhook;

/// What `inbox-outbox-relay` calls webhooks with, for it alone: no promise of stability, any version may change it.
#[doc(hidden)]
pub mod internal {
    pub use crate::{
        attempt::{Attempt, Judgement},
        caller::Caller,
        settings::problems,
        webhook::{Webhook, WebhookBody},
    };
}
