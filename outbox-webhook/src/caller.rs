//! One POST for each event, and what became of it.

use std::{
    error::Error,
    fmt,
    sync::Arc,
    time::{Duration, SystemTime},
};

use bytes::Bytes;
use reqwest::{Body, Response};
use service_kit::duration;
use tokio::time::{Instant, timeout, timeout_at};

use crate::{
    answer::{self, Answer, judge},
    attempt::{Attempt, Judgement},
    body::{Progress, TrackedBody},
    cloud_event, echo,
    files::{Files, Snapshot},
    request,
    settings::Settings,
    webhook::{Webhook, WebhookBody},
};

/// How long the body of a failed answer is waited for.
const TEXT_WAIT: Duration = Duration::from_secs(2);
/// What is read of the body of a 2xx, so that its connection serves again; and for how long.
const DRAIN_BYTES_MAX: usize = 16 << 10;
const DRAIN_WAIT: Duration = Duration::from_millis(200);
/// What a call may take besides its time-out.
const MARGIN: Duration = Duration::from_secs(10);

/// Calls a webhook: each event is one POST.
pub struct Caller {
    settings: Settings,
    files: Arc<Files>,
}

impl fmt::Debug for Caller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { settings, files } = self;
        f.debug_struct("Caller")
            .field("name", &settings.name)
            .field("scope", &settings.address.scope())
            .field("files", files)
            .finish()
    }
}

impl Caller {
    /// Reads the webhook's settings and files; makes no call. Files are read again while the caller lives, and
    /// `on_unusable` is called once for each file that cannot be used any more, with the webhook's name.
    ///
    /// # Errors
    /// What keeps it from working: one sentence for each reason, a line each.
    pub fn new(webhook: &Webhook, on_unusable: fn(&str, String)) -> Result<Self, String> {
        let (settings, problems) = Settings::read(webhook);
        let fatal = problems.into_iter().filter(|problem| problem.fatal);
        let settings = settings.ok_or_else(|| {
            let texts: Vec<String> = fatal.map(|problem| problem.text).collect();
            if texts.is_empty() { "a webhook has no `url`".to_owned() } else { texts.join("\n") }
        })?;
        let files = Files::open(&settings, on_unusable)
            .map_err(|error| format!("webhook {}: {error}", settings.name))?;
        Ok(Self { settings, files: Arc::new(files) })
    }

    /// Its name, for messages.
    pub fn name(&self) -> &str {
        &self.settings.name
    }

    /// Most calls at once.
    pub fn calls_max(&self) -> usize {
        self.settings.calls_max
    }

    /// What a call takes at most.
    pub fn deadline(&self) -> Duration {
        self.settings.timeout + MARGIN
    }

    /// What all calls have in common: scheme, host and port.
    pub fn scope(&self) -> String {
        self.settings.address.scope()
    }

    /// Looks at the files, and calls nobody.
    ///
    /// # Errors
    /// What is wrong with them.
    pub async fn check(&self) -> Result<(), String> {
        let files = Arc::clone(&self.files);
        let name = &self.settings.name;
        let checked = tokio::task::spawn_blocking(move || files.check()).await;
        checked
            .map_err(|error| error.to_string())
            .flatten()
            .map_err(|error| format!("webhook {name}: {error}"))
    }

    /// Calls the webhook for an event. Dropped, the call is over, and what became of its event is unknown.
    pub async fn call(&self, attempt: Attempt<'_>) -> Judgement {
        let name = &self.settings.name;
        let (url, content) = match (self.settings.address.fill(attempt), self.content(attempt)) {
            (Ok(url), Ok(content)) => (url, content),
            (Err(error), _) | (_, Err(error)) => {
                return Judgement::Refused { error: of(name, &error) };
            }
        };
        let files = self.files.current().await;
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let headers = request::headers(attempt, &self.settings, &files, now.as_secs(), &content);
        let (body, progress) = TrackedBody::new(content);
        let until = Instant::now() + self.settings.timeout;
        let call = files.client.post(url).headers(headers).body(Body::wrap(body)).send();
        match timeout_at(until, call).await {
            Ok(Ok(response)) => self.answer(response, until, &files).await,
            Ok(Err(error)) if error.is_connect() => unavailable(name, &causes(&error)),
            Ok(Err(error)) => self.unanswered(&progress, &causes(&error)),
            Err(_) => self.unanswered(
                &progress,
                &format!("no answer within {}", duration::text(self.settings.timeout)),
            ),
        }
    }

    fn content(&self, attempt: Attempt<'_>) -> Result<Bytes, String> {
        match self.settings.body {
            WebhookBody::Payload => {
                Ok(attempt.event.envelope().payload.clone().unwrap_or_default())
            }
            WebhookBody::CloudEvents => {
                let Settings { source, content_type, .. } = &self.settings;
                cloud_event::document(attempt, source, content_type).map(Bytes::from)
            }
            WebhookBody::Json => {
                let Settings { json, content_type, .. } = &self.settings;
                json.document(attempt, content_type).map(Bytes::from)
            }
        }
    }

    /// What a call means that has no answer, or one that is none.
    fn unanswered(&self, progress: &Progress, error: &str) -> Judgement {
        let name = &self.settings.name;
        if progress.is_whole() {
            let error = of(name, &format!("received the event but did not answer: {error}"));
            return Judgement::Unknown { error };
        }
        if progress.is_begun() {
            let error = of(name, &format!("did not receive the whole event: {error}"));
            return Judgement::Retry { error, after: None };
        }
        unavailable(name, error)
    }

    async fn answer(&self, mut response: Response, until: Instant, files: &Snapshot) -> Judgement {
        let status = response.status();
        if status.is_success() {
            let _ = timeout(DRAIN_WAIT, read(&mut response, DRAIN_BYTES_MAX)).await;
            return Judgement::Delivered;
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

fn unavailable(name: &str, error: &str) -> Judgement {
    let error = of(name, &format!("cannot be reached: {error}"));
    Judgement::Unavailable { error, after: None }
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
