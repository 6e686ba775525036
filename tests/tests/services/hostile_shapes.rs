//! Payloads within every limit of length whose shape makes them large: what a process takes for them in memory.

use std::{process::Command, time::Duration};

use sqlx::Postgres;
use tests::{
    Record, SOON, Services, Stage, Worker, eventually,
    intake::{Client, config},
    registry::Registry,
    soak::checker::EFFECTS,
};
use xtask::server::free_ports;

use super::commands::worker;
use super::hostile_records::{USUAL_BYTES, most};
use crate::programs::WORKER;

const LONG: Duration = Duration::from_mins(2);
const PARTITIONS: i32 = 3;

/// An item of one byte, and of two.
const AVRO: &str = r#"{"type": "record", "name": "Basket", "fields": [{"name": "n", "type": "long"},
    {"name": "items", "type": {"type": "array", "items": {"type": "record", "name": "Item", "fields": [
        {"name": "n", "type": ["null", "string"]}]}}}]}"#;
const PROTOBUF: &str = r#"syntax = "proto3"; message Basket { int64 n = 1; repeated Item items = 2; }
    message Item { string n = 1; int64 a = 2; }"#;
/// An option nested as deep, in 5 kB: what parses it needs more stack than a thread has.
const DEEP: usize = 1_500;

fn framed(id: u8, parts: &[&[u8]]) -> Vec<u8> {
    [&[0, 0, 0, 0, id], &*parts.concat()].concat()
}

fn avro() -> Vec<u8> {
    // 7, then 900,000 items, each the first branch of its union.
    framed(1, &[&[14, 0xc0, 0xee, 0x6d], &vec![0_u8; 900_000], &[0]])
}

fn protobuf() -> Vec<u8> {
    framed(2, &[&[0, 0x08, 7], &[0x12_u8, 0].repeat(450_000)])
}

/// Objects of one member each.
fn json(bytes: usize) -> String {
    let objects = vec![r#"{"":0}"#; bytes / 7].join(",");
    format!("[{objects}]")
}

/// A stock consumer with a declared handler that takes a payload whole, if `whole`.
async fn stock(registry: &Registry, whole: bool) -> (Stage, Worker, tempfile::TempDir) {
    let stage = Stage::set("shapes", PARTITIONS).await;
    stage.schema.run("CREATE TABLE baskets (n bigint, whole bigint)").await;
    let folder = tempfile::tempdir().unwrap();
    let columns =
        if whole { r#"n = "int8", whole = "jsonb from /items""# } else { r#"n = "int8""# };
    let taken = if whole { "octet_length(whole::text)" } else { "0" };
    let handlers = format!(
        "[[handlers]]\nevent_type = \"Basket\"\ncolumns = {{ {columns} }}\n\
         sql = \"INSERT INTO baskets SELECT n, {taken} FROM events\"\n"
    );
    std::fs::write(folder.path().join("consumer.toml"), handlers).unwrap();
    let mut command: Command = worker(&stage);
    command.arg("run").env("STOCK", "1").current_dir(folder.path());
    if !whole {
        command.env("INBOX_SCHEMAS__REGISTRY", registry.url());
    }
    (stage, Worker::spawn(&mut command), folder)
}

fn basket(n: i32, payload: impl Into<Vec<u8>>) -> Record {
    let aggregate = format!("a{n}");
    let record = Record::event(&format!("{aggregate}-1"), "Basket", &aggregate, "");
    record.payload(payload).partition(n % PARTITIONS)
}

/// Sends a payload in each partition; answers how much memory the process has had at most.
async fn played(name: &str, stage: &Stage, process: &mut Worker, payload: &[u8]) -> usize {
    let all: Vec<Record> = (0..PARTITIONS).map(|n| basket(n, payload)).collect();
    stage.send(&all).await;
    eventually(LONG, name, async || {
        stage.schema.number("SELECT count(*) FROM baskets").await == i64::from(PARTITIONS)
    })
    .await;
    assert!(process.running(), "{name}: {}", process.log());
    let most = most(process.pid());
    println!(
        "{name}: {} kB in each of {PARTITIONS} partitions, at most {} MB",
        payload.len() >> 10,
        most >> 20
    );
    most
}

/// As trees they would take 660, 320 and 100 MB each.
#[tokio::test(flavor = "multi_thread")]
async fn payloads_of_small_values_take_no_memory_for_each() {
    let registry = Registry::serve().await;
    registry.register(1, "AVRO", AVRO);
    registry.register(2, "PROTOBUF", PROTOBUF);
    let whole = format!(r#"{{"n":7,"items":{}}}"#, json(900_000)).into_bytes();
    for (name, payload, is_json) in
        [("Avro", avro(), false), ("Protobuf", protobuf(), false), ("JSON", whole, true)]
    {
        let (stage, mut process, _folder) = stock(&registry, is_json).await;
        let most = played(name, &stage, &mut process, &payload).await;
        assert!(most < USUAL_BYTES + (64 << 20), "{name}: {} MB", most >> 20);
        process.terminate();
        process.ended(LONG).await;
    }
}

/// The process lives, the event is parked, and others go on.
#[tokio::test(flavor = "multi_thread")]
async fn a_schema_that_is_nested_without_end_parks_its_events() {
    let registry = Registry::serve().await;
    registry.register(1, "AVRO", AVRO);
    let deep = format!(
        r#"syntax = "proto3"; import "google/protobuf/descriptor.proto"; message Opt {{ Opt a = 1; }}
        extend google.protobuf.MessageOptions {{ Opt opt = 50000; }}
        message M {{ option (opt) = {{ {}{} }}; int64 n = 1; }}"#,
        "a{".repeat(DEEP),
        "}".repeat(DEEP)
    );
    registry.register(3, "PROTOBUF", &deep);
    let (stage, mut process, _folder) = stock(&registry, false).await;
    stage
        .send(&[basket(0, framed(3, &[&[2, 2, 0x08, 7]])), basket(1, framed(1, &[&[14, 0]]))])
        .await;
    eventually(SOON, "one is parked, and one applied", async || {
        stage.parked("undecodable").await == 1
            && stage.schema.number("SELECT count(*) FROM baskets").await == 1
    })
    .await;
    assert!(process.running(), "{}", process.log());
    let said = "SELECT count(*) FROM inbox_parked WHERE errors::text LIKE '%nested 1502 levels deep; at most 127 are allowed%'";
    assert_eq!(stage.schema.number(said).await, 1);
}

/// A body takes some times its length, in each format, whether it is taken or not.
#[tokio::test(flavor = "multi_thread")]
async fn bodies_of_small_values_take_no_memory_for_each() {
    let body = 16 << 20;
    let bomb = json(body - 4096);
    let bodies = [
        (
            "webhook",
            format!(r#"{{"type":"Counted","data":{bomb}}}"#),
            ("webhook-id", "x"),
            "text/plain",
        ),
        (
            "headers",
            format!(
                r#"{{"event_id":"x","event_type":"Counted","payload":1,"headers":{{"a":{bomb}}}}}"#
            ),
            ("x", "y"),
            "application/json",
        ),
        (
            "aggregate",
            format!(
                r#"{{"event_id":"x","event_type":"Counted","payload":1,"aggregate_id":{bomb}}}"#
            ),
            ("x", "y"),
            "application/json",
        ),
        (
            "attribute",
            format!(r#"{{"specversion":"1.0","id":"x","source":"/","type":"Counted","a":{bomb}}}"#),
            ("x", "y"),
            "application/cloudevents+json",
        ),
    ];
    let schema = Services::from_env().schema().await;
    inbox_consumer::migrate::<Postgres>(&config("shapes", &schema.url())).await.unwrap();
    schema.run(EFFECTS).await;
    let [port] = free_ports().unwrap();
    let mut command = WORKER.command();
    command
        .arg("run")
        .env("INBOX_CONSUMER__NAME", "shapes")
        .env("INBOX_DATABASE__URL", schema.url())
        .env("INBOX_INTAKE__LISTEN", format!("127.0.0.1:{port}"))
        .env("INBOX_INTAKE__BODY_BYTES_MAX", "16MiB")
        .env("INBOX_HTTP__LISTEN", "off");
    let mut process = Worker::spawn(&mut command);
    let client = Client::new(&format!("127.0.0.1:{port}"));
    eventually(SOON, "it answers", async || {
        client.try_send(&[("content-type", "application/json")], "{}").await.is_ok()
    })
    .await;
    for (name, body, header, media) in bodies {
        let length = body.len();
        let answer = client.send(&[("content-type", media), header], body).await;
        let most = most(process.pid());
        println!("{name}: {} {}, at most {} MB", answer.status, answer.body, most >> 20);
        assert!((400..500).contains(&answer.status) || answer.status == 200, "{name}: {answer:?}");
        assert!(most < USUAL_BYTES + 16 * length, "{name}: {} MB", most >> 20);
    }
    assert!(process.running(), "{}", process.log());
    process.kill();
}
