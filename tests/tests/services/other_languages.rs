//! Other languages: what the documents tell them to send and to append is run word for word, and arrives.

use std::{env, fs, path::PathBuf, process::Command};

use inbox_consumer::{Event, Handler, HandlerResult, Routes, Tx};
use outbox_core::EventId;
use serde_json::Value;
use sqlx::{FromRow, Postgres};
use tests::{Fence, Lesson, Markdown, Outbox, SOON, Services, Stage, eventually, skip};
use xtask::command::capture;

use super::relay_order::murmur2;

const PRODUCERS: &str = include_str!("../../../docs/producers.md");
const OUTBOX_TABLE: &str = include_str!("../../../docs/outbox-table.md");
const PARTITIONS: i32 = 12;
/// The orders that the documents' programs send events of.
const ORDERS: std::ops::RangeInclusive<i64> = 1001..=1008;

/// A language, and what running its programs takes.
pub(super) struct Language {
    /// The heading of its part in both documents.
    heading: &'static str,
    /// Its test, for the list of what was skipped.
    test: &'static str,
    /// Commands that have to succeed, and what to install where one does not.
    toolchain: &'static [(&'static [&'static str], &'static str)],
}

pub(super) const PYTHON: Language = Language {
    heading: "Python",
    test: "what_python_sends_and_appends_is_handled_once",
    toolchain: &[(
        &["python3", "-c", "import venv, ensurepip"],
        "Python with venv: install Debian's packages python3-venv and python3-pip",
    )],
};

const JAVA: Language = Language {
    heading: "Java",
    test: "what_java_sends_and_appends_is_handled_once",
    toolchain: &[
        (&["javac", "-version"], "a JDK: install Debian's package default-jdk-headless"),
        (&["mvn", "-v"], "Maven: install Debian's package maven"),
    ],
};

const GO: Language = Language {
    heading: "Go",
    test: "what_go_sends_and_appends_is_handled_once",
    // The first version that fetches a newer one by itself where a module wants it.
    toolchain: &[(
        &["sh", "-c", "go version | grep -Eq 'go1\\.(2[1-9]|[3-9][0-9])'"],
        "Go 1.21 or newer: install Debian's package golang",
    )],
};

const TYPESCRIPT: Language = Language {
    heading: "TypeScript",
    test: "what_typescript_sends_and_appends_is_handled_once",
    toolchain: &[
        (&["node", "--version"], "Node.js: install Debian's package nodejs"),
        (&["npm", "--version"], "npm: install Debian's package npm"),
    ],
};

impl Language {
    /// What is missing on this machine.
    pub(super) fn missing(&self) -> Option<&'static str> {
        let fails = |words: &[&str]| capture(Command::new(words[0]).args(&words[1..])).is_err();
        self.toolchain.iter().find(|(words, _)| fails(words)).map(|(_, advice)| *advice)
    }

    /// Does what a document says below this language's heading, and its last command once more.
    async fn run(&self, document: &str, variables: &[(&'static str, String)]) {
        let part = part(document, self.heading);
        let fences = Markdown::read(&part).fences;
        let last = fences.iter().rfind(|fence| fence.language() == "sh");
        let last = last.unwrap_or_else(|| panic!("nothing is typed below {}", self.heading));
        let lesson = Lesson::read(&format!("{part}\n```sh\n{}```\n", last.text));
        let mut all = caches();
        all.extend_from_slice(variables);
        let folder = tempfile::tempdir().expect("a folder");
        let empty = folder.path().join("shop");
        fs::create_dir(&empty).expect("an empty folder");
        let heading = self.heading;
        let task = tokio::task::spawn_blocking(move || {
            for took in lesson.run(&empty, &all, |_| ()) {
                println!("{heading}: {:>6.1} s  {}", took.time.as_secs_f64(), took.what);
            }
        });
        task.await.unwrap_or_else(|_| panic!("{heading} does what the document says"));
    }
}

/// What stands below a heading of the second level.
fn part(document: &str, heading: &str) -> String {
    let parts = document.split("\n## ");
    let mut of_heading = parts.filter(|part| part.lines().next() == Some(heading));
    let found = of_heading.next().unwrap_or_else(|| panic!("no heading {heading}"));
    format!("## {found}")
}

/// The file that a document shows under a name.
fn shown(document: &str, title: &str) -> String {
    let named = |fence: &Fence| fence.option("title") == Some(title);
    let fence = Markdown::read(document).fences.into_iter().find(named);
    fence.unwrap_or_else(|| panic!("no file {title}")).text
}

/// What is downloaded and compiled stays under the build folder, so that only the first run waits for it.
pub(super) fn caches() -> Vec<(&'static str, String)> {
    let program = env::current_exe().expect("a test knows its own path");
    let target = program.ancestors().nth(3).expect("a test is in target/debug/deps");
    let at = |name: &str| {
        let folder: PathBuf = target.join("xtask/languages").join(name);
        fs::create_dir_all(&folder).expect("the build folder takes folders");
        folder.display().to_string()
    };
    let maven = env::var("MAVEN_OPTS").unwrap_or_default();
    vec![
        ("PIP_CACHE_DIR", at("pip")),
        ("npm_config_cache", at("npm")),
        ("npm_config_prefer_offline", "true".to_owned()),
        ("GOMODCACHE", at("go-mod")),
        ("GOCACHE", at("go-build")),
        // Or nobody could remove the build folder.
        ("GOFLAGS", format!("{} -modcacherw", env::var("GOFLAGS").unwrap_or_default())),
        ("MAVEN_OPTS", format!("{maven} -Dmaven.repo.local={}", at("maven"))),
    ]
}

const SEEN: &str = "CREATE TABLE seen (place bigint GENERATED ALWAYS AS IDENTITY, event_id text, source_id text,
    event_type text, aggregate text, version bigint, partition integer, correlation text, payload text)";

/// One handled event.
#[derive(FromRow, Debug)]
struct Seen {
    event_id: String,
    source_id: Option<String>,
    event_type: String,
    aggregate: String,
    version: Option<i64>,
    partition: i32,
    correlation: Option<String>,
    payload: String,
}

/// Writes down everything that an event tells.
struct Notes;

impl Handler<Postgres> for Notes {
    type Event = Value;

    async fn handle(&self, event: &Event<Value>, tx: &mut Tx<'_, Postgres>) -> HandlerResult {
        let correlation = event.header("correlation_id").map(String::from_utf8_lossy);
        sqlx::query(
            "INSERT INTO seen (event_id, source_id, event_type, aggregate, version, partition, correlation, payload)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8)",
        )
        .bind(event.id().to_string())
        .bind(event.source_id())
        .bind(event.event_type())
        .bind(event.aggregate().to_string())
        .bind(event.aggregate_version())
        .bind(event.partition())
        .bind(correlation)
        .bind(event.payload.to_string())
        .execute(tx)
        .await?;
        Ok(())
    }
}

/// Consumes until so many events are settled, copies counted; answers what was handled.
async fn handled(stage: &Stage, settled: u64) -> Vec<Seen> {
    let types = ["OrderPlaced", "OrderPaid", "OrderErased"];
    let routes = types.into_iter().fold(Routes::default(), |all, name| all.on(name, Notes));
    let running = stage.start(routes).await;
    let what = format!("{settled} events are settled");
    eventually(SOON, &what, async || {
        let parked = stage.parked("").await;
        assert_eq!(parked, 0, "nothing is parked");
        let counted = running.counters.read();
        counted.applied + counted.duplicates >= settled
    })
    .await;
    running.stop().await;
    sqlx::query_as("SELECT * FROM seen ORDER BY place")
        .fetch_all(stage.schema.pool())
        .await
        .unwrap()
}

/// Where Java's client sends a key.
fn partition_of(key: &str) -> i32 {
    (murmur2(key.as_bytes()) & 0x7fff_ffff) % PARTITIONS
}

/// The program of docs/producers.md runs twice: each event is in the topic twice, and handled once.
async fn sends(language: &Language) {
    let stage = Stage::with(
        Services::from_env().topic("language", PARTITIONS).await,
        Services::from_env().schema().await,
    )
    .await;
    stage.schema.run(SEEN).await;
    let topic = stage.topic.name();
    let variables = [("KAFKA", stage.topic.bootstrap().to_owned()), ("TOPIC", topic.to_owned())];
    language.run(PRODUCERS, &variables).await;
    let rows = handled(&stage, 48).await;
    let ends = (0..PARTITIONS).map(|partition| stage.topic.offsets(partition));
    let records: i64 = futures::future::join_all(ends).await.iter().map(|(_, end)| end).sum();
    assert_eq!((records, rows.len()), (48, 24), "{rows:?}");
    for order in ORDERS {
        let aggregate = format!("Order/{order}");
        let own: Vec<&Seen> = rows.iter().filter(|row| row.aggregate == aggregate).collect();
        let told: Vec<_> = own.iter().map(|row| (row.event_type.as_str(), row.version)).collect();
        let steps = [("OrderPlaced", Some(1)), ("OrderPaid", Some(2)), ("OrderErased", Some(3))];
        assert_eq!(told, steps, "{aggregate}: {own:?}");
        for (row, version) in own.iter().zip(1..) {
            let id = format!("{aggregate}/{version}");
            assert_eq!(row.event_id, EventId::foreign(topic, &id).unwrap().to_string());
            assert_eq!(row.source_id.as_deref(), Some(id.as_str()));
            assert_eq!(row.partition, partition_of(&order.to_string()), "{row:?}");
            let payload = if version == 3 { "null" } else { "{\"amount\":250}" };
            assert_eq!(row.payload, payload);
        }
    }
}

/// The program of docs/outbox-table.md pays each order once, though it runs twice; a relay ships what it appends.
async fn appends(language: &Language) {
    let outbox = Outbox::set("language", PARTITIONS).await;
    outbox.schema.run(&shown(OUTBOX_TABLE, "shop.sql")).await;
    let relay = outbox.start().await;
    let url = outbox.schema.url();
    let variables = [("DATABASE_URL", url.clone()), ("JDBC_URL", jdbc(&url))];
    language.run(OUTBOX_TABLE, &variables).await;
    outbox.drained(SOON).await;
    relay.stop().await;
    let stage = Stage::with(outbox.topic.clone(), Services::from_env().schema().await).await;
    stage.schema.run(SEEN).await;
    let mut rows = handled(&stage, 8).await;
    rows.sort_by(|one, other| one.aggregate.cmp(&other.aggregate));
    assert_eq!(rows.len(), 8, "{rows:?}");
    for (row, order) in rows.iter().zip(ORDERS) {
        assert_eq!((&row.aggregate, row.version), (&format!("Order/{order}"), Some(2)), "{row:?}");
        assert_eq!((row.event_type.as_str(), row.source_id.as_ref()), ("OrderPaid", None));
        assert_eq!(row.correlation, Some(format!("checkout-{order}")));
        assert_eq!(row.payload, "{\"amount\":250}");
        assert_eq!(row.partition, partition_of(&order.to_string()), "{row:?}");
    }
}

/// `postgres://user:password@host/name?more` as Java's driver has it.
fn jdbc(url: &str) -> String {
    let (user, rest) = url.split_once("://").unwrap().1.split_once('@').unwrap();
    let (user, password) = user.split_once(':').unwrap_or((user, ""));
    let joint = if rest.contains('?') { '&' } else { '?' };
    format!("jdbc:postgresql://{rest}{joint}user={user}&password={password}")
}

/// Both documents, one after the other: together they would fill one cache at the same time.
async fn sends_and_appends(language: &Language) {
    if let Some(advice) = language.missing() {
        let test = format!("services::other_languages::{}", language.test);
        return skip(&test, &format!("this machine lacks {advice}"));
    }
    sends(language).await;
    appends(language).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_python_sends_and_appends_is_handled_once() {
    sends_and_appends(&PYTHON).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_java_sends_and_appends_is_handled_once() {
    sends_and_appends(&JAVA).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_go_sends_and_appends_is_handled_once() {
    sends_and_appends(&GO).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_typescript_sends_and_appends_is_handled_once() {
    sends_and_appends(&TYPESCRIPT).await;
}

/// The grants of the document are enough to append, and not enough to write what is the relay's.
#[tokio::test]
async fn an_application_may_write_its_own_columns_and_no_other() {
    let outbox = Outbox::set("grants", 1).await;
    let mut tx = outbox.schema.pool().begin().await.unwrap();
    let run = async |tx: &mut sqlx::PgConnection, sql: String| {
        sqlx::raw_sql(sqlx::AssertSqlSafe(sql)).execute(tx).await
    };
    let schema = outbox.schema.name();
    let role = format!("CREATE ROLE shop; GRANT USAGE ON SCHEMA {schema} TO shop;");
    let sql = role + &shown(OUTBOX_TABLE, "grants.sql") + "SET ROLE shop";
    run(&mut tx, sql).await.unwrap();
    let insert = |more: &str, value: &str| {
        format!(
            "INSERT INTO outbox_events (event_id, event_type, aggregate_type, aggregate_id{more})
             VALUES (gen_random_uuid(), 'OrderPaid', 'Order', '1001'{value});
             SELECT pg_notify('outbox_events', 'outbox_events'::regclass::oid::text)"
        )
    };
    run(&mut tx, insert(", headers", r#", '[["signature", {"base64": "/wA="}]]'"#)).await.unwrap();
    // Twice: the second one is left out.
    run(&mut tx, shown(OUTBOX_TABLE, "remind.sql").repeat(2)).await.unwrap();
    let refused = run(&mut tx, insert(", sent_at", ", now()")).await.unwrap_err().to_string();
    assert!(refused.contains("permission denied"), "{refused}");
    tx.rollback().await.unwrap();
    let reminders = "SELECT count(*) FROM outbox_events WHERE dedup_key LIKE 'payment-due/%'
        AND deliver_after > now() + interval '6 days'";
    outbox.schema.run(&shown(OUTBOX_TABLE, "remind.sql").repeat(2)).await;
    assert_eq!(outbox.schema.number(reminders).await, 1);
}
