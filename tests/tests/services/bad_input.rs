//! Bad input: what the user sees is one sentence that says what is wrong, where, and what to do.

use std::time::Duration;

use inbox_consumer::{BuildError, Consumer, Ended, Routes, config::Config, config::Unwanted};
use sqlx::Postgres;
use tests::{
    Counter, OwnPostgres, Record, SOON, Services, Stage, Topic, Worker, counted, eventually,
};

use super::commands::{ran, worker};

fn routes() -> Routes<Postgres> {
    Routes::default().on("Counted", Counter)
}

/// Why the consumer is not built.
async fn refused(config: &Config, routes: Routes<Postgres>) -> BuildError {
    let built = Consumer::builder(config.clone(), routes).build().await;
    built.expect_err("a consumer that must not start")
}

/// One sentence with all these parts: what, where, and what to do.
fn says(sentence: &str, parts: &[&str]) {
    assert_eq!(sentence.lines().count(), 1, "one sentence: {sentence}");
    for part in parts {
        assert!(sentence.contains(part), "{part:?} is missing: {sentence}");
    }
}

/// Reason, error and place of the record that is parked at an offset.
async fn parked(stage: &Stage, offset: i64) -> (String, String, String) {
    sqlx::query_as(
        "SELECT reason, record::jsonb ->> 'error', record::jsonb ->> 'topic' || '/' || \
         (record::jsonb ->> 'partition') || '/' || (record::jsonb ->> 'offset') \
         FROM inbox_parked WHERE \"offset\" = $1",
    )
    .bind(offset)
    .fetch_one(stage.schema.pool())
    .await
    .expect("the record is parked")
}

/// I1, E8: malformed payload, wrong type, missing id, missing type, a tombstone, an unknown type.
#[tokio::test]
async fn a_bad_record_is_parked_with_a_sentence_and_its_place() {
    let stage = Stage::set("bad", 1).await;
    let no_id = Record::default().key("e").payload("{\"n\":1}").header("event_type", "Counted");
    let no_type = Record::default().key("f").payload("{\"n\":1}").header("event_id", "f-1");
    let tombstone =
        Record::default().key("g").header("event_id", "g-1").header("event_type", "Counted");
    let no_text = Record::default().key("i").payload("{\"n\":1}").header("event_type", "Counted");
    let no_text = no_text.header("event_id", b"\xff\xfe".to_vec());
    let bad: [(Record, &str, &[&str]); 7] = [
        (
            Record::event("a-1", "Counted", "a", "{not json"),
            "undecodable",
            &["the payload is not JSON", "line 1 column 2", "fix its producer"],
        ),
        (
            Record::event("b-1", "Counted", "b", "{\"n\":\"s3cret\"}"),
            "undecodable",
            &["does not fit", "expected i64", "line 1 column", "fix its producer"],
        ),
        (no_id, "undecodable", &["no event id", "`event_id`", "have its producer send one"]),
        (no_type, "undecodable", &["no event type", "`event_type`", "have its producer send one"]),
        (tombstone, "undecodable", &["tombstone", "use Option<…>"]),
        (no_text, "undecodable", &["`event_id`", "is not UTF-8 text"]),
        (
            Record::event("h-1", "Strange", "h", "{}"),
            "unknown_type",
            &["no handler is registered", "`Strange`", "register one"],
        ),
    ];
    let mut records: Vec<Record> = bad.iter().map(|(record, ..)| record.clone()).collect();
    records.push(counted("good", 1));
    stage.send(&records).await;
    let running = stage.start(routes()).await;
    eventually(SOON, "all accounted for", async || {
        (stage.effects().await, stage.parked("").await) == (1, 7)
    })
    .await;
    for (offset, (_, why, parts)) in (0_i64..).zip(&bad) {
        let (reason, error, place) = parked(&stage, offset).await;
        assert_eq!(reason, *why, "{error}");
        says(&error, parts);
        assert!(!error.contains("s3cret"), "the payload is nobody's: {error}");
        assert_eq!(place, format!("{}/0/{offset}", stage.topic.name()));
    }
    assert_eq!(running.stop().await, Ended::Shutdown);
}

/// E9: 20 MB on a topic that allows them: parked whole without being decoded, and the next go on.
#[tokio::test]
async fn a_payload_of_20_mb_is_parked_and_holds_up_nobody() {
    let services = Services::from_env();
    let settings = [("max.message.bytes", "33554432"), ("segment.bytes", "67108864")];
    let topic = Topic::create(&services.kafka, "large", 1, &settings).await;
    let stage = Stage::with(topic, services.schema().await).await;
    let large = Record::event("l-1", "Counted", "l", "").payload(vec![b' '; 20 << 20]);
    stage.send(&[counted("a", 1), large, counted("a", 2), counted("b", 1)]).await;
    let running = stage.start(routes()).await;
    eventually(SOON, "the others are applied", async || stage.effects().await == 3).await;
    eventually(SOON, "it is parked", async || stage.parked("undecodable").await == 1).await;
    let (_, error, _) = parked(&stage, 1).await;
    says(
        &error,
        &["the record has 2097", "more than the allowed 1048576", "`events.event_bytes_max`"],
    );
    let kept = "SELECT length(record) FROM inbox_parked";
    let kept = stage.schema.number(&format!("SELECT ({kept})::bigint")).await;
    assert!(kept < 4096, "{kept} bytes are kept of what its log has");
    assert_eq!(running.stop().await, Ended::Shutdown);
}

/// An unknown type is settled and counted where the configuration or a route says so.
#[tokio::test]
async fn an_unknown_type_is_ignored_where_that_is_said() {
    let mut stage = Stage::set("ignored", 1).await;
    let strange = |id: &str, kind: &str| Record::event(id, kind, "a", "{}");
    for by_config in [true, false] {
        stage.config.events.unknown_type =
            if by_config { Unwanted::Ignore } else { Unwanted::Park };
        let n = if by_config { 1 } else { 2 };
        stage.send(&[strange(&format!("s-{n}"), "Strange"), counted("a", n)]).await;
        let named = routes().ignore("Strange");
        let running = stage.start(if by_config { routes() } else { named }).await;
        eventually(SOON, "the good one", async || stage.effects().await == n).await;
        let ignored = async || running.counters.read().ignored == 1;
        eventually(SOON, "the strange one is counted", ignored).await;
        assert_eq!(running.stop().await, Ended::Shutdown);
    }
    assert_eq!(stage.parked("").await, 0);
    assert_eq!(stage.of("a").await, [1, 2]);
}

#[tokio::test]
async fn two_handlers_for_one_type_are_refused() {
    let stage = Stage::set("routes", 1).await;
    let error = refused(&stage.config, routes().on("Counted", Counter)).await;
    assert!(matches!(error, BuildError::Routes(_)), "{error:?}");
    says(&error.to_string(), &["`Counted`", "registered twice", "Counter", "remove one of them"]);
    let error = refused(&stage.config, Routes::default()).await;
    says(&error.to_string(), &["no event type has a handler", "register one"]);
}

/// G9: a dead database and a wrong password; no password is ever shown.
#[tokio::test]
async fn a_dead_database_and_a_wrong_password_are_told() {
    let mut stage = Stage::set("database", 1).await;
    stage.config.database.url = "postgres://shop:c4n4ry@127.0.0.1:1/orders".into();
    let error = refused(&stage.config, routes()).await;
    assert!(matches!(error, BuildError::Database(_)), "{error:?}");
    let error = error.to_string();
    says(&error, &["127.0.0.1:1/orders", "is unreachable", "refused", "check its URL"]);
    assert!(!error.contains("c4n4ry"), "{error}");

    let folder = tempfile::tempdir().unwrap();
    let rules = folder.path().join("rules");
    std::fs::write(&rules, "host all shop all scram-sha-256\nhost all all all trust\n").unwrap();
    let own = OwnPostgres::start_with(&format!("hba_file = '{}'", rules.display())).await;
    let schema = own.schema().await;
    schema.run("CREATE ROLE shop LOGIN PASSWORD 'right'").await;
    stage.config.database.url = format!("postgres://shop:c4n4ry@{}/postgres", own.address()).into();
    let error = refused(&stage.config, routes()).await;
    assert!(matches!(error, BuildError::Database(_)), "{error:?}");
    let error = error.to_string();
    says(
        &error,
        &[&own.address(), "the login of user shop", "correct the password or the user in its URL"],
    );
    assert!(!error.contains("c4n4ry"), "{error}");
}

/// G9: the URL names a standby.
#[tokio::test(flavor = "multi_thread")]
async fn a_replica_instead_of_the_primary_is_refused() {
    let mut stage = Stage::set("replica", 1).await;
    let primary = OwnPostgres::start().await;
    let schema = primary.schema().await;
    stage.config.database.url = schema.url().into();
    inbox_consumer::migrate::<Postgres>(&stage.config).await.unwrap();
    let replica = primary.replica().await;
    replica.catch_up_with(&primary).await;
    stage.config.database.url = schema.url_at(&replica.url()).into();
    let error = refused(&stage.config, routes()).await.to_string();
    says(&error, &[&replica.address(), "is a replica", "set the URL to the primary"]);
}

/// The schema is not there: the sentence names the command.
#[tokio::test]
async fn a_database_without_the_inbox_tables_is_refused() {
    let mut stage = Stage::set("empty", 1).await;
    let empty = Services::from_env().schema().await;
    stage.config.database.url = empty.url().into();
    let error = refused(&stage.config, routes()).await;
    assert!(matches!(error, BuildError::Schema(_)), "{error:?}");
    says(&error.to_string(), &["no inbox tables", "run the `migrate` command"]);
}

/// A10: no broker there: the process says so, retries, and ends in order when told to.
#[tokio::test]
async fn a_dead_broker_is_told_and_waited_for() {
    let stage = Stage::set("broker", 1).await;
    let mut command = worker(&stage);
    command.env("INBOX_KAFKA__BOOTSTRAP", "127.0.0.1:1");
    let mut running = Worker::spawn(command.arg("run"));
    let told = "no broker of Kafka at 127.0.0.1:1 can be reached";
    running.printed(SOON, told).await;
    let log = running.log();
    let line = log.lines().find(|line| line.contains(told)).unwrap();
    says(line, &["retrying automatically", "check the address, the network"]);
    assert!(running.running(), "it retries");
    running.terminate();
    let ended = running.ended(Duration::from_secs(20)).await;
    assert_eq!(ended.code(), Some(0), "{}", running.log());
}

/// A typo, a value out of bounds and an unsafe combination in the worker's configuration: exit code 2
/// and one line of standard error each.
#[tokio::test]
async fn a_wrong_configuration_is_refused_before_anything_starts() {
    let stage = Stage::set("typo", 1).await;
    let table: [(&str, &str, &[&str]); 5] = [
        ("INBOX_LIMITS__DRAIN_DEADLIN", "1s", &["DRAIN_DEADLIN", "`limits.drain_deadline`?"]),
        ("INBOX_BATCH__EVENTS_MAX", "0", &["INBOX_BATCH__EVENTS_MAX", "1–10000"]),
        ("INBOX_KAFKA__START", "newest", &["INBOX_KAFKA__START", "earliest, latest, error"]),
        (
            "INBOX_DATABASE__LOCK_TIMEOUT",
            "25s",
            &["`database.lock_timeout` (25s)", "`database.statement_timeout`", "lower the first"],
        ),
        (
            "INBOX_DATABASE__IDLE_TIMEOUT",
            "10s",
            &["`database.idle_timeout` (10s)", "`retry.attempt_deadline`", "raise the first"],
        ),
    ];
    for (key, value, parts) in table {
        let mut command = worker(&stage);
        command.env(key, value);
        let (code, out, err) = ran(command, "run").await;
        assert_eq!((code, out.as_str()), (Some(2), ""), "{err}");
        let told: Vec<&str> = err.lines().filter(|line| line.starts_with("error: ")).collect();
        assert_eq!(told.len(), 1, "{err}");
        says(told[0], parts);
    }
}

/// The same where a configuration is made in code.
#[tokio::test]
async fn an_unsafe_combination_is_refused_when_the_consumer_is_built() {
    let mut stage = Stage::set("unsafe", 1).await;
    stage.config.limits.drain_deadline = Duration::from_secs(5);
    let error = refused(&stage.config, routes()).await;
    assert!(matches!(error, BuildError::Config(_)), "{error:?}");
    let parts = ["`limits.drain_deadline` (5s)", "a third of `kafka.session_timeout` (6s)"];
    says(&error.to_string(), &[parts[0], parts[1], "lower the first or raise the second"]);
    stage.config.limits.drain_deadline = Duration::from_secs(1);
    stage.config.kafka.raw.set("enable.auto.commit", "true");
    let error = refused(&stage.config, routes()).await;
    says(&error.to_string(), &["`kafka.raw`", "`enable.auto.commit`", "remove it"]);
}
