//! The HTTP port: metrics and health, read-only, HTTP/1.1.

use std::{convert::Infallible, net::SocketAddr, pin::pin, sync::Arc, time::Duration};

use bytes::Bytes;
use http_body_util::Full;
use hyper::{
    Method, Request, Response, StatusCode, body::Incoming, header, server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use service_kit::printed;
use tokio::{
    net::{TcpListener, TcpStream},
    task::JoinSet,
};

use super::{
    Readings, Signal, exposition,
    places::{PLACES_MAX, Place, Places},
};

/// Between two attempts to listen on an address that is in use: a process that is replaced on the same
/// machine gives it up soon.
const LISTEN_AGAIN: Duration = Duration::from_secs(5);

/// Serves `readings` until dropped. An address that cannot be had ends nothing: events come first.
pub async fn serve(listen: SocketAddr, readings: Readings) {
    let listener = listening(listen).await;
    if let Ok(address) = listener.local_addr() {
        let _ = readings.0.http.set(address); // the first one; there is no second
        Signal::HttpListening { address: address.to_string() }.emit();
    }
    let places = Arc::new(Places::default());
    // Dropped with this future, and the connections with it.
    let mut connections = JoinSet::new();
    loop {
        let accepted = listener.accept().await;
        while connections.try_join_next().is_some() {}
        while connections.len() >= PLACES_MAX {
            places.make_room();
            connections.join_next().await;
        }
        match accepted {
            Ok((stream, _)) => {
                let (place, readings) = (places.taken(), readings.clone());
                let places = Arc::clone(&places);
                connections.spawn(async move {
                    converse(stream, readings, &places, &place).await;
                    places.left(&place);
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

/// One request and its answer: a connection that stays open holds a place for nothing.
async fn converse(stream: TcpStream, readings: Readings, places: &Places, place: &Place) {
    let answer = service_fn(move |request: Request<Incoming>| {
        places.asked(place);
        let answer = answered(request.method(), request.uri().path(), &readings);
        async move { Ok::<_, Infallible>(answer) }
    });
    let mut served = http1::Builder::new()
        .keep_alive(false)
        .header_read_timeout(None) // the place has a time for it
        .max_buf_size(16 * 1024)
        .serve_connection(TokioIo::new(stream), answer);
    tokio::select! {
        // What a client does wrong is between it and HTTP.
        _ = pin!(&mut served) => {}
        // What it has not read is not kept for it.
        () = place.over() => {
            let _ = served.into_parts().io.into_inner().set_zero_linger();
        }
    }
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
            let body = serde_json::to_string(&readiness).unwrap_or_default();
            json(readiness.ready, printed::escaped(&body).into_owned())
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
