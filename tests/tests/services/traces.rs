//! The export of spans by both programs: one trace through relay and consumer; receivers that are away, or never
//! answer; TLS.

use std::{
    net::SocketAddr,
    process::Command,
    time::{Duration, Instant},
};

use tests::{
    Authority, Outbox, Record, SOON, Services, SpanReceiver, Stage, Worker, counted, counted_event,
    eventually,
};

use super::commands::{ran, worker};
use crate::programs::RELAY;

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const SECRET: &str = "c4n4ry";

fn parent() -> String {
    format!("00-{TRACE}-00f067aa0ba902b7-01")
}

/// A record of that trace.
fn traced(n: i64) -> Record {
    counted("a", n).header("traceparent", parent())
}

/// A consumer's process that exports to an address.
fn exporting(stage: &Stage, address: SocketAddr) -> Command {
    let mut command = worker(stage);
    command
        .env("INBOX_TRACES__ENDPOINT", format!("http://{address}/v1/traces"))
        .env("INBOX_TRACES__TIMEOUT", "500ms")
        .env("INBOX_TRACES__HEADERS", format!("authorization=Bearer {SECRET}"));
    command
}

fn lines(worker: &Worker, signal: &str) -> Vec<String> {
    let signal = format!("\"signal\":\"{signal}\"");
    worker.log().lines().filter(|line| line.contains(&signal)).map(str::to_owned).collect()
}

#[tokio::test]
async fn an_event_s_trace_goes_through_relay_and_consumer_to_the_receiver() {
    let receiver = SpanReceiver::start();
    let outbox = Outbox::set("traces", 1).await;
    let schema = Services::from_env().schema().await;
    let stage = Stage::with(outbox.topic.clone(), schema).await;
    // The relay is configured, with a secret in a file; the consumer has OpenTelemetry's own variables.
    let headers = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(headers.path(), format!("authorization=Bearer%20{SECRET}\n")).unwrap();
    let mut command = outbox.command(&RELAY);
    command
        .env("OUTBOX_TRACES__ENDPOINT", format!("{}/v1/traces", receiver.url()))
        .env("OUTBOX_TRACES__HEADERS_FILE", headers.path())
        .env("OUTBOX_TRACES__SERVICE_NAME", "shop-relay");
    let mut relay = Worker::spawn(command.arg("run"));
    let mut command = worker(&stage);
    command
        .env("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.url())
        .env("OTEL_SERVICE_NAME", "billing")
        .env("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment=test")
        // Of what begins here nothing; of what was sampled before, all. The log's level is the log's alone.
        .env("INBOX_TRACES__SAMPLE", "0")
        .env("INBOX_LOG__LEVEL", "warn");
    let mut consumer = Worker::spawn(command.arg("run"));

    let event = counted_event("a", 1).with_trace_context(parent(), "").unwrap();
    outbox.append_all(&[event, counted_event("b", 1)]).await;
    eventually(SOON, "both effects", async || stage.effects().await == 2).await;
    let published = receiver
        .arrived("the relay's span", |span| span.service == "shop-relay" && span.name == "publish")
        .await;
    assert_eq!(published.links, [TRACE], "of the event that has a trace");
    assert_eq!(published.parent, "");
    assert_eq!(published.attribute("messaging.system"), Some("kafka"));
    assert_eq!(published.attribute("messaging.destination.name"), Some(stage.topic.name()));
    assert_eq!(published.attribute("messaging.batch.message_count"), Some("2"));

    // What ended a moment ago is sent before the process ends.
    stage.send(&[traced(2)]).await;
    eventually(SOON, "the effect", async || stage.effects().await == 3).await;
    consumer.terminate();
    assert_eq!(consumer.ended(SOON).await.code(), Some(0), "{}", consumer.log());
    let spans = receiver.spans();
    let handled: Vec<_> = spans.iter().filter(|span| span.name == "handle").collect();
    assert_eq!(handled.len(), 2, "of the events with a trace: {spans:#?}");
    for span in handled {
        assert_eq!(
            (&*span.service, &*span.trace, &*span.parent),
            ("billing", TRACE, "00f067aa0ba902b7")
        );
        assert_eq!(span.attribute("deployment.environment"), Some("test"));
    }

    relay.terminate();
    assert_eq!(relay.ended(SOON).await.code(), Some(0), "{}", relay.log());
    let secret = format!("authorization: bearer {SECRET}");
    assert!(receiver.heads().iter().any(|head| head.contains(&secret)), "{:?}", receiver.heads());
    assert!(!relay.log().contains(SECRET));
    assert!(lines(&relay, "traces_lost").is_empty() && lines(&consumer, "traces_lost").is_empty());
}

#[tokio::test]
async fn a_receiver_that_is_away_is_told_once_while_the_consumer_works_on() {
    let stage = Stage::set("traces", 1).await;
    let address = SpanReceiver::nowhere();
    let mut consumer = Worker::spawn(exporting(&stage, address).arg("run"));
    // Several batches: one goes a second after its first span.
    for n in 1..=4 {
        stage.send(&[traced(n)]).await;
        eventually(SOON, "its effect", async || stage.effects().await == n).await;
        tokio::time::sleep(Duration::from_millis(1_500)).await;
    }
    let told = lines(&consumer, "traces_lost");
    assert_eq!(told.len(), 1, "{}", consumer.log());
    assert!(told[0].contains(&format!("http://{address}/v1/traces: ")), "{}", told[0]);
    assert!(told[0].contains("refused"), "{}", told[0]);

    let receiver = SpanReceiver::at(address);
    stage.send(&[traced(5)]).await;
    receiver.arrived("a span", |span| span.trace == TRACE).await;
    consumer.printed(SOON, "\"signal\":\"traces_exported\"").await;
    consumer.terminate();
    assert_eq!(consumer.ended(SOON).await.code(), Some(0), "{}", consumer.log());
    assert_eq!(lines(&consumer, "traces_lost").len(), 1, "{}", consumer.log());
    assert!(!consumer.log().contains(SECRET));
}

#[tokio::test]
async fn a_receiver_that_never_answers_holds_no_end() {
    let receiver = SpanReceiver::silent();
    let stage = Stage::set("traces", 1).await;
    let mut command = worker(&stage);
    command
        .env("INBOX_TRACES__ENDPOINT", format!("{}/v1/traces", receiver.url()))
        .env("INBOX_TRACES__TIMEOUT", "1m");
    let mut consumer = Worker::spawn(command.arg("run"));
    stage.send(&[traced(1)]).await;
    eventually(SOON, "the effect", async || stage.effects().await == 1).await;
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    stage.send(&[traced(2)]).await;
    eventually(SOON, "the effect", async || stage.effects().await == 2).await;
    consumer.terminate();
    let began = Instant::now();
    assert_eq!(consumer.ended(SOON).await.code(), Some(0), "{}", consumer.log());
    assert!(began.elapsed() < Duration::from_secs(8), "{:?}", began.elapsed());
    let told = lines(&consumer, "traces_lost");
    assert!(told.len() == 1 && told[0].contains("\"spans\":2"), "{}", consumer.log());
}

#[tokio::test]
async fn spans_travel_by_tls_to_whom_the_systems_authorities_know() {
    let authority = Authority::new();
    let certificate = authority.sign("localhost", "DNS:localhost", 1);
    let receiver = SpanReceiver::encrypted(&certificate);
    let stage = Stage::set("traces", 1).await;
    let run = |authorities: Option<&std::path::Path>| {
        let mut command = worker(&stage);
        command
            .env("INBOX_TRACES__ENDPOINT", format!("{}/v1/traces", receiver.url()))
            .env("INBOX_TRACES__TIMEOUT", "20s");
        if let Some(file) = authorities {
            command.env("SSL_CERT_FILE", file);
        }
        Worker::spawn(command.arg("run"))
    };
    stage.send(&[traced(1)]).await;
    let mut stranger = run(None);
    stranger.printed(SOON, "\"signal\":\"traces_lost\"").await;
    assert!(lines(&stranger, "traces_lost")[0].contains("certificate"), "{}", stranger.log());
    stranger.terminate();
    stranger.ended(SOON).await;
    assert_eq!(receiver.spans(), []);

    let mut known = run(Some(&certificate.authority));
    stage.send(&[traced(2)]).await;
    receiver.arrived("a span", |span| span.trace == TRACE).await;
    known.terminate();
    assert_eq!(known.ended(SOON).await.code(), Some(0), "{}", known.log());
}

#[tokio::test]
async fn an_endpoint_that_is_none_is_told_and_one_of_the_environment_ends_nothing() {
    let stage = Stage::set("traces", 1).await;
    let mut command = worker(&stage);
    command.env("INBOX_TRACES__ENDPOINT", "collector:4317");
    let (code, _, err) = ran(command, "check").await;
    assert_eq!(code, Some(2), "{err}");
    assert!(
        err.contains("`traces.endpoint`") && err.contains("is not the URL of a receiver"),
        "{err}"
    );

    let mut command = worker(&stage);
    command.env("OTEL_EXPORTER_OTLP_ENDPOINT", "collector:4317");
    let mut consumer = Worker::spawn(command.arg("run"));
    stage.send(&[traced(1)]).await;
    eventually(SOON, "the effect", async || stage.effects().await == 1).await;
    let told = lines(&consumer, "doubtful");
    let named = |line: &&String| line.contains("`OTEL_EXPORTER_OTLP_ENDPOINT` is not the URL");
    assert_eq!(told.iter().filter(named).count(), 1, "{}", consumer.log());
    consumer.terminate();
    assert_eq!(consumer.ended(SOON).await.code(), Some(0), "{}", consumer.log());
}
