//! The destination: one POST for each event, and what became of it.

use std::{
    error::Error,
    fmt,
    sync::Arc,
    time::{Duration, SystemTime},
};

use async_trait::async_trait;
use bytes::Bytes;
use reqwest::{Body, Response};
use service_kit::duration;
use tokio::time::{Instant, timeout, timeout_at};

use super::{
    answer::{self, Answer, judge},
    body::{Progress, TrackedBody},
    cloud_event, echo,
    files::{Files, Snapshot},
    request,
    settings::Settings,
};
use crate::{
    config::{Webhook, WebhookBody},
    destination::{Delivery, Outcome, Sink},
};

/// How long the body of a failed answer is waited for.
const TEXT_WAIT: Duration = Duration::from_secs(2);
/// What is read of the body of a 2xx, so that its connection serves again; and for how long.
const DRAIN_BYTES_MAX: usize = 16 << 10;
const DRAIN_WAIT: Duration = Duration::from_millis(200);
/// What a call may take besides its time-out.
const MARGIN: Duration = Duration::from_secs(10);

/// An HTTP destination: each event is one POST.
pub struct WebhookSink {
    settings: Settings,
    files: Arc<Files>,
}

impl fmt::Debug for WebhookSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { settings, files } = self;
        f.debug_struct("WebhookSink")
            .field("name", &settings.name)
            .field("scope", &settings.address.scope())
            .field("files", files)
            .finish()
    }
}

impl WebhookSink {
    /// The destination that a `[[webhooks]]` describes. Reads its files; makes no call.
    ///
    /// # Errors
    /// What keeps it from working: one sentence for each reason, a line each.
    pub fn new(webhook: &Webhook) -> Result<Self, String> {
        let (settings, problems) = Settings::read(webhook);
        let fatal =
            problems.iter().filter(|problem| problem.fatal).map(|problem| problem.text.as_str());
        let settings = settings.ok_or_else(|| fatal.collect::<Vec<_>>().join("\n"))?;
        let files = Files::open(&settings)
            .map_err(|error| format!("webhook {}: {error}", settings.name))?;
        Ok(Self { settings, files: Arc::new(files) })
    }

    /// Its name, for messages.
    pub fn name(&self) -> &str {
        &self.settings.name
    }

    async fn call(&self, delivery: &Delivery) -> Outcome {
        let name = &self.settings.name;
        let (url, content) = match (self.settings.address.fill(delivery), self.content(delivery)) {
            (Ok(url), Ok(content)) => (url, content),
            (Err(error), _) | (_, Err(error)) => return Outcome::refused(of(name, &error)),
        };
        let files = self.files.current().await;
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let headers = request::headers(delivery, &self.settings, &files, now.as_secs(), &content);
        let (body, progress) = TrackedBody::new(content);
        let until = Instant::now() + self.settings.timeout;
        let call = files.client.post(url).headers(headers).body(Body::wrap(body)).send();
        match timeout_at(until, call).await {
            Ok(Ok(response)) => self.answer(response, until, &files).await,
            Ok(Err(error)) if error.is_connect() => {
                Outcome::unavailable(of(name, &format!("cannot be reached: {}", causes(&error))))
            }
            Ok(Err(error)) => self.unanswered(&progress, &causes(&error)),
            Err(_) => self.unanswered(
                &progress,
                &format!("no answer within {}", duration::text(self.settings.timeout)),
            ),
        }
    }

    fn content(&self, delivery: &Delivery) -> Result<Bytes, String> {
        match self.settings.body {
            WebhookBody::Payload => {
                Ok(delivery.event.envelope().payload.clone().unwrap_or_default())
            }
            WebhookBody::CloudEvents => {
                let Settings { source, content_type, .. } = &self.settings;
                cloud_event::document(delivery, source, content_type).map(Bytes::from)
            }
            WebhookBody::Json => {
                let Settings { json, content_type, .. } = &self.settings;
                json.document(delivery, content_type).map(Bytes::from)
            }
        }
    }

    /// What a call means that has no answer, or one that is none.
    fn unanswered(&self, progress: &Progress, error: &str) -> Outcome {
        let name = &self.settings.name;
        if progress.is_whole() {
            return Outcome::unknown(of(
                name,
                &format!("received the event but did not answer: {error}"),
            ));
        }
        if progress.is_begun() {
            return Outcome::retry(of(name, &format!("did not receive the whole event: {error}")));
        }
        Outcome::unavailable(of(name, &format!("cannot be reached: {error}")))
    }

    async fn answer(&self, mut response: Response, until: Instant, files: &Snapshot) -> Outcome {
        let status = response.status();
        if status.is_success() {
            let _ = timeout(DRAIN_WAIT, read(&mut response, DRAIN_BYTES_MAX)).await;
            return Outcome::Delivered;
        }
        if status.as_u16() == 401 {
            // The file may hold a newer one already.
            self.files.expire();
        }
        let max = self.settings.response_bytes_max;
        let after = answer::retry_after(
            response.headers(),
            SystemTime::now(),
            self.settings.retry_after_max,
        );
        let location = answer::location(response.headers(), files.secrets());
        // So that a secret that stands at the cut is seen whole.
        let longest = files.secrets().map(str::len).max().unwrap_or_default() * echo::FACTOR;
        let mut kept = Vec::new();
        if max > 0 {
            let wait = until.min(Instant::now() + TEXT_WAIT);
            let _ = timeout_at(wait, read_into(&mut response, max + longest, &mut kept)).await;
        }
        let body = answer::text(&kept, max, files.secrets());
        let answer = Answer { status, after, location, body };
        judge(&self.settings.name, answer, self.settings.address.is_filled())
    }
}

/// Reads a body to its end, if that comes early enough. The connection of one that is not read to its end is closed.
async fn read(response: &mut Response, bytes_max: usize) {
    let mut left = bytes_max;
    while let Ok(Some(chunk)) = response.chunk().await {
        let Some(rest) = left.checked_sub(chunk.len()) else { return };
        left = rest;
    }
}

/// Keeps the beginning of a body.
async fn read_into(response: &mut Response, bytes_max: usize, kept: &mut Vec<u8>) {
    while let Ok(Some(chunk)) = response.chunk().await {
        let room = bytes_max - kept.len();
        kept.extend_from_slice(&chunk[..chunk.len().min(room)]);
        if kept.len() == bytes_max {
            return;
        }
    }
}

fn of(name: &str, error: &str) -> String {
    format!("webhook {name} {error}")
}

/// The reasons behind an error of the client, without its address.
fn causes(error: &reqwest::Error) -> String {
    let mut causes: Vec<String> = Vec::new();
    let mut source = error.source();
    while let Some(cause) = source {
        let text = cause.to_string();
        if !causes.last().is_some_and(|last| last.contains(&text)) {
            causes.push(text);
        }
        source = cause.source();
    }
    // `client error (Connect)` says nothing that is not behind it.
    if causes.len() > 1 {
        causes.remove(0);
    }
    causes.join(": ")
}

#[async_trait]
impl Sink for WebhookSink {
    async fn deliver(&self, batch: &[Delivery]) -> Vec<Outcome> {
        let mut outcomes = Vec::with_capacity(batch.len());
        for delivery in batch {
            outcomes.push(self.call(delivery).await);
        }
        outcomes
    }

    fn calls_max(&self) -> usize {
        self.settings.calls_max
    }

    fn deadline(&self) -> Duration {
        self.settings.timeout + MARGIN
    }

    fn scope(&self, _: &Delivery) -> String {
        self.settings.address.scope()
    }

    async fn check(&self) -> Result<(), String> {
        let files = Arc::clone(&self.files);
        let name = &self.settings.name;
        let checked = tokio::task::spawn_blocking(move || files.check()).await;
        checked
            .map_err(|error| error.to_string())
            .flatten()
            .map_err(|error| format!("webhook {name}: {error}"))
    }
}
