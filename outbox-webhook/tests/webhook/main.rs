//! The HTTP destination against a receiver that does what a script says.
#![expect(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod answers;
mod configuration;
mod contents;
mod receiver;
mod secrecy;
mod tls;

use std::time::Duration;

use outbox_core::{Aggregate, OutboxEvent};
use outbox_webhook::internal::{Attempt, Caller, Judgement, Webhook};
use receiver::Receiver;

/// The configuration of a webhook that calls `url`, with short times.
fn webhook(url: impl Into<String>) -> Webhook {
    Webhook {
        timeout: Duration::from_secs(5),
        connect_timeout: Duration::from_secs(2),
        ..Webhook::new("shop", url)
    }
}

fn sink(webhook: &Webhook) -> Caller {
    Caller::new(webhook, |_, _| ()).unwrap()
}

fn event() -> OutboxEvent {
    let order = Aggregate::new("Order", "1001").unwrap();
    OutboxEvent::new("OrderPaid", &order, &250).unwrap()
}

/// Delivers one event, and answers what became of it.
async fn deliver(sink: &Caller, event: OutboxEvent) -> Judgement {
    sink.call(Attempt { event: &event, topic: None, number: 1 }).await
}

/// What a script of answers leads to, an event for each.
async fn outcomes(webhook: &Webhook, events: usize) -> Vec<Judgement> {
    let sink = sink(webhook);
    let mut outcomes = Vec::new();
    for _ in 0..events {
        outcomes.push(deliver(&sink, event()).await);
    }
    outcomes
}

/// The variant of an outcome and its sentence.
fn parts(outcome: &Judgement) -> (&'static str, &str, Option<Duration>) {
    match outcome {
        Judgement::Delivered => ("delivered", "", None),
        Judgement::Retry { error, after } => ("retry", error, *after),
        Judgement::Refused { error } => ("refused", error, None),
        Judgement::Unavailable { error, after } => ("unavailable", error, *after),
        Judgement::Unknown { error } => ("unknown", error, None),
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
