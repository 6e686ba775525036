//! `check` on real services: what it finds in topics, in the database and in what was sent, as a table
//! and as JSON.

use serde_json::Value;
use tests::{OwnPostgres, Record, Services, Stage, counted};

use super::commands::{ran, worker};

/// Exit code and document of `check --json`.
async fn checked(stage: &Stage, env: &[(&str, &str)]) -> (i32, Value) {
    let mut command = worker(stage);
    command.envs(env.iter().copied());
    let (code, out, err) = ran(command, "check --json").await;
    let document = serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {out}{err}"));
    (code.unwrap(), document)
}

/// Findings about something, with their level before them.
fn findings(document: &Value, about: &str) -> Vec<String> {
    let all = document["findings"].as_array().unwrap().iter();
    let of = all.filter(|finding| finding["about"] == about);
    of.map(|finding| {
        let text = |name: &str| finding[name].as_str().unwrap().to_owned();
        format!("{}: {}", text("level"), text("finding"))
    })
    .collect()
}

#[track_caller]
fn has(found: &[String], start: &str, part: &str) {
    let there = found.iter().any(|one| one.starts_with(start) && one.contains(part));
    assert!(there, "{start} … {part}: {found:#?}");
}

#[tokio::test]
async fn check_tells_what_is_doubtful_about_a_topic_and_what_is_in_it() {
    let services = Services::from_env();
    let settings = [
        ("cleanup.policy", "compact,delete"),
        ("retention.ms", "5184000000"),
        ("unclean.leader.election.enable", "true"),
        ("min.insync.replicas", "1"),
    ];
    let topic = tests::Topic::create(&services.kafka, "checked", 2, &settings).await;
    let stage = Stage::with(topic, services.schema().await).await;
    stage.send(&[counted("a", 1).partition(0), Record::default().key("x").partition(0)]).await;
    stage.send(&[Record::event("p-1", "OrderPayed", "b", "{}").partition(1)]).await;

    let (code, document) = checked(&stage, &[("INBOX_LANES__COUNT", "8")]).await;
    assert_eq!((code, &document["startable"]), (0, &Value::Bool(true)), "{document:#}");
    let kafka = findings(&document, "kafka");
    let start = format!("warning: topic {}", stage.topic.name());
    has(&kafka, &start, "keeps records for 1month 29days");
    has(&kafka, &start, "is compacted");
    has(&kafka, &start, "unclean.leader.election.enable=true");
    has(&kafka, &start, "has replication factor 1");
    let handlers = findings(&document, "handlers");
    has(&handlers, "warning: 1 of the 3 newest records cannot be read as events", "undecodable");
    has(&handlers, "warning: 1 of the 3 newest records are events of type `OrderPayed`", "ignore");
    has(&handlers, "note: none of the 3 newest records has the type `CountedAll`", "name");

    let (code, out, _) = ran(worker(&stage), "check").await;
    assert_eq!(code, Some(0), "{out}");
    assert!(out.starts_with("OK to start, "), "{out}");
    assert!(out.contains("\nLEVEL    ABOUT"), "{out}");
}

#[tokio::test]
async fn check_compares_lanes_and_partitions_with_the_database_s() {
    let stage = Stage::set("checked", 1).await;
    let running =
        stage.start(inbox_consumer::Routes::default().on("Counted", tests::Counter)).await;
    stage.count("a", 1, 3).await;
    tests::eventually(tests::SOON, "the effects", async || stage.effects().await == 3).await;
    running.stop().await;
    stage.topic.grow(2).await;
    let (code, document) = checked(&stage, &[("INBOX_LANES__COUNT", "8")]).await;
    assert_eq!(code, 0, "{document:#}");
    let start = format!("warning: the database has {}/0 with 16 lanes", stage.topic.name());
    has(&findings(&document, "database"), &start, "`lanes.count` is 8");
    let start = format!("warning: topic {} has partitions", stage.topic.name());
    has(&findings(&document, "kafka"), &start, "never owned ([1])");
}

#[tokio::test(flavor = "multi_thread")]
async fn check_looks_as_the_user_that_runs() {
    let own = OwnPostgres::start_with("fsync = off\nautovacuum = off\nmax_connections = 20").await;
    let topic = Services::from_env().topic("checked", 1).await;
    let stage = Stage::with(topic, own.schema().await).await;
    let schema = stage.schema.name();
    stage
        .schema
        .run(&format!(
            "CREATE ROLE clerk LOGIN CONNECTION LIMIT 5; GRANT USAGE ON SCHEMA {schema} TO clerk;
             GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {schema} TO clerk;
             REVOKE DELETE ON inbox_events FROM clerk; REVOKE INSERT ON inbox_parked FROM clerk;
             ALTER ROLE clerk SET default_transaction_isolation = 'serializable'"
        ))
        .await;
    let url = stage.schema.url().replace("//postgres@", "//clerk@");
    let (code, document) = checked(&stage, &[("INBOX_DATABASE__URL", &url)]).await;
    assert_eq!((code, &document["startable"]), (5, &Value::Bool(false)), "{document:#}");
    let found = findings(&document, "database");
    // One block with all of them.
    let block = format!(
        "GRANT DELETE ON {schema}.inbox_events TO clerk; GRANT INSERT ON {schema}.inbox_parked TO clerk; "
    );
    has(&found, "error: the role lacks privileges", &block);
    has(
        &found,
        "error: the consumer needs up to 12 connections",
        "ALTER ROLE clerk CONNECTION LIMIT",
    );
    has(&found, "warning: fsync is off", "switch it on");
    has(&found, "warning: autovacuum is off", "switch it on");
    has(&found, "warning: default_transaction_isolation is \"serializable\"", "FOR UPDATE");
    let errors = found.iter().filter(|finding| finding.starts_with("error: "));
    assert_eq!(errors.count(), 2, "{found:#?}");
}
