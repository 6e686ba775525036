//! The HTTP port as a scraper, a probe and a stranger meet it.

use std::{sync::Arc, time::Duration};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task::JoinHandle,
};

use super::{
    http::serve,
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
    let readings = Readings(Meters::new("billing", ["OrderPaid"], 8));
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
