//! One request, from its head to its answer.

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use axum::{
    body::Body,
    extract::State,
    http::{HeaderMap, HeaderValue, Request, Response, StatusCode, header},
};
use bytes::Bytes;
use inbox_runtime::internal::{Direct, DirectEvent};
use inbox_store::internal::port::Owners;
use tokio::sync::watch;

use crate::{
    answer,
    body::{Arrivals, Arriving, NotRead},
    format::{self, BadInput},
    queue::{Closed, Queue},
    settings::IntakeSettings,
    signature,
};

/// The path that takes events.
pub(crate) const EVENTS: &str = "/events";

/// What requests share.
#[derive(Debug)]
pub(crate) struct Shared<DB: Owners> {
    pub(crate) direct: Arc<Direct<DB>>,
    pub(crate) queue: Arc<Queue<DB>>,
    pub(crate) settings: IntakeSettings,
    /// Bodies that are not read whole, or not looked at.
    pub(crate) arrivals: Arrivals,
    /// Nothing more is taken, and what was taken is answered.
    pub(crate) finished: watch::Sender<bool>,
}

/// Why a request is refused before its events are tried.
struct Refusal {
    status: StatusCode,
    at: Option<usize>,
    error: String,
    after: Option<Duration>,
}

impl Refusal {
    fn new(status: StatusCode, error: impl Into<String>) -> Self {
        Self { status, at: None, error: error.into(), after: None }
    }

    fn again(error: &str, seconds: u64) -> Self {
        let after = Some(Duration::from_secs(seconds));
        Self { after, ..Self::new(StatusCode::SERVICE_UNAVAILABLE, error) }
    }
}

impl From<BadInput> for Refusal {
    fn from(bad: BadInput) -> Self {
        let BadInput { status, at, error } = bad;
        Self { status, at, error, after: None }
    }
}

/// `POST /events`.
pub(crate) async fn events<DB: Owners>(
    State(shared): State<Arc<Shared<DB>>>,
    request: Request<Body>,
) -> Response<Body> {
    let answered = shared.answer(request).await.unwrap_or_else(|refusal| {
        let Refusal { status, at, error, after } = refusal;
        answer::refusal(status, &error, at, after)
    });
    shared.direct.meters().intake.count(answered.status().as_u16());
    answered
}

impl<DB: Owners> Shared<DB> {
    async fn answer(&self, request: Request<Body>) -> Result<Response<Body>, Refusal> {
        let (head, body) = request.into_parts();
        let is_packed = is_packed(&head.headers)?;
        let arriving = self.arrivals.begin();
        let mut body = self.body(&head.headers, body, &arriving).await?;
        let mut signed = self.check_signature(&head.headers, &body);
        if is_packed {
            body = self.unpack(&body, &arriving).await?;
            // Some senders sign what they send, others what their HTTP client packs for them afterwards.
            signed = signed.or_else(|_| self.check_signature(&head.headers, &body));
        }
        signed?;
        let events = self.read(&head.headers, &body)?;
        let ids: Vec<String> = events.0.iter().map(DirectEvent::id).collect();
        let (events, is_list) = events;
        drop(arriving);
        if events.is_empty() {
            return Ok(answer::of_events(&ids, &[], is_list));
        }
        let wait = self.settings.request_timeout;
        let answers = self.queue.submit(events, wait).map_err(|closed| match closed {
            Closed::Full => Refusal::again("too many events are waiting", 1),
            Closed::Ending => Refusal::again("this server is shutting down", 1),
        })?;
        match tokio::time::timeout(wait, answers).await {
            Ok(Ok(answers)) => Ok(answer::of_events(&ids, &answers, is_list)),
            Ok(Err(_)) => Err(Refusal::again("the server failed; the outcome is unknown", 1)),
            Err(_) => Err(Refusal::again(
                "it was not settled in time, but may still be; the answer to the next attempt \
                 reports it",
                1,
            )),
        }
    }

    /// The body, no longer than it may be, and no later.
    async fn body(
        &self,
        headers: &HeaderMap,
        body: Body,
        arriving: &Arriving<'_>,
    ) -> Result<Bytes, Refusal> {
        let max = self.settings.body_bytes_max;
        let said = headers.get(header::CONTENT_LENGTH).and_then(|said| said.to_str().ok());
        if said.and_then(|said| said.parse::<usize>().ok()).is_some_and(|said| said > max) {
            return Err(self.not_read(NotRead::TooLarge, "did not arrive completely"));
        }
        let read = arriving.read(body, max);
        match tokio::time::timeout(self.settings.request_timeout, read).await {
            Ok(read) => read.map_err(|why| self.not_read(why, "did not arrive completely")),
            Err(_) => {
                Err(Refusal::new(StatusCode::REQUEST_TIMEOUT, "the body did not arrive in time"))
            }
        }
    }

    /// A body of gzip as it was before, no longer than any body may be.
    async fn unpack(&self, packed: &Bytes, arriving: &Arriving<'_>) -> Result<Bytes, Refusal> {
        let unpacked = arriving.unpack(packed, self.settings.body_bytes_max).await;
        unpacked.map_err(|why| {
            self.not_read(why, "is not a single complete gzip member, as `Content-Encoding` claims")
        })
    }

    fn not_read(&self, why: NotRead, broken: &str) -> Refusal {
        match why {
            NotRead::TooLarge => {
                let max = self.settings.body_bytes_max;
                let error = format!("the body has more than {max} bytes");
                Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, error)
            }
            NotRead::Broken => Refusal::new(StatusCode::BAD_REQUEST, format!("the body {broken}")),
            NotRead::Crowded => Refusal::again(
                "too much data arrives at once, and this body has been arriving longest",
                1,
            ),
        }
    }

    fn check_signature(&self, headers: &HeaderMap, body: &Bytes) -> Result<(), Refusal> {
        let Some(secrets) = &self.settings.secrets else { return Ok(()) };
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let tolerance = self.settings.signature_tolerance.as_secs();
        signature::verify(&secrets.keys(), headers, body, now.as_secs(), tolerance)
            .map_err(|error| Refusal::new(StatusCode::UNAUTHORIZED, error))?;
        if format::is_binary(headers) {
            // One signed body would be as many events as somebody makes up ids for it.
            let error = "the headers `ce-…` of a CloudEvent in binary mode are not signed: send it in structured mode";
            return Err(Refusal::new(StatusCode::UNAUTHORIZED, error));
        }
        Ok(())
    }

    /// All events of the request, or nothing of it: an event that cannot be read refuses those beside it, too.
    fn read(&self, headers: &HeaderMap, body: &Bytes) -> Result<(Vec<DirectEvent>, bool), Refusal> {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let now_ms = i64::try_from(now.as_millis()).unwrap_or(i64::MAX);
        let events = format::read(headers, body, &self.settings.webhook, now_ms)?;
        let (count, max) = (events.records.len(), self.settings.events_max);
        if count > max {
            let error =
                format!("{count} events are too many for one request; at most {max} are allowed");
            return Err(Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, error));
        }
        let mut read = Vec::with_capacity(count);
        for (at, record) in events.records.into_iter().enumerate() {
            let at = events.is_list.then_some(at);
            read.push(self.direct.event(record).map_err(|error| match error {
                Some(error) => {
                    let error = events.names.sentence(&error);
                    Refusal { at, ..Refusal::new(StatusCode::BAD_REQUEST, error) }
                }
                None => Refusal::again("not ready yet", 1),
            })?);
        }
        Ok((read, events.is_list))
    }
}

/// What has another path or method than this server knows.
pub(crate) async fn unknown(request: Request<Body>) -> Response<Body> {
    let (method, path) = (request.method(), request.uri().path());
    if path == EVENTS {
        let error = format!("{EVENTS} accepts POST, not {method}");
        let mut response = answer::refusal(StatusCode::METHOD_NOT_ALLOWED, &error, None, None);
        response.headers_mut().insert(header::ALLOW, HeaderValue::from_static("POST"));
        return response;
    }
    let error = format!("not found; send events to {EVENTS} by POST");
    answer::refusal(StatusCode::NOT_FOUND, &error, None, None)
}

/// Whether a body is gzip; nothing else is unpacked.
fn is_packed(headers: &HeaderMap) -> Result<bool, Refusal> {
    let mut encodings = headers.get_all(header::CONTENT_ENCODING).iter();
    let (first, second) = (encodings.next(), encodings.next());
    let Some(encoding) = first else { return Ok(false) };
    let is = |name: &str| encoding.as_bytes().eq_ignore_ascii_case(name.as_bytes());
    if second.is_none() && is("identity") {
        return Ok(false);
    }
    if second.is_none() && (is("gzip") || is("x-gzip")) {
        return Ok(true);
    }
    let error = format!(
        "`Content-Encoding: {}` is not supported: send gzip, or the body as it is",
        String::from_utf8_lossy(encoding.as_bytes()).escape_debug()
    );
    Err(Refusal::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, error))
}
