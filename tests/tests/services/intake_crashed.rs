//! Events by HTTP that end the process, and what runs beside them: found as those of Kafka are, and nothing else is
//! blamed for them.

use std::{process::Command, sync::Mutex, time::Duration};

use serde_json::{Value, json};
use sqlx::Postgres;
use tests::{
    Proxy, Record, SOON, Schema, Services, Stage, Supervised, Worker, eventually,
    intake::{Answer, Client, config, scenarios::id},
    soak::checker::EFFECTS,
};
use xtask::server::free_ports;

use super::{
    commands::worker,
    parked_support::{finished, said},
};
use crate::programs::WORKER;

/// A process that dies is gone for the group only after its session.
const LONG: Duration = Duration::from_mins(2);
/// The first process that ends with an event knows nothing of it, the second has written it down.
const DEATHS_MAX: usize = 2;
/// A session whose handler waits after its statement.
const WAITING: &str = "SELECT count(*) FROM pg_stat_activity WHERE state = 'idle in transaction' AND query LIKE 'INSERT INTO effects%'
    AND application_name = 'inbox/";

fn event(aggregate: &str, n: i64, act: Option<&str>) -> Value {
    json!({
        "event_id": id(), "event_type": "Counted", "aggregate_type": "Account", "aggregate_id": aggregate,
        "payload": { "n": n, "act": act },
    })
}

fn again_and_again(mut command: Command) -> Supervised {
    command.arg("run");
    let command = Mutex::new(command);
    Supervised::start(move || Worker::spawn(&mut command.lock().unwrap()))
}

fn server(schema: &Schema, name: &str, port: u16) -> Command {
    let mut command = WORKER.command();
    command
        .env("INBOX_CONSUMER__NAME", name)
        .env("INBOX_DATABASE__URL", schema.url())
        .env("INBOX_INTAKE__LISTEN", format!("127.0.0.1:{port}"))
        .env("INBOX_HTTP__LISTEN", "off")
        .current_dir(std::env::temp_dir());
    command
}

async fn schema(name: &str) -> Schema {
    let schema = Services::from_env().schema().await;
    inbox_consumer::migrate::<Postgres>(&config(name, &schema.url())).await.unwrap();
    schema.run(EFFECTS).await;
    schema
}

/// Sends an event until it is answered.
async fn settle(client: &Client, event: &Value) -> Answer {
    loop {
        let sent = client.try_send(&[("content-type", "application/json")], event.to_string());
        match sent.await {
            Ok(answer) if answer.status != 503 => return answer,
            _ => tokio::time::sleep(Duration::from_millis(200)).await,
        }
    }
}

async fn parked(schema: &Schema, reason: &str) -> i64 {
    let sql = "SELECT count(*) FROM inbox_parked WHERE reason = $1";
    sqlx::query_scalar(sql).bind(reason).fetch_one(schema.pool()).await.unwrap()
}

/// Nobody sends it again, and every start would release it again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_follower_that_ends_the_process_is_parked_alone() {
    let (schema, name) = (schema("any").await, "follows");
    let [port] = free_ports().unwrap();
    let running = again_and_again(server(&schema, name, port));
    let client = Client::new(&format!("127.0.0.1:{port}"));
    for (n, act, reason) in
        [(1, Some("reject"), "rejected"), (2, Some("abort"), "follower"), (3, None, "follower")]
    {
        let answer = settle(&client, &event("poison", n, act)).await;
        assert_eq!((answer.status, &answer.body["reason"]), (202, &json!(reason)), "{answer:?}");
    }
    let head = "SELECT parked_seq FROM inbox_parked WHERE reason = 'rejected'";
    let head = schema.number(head).await.to_string();
    let discard = ["parked", "discard", &head, "--why", "wrong", "--yes"];
    let (code, _, err) = finished(server(&schema, name, port), &discard).await;
    assert_eq!(code, Some(0), "{err}");
    eventually(LONG, "it is found", async || parked(&schema, "crashed").await == 1).await;
    let deaths = running.ends().len();
    assert!(deaths <= DEATHS_MAX, "{deaths} processes have ended with it");
    let well = settle(&client, &event("well", 1, None)).await;
    assert_eq!(well.event(), "applied", "{well:?}");
    assert_eq!(parked(&schema, "follower").await, 1);
    assert!(running.end().await);
    assert_eq!(schema.number("SELECT count(*) FROM effects").await, 1);
    let owned = "SELECT count(*) FROM inbox_partitions WHERE owner_incarnation IS NOT NULL";
    assert_eq!(schema.number(owned).await, 0, "the last one has ended well");
}

/// A bad deploy fails every event: the log has one line for it, as it has for events of Kafka.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failures_with_one_cause_are_one_line_of_the_log() {
    let (schema, name) = (schema("any").await, "fails");
    let [port] = free_ports().unwrap();
    let mut running = Worker::spawn(server(&schema, name, port).arg("run"));
    let client = Client::new(&format!("127.0.0.1:{port}"));
    for n in 1..=5 {
        let answer = settle(&client, &event(&format!("a{n}"), n, Some("reject"))).await;
        assert_eq!(
            (answer.status, &answer.body["reason"]),
            (202, &json!("rejected")),
            "{answer:?}"
        );
    }
    running.terminate();
    assert!(running.ended(SOON).await.success());
    let log = running.log();
    assert_eq!(log.matches("\"signal\":\"handler_failed\"").count(), 1, "{log}");
}

/// A consumer that reads Kafka and listens, with an event of Kafka that takes four seconds; the client of its intake, and a
/// query that counts the runs of that event.
async fn beside_an_innocent_one(stage: &Stage) -> (Command, Client, String) {
    let [port] = free_ports().unwrap();
    let mut command = worker(stage);
    command
        .env("INBOX_CONSUMER__INSTANCE_ID", "one")
        .env("INBOX_INTAKE__LISTEN", format!("127.0.0.1:{port}"));
    let payload = json!({"n": 1, "sleep_ms": 4_000}).to_string();
    stage.send(&[Record::event("innocent-1", "Counted", "innocent", &payload)]).await;
    let waiting = format!("{WAITING}{}'", stage.config.consumer.name);
    (command, Client::new(&format!("127.0.0.1:{port}")), waiting)
}

/// Its sender sends it again, and an event of Kafka that takes long runs beside it each time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_that_ends_the_process_is_parked_and_none_of_kafka_is_blamed() {
    let stage = Stage::set("crashed", 1).await;
    let (command, client, waiting) = beside_an_innocent_one(&stage).await;
    let running = again_and_again(command);
    eventually(LONG, "the innocent one runs", async || stage.schema.number(&waiting).await > 0)
        .await;
    let poison = event("poison", 1, Some("abort"));
    let answer = tokio::time::timeout(LONG, settle(&client, &poison)).await.unwrap();
    assert_eq!((answer.status, &answer.body["reason"]), (202, &json!("crashed")), "{answer:?}");
    eventually(LONG, "the innocent one", async || stage.of("innocent").await == [1]).await;
    let deaths = running.ends().len();
    assert!(deaths <= DEATHS_MAX, "{deaths} processes have ended with it");
    let follower = settle(&client, &event("poison", 2, None)).await;
    assert_eq!(follower.body["reason"], json!("follower"), "{follower:?}");
    assert!(running.end().await);
    assert_eq!((stage.parked("").await, stage.effects().await), (2, 1));
    assert_eq!(stage.schema.number("SELECT count(*) FROM inbox_suspects").await, 0);
    said(&stage, &["parked", "list"]).await;
}

/// One that ends the process where it is run for good is never parked by HTTP, and is sent again and again. What is run
/// with nothing beside it is not run beside that either: no process is counted against it that the other one has ended.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_runs_alone_runs_beside_nothing_that_comes_another_way() {
    let stage = Stage::set("aside", 1).await;
    let (command, client, waiting) = beside_an_innocent_one(&stage).await;
    let running = again_and_again(command);
    let poison = event("poison", 1, Some("abort_for_good")).to_string();
    let settled = async || stage.effects().await > 0 || stage.parked("").await > 0;
    let sends = async {
        loop {
            let runs = async || stage.schema.number(&waiting).await > 0;
            eventually(LONG, "the innocent one runs", runs).await;
            drop(client.try_send(&[("content-type", "application/json")], poison.clone()).await);
        }
    };
    tokio::select! {
        () = sends => {}
        () = eventually(LONG, "the innocent one is settled", settled) => {}
    }
    assert_eq!((stage.of("innocent").await, stage.parked("").await), (vec![1], 0));
    assert!(!running.ends().is_empty(), "no process has ended with the other one");
    running.end().await;
}

/// A process was killed while it ran an event, and the database is silent while the next one tries it: that says nothing
/// against the event.
#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_is_silent_during_a_trial_blames_nobody() {
    let stage = Stage::set("silent", 1).await;
    let services = Services::from_env();
    let upstream = services.postgres.rsplit(['@', '/']).nth(1).unwrap();
    let proxy = Proxy::start(upstream).await;
    let mut command = worker(&stage);
    command
        .env("INBOX_CONSUMER__INSTANCE_ID", "one")
        .env("INBOX_DATABASE__URL", stage.schema.url_at(&proxy.url(&services.postgres)))
        .env("INBOX_DATABASE__STATEMENT_TIMEOUT", "2s")
        .env("INBOX_DATABASE__LOCK_TIMEOUT", "1s")
        .env("INBOX_LIMITS__OUTAGE_DELAY_MAX", "1s")
        .env("INBOX_RETRY__ATTEMPT_DEADLINE", "6s");
    let payload = json!({"n": 1, "sleep_ms": 2_000}).to_string();
    stage.send(&[Record::event("innocent-1", "Counted", "innocent", &payload)]).await;
    let waiting = format!("{WAITING}{}'", stage.config.consumer.name);
    let runs = async || stage.schema.number(&waiting).await > 0;
    let running = again_and_again(command);
    for _ in 0..2 {
        eventually(LONG, "it runs", runs).await;
        running.kill();
        let end = format!(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'inbox/{}'",
            stage.config.consumer.name
        );
        stage.schema.run(&end).await;
        eventually(SOON, "its session is over", async || !runs().await).await;
    }
    eventually(LONG, "it is tried", runs).await;
    let deaths = "SELECT coalesce(max(deaths), 0)::bigint FROM inbox_suspects";
    assert!(stage.schema.number(deaths).await > 0, "nobody suspects it");
    proxy.silence();
    // Longer than the process of a trial is waited for.
    tokio::time::sleep(Duration::from_secs(20)).await;
    proxy.heal();
    let settled = async || stage.effects().await == 1 || stage.parked("").await > 0;
    eventually(LONG, "its effect", settled).await;
    assert_eq!((stage.effects().await, stage.parked("").await), (1, 0), "{}", running.log());
    eventually(SOON, "it has committed", async || stage.of("innocent").await == [1]).await;
    assert!(running.end().await);
}
