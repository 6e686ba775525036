//! The HTTP destination against a receiver that does what a script says.
#![cfg(feature = "webhook")]
#![expect(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod answers;
mod configuration;
mod contents;
mod receiver;
mod secrecy;
mod tls;

use std::time::Duration;

use outbox_core::{Aggregate, OutboxEvent};
use outbox_relay::{
    config::Webhook,
    destination::{Delivery, Outcome, Sink as _, http::WebhookSink},
};
use receiver::Receiver;

/// The configuration of a webhook that calls `url`, with short times.
fn webhook(url: impl Into<String>) -> Webhook {
    Webhook {
        name: "shop".into(),
        url: url.into(),
        timeout: Duration::from_secs(5),
        connect_timeout: Duration::from_secs(2),
        ..Webhook::default()
    }
}

fn sink(webhook: &Webhook) -> WebhookSink {
    WebhookSink::new(webhook).unwrap()
}

fn event() -> OutboxEvent {
    let order = Aggregate::new("Order", "1001").unwrap();
    OutboxEvent::new("OrderPaid", &order, &250).unwrap()
}

fn delivery(event: OutboxEvent) -> Delivery {
    Delivery { event, topic: None, attempt: 1 }
}

/// Delivers one event, and answers what became of it.
async fn deliver(sink: &WebhookSink, event: OutboxEvent) -> Outcome {
    let mut outcomes = sink.deliver(&[delivery(event)]).await;
    assert_eq!(outcomes.len(), 1);
    outcomes.remove(0)
}

/// What a script of answers leads to, an event for each.
async fn outcomes(webhook: &Webhook, events: usize) -> Vec<Outcome> {
    let sink = sink(webhook);
    let mut outcomes = Vec::new();
    for _ in 0..events {
        outcomes.push(deliver(&sink, event()).await);
    }
    outcomes
}

/// The variant of an outcome and its sentence.
fn parts(outcome: &Outcome) -> (&'static str, &str, Option<Duration>) {
    match outcome {
        Outcome::Delivered => ("delivered", "", None),
        Outcome::Retry { error, after } => ("retry", error, *after),
        Outcome::Refused { error } => ("refused", error, None),
        Outcome::Unavailable { error, after } => ("unavailable", error, *after),
        Outcome::Unknown { error } => ("unknown", error, None),
        _ => ("new", "", None),
    }
}

/// A file with a text in it.
fn file(text: &str) -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), text).unwrap();
    file
}

fn path(file: &tempfile::NamedTempFile) -> String {
    file.path().to_str().unwrap().to_owned()
}
