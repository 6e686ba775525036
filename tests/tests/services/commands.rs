//! The commands of a consumer's binary, on real services: what a user types, sees, and what a script
//! gets back.

use std::{
    fs::File,
    process::{Command, Output},
    time::Duration,
};

use serde_json::Value;
use tests::{OwnPostgres, Record, SOON, Services, Stage, Worker, counted, eventually};

use crate::programs::{RELAY, WORKER};

/// The worker's binary, configured by its environment alone.
pub(super) fn worker(stage: &Stage) -> Command {
    let mut command = WORKER.command();
    command
        .env("INBOX_CONSUMER__NAME", &stage.config.consumer.name)
        .env("INBOX_KAFKA__BOOTSTRAP", stage.topic.bootstrap())
        .env("INBOX_KAFKA__TOPICS", stage.topic.name())
        .env("INBOX_KAFKA__SESSION_TIMEOUT", "6s")
        .env("INBOX_LIMITS__DRAIN_DEADLINE", "1s")
        .env("INBOX_DATABASE__URL", stage.schema.url())
        .env("INBOX_HTTP__LISTEN", "off")
        .env("INBOX_DATABASE__IDLE_TIMEOUT", "40s")
        .current_dir(std::env::temp_dir());
    command
}

/// Runs a command to its end: exit code, standard output, standard error.
pub(super) async fn ran(mut command: Command, args: &str) -> (Option<i32>, String, String) {
    command.args(args.split(' '));
    let ended = tokio::task::spawn_blocking(move || command.output()).await.unwrap();
    let Output { status, stdout, stderr } = ended.unwrap();
    (status.code(), String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap())
}

/// The one line of `status --json` of a stage with one partition.
async fn status(stage: &Stage) -> Value {
    let (code, out, err) = ran(worker(stage), "status --json").await;
    assert_eq!(code, Some(0), "{err}");
    let all: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(all.as_array().map(Vec::len), Some(1), "{out}");
    all[0].clone()
}

#[tokio::test]
async fn a_consumer_is_migrated_checked_run_and_looked_at() {
    let services = Services::from_env();
    let stage = Stage::set("commands", 1).await;
    stage.schema.run("DROP TABLE effects").await;
    let fresh = services.schema().await;

    let on_fresh = |args: &'static str| {
        let mut command = worker(&stage);
        command.env("INBOX_DATABASE__URL", fresh.url());
        ran(command, args)
    };
    let (code, out, err) = on_fresh("check").await;
    assert_eq!(code, Some(5), "{err}");
    assert!(out.contains("\nerror ") && out.contains("migrate"), "{out}");
    let (code, _, err) = on_fresh("run").await;
    assert_eq!(code, Some(3), "{err}");
    assert!(err.contains("migrate"), "{err}");
    let (code, out, err) = on_fresh("migrate").await;
    assert_eq!(code, Some(0), "{err}");
    assert!(out.starts_with("applied migrations 1"), "{out}");
    let (code, out, _) = on_fresh("migrate").await;
    assert_eq!(code, Some(0));
    assert!(out.contains("already at version"), "{out}");
    let (code, out, err) = on_fresh("check").await;
    assert_eq!(code, Some(0), "{out}{err}");
    assert!(out.starts_with("OK to start") && !out.contains("\nerror "), "{out}");
}

#[tokio::test]
async fn what_the_url_leaves_out_comes_from_the_environment() {
    let stage = Stage::set("commands", 1).await;
    let url = stage.schema.url();
    let (login, place) = url.strip_prefix("postgres://").unwrap().split_once('@').unwrap();
    let (user, password) = login.split_once(':').unwrap_or((login, ""));
    let (address, rest) = place.split_once('/').unwrap();
    let (host, port) = address.rsplit_once(':').unwrap();
    let (database, query) = rest.split_once('?').unwrap();
    let without = || {
        let mut command = worker(&stage);
        command.env("INBOX_DATABASE__URL", format!("postgres:///?{query}"));
        command.envs([("PGPASSWORD", password), ("PGHOST", host)]);
        command.envs([("PGPORT", port), ("PGDATABASE", database)]).env_remove("PGUSER");
        command
    };
    let (code, _, err) = ran(without(), "status").await;
    assert!(
        code != Some(0) && err.contains("names no user, and neither does the variable `PGUSER`"),
        "{code:?} {err}"
    );
    let mut command = without();
    command.env("PGUSER", user);
    let (code, _, err) = ran(command, "status").await;
    assert_eq!(code, Some(0), "{err}");
}

#[tokio::test]
async fn status_tells_where_a_partition_stands_while_and_after_a_run() {
    let stage = Stage::set("commands", 1).await;
    let before = status(&stage).await;
    assert_eq!((&before["watermark"], &before["lag"]), (&Value::Null, &0.into()));
    assert!(before["standstill"].as_str().unwrap().starts_with("not_owned"), "{before}");

    stage.count("a", 1, 20).await;
    let mut running = Worker::spawn(worker(&stage).arg("run"));
    eventually(SOON, "all effects", async || stage.effects().await == 20).await;
    eventually(SOON, "the watermark", async || status(&stage).await["watermark"] == 20).await;
    let during = status(&stage).await;
    assert_eq!(
        (&during["log_end"], &during["lag"], &during["in_flight"]),
        (&20.into(), &0.into(), &0.into())
    );
    assert!(during["owner"].as_str().unwrap().contains(&running.pid().to_string()), "{during}");
    assert_eq!(during["standstill"], Value::Null);

    running.terminate();
    assert_eq!(running.ended(SOON).await.code(), Some(0), "{}", running.log());
    let after = status(&stage).await;
    assert_eq!((&after["committed"], &after["owner"]), (&20.into(), &Value::Null));
    let (_, table, _) = ran(worker(&stage), "status").await;
    assert!(table.starts_with("TOPIC"), "{table}");
    assert!(table.lines().nth(1).unwrap().starts_with(stage.topic.name()), "{table}");
}

/// Before it has read its configuration, which is a pipe here: nobody knows how long that takes.
#[tokio::test(flavor = "multi_thread")]
async fn what_has_only_just_begun_answers_sigterm() {
    let stage = Stage::set("commands", 1).await;
    let mut relay = RELAY.command();
    relay
        .env("OUTBOX_DATABASE__URL", stage.schema.url())
        .env("OUTBOX_KAFKA__BOOTSTRAP", stage.topic.bootstrap())
        .env("OUTBOX_KAFKA__TOPIC", stage.topic.name());
    for mut command in [worker(&stage), relay] {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("config.toml");
        assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let mut beginning = Worker::spawn(command.arg("--config").arg(&pipe).arg("run"));
        // Returns when the process opens its end.
        let open = tokio::task::spawn_blocking(move || File::options().write(true).open(pipe));
        let writer = open.await.unwrap().unwrap();
        beginning.terminate();
        tokio::time::sleep(Duration::from_millis(300)).await;
        drop(writer);
        let ended = beginning.ended(SOON).await;
        assert_eq!(ended.code(), Some(0), "{ended} {}", beginning.log());
    }
}

#[tokio::test]
async fn a_log_that_is_not_a_terminal_is_json() {
    let stage = Stage::set("commands", 1).await;
    let mut running = Worker::spawn(worker(&stage).env("RUST_BACKTRACE", "1").arg("run"));
    running.printed(SOON, "\"signal\":\"taken_over\"").await;
    let payload = serde_json::json!({"n": 1, "act": "panic"}).to_string();
    stage.send(&[Record::event("panics-1", "Counted", "a", &payload)]).await;
    running.printed(SOON, "\"signal\":\"parked\"").await;
    running.interrupt();
    assert_eq!(running.ended(SOON).await.code(), Some(0), "{}", running.log());
    let log = running.log();
    let events = json_lines(&log);
    for event in &events {
        assert_eq!(event["consumer"], stage.config.consumer.name, "{event}");
        assert_eq!(
            (&event["program"], event["version"].is_string()),
            (&"inbox-consumer".into(), true)
        );
    }
    let started = &events[0];
    assert_eq!((&started["signal"], &started["http"]), (&"started".into(), &"off".into()), "{log}");
    assert_eq!(started["kafka"], stage.topic.bootstrap(), "{log}");
    assert!(started["database"].as_str().unwrap().starts_with("postgres://"), "{started}");
    let panicked = events.iter().find(|event| event["signal"] == "panicked").expect(&log);
    assert!(panicked["message"].as_str().unwrap().contains("told to panic"), "{panicked}");
    assert!(panicked["backtrace"].as_str().unwrap().lines().count() > 5, "{panicked}");
    let failed = events.iter().find(|event| event["signal"] == "handler_failed").expect(&log);
    assert!(failed["attempt"].is_u64(), "{failed}");
}

/// Each line of a log as the JSON that it is, with its level.
fn json_lines(log: &str) -> Vec<Value> {
    let line = |line: &str| {
        let event: Value =
            serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        assert!(event["level"].is_string(), "{line}");
        event
    };
    log.lines().map(line).collect()
}

/// GNU `timeout` signals the process and its group; a person who cannot wait does so later. Last words are of the log.
#[tokio::test]
async fn a_signal_that_comes_twice_at_once_ends_a_process_well() {
    let stage = Stage::set("commands", 1).await;
    let starting =
        || Worker::spawn(worker(&stage).env("INBOX_LIMITS__DRAIN_DEADLINE", "2s").arg("run"));
    let mut running = starting();
    running.printed(SOON, "\"signal\":\"taken_over\"").await;
    running.terminate();
    running.terminate();
    assert_eq!(running.ended(SOON).await.code(), Some(0), "{}", running.log());

    let mut running = starting();
    running.printed(SOON, "\"signal\":\"taken_over\"").await;
    let payload = serde_json::json!({"n": 1, "sleep_ms": 20_000}).to_string();
    stage.send(&[Record::event("sleeps-1", "Counted", "a", &payload)]).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    running.terminate();
    tokio::time::sleep(Duration::from_millis(1_100)).await;
    running.terminate();
    assert_eq!(running.ended(SOON).await.code(), Some(1), "{}", running.log());
    let log = running.log();
    let last = json_lines(&log).pop().unwrap_or_default();
    assert!(
        last["message"].as_str().unwrap().starts_with("exiting on a second signal before"),
        "{last}"
    );
}

#[tokio::test]
async fn lines_of_the_relay_have_numbers_and_say_who_wrote_them() {
    let stage = Stage::set("commands", 1).await;
    let mut relay = RELAY.command();
    relay
        .env("OUTBOX_DATABASE__URL", stage.schema.url())
        .env("OUTBOX_KAFKA__BOOTSTRAP", stage.topic.bootstrap())
        .env("OUTBOX_KAFKA__TOPIC", stage.topic.name())
        .env("OUTBOX_HTTP__LISTEN", "off");
    let mut running = Worker::spawn(relay.arg("run"));
    running.printed(SOON, "\"signal\":\"active\"").await;
    running.terminate();
    assert_eq!(running.ended(SOON).await.code(), Some(0), "{}", running.log());
    let log = running.log();
    let events = json_lines(&log);
    let outbox = |event: &Value| event["outbox"].as_str().is_some_and(|name| !name.is_empty());
    assert!(events.iter().all(outbox), "{log}");
    assert_eq!(events[0]["signal"], "started", "{log}");
    let active = events.iter().find(|event| event["signal"] == "active").expect(&log);
    assert!(active["fence"].is_u64(), "{active}");
}

#[tokio::test]
async fn prune_removes_what_is_older_than_the_retention() {
    let stage = Stage::set("commands", 1).await;
    stage.send(&[counted("a", 1), counted("a", 2), counted("a", 3)]).await;
    let mut running = Worker::spawn(worker(&stage).arg("run"));
    eventually(SOON, "all effects", async || stage.effects().await == 3).await;
    running.terminate();
    running.ended(SOON).await;
    stage
        .schema
        .run(
            "UPDATE inbox_events SET processed_at = now() - interval '8 days' WHERE \"offset\" < 2",
        )
        .await;

    let (code, out, err) = ran(worker(&stage), "prune").await;
    assert_eq!((code, out.as_str()), (Some(0), "removed 2 inbox rows\n"), "{err}");
    assert_eq!(stage.schema.number("SELECT count(*) FROM inbox_events").await, 1);
}

#[tokio::test]
async fn what_is_out_or_refused_is_told_in_one_sentence_with_its_code() {
    let stage = Stage::set("commands", 1).await;
    let with = |key: &'static str, value: &str, command: &'static str| {
        let mut worker = worker(&stage);
        worker.env(key, value);
        ran(worker, command)
    };
    let url = stage.schema.url().replace("//postgres@", "//nobody:c4n4ry@");
    let (code, _, err) = with("INBOX_DATABASE__URL", &url, "run").await;
    assert_eq!(code, Some(3), "{err}");
    assert!(err.contains("nobody") && !err.contains("c4n4ry"), "{err}");

    let (code, _, err) = with("INBOX_KAFKA__TOPICS", "nowhere", "status").await;
    assert_eq!(code, Some(4), "{err}");
    assert!(err.starts_with("error: topic nowhere does not exist"), "{err}");

    let (code, out, err) = with("INBOX_KAFKA__BOOTSTRAP", "127.0.0.1:1", "check").await;
    assert_eq!(code, Some(5), "{err}");
    assert!(out.contains("no broker of `kafka.bootstrap` (127.0.0.1:1) answered"), "{out}");

    let (code, _, err) = with("INBOX_KAFKA__BOTSTRAP", "x", "run").await;
    assert_eq!(code, Some(2), "{err}");
    assert!(err.contains("did you mean `kafka.bootstrap`?"), "{err}");

    let (code, _, err) = with("INBOX_LIMITS__DRAIN_DEADLINE", "5s", "run").await;
    assert_eq!(code, Some(2), "{err}");
    assert!(err.contains("a third of `kafka.session_timeout` (6s)"), "{err}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_is_refused_in_one_sentence() {
    let stage = Stage::set("commands", 1).await;
    let primary = OwnPostgres::start().await;
    let replica = primary.replica().await;
    let mut command = worker(&stage);
    command.env("INBOX_DATABASE__URL", replica.url()).env("INBOX_LOG__FORMAT", "human");
    let (code, _, err) = ran(command, "run").await;
    assert_eq!(code, Some(3), "{err}");
    let told: Vec<&str> = err.lines().filter(|line| line.starts_with("error: ")).collect();
    assert_eq!(told.len(), 1, "{err}");
    assert!(told[0].contains("is a replica"), "{err}");
}
