//! What is parked of events by HTTP in the hands of operators, and an intake that is retired.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use sqlx::{AssertSqlSafe, Postgres};
use tests::{
    SOON, Schema, Services, eventually,
    intake::{
        EFFECTS, Server, config,
        scenarios::{envelope, id},
    },
};

use super::parked_support::finished;
use crate::programs::WORKER;

async fn schema() -> Schema {
    let schema = Services::from_env().schema().await;
    inbox_consumer::migrate::<Postgres>(&config("any", &schema.url())).await.unwrap();
    schema.run(EFFECTS).await;
    schema
}

/// Runs a command as `anna`, of a consumer without Kafka: exit code, standard output, standard error.
async fn typed(schema: &Schema, name: &str, args: &[&str]) -> (Option<i32>, String, String) {
    let mut command = WORKER.command();
    command
        .env("INBOX_CONSUMER__NAME", name)
        .env("INBOX_DATABASE__URL", schema.url())
        .env("INBOX_INTAKE__LISTEN", "mounted")
        .env("INBOX_HTTP__LISTEN", "off")
        .env("USER", "anna")
        .env("HOSTNAME", "desk")
        .current_dir(std::env::temp_dir());
    finished(command, args).await
}

/// What a command says that has to succeed.
async fn said(schema: &Schema, name: &str, args: &[&str]) -> String {
    let (code, out, err) = typed(schema, name, args).await;
    assert_eq!(code, Some(0), "{args:?}: {out}{err}");
    out
}

/// Has events parked: `(aggregate, n, act)`.
async fn park(server: &Server, events: &[(&str, i64, &str)]) {
    server.fail(true);
    for (aggregate, n, act) in events {
        let parked = server.client().envelope(&envelope(&id(), aggregate, *n, act)).await;
        assert_eq!((parked.status, parked.event()), (202, "parked"), "{parked:?}");
    }
    server.fail(false);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn parked_events_of_an_intake_are_listed_shown_released_and_discarded() {
    let (schema, name) = (schema().await, "hands");
    let server = Server::start::<Postgres>(config(name, &schema.url())).await;
    park(
        &server,
        &[("a", 1, "rejected"), ("a", 2, ""), ("b", 1, "rejected"), ("c", 1, "rejected")],
    )
    .await;

    let list = said(&schema, name, &["parked", "list", "--topic", "http:events", "--json"]).await;
    let list: Value = serde_json::from_str(&list).unwrap();
    assert_eq!(list["parked"].as_array().map(Vec::len), Some(3), "{list}");
    assert_eq!(list["counts"]["events"], json!(4), "{list}");
    let head =
        "SELECT parked_seq FROM inbox_parked WHERE aggregate = 'Order/a' AND reason = 'rejected'";
    let head = schema.number(head).await.to_string();
    let shown = said(&schema, name, &["parked", "show", &head]).await;
    for part in ["http:events", "reason      rejected", "told to reject", "followers   1 event"] {
        assert!(shown.contains(part), "{part:?} is missing: {shown}");
    }

    let released = said(&schema, name, &["parked", "release", &head, "--wait", "20s"]).await;
    assert!(released.ends_with("released: 1 event, and what followed\n"), "{released}");
    let order = "SELECT count(*) FROM effects x JOIN effects y ON x.n = 2 AND y.n = 1 AND x.seq = y.seq + 1";
    assert_eq!(schema.number(order).await, 1);
    assert_eq!(schema.number("SELECT count(*) FROM inbox_parked").await, 2);

    let b = ["parked", "discard", "--topic", "http:events", "--aggregate", "Order/b", "--yes"];
    let why = ["--why", "nobody wants it", "--wait", "20s"];
    said(&schema, name, &[&b[..], &why].concat()).await;
    assert_eq!(schema.number("SELECT count(*) FROM inbox_parked").await, 1);
    let all = ["parked", "release", "--topic", "http:events", "--yes", "--wait", "20s"];
    said(&schema, name, &all).await;
    assert_eq!(schema.number("SELECT count(*) FROM inbox_parked").await, 0);
    assert_eq!(schema.number("SELECT count(*) FROM effects").await, 3);
    let audit = said(&schema, name, &["parked", "audit"]).await;
    for part in ["anna@desk", "release", "discard", "nobody wants it", "http:events"] {
        assert!(audit.contains(part), "{part:?} is missing: {audit}");
    }
    server.stop().await;
}

/// It is taken over anew at once, by the process that runs: nothing is taken into what is retired, where nobody would
/// release it, and what was taken before is known.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_retired_intake_begins_anew() {
    let (schema, name) = (schema().await, "retired");
    // Without what looks at the partition once a second.
    let server = Server::start_bare::<Postgres>(config(name, &schema.url())).await;
    let first = envelope(&id(), "a", 1, "");
    assert_eq!(server.client().envelope(&first).await.event(), "applied");
    park(&server, &[("b", 2, "rejected")]).await;

    let retire = ["retire", "--topic", "http:events", "--why", "a test", "--yes", "--force"];
    let (code, _, err) = typed(&schema, name, &retire).await;
    assert_eq!(code, Some(6), "{err}");
    assert!(err.contains("parked there: 1 event"), "{err}");
    let out = said(&schema, name, &[&retire[..], &["--discard-parked"]].concat()).await;
    assert!(out.contains("retired 1 partition of topic http:events"), "{out}");
    assert!(out.contains("the next event by HTTP creates it again"), "{out}");

    park(&server, &[("b", 3, "rejected")]).await;
    let copy = server.client().envelope(&first).await;
    assert_eq!((copy.status, copy.event()), (200, "copy"), "{copy:?}");
    assert_eq!(server.client().envelope(&envelope(&id(), "a", 4, "")).await.event(), "applied");
    let into = |condition: &str| {
        format!(
            "SELECT count(*) FROM inbox_events e JOIN inbox_partitions p ON p.partition_ref = e.partition_ref
             WHERE p.topic = 'http:events' AND p.retired_at IS {condition}"
        )
    };
    assert_eq!(schema.number(&into("NOT NULL")).await, 0, "it was used on as it was retired");
    assert_eq!(schema.number(&into("NULL")).await, 4);
    let lost = "SELECT count(*) FROM inbox_parked q JOIN inbox_partitions p ON p.partition_ref = q.partition_ref
                WHERE p.retired_at IS NOT NULL";
    assert_eq!(schema.number(lost).await, 0, "nobody would release it");
    server.stop().await;
}

/// Nothing of it waits at an offset.
#[tokio::test]
async fn nothing_of_an_intake_is_skipped_or_parked_by_its_offset() {
    let (schema, name) = (schema().await, "skipped");
    let at = ["--topic", "http:events", "--partition", "0", "--why", "a test"];
    for args in [["skip", "--to", "7"], ["park", "--offset", "7"]] {
        let (code, _, err) = typed(&schema, name, &[&args[..], &at].concat()).await;
        assert_eq!(code, Some(6), "{err}");
        assert!(err.contains("have no log"), "{err}");
    }
}

/// More queues that cannot be released than one look finds, each as due as before: the one behind them is released all
/// the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn queues_that_cannot_be_released_keep_no_other_waiting() {
    let (schema, name) = (schema().await, "resting");
    let mut config = config(name, &schema.url());
    config.database.lock_timeout = Duration::from_millis(50);
    let server = Server::start::<Postgres>(config).await;
    let names: Vec<String> = (0..40).map(|n| format!("a{n}")).collect();
    let events: Vec<(&str, i64, &str)> =
        names.iter().zip(1..).map(|(name, n)| (name.as_str(), n, "rejected")).collect();
    park(&server, &events).await;

    // Somebody holds all lanes but the one that is looked at last, and has gone to lunch.
    let free = "(SELECT lane FROM inbox_parked ORDER BY \"offset\" DESC LIMIT 1)";
    let mut lunch = schema.pool().begin().await.unwrap();
    let hold = format!("SELECT FROM inbox_lanes WHERE lane <> {free} ORDER BY lane FOR UPDATE");
    sqlx::raw_sql(AssertSqlSafe(hold)).execute(&mut *lunch).await.unwrap();
    let held = format!("SELECT count(*) FROM inbox_parked WHERE lane <> {free}");
    let held = schema.number(&held).await;
    assert!(held > 16, "{held} are no more than one look finds");
    schema.run("UPDATE inbox_parked SET due_at = now() - interval '1 hour'").await;
    eventually(SOON, "what nobody holds is released", async || {
        schema.number("SELECT count(*) FROM inbox_parked").await == held
    })
    .await;
    lunch.rollback().await.unwrap();
    // Those rest, and are not forgotten.
    eventually(SOON, "all are released", async || {
        schema.number("SELECT count(*) FROM inbox_parked").await == 0
    })
    .await;
    server.stop().await;
}

/// One release that takes long keeps no other waiting, where their lanes differ.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn releases_of_different_lanes_run_side_by_side() {
    let (schema, name) = (schema().await, "beside");
    let server = Server::start::<Postgres>(config(name, &schema.url())).await;
    let names: Vec<String> = (0..6).map(|n| format!("a{n}")).collect();
    let mut events = vec![("slow", 100, "holds")];
    events.extend(names.iter().zip(1..).map(|(name, n)| (name.as_str(), n, "rejected")));
    park(&server, &events).await;
    // The slow one is the first of every look.
    let order = "UPDATE inbox_parked SET due_at = now() - interval '1 hour' * CASE WHEN aggregate = 'Order/slow' THEN 2 ELSE 1 END";
    schema.run(order).await;
    eventually(SOON, "the slow one is released", async || server.holds()).await;
    let elsewhere = "SELECT count(*) FROM inbox_parked q WHERE q.lane <>
        (SELECT s.lane FROM inbox_parked s WHERE s.aggregate = 'Order/slow')";
    eventually(SOON, "the others are released", async || schema.number(elsewhere).await == 0).await;
    assert!(server.holds(), "the slow one is over, so nothing is shown");
    assert!(schema.number("SELECT count(*) FROM effects").await > 0);
    server.fail(true);
    eventually(SOON, "the slow one, too", async || {
        schema.number("SELECT count(*) FROM inbox_parked WHERE aggregate = 'Order/slow'").await == 0
    })
    .await;
    server.stop().await;
}

/// Nobody waits for the next look: what waited for a version is run when that one is applied.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_waited_for_a_version_is_run_at_once() {
    const ROUNDS: i64 = 10;
    let (schema, name) = (schema().await, "woken");
    let server = Server::start::<Postgres>(config(name, &schema.url())).await;
    let client = server.client();
    let versioned = |aggregate: &str, version: i64| {
        let mut event = envelope(&id(), aggregate, version, "");
        event["event_type"] = json!("Versioned");
        event["aggregate_version"] = json!(version);
        event
    };
    let mut waited = Duration::ZERO;
    for round in 0..ROUNDS {
        let aggregate = format!("a{round}");
        assert_eq!(client.envelope(&versioned(&aggregate, 2)).await.event(), "parked");
        assert_eq!(client.envelope(&versioned(&aggregate, 1)).await.event(), "applied");
        let since = Instant::now();
        while schema.number("SELECT count(*) FROM effects").await < 2 * (round + 1) {
            assert!(since.elapsed() < SOON, "it is not run");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        waited += since.elapsed();
    }
    // Looks are a second apart: by chance each would have waited for half of that.
    assert!(waited < Duration::from_millis(250) * 10, "{waited:?} for {ROUNDS}");
    server.stop().await;
}

/// A session that somebody ends is no event's fault.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_that_breaks_during_a_release_blames_nobody() {
    let (schema, name) = (schema().await, "broken-release");
    let server = Server::start::<Postgres>(config(name, &schema.url())).await;
    park(&server, &[("a", 1, "rejected"), ("a", 2, "slow")]).await;
    let end = format!(
        "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
         WHERE application_name = 'inbox/{name}' AND state = 'idle in transaction'
         AND query LIKE 'INSERT INTO effects%'"
    );
    schema.run("UPDATE inbox_parked SET intent = 'release', intent_by = 'anna' WHERE reason = 'rejected'").await;
    let begun = Instant::now();
    while schema.number(&end).await == 0 {
        assert!(begun.elapsed() < SOON, "nothing is released");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    eventually(SOON, "both effects", async || {
        schema.number("SELECT count(*) FROM effects").await == 2
    })
    .await;
    eventually(SOON, "nothing is parked", async || {
        schema.number("SELECT count(*) FROM inbox_parked").await == 0
    })
    .await;
    server.stop().await;
}

/// The ids of an intake are in the inbox, too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn check_compares_the_id_scope_of_an_intake() {
    let (schema, name) = (schema().await, "scope");
    let server = Server::start::<Postgres>(config(name, &schema.url())).await;
    server.stop().await;
    let with = async |scope: &str| {
        let mut command = WORKER.command();
        command
            .env("INBOX_CONSUMER__NAME", name)
            .env("INBOX_DATABASE__URL", schema.url())
            .env("INBOX_INTAKE__LISTEN", "mounted")
            .env("INBOX_EVENTS__ID_SCOPE", scope)
            .env("INBOX_HTTP__LISTEN", "off");
        let (_, out, err) = finished(command, &["check"]).await;
        format!("{out}{err}")
    };
    let words = "ids of another scope than `events.id_scope` for http:events/0";
    let (same, other) = (with("consumer").await, with("topic").await);
    assert!(!same.contains(words), "{same}");
    assert!(other.contains(words), "{other}");
}
