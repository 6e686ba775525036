//! The receiver: it takes events by their key, answers by a script, and remembers each call that came whole.

use std::{
    convert::Infallible,
    io,
    net::SocketAddr,
    sync::{Arc, Mutex, PoisonError},
};

use bytes::Bytes;
use futures::stream;
use http_body_util::{BodyExt as _, Full, StreamBody, combinators::UnsyncBoxBody};
use hyper::{
    HeaderMap, Request, Response,
    body::{Frame, Incoming},
    header::{CONTENT_LENGTH, LOCATION, RETRY_AFTER},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use standardwebhooks::Webhook;
use tokio::{
    net::{TcpListener, TcpStream},
    task::{JoinHandle, JoinSet},
};

use super::script::{Answer, Script};
use crate::relay_chaos::{Dice, now_ms};

/// The header by which calls of one relay are told from those of another.
pub(super) const RELAY: &str = "Relay";
/// What calls are signed with.
pub(super) const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const LONG: usize = 1 << 20;

type Body = UnsyncBoxBody<Bytes, io::Error>;

/// A call that came whole.
#[derive(Clone, Debug)]
pub(super) struct Call {
    pub(super) key: String,
    pub(super) aggregate: String,
    /// What the event says of itself.
    pub(super) n: i64,
    pub(super) body: Bytes,
    /// The number of the relay.
    pub(super) relay: usize,
    /// When the relay began it, in seconds since 1970.
    pub(super) begun_s: i64,
    pub(super) at_ms: i64,
    pub(super) answer: Answer,
}

/// What came, in its order.
#[derive(Debug, Default)]
pub(super) struct Log {
    pub(super) calls: Vec<Call>,
    /// Calls of which the connection broke before they were whole.
    pub(super) broken: u64,
    /// What no relay may send.
    pub(super) wrong: Vec<String>,
}

/// Ends when dropped.
pub(super) struct Receiver {
    pub(super) address: SocketAddr,
    state: Arc<State>,
    task: JoinHandle<()>,
}

struct State {
    webhook: Webhook,
    shared: Mutex<(Log, Script)>,
}

impl Receiver {
    pub(super) async fn start(dice: Dice) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("a listener has an address");
        let webhook = Webhook::new(SECRET).expect("a secret");
        let shared = Mutex::new((Log::default(), Script::new(dice)));
        let state = Arc::new(State { webhook, shared });
        let task = tokio::spawn(accept(listener, Arc::clone(&state)));
        Self { address, state, task }
    }

    /// What came until now; it is forgotten here.
    pub(super) fn take_log(&self) -> Log {
        self.state.with(|log, _| std::mem::take(log))
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Connections end with the set that they are in.
async fn accept(listener: TcpListener, state: Arc<State>) {
    let mut connections = JoinSet::new();
    while let Ok((connection, _)) = listener.accept().await {
        connections.spawn(serve(connection, Arc::clone(&state)));
        while connections.try_join_next().is_some() {}
    }
}

async fn serve(connection: TcpStream, state: Arc<State>) {
    let answers = service_fn(|request| state.answer(request));
    // It ends with an error where it was cut on purpose.
    drop(http1::Builder::new().serve_connection(TokioIo::new(connection), answers).await);
}

impl State {
    async fn answer(&self, request: Request<Incoming>) -> Result<Response<Body>, io::Error> {
        let (head, body) = request.into_parts();
        let Ok(body) = body.collect().await else {
            self.with(|log, _| log.broken += 1);
            return Err(io::Error::other("the call broke"));
        };
        let answer = self.take(&head.headers, body.to_bytes());
        tokio::time::sleep(answer.delay()).await;
        response(answer)
    }

    /// Decides, and writes down, what becomes of a call.
    fn take(&self, headers: &HeaderMap, body: Bytes) -> Answer {
        let signed = self.webhook.verify(&body, headers);
        self.with(|log, script| {
            let answer = script.next();
            match signed
                .map_err(|error| error.to_string())
                .and_then(|()| read(headers, body, answer))
            {
                Ok(call) => log.calls.push(call),
                Err(error) => log.wrong.push(format!("{error}: {headers:?}")),
            }
            answer
        })
    }

    fn with<T>(&self, work: impl FnOnce(&mut Log, &mut Script) -> T) -> T {
        let mut shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        let (log, script) = &mut *shared;
        work(log, script)
    }
}

fn read(headers: &HeaderMap, body: Bytes, answer: Answer) -> Result<Call, String> {
    let text = |name: &str| {
        let value = headers.get(name).and_then(|value| value.to_str().ok());
        value.map(str::to_owned).ok_or_else(|| format!("a call without {name}"))
    };
    let number = |name: &str| text(name)?.parse().map_err(|_| format!("{name} is no number"));
    let key = text("idempotency-key")?;
    if text("webhook-id")? != key {
        return Err("webhook-id and Idempotency-Key differ".to_owned());
    }
    let event: serde_json::Value =
        serde_json::from_slice(&body).map_err(|error| format!("the body: {error}"))?;
    let n = event["n"].as_i64().ok_or("the body has no number")?;
    let relay: i64 = number(RELAY)?;
    let relay = usize::try_from(relay).map_err(|_| "the relay has no number")?;
    let begun_s = number("webhook-timestamp")?;
    let aggregate = text("aggregate-id")?;
    Ok(Call { key, aggregate, n, body, relay, begun_s, at_ms: now_ms(), answer })
}

fn response(answer: Answer) -> Result<Response<Body>, io::Error> {
    let status = match answer {
        Answer::CutBeforeHead | Answer::Closed => return Err(io::Error::other("cut on purpose")),
        Answer::Plain | Answer::Slow | Answer::TooLate | Answer::TooLong | Answer::CutInBody => 200,
        Answer::TakenAndFailed | Answer::Failed | Answer::FailedAtLength => 500,
        Answer::Busy => 503,
        Answer::TooMany => 429,
        Answer::TimedOut => 408,
        Answer::TooEarly => 425,
        Answer::Forbidden => 403,
        Answer::Unauthorized => 401,
        Answer::NoContent => 204,
        Answer::Refused => 422,
        Answer::Gone => 410,
        Answer::Moved => 302,
    };
    let builder = Response::builder().status(status);
    let builder = match answer {
        Answer::Busy | Answer::TooMany => builder.header(RETRY_AFTER, 1),
        Answer::CutInBody => builder.header(CONTENT_LENGTH, LONG),
        Answer::Moved => builder.header(LOCATION, "http://127.0.0.1:1/elsewhere"),
        _ => builder,
    };
    let body = match answer {
        Answer::TooLong | Answer::FailedAtLength => whole(vec![b'x'; LONG]),
        Answer::CutInBody => {
            let parts = [Ok(Frame::data(Bytes::from_static(b"beg"))), Err(io::Error::other("cut"))];
            StreamBody::new(stream::iter(parts)).boxed_unsync()
        }
        Answer::NoContent => whole(Vec::new()),
        _ => whole(format!("{answer:?}").into_bytes()),
    };
    builder.body(body).map_err(io::Error::other)
}

fn whole(bytes: Vec<u8>) -> Body {
    let never = |never: Infallible| match never {};
    Full::new(Bytes::from(bytes)).map_err(never).boxed_unsync()
}
