//! Events by HTTP, each with one effect: claimed, handled and committed as `inbox-consumer` does it with those of Kafka, and
//! answered after COMMIT.
//!
//! Use it through `inbox-consumer` with the feature `intake`, which makes an [`Intake`] of a configuration.
//! [`Intake::router`] is `POST /events` for a service of yours; [`Intake::serve`] is a server of its own.
#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]

mod answer;
mod body;
mod format;
mod inside;
mod intake;
mod lane_set;
mod line;
mod portion;
mod queue;
mod request;
mod run;
mod secrets;
mod settings;
mod signature;
mod ticket;
mod webhook_headers;

#[cfg(not(any(feature = "postgres", feature = "sqlite")))]
compile_error!("no database is on: enable the feature `postgres` or `sqlite` of inbox-intake");

pub use intake::Intake;

/// What an intake is put together from: for `inbox-consumer` alone.
#[doc(hidden)]
pub mod internal {
    pub use crate::{
        format::{FieldMap, WebhookRules},
        inside::{Refused, records, signed},
        portion::QueueLimits,
        secrets::Secrets,
        settings::{IntakeSettings, reader},
    };
}
