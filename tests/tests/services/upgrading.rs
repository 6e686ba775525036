//! Two versions side by side: tables that are newer than a build, tables that were an older one's
//! (docs/upgrading.md).

use inbox_consumer::{Consumer, Routes};
use inbox_store::internal::port::Schemas;
use sqlx::Postgres;
use tests::{Counter, Record, SOON, Stage, Worker, eventually};

use super::commands::{ran, worker};

/// What a later version may do: only add.
const LATER: [&str; 6] = [
    "ALTER TABLE inbox_events ADD COLUMN later text",
    "ALTER TABLE inbox_parked ADD COLUMN later integer NOT NULL DEFAULT 0",
    "ALTER TABLE inbox_lanes ADD COLUMN later bigint",
    "ALTER TABLE inbox_partitions ADD COLUMN later text NOT NULL DEFAULT ''",
    "CREATE TABLE inbox_later (later bigint PRIMARY KEY)",
    "INSERT INTO inbox_schema_versions (version) SELECT max(version) + 1 FROM inbox_schema_versions",
];

/// The way back to the first version, newest first.
const DOWN: &[&str] = &[
    include_str!("../../../migrations/postgres/0008_recent.down.sql"),
    include_str!("../../../migrations/postgres/0007_slots.down.sql"),
    include_str!("../../../migrations/postgres/0006_start.down.sql"),
    include_str!("../../../migrations/postgres/0005_versions.down.sql"),
    include_str!("../../../migrations/postgres/0004_content.down.sql"),
    include_str!("../../../migrations/postgres/0003_history.down.sql"),
    include_str!("../../../migrations/postgres/0002_release.down.sql"),
];

fn routes() -> Routes<Postgres> {
    Routes::default().on("Counted", Counter)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_build_works_on_tables_that_a_newer_one_migrated() {
    let stage = Stage::set("upgrading", 4).await;
    let older = stage.start(routes()).await;
    for aggregate in ["a", "b", "c", "d"] {
        stage.count(aggregate, 1, 200).await;
    }
    eventually(SOON, "the first effects", async || stage.effects().await > 0).await;
    // Each by itself: together they may meet a transaction of the consumer in a deadlock, and be its victim.
    for statement in LATER {
        stage.schema.run(statement).await;
    }
    let second = stage.start(routes()).await;
    for aggregate in ["a", "b", "c", "d"] {
        stage.count(aggregate, 201, 300).await;
    }
    eventually(SOON, "all effects", async || stage.effects().await == 1_200).await;
    for aggregate in ["a", "b", "c", "d"] {
        assert_eq!(stage.of(aggregate).await, (1..=300).collect::<Vec<i64>>(), "{aggregate}");
    }
    assert_eq!((older.counters.read().failures, second.counters.read().failures), (0, 0));
    assert_eq!(stage.parked("").await, 0);
    older.stop().await;
    second.stop().await;
}

#[tokio::test]
async fn tables_that_no_longer_serve_this_build_are_refused() {
    let stage = Stage::set("upgrading", 1).await;
    let newest = Postgres::newest();
    let two_ahead = format!("INSERT INTO inbox_schema_versions (version) VALUES ({})", newest + 2);
    stage.schema.run(&two_ahead).await;
    for command in ["run", "check"] {
        let (code, out, err) = ran(worker(&stage), command).await;
        let told = format!("{out}{err}");
        assert_eq!(code, Some(if command == "run" { 3 } else { 5 }), "{command}: {told}");
        let version = newest + 2;
        assert!(told.contains(&format!("the inbox tables have version {version}")), "{told}");
        assert!(told.contains("deploy the newer build"), "{told}");
    }
    stage.schema.run(&format!("DELETE FROM inbox_schema_versions WHERE version > {newest}")).await;
    for down in DOWN {
        stage.schema.run(down).await;
    }
    let (code, _, err) = ran(worker(&stage), "run").await;
    assert_eq!(code, Some(3), "{err}");
    assert!(err.contains("version 1") && err.contains("run the `migrate` command"), "{err}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_first_version_wrote_is_handled_after_the_migration() {
    let stage = Stage::set("upgrading", 1).await;
    stage.count("a", 1, 20).await;
    let rejected = |n: i64| {
        let payload = format!("{{\"n\":{n},\"act\":\"reject\"}}");
        Record::event(&format!("b-{n}"), "Counted", "b", &payload)
    };
    stage.send(&[rejected(1), tests::counted("b", 2)]).await;
    let mut first = Worker::spawn(worker(&stage).arg("run"));
    eventually(SOON, "both are parked", async || stage.parked("").await == 2).await;
    eventually(SOON, "all effects of a", async || stage.effects().await == 20).await;
    first.terminate();
    first.ended(SOON).await;
    for down in DOWN {
        stage.schema.run(down).await;
    }
    let built = Consumer::builder(stage.config.clone(), routes()).build().await;
    let refused = built.err().map(|error| error.to_string()).unwrap_or_default();
    assert!(refused.contains("have version 1"), "{refused}");

    let applied = inbox_consumer::migrate::<Postgres>(&stage.config).await.expect("a migration");
    assert_eq!(applied.last(), Some(&Postgres::newest()));
    // The rows are this build's, and so are their fingerprints. Those of older builds: `unwanted`.
    stage.schema.run("UPDATE inbox_events SET sha256 = true").await;
    let running = stage.start(routes()).await;
    stage.count("a", 15, 25).await;
    stage.count("b", 3, 3).await;
    stage.schema.run("UPDATE inbox_parked SET intent = 'release', intent_by = 'test', intent_at = now() WHERE due_at = 'infinity'").await;
    eventually(SOON, "everything that is new", async || stage.effects().await == 28).await;
    assert_eq!(stage.of("a").await, (1..=25).collect::<Vec<i64>>());
    assert_eq!(stage.of("b").await, [1, 2, 3]);
    assert_eq!(stage.parked("").await, 0);
    running.stop().await;
}

#[tokio::test]
async fn a_relay_works_on_tables_that_a_newer_one_migrated() {
    let services = tests::Services::from_env();
    let schema = services.schema().await;
    let mut config = outbox_relay::config::Config::new(&services.kafka, schema.url());
    config.kafka.topic = "shop".into();
    outbox_relay::migrate(&config).await.expect("the outbox tables");
    let build = async || outbox_relay::Relay::builder(config.clone()).build().await;
    let newer = "ALTER TABLE outbox_events ADD COLUMN later text;
        INSERT INTO outbox_schema_versions (version) SELECT max(version) + 1 FROM outbox_schema_versions";
    schema.run(newer).await;
    assert!(build().await.is_ok());
    schema.run(newer.split_once(';').expect("two statements").1).await;
    let refused = build().await.err().map(|error| error.to_string()).unwrap_or_default();
    assert!(refused.contains("deploy the newer build"), "{refused}");
}

/// Version 4 moves state between tables: a relay of this build does not start before it.
#[tokio::test]
async fn a_relay_does_not_start_on_tables_of_before_the_parked_rows() {
    let outbox = tests::Outbox::set("before-parked", 1).await;
    let build = async || outbox_relay::Relay::builder(outbox.config.clone()).build().await;
    outbox
        .schema
        .run(include_str!("../../../migrations/postgres/outbox/0004_parked.down.sql"))
        .await;
    let refused = build().await.err().map(|error| error.to_string()).unwrap_or_default();
    assert!(refused.contains("version 3") && refused.contains("`migrate`"), "{refused}");
    assert_eq!(outbox_relay::migrate(&outbox.config).await.expect("a migration"), [4]);
    assert!(build().await.is_ok());
}
