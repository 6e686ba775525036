//! The HTTP port as a scraper, a probe and a stranger meet it.

use std::{io::ErrorKind, sync::Arc, time::Duration};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpSocket, TcpStream},
    task::JoinHandle,
};

use service_kit::telemetry::serve;

use super::{
    meters::{Live, Meters},
    *,
};

struct Port {
    readings: Readings,
    task: JoinHandle<()>,
}

impl Drop for Port {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn started() -> Port {
    serving(Readings(Meters::new("billing", ["OrderPaid"], 8))).await
}

/// A port whose metrics are more than the buffers of a connection hold: who does not read keeps it writing.
async fn verbose() -> Port {
    let types: Vec<String> = (0..5_000).map(|n| format!("OrderPaid{n}")).collect();
    serving(Readings(Meters::new("billing", types.iter().map(String::as_str), 8))).await
}

async fn serving(readings: Readings) -> Port {
    let task = tokio::spawn(serve("127.0.0.1:0".parse().unwrap(), readings.clone()));
    while readings.http_address().is_none() {
        tokio::task::yield_now().await;
    }
    Port { readings, task }
}

/// Sends bytes, and reads until the server closes.
async fn said(port: &Port, request: &str) -> String {
    let mut stream = TcpStream::connect(port.readings.http_address().unwrap()).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    let read = tokio::time::timeout(Duration::from_secs(5), stream.read_to_string(&mut answer));
    read.await.unwrap().unwrap();
    answer
}

async fn got(port: &Port, path: &str) -> String {
    said(port, &format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")).await
}

#[tokio::test]
async fn metrics_are_prometheus_text() {
    let port = started().await;
    let answer = got(&port, "/metrics").await;
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    assert!(answer.contains("content-type: text/plain; version=0.0.4; charset=utf-8"), "{answer}");
    assert!(answer.contains("\ninbox_ready{consumer=\"billing\"} 0\n"), "{answer}");
}

#[tokio::test]
async fn health_says_why() {
    let port = started().await;
    assert!(got(&port, "/health/live").await.starts_with("HTTP/1.1 200 OK"));
    let answer = got(&port, "/health/ready").await;
    assert!(answer.starts_with("HTTP/1.1 503 Service Unavailable\r\n"), "{answer}");
    assert!(answer.contains("application/json"), "{answer}");
    let body = answer.split("\r\n\r\n").nth(1).unwrap();
    let body: serde_json::Value = serde_json::from_str(body).unwrap();
    assert_eq!(
        (&body["ready"], &body["reasons"][0]["reason"]),
        (&false.into(), &"starting".into())
    );

    let now = std::time::Instant::now();
    port.readings.0.publish(Live { at: Some(now), joined: true, ..Live::default() });
    assert!(got(&port, "/health/ready").await.starts_with("HTTP/1.1 200 OK"));
    let long_ago = now.checked_sub(Duration::from_mins(2));
    port.readings.0.publish(Live { at: long_ago, joined: true, ..Live::default() });
    assert!(got(&port, "/health/live").await.starts_with("HTTP/1.1 503"));
}

#[tokio::test]
async fn the_port_is_read_only_and_has_nothing_else() {
    let port = started().await;
    for method in ["POST", "PUT", "DELETE", "PATCH"] {
        let request = format!("{method} /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
        let answer = said(&port, &request).await;
        assert!(answer.starts_with("HTTP/1.1 405 Method Not Allowed\r\n"), "{answer}");
        assert!(answer.contains("allow: GET, HEAD"), "{answer}");
    }
    let answer = got(&port, "/").await;
    assert!(answer.starts_with("HTTP/1.1 404") && answer.contains("/health/ready"), "{answer}");
    let head = "HEAD /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    assert!(said(&port, head).await.ends_with("\r\n\r\n"));
}

#[tokio::test]
async fn nonsense_is_refused_and_the_port_goes_on() {
    let port = started().await;
    assert!(said(&port, "\u{1}\u{2} nonsense\r\n\r\n").await.starts_with("HTTP/1.1 400"));
    let endless = format!("GET /{} HTTP/1.1\r\n\r\n", "x".repeat(100_000));
    let mut stream = TcpStream::connect(port.readings.http_address().unwrap()).await.unwrap();
    // It may be closed before all is written.
    let _ = stream.write_all(endless.as_bytes()).await;
    assert!(got(&port, "/health/live").await.starts_with("HTTP/1.1 200"));
}

#[tokio::test]
async fn an_address_in_use_is_told_and_taken_when_it_is_free() {
    let other = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = other.local_addr().unwrap();
    let readings = Readings(Meters::new("billing", ["OrderPaid"], 8));
    let task = tokio::spawn(serve(address, readings.clone()));
    let port = Port { readings: Readings(Arc::clone(&readings.0)), task };
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(port.readings.http_address(), None);
    assert!(!port.task.is_finished(), "an address in use ends nothing");
    drop(other);
    let asked = async {
        while port.readings.http_address().is_none() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(15), asked).await.unwrap();
    assert!(got(&port, "/health/live").await.starts_with("HTTP/1.1 200"));
}

/// A client that sends this and reads nothing; its own buffer is small.
async fn silent(port: &Port, request: &str) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    let mut stream = socket.connect(port.readings.http_address().unwrap()).await.unwrap();
    // Closed at once, perhaps: others hold all places.
    let _ = stream.write_all(request.as_bytes()).await;
    stream
}

/// Whether the server has let go of the connection within a time, whatever it wrote before.
async fn let_go(stream: &mut TcpStream, within: Duration) -> bool {
    let mut rest = Vec::new();
    tokio::time::timeout(within, stream.read_to_end(&mut rest)).await.is_ok()
}

const METRICS: &str = "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n";

#[tokio::test(flavor = "multi_thread")]
async fn who_never_reads_metrics_keeps_neither_health_nor_metrics_from_others() {
    let port = verbose().await;
    let mut held = Vec::new();
    for _ in 0..40 {
        held.push(silent(&port, METRICS).await);
    }
    assert!(got(&port, "/health/live").await.starts_with("HTTP/1.1 200"));
    assert!(got(&port, "/metrics").await.starts_with("HTTP/1.1 200"));
    // The first of them had to go, the last ones are still being answered.
    assert!(let_go(&mut held[0], Duration::from_secs(2)).await, "the oldest is dropped");
}

#[tokio::test(flavor = "multi_thread")]
async fn who_asks_nothing_or_half_keeps_neither_health_nor_a_scraper_from_its_answer() {
    let port = verbose().await;
    // It reads slowly, while strangers come; it was there first, and has asked.
    let mut scraper = silent(&port, METRICS).await;
    let mut first = [0; 15];
    scraper.read_exact(&mut first).await.unwrap();
    assert_eq!(&first, b"HTTP/1.1 200 OK");
    let mut held = Vec::new();
    for n in 0..100 {
        let half = ["", "G", "GET /metr", "GET /metrics HTTP/1.1\r\nHost: x\r\nA"][n % 4];
        held.push(silent(&port, half).await);
    }
    assert!(got(&port, "/health/live").await.starts_with("HTTP/1.1 200"));
    assert!(let_go(&mut held[0], Duration::from_secs(2)).await, "the oldest is dropped");
    let mut answer = String::new();
    let read = tokio::time::timeout(Duration::from_secs(5), scraper.read_to_string(&mut answer));
    read.await.unwrap().unwrap();
    assert!(answer.contains("\ninbox_ready{consumer=\"billing\"} 0\n"), "whole and undisturbed");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_ends_in_time_whatever_its_client_does() {
    let port = Arc::new(verbose().await);
    let slow_head = {
        let port = Arc::clone(&port);
        tokio::spawn(async move {
            let mut stream = silent(&port, "GET /metrics HTTP/1.1\r\n").await;
            let began = std::time::Instant::now();
            // A byte a second would keep a time for each byte from ever ending.
            while stream.write_all(b"A").await.is_ok() && began.elapsed() < Duration::from_secs(25)
            {
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
            began.elapsed()
        })
    };
    let mut stream = silent(&port, METRICS).await;
    let mut some = [0; 64];
    for _ in 0..12 {
        stream.read_exact(&mut some).await.unwrap();
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    // What has arrived can still be read; the rest is not kept for it.
    let rest = stream.read_to_end(&mut Vec::new()).await;
    assert_eq!(rest.unwrap_err().kind(), ErrorKind::ConnectionReset, "a slow reader");
    let head = slow_head.await.unwrap();
    assert!(head < Duration::from_secs(13), "a slow head was read for {head:?}");
}

#[tokio::test]
async fn a_second_request_on_a_connection_is_not_read() {
    let port = started().await;
    let answer = said(&port, &METRICS.repeat(3)).await;
    assert_eq!(answer.matches("HTTP/1.1 200").count(), 1, "{answer}");
    assert!(answer.contains("connection: close"), "{answer}");
}
