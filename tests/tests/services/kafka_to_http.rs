//! The page "Kafka to HTTP without Rust": its two files, with the addresses of this test.

use std::{
    net::SocketAddr,
    process::Command,
    sync::{Arc, Mutex},
};

use axum::{
    Router,
    body::Bytes,
    extract::State,
    http::{HeaderMap, StatusCode},
    routing::post,
};
use serde_json::{Value, json};
use tests::{Markdown, Record, SOON, Stage, Worker, eventually};
use tokio::net::TcpListener;

use super::commands::{ran, worker};
use crate::programs::RELAY;

const PAGE: &str = include_str!("../../../docs/kafka-to-http.md");
const ID: &str = "0199aa00-0000-7000-8000-000000000001";

type Calls = Arc<Mutex<Vec<(HeaderMap, Bytes)>>>;

/// Accepts each call and keeps it.
async fn receiver() -> (SocketAddr, Calls) {
    let calls = Calls::default();
    let take = async |State(calls): State<Calls>, headers: HeaderMap, body: Bytes| {
        calls.lock().unwrap().push((headers, body));
        StatusCode::NO_CONTENT
    };
    let router = Router::new().route("/events", post(take)).with_state(Arc::clone(&calls));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, router).await });
    (address, calls)
}

async fn succeeds(command: Command, args: &str) {
    let (code, out, err) = ran(command, args).await;
    assert_eq!(code, Some(0), "{args}: {out}{err}");
}

#[tokio::test]
async fn a_webhook_is_called_once_for_each_event_of_a_topic() {
    let page = Markdown::read(PAGE);
    let files: Vec<&str> = page
        .fences
        .iter()
        .filter(|fence| fence.language() == "toml")
        .map(|fence| fence.text.as_str())
        .collect();
    let [consumer, relay] = files[..] else { panic!("two files, not {files:?}") };
    let (address, calls) = receiver().await;
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    std::fs::write(path("shop"), "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap();
    let relay = relay
        .replace("https://shop.example", &format!("http://{address}"))
        .replace("/run/secrets/shop", path("shop").to_str().unwrap());
    std::fs::write(path("consumer.toml"), consumer).unwrap();
    std::fs::write(path("relay.toml"), relay).unwrap();

    let stage = Stage::set("hooks", 1).await;
    let consumer = || -> Command {
        let mut command = worker(&stage);
        command.env("INBOX_CONFIG", path("consumer.toml")).env_remove("INBOX_CONSUMER__NAME");
        command
    };
    let relay = || -> Command {
        let mut command = RELAY.command();
        command
            .env("OUTBOX_CONFIG", path("relay.toml"))
            .env("OUTBOX_DATABASE__URL", stage.schema.url())
            .env("OUTBOX_HTTP__LISTEN", "off");
        command
    };
    succeeds(consumer(), "migrate").await;
    succeeds(consumer(), "check").await;
    succeeds(relay(), "check").await;
    let running = [consumer(), relay()].map(|mut command| Worker::spawn(command.arg("run")));

    let paid = Record::event(ID, "OrderPaid", "41", r#"{ "account": 1,  "amount": 250 }"#);
    let unreadable = Record::event(&ID.replace("01", "02"), "OrderPaid", "42", "no JSON");
    stage.send(&[paid.clone(), paid, unreadable]).await;
    eventually(SOON, "the call", async || !calls.lock().unwrap().is_empty()).await;
    let settled = "SELECT count(*) FROM inbox_partitions WHERE watermark = 3";
    eventually(SOON, "all is read", async || stage.schema.number(settled).await == 1).await;
    assert_eq!(stage.parked("").await, 1);
    assert_eq!(stage.schema.number("SELECT count(*) FROM outbox_events").await, 1);

    let calls = calls.lock().unwrap();
    let [(headers, body)] = &calls[..] else { panic!("one call, not {calls:?}") };
    let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    assert_eq!(header("webhook-id"), Some(ID));
    assert_eq!(header("event-type"), Some("OrderPaid"));
    assert_eq!(header("aggregate-id"), Some("41"));
    assert!(header("webhook-signature").is_some_and(|value| value.starts_with("v1,")));
    let body: Value = serde_json::from_slice(body).unwrap();
    assert_eq!(body, json!({"account": 1, "amount": 250}));
    drop(running);
}
