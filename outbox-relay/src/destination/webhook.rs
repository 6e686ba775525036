//! `[[webhooks]]` as destinations: what outbox-webhook makes of a call, as the trait [`Sink`] has it.

use std::{slice, time::Duration};

use async_trait::async_trait;
use outbox_webhook::internal::{self as webhook, Attempt, Caller, Judgement};
use service_kit::Problem;

use super::{Delivery, Outcome, Sink};
use crate::{config::Webhook, telemetry::Signal};

/// An HTTP destination: each event is one POST.
#[derive(Debug)]
pub struct WebhookSink(Caller);

impl WebhookSink {
    /// The destination that a `[[webhooks]]` describes. Reads its files; makes no call.
    ///
    /// # Errors
    /// What keeps it from working: one sentence for each reason, a line each.
    pub fn new(webhook: &Webhook) -> Result<Self, String> {
        let fatal = problems(slice::from_ref(webhook)).into_iter().filter(|problem| problem.fatal);
        let fatal: Vec<String> = fatal.map(|problem| problem.text).collect();
        if !fatal.is_empty() {
            return Err(fatal.join("\n"));
        }
        let on_unusable =
            |name: &str, error| Signal::WebhookFile { webhook: name.to_owned(), error }.emit();
        Caller::new(&webhook.to_caller_settings(), on_unusable).map(Self)
    }

    /// Its name, for messages.
    pub fn name(&self) -> &str {
        self.0.name()
    }
}

/// All that is wrong or doubtful about webhooks.
pub(crate) fn problems(webhooks: &[Webhook]) -> Vec<Problem> {
    let mut found = Vec::new();
    for (at, webhook) in webhooks.iter().enumerate() {
        found.extend(webhook.out_of_bounds());
        found.extend(webhook::problems(&webhook.to_caller_settings()));
        if !webhook.name.is_empty() && webhooks[..at].iter().any(|other| other.name == webhook.name)
        {
            let text = format!("two [[webhooks]] have the `name` {:?}; rename one", webhook.name);
            found.push(Problem::fatal(&["webhooks.name"], text));
        }
    }
    found
}

#[async_trait]
impl Sink for WebhookSink {
    async fn deliver(&self, batch: &[Delivery]) -> Vec<Outcome> {
        let mut outcomes = Vec::with_capacity(batch.len());
        for Delivery { event, topic, attempt } in batch {
            let attempt = Attempt { event, topic: topic.as_deref(), number: *attempt };
            outcomes.push(match self.0.call(attempt).await {
                Judgement::Delivered => Outcome::Delivered,
                Judgement::Retry { error, after } => Outcome::Retry { error, after },
                Judgement::Refused { error } => Outcome::Refused { error },
                Judgement::Unavailable { error, after } => Outcome::Unavailable { error, after },
                Judgement::Unknown { error } => Outcome::Unknown { error },
            });
        }
        outcomes
    }

    fn calls_max(&self) -> usize {
        self.0.calls_max()
    }

    fn deadline(&self) -> Duration {
        self.0.deadline()
    }

    fn scope(&self, _: &Delivery) -> String {
        self.0.scope()
    }

    async fn check(&self) -> Result<(), String> {
        self.0.check().await
    }
}
