//! The HTTP port: metrics and health, read-only, HTTP/1.1.

use std::{convert::Infallible, net::SocketAddr, sync::Arc, time::Duration};

use bytes::Bytes;
use http_body_util::Full;
use hyper::{
    Method, Request, Response, StatusCode, body::Incoming, header, server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::Semaphore,
    task::JoinSet,
};

use super::{Readings, Signal, exposition};

/// Connections served at once: a scraper, a probe, and a few people.
const CONNECTIONS_MAX: usize = 32;
/// The longest that a client may take to send its request, and that a connection may be idle.
const REQUEST_MAX: Duration = Duration::from_secs(10);
/// Between two attempts to listen on an address that is in use: a process that is replaced on the same
/// machine gives it up soon.
const LISTEN_AGAIN: Duration = Duration::from_secs(5);

/// Serves `readings` until dropped. An address that cannot be had ends nothing: events come first.
pub(crate) async fn serve(listen: SocketAddr, readings: Readings) {
    let listener = listening(listen).await;
    if let Ok(address) = listener.local_addr() {
        let _ = readings.0.http.set(address); // the first one; there is no second
        Signal::HttpListening { address: address.to_string() }.emit();
    }
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    // Dropped with this future, and the connections with it.
    let mut connections = JoinSet::new();
    loop {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
        while connections.try_join_next().is_some() {}
        match listener.accept().await {
            Ok((stream, _)) => {
                let readings = readings.clone();
                connections.spawn(async move {
                    converse(stream, readings).await;
                    drop(place);
                });
            }
            // Out of file descriptors, or a client that went away: neither is ours to mend.
            Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
        }
    }
}

/// Tries until the address can be had; says so when it cannot, once for each reason.
async fn listening(listen: SocketAddr) -> TcpListener {
    let mut told = String::new();
    loop {
        match TcpListener::bind(listen).await {
            Ok(listener) => return listener,
            Err(error) => {
                let sentence = format!(
                    "`http.listen` {listen} cannot be listened on: {error}; metrics and health are \
                     not served until it can (it is tried again every {} s); set another address, or \
                     \"off\"",
                    LISTEN_AGAIN.as_secs()
                );
                if sentence != told {
                    Signal::HttpFailed { error: sentence.clone() }.emit();
                    told = sentence;
                }
            }
        }
        tokio::time::sleep(LISTEN_AGAIN).await;
    }
}

async fn converse(stream: TcpStream, readings: Readings) {
    let answer = service_fn(move |request: Request<Incoming>| {
        let answer = answered(request.method(), request.uri().path(), &readings);
        async move { Ok::<_, Infallible>(answer) }
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(REQUEST_MAX)
        .max_buf_size(16 * 1024)
        .serve_connection(TokioIo::new(stream), answer);
    // What a client does wrong is between it and HTTP.
    let _ = served.await;
}

/// The answer to one request.
fn answered(method: &Method, path: &str, readings: &Readings) -> Response<Full<Bytes>> {
    if !matches!(*method, Method::GET | Method::HEAD) {
        let mut refusal =
            plain(StatusCode::METHOD_NOT_ALLOWED, "this port is read-only: use GET\n");
        let allowed = header::HeaderValue::from_static("GET, HEAD");
        refusal.headers_mut().insert(header::ALLOW, allowed);
        return refusal;
    }
    match path {
        "/metrics" => text(StatusCode::OK, exposition::CONTENT_TYPE, readings.prometheus()),
        "/health/live" => {
            let live = readings.live();
            json(live, serde_json::json!({ "live": live }).to_string())
        }
        "/health/ready" => {
            let readiness = readings.readiness();
            json(readiness.ready, serde_json::to_string(&readiness).unwrap_or_default())
        }
        _ => plain(
            StatusCode::NOT_FOUND,
            "there is nothing here; see /metrics, /health/live and /health/ready\n",
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
