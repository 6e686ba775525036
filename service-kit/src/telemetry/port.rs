//! The HTTP port: metrics and health, read-only, HTTP/1.1.

use std::{convert::Infallible, net::SocketAddr, time::Duration};

use bytes::Bytes;
use http_body_util::Full;
use hyper::{Method, Request, Response, StatusCode, body::Incoming, header, service::service_fn};
use tokio::net::TcpListener;

use super::CONTENT_TYPE;
use crate::{
    printed,
    server::{self, Bounds},
};

/// One request and its answer: a connection that stays open holds a place for nothing.
const BOUNDS: Bounds = Bounds {
    // A scraper, a probe, and a few people.
    connections_max: 32,
    // The others are for who comes, a probe among them.
    answering_max: Some(24),
    head_max: Duration::from_secs(10),
    answer_max: Duration::from_secs(10),
    keeps_open: false,
    buffer_bytes_max: 16 * 1024,
    end_max: Duration::ZERO,
};

/// Between two attempts to listen on an address that is in use: a process that is replaced on the same
/// machine gives it up soon.
const LISTEN_AGAIN: Duration = Duration::from_secs(5);

/// What a program says of itself at its port.
pub trait Observed: Clone + Send + Sync + 'static {
    /// Every metric in Prometheus' text format.
    fn metrics(&self) -> String;
    /// Whether it does its rounds; false only when starting the process anew is right.
    fn is_live(&self) -> bool;
    /// Whether it is ready, and the same as JSON with the reasons.
    fn readiness(&self) -> (bool, String);
    /// The port listens there; told once.
    fn listens(&self, address: SocketAddr);
    /// The address cannot be had: why, and what to do. Told once for each reason.
    fn cannot_listen(&self, error: String);
}

/// Serves what `observed` says until dropped. An address that cannot be had ends nothing: events come first.
pub async fn serve(listen: SocketAddr, observed: impl Observed) {
    let listener = listening(listen, &observed).await;
    if let Ok(address) = listener.local_addr() {
        observed.listens(address);
    }
    let answer = service_fn(move |request: Request<Incoming>| {
        let answer = answered(request.method(), request.uri().path(), &observed);
        async move { Ok::<_, Infallible>(answer) }
    });
    server::serve(listener, BOUNDS, answer, std::future::pending()).await;
}

/// Tries until the address can be had; says so when it cannot, once for each reason.
async fn listening(listen: SocketAddr, observed: &impl Observed) -> TcpListener {
    let mut told = String::new();
    loop {
        match TcpListener::bind(listen).await {
            Ok(listener) => return listener,
            Err(error) => {
                let sentence = format!(
                    "cannot bind `http.listen` {listen}: {error}. Metrics and health are unavailable; retrying \
                     every {} s. Choose another address or \"off\"",
                    LISTEN_AGAIN.as_secs()
                );
                if sentence != told {
                    observed.cannot_listen(sentence.clone());
                    told = sentence;
                }
            }
        }
        tokio::time::sleep(LISTEN_AGAIN).await;
    }
}

/// The answer to one request.
fn answered(method: &Method, path: &str, observed: &impl Observed) -> Response<Full<Bytes>> {
    if !matches!(*method, Method::GET | Method::HEAD) {
        let mut refusal =
            plain(StatusCode::METHOD_NOT_ALLOWED, "this port is read-only: use GET\n");
        let allowed = header::HeaderValue::from_static("GET, HEAD");
        refusal.headers_mut().insert(header::ALLOW, allowed);
        return refusal;
    }
    match path {
        "/metrics" => text(StatusCode::OK, CONTENT_TYPE, observed.metrics()),
        "/health/live" => {
            let live = observed.is_live();
            json(live, serde_json::json!({ "live": live }).to_string())
        }
        "/health/ready" => {
            let (ready, body) = observed.readiness();
            json(ready, printed::escaped(&body).into_owned())
        }
        _ => plain(
            StatusCode::NOT_FOUND,
            "not found; try /metrics, /health/live and /health/ready\n",
        ),
    }
}

fn json(well: bool, body: String) -> Response<Full<Bytes>> {
    let status = if well { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    text(status, "application/json", body + "\n")
}

fn plain(status: StatusCode, body: &str) -> Response<Full<Bytes>> {
    text(status, "text/plain; charset=utf-8", body.to_owned())
}

fn text(status: StatusCode, content_type: &'static str, body: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = status;
    let content_type = header::HeaderValue::from_static(content_type);
    response.headers_mut().insert(header::CONTENT_TYPE, content_type);
    response.headers_mut().insert(
        header::CACHE_CONTROL,
        // A health that somebody kept is none.
        header::HeaderValue::from_static("no-store"),
    );
    response
}
