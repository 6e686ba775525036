//! Changes of two tables into a read model by declared handlers, while the connector and the consumers are killed: at
//! the end both are equal, and each change has had one effect, in the order of its row.

mod judge;
mod writer;

use std::{collections::BTreeMap, path::PathBuf, time::Instant};

use serde::Serialize;

use self::writer::Writer;
use super::{
    Scene,
    connector::{Connector, STEP},
};
use crate::{
    Executable, Schema, eventually,
    soak::fleet::{Member, migrate},
};

const SOURCE: &str = include_str!("source.sql");
const MODEL: &str = include_str!("model.sql");
const HANDLERS: &str = include_str!("handlers.toml");
const TABLES: [&str; 2] = ["items", "parts"];
/// The connector writes down where it is so seldom that it sends much again after its death; which is noticed soon.
pub const WORKER: &str =
    "offset.flush.interval.ms=10000\nsession.timeout.ms=6000\nheartbeat.interval.ms=1000\n";
/// Rows of each table that are there before the connector.
const ROWS_BEFORE: u64 = 1000;

/// How much is written, and how often who is killed.
#[derive(Clone, Copy, Debug)]
pub struct Course {
    /// Changes of rows, at least.
    pub changes: u64,
    /// Kills of the connector, and as many of consumers.
    pub kills: u64,
    /// Makes what is written.
    pub seed: u64,
    /// Whether the connector numbers the changes of a transaction.
    pub numbered: bool,
}

/// What was measured, and what is wrong.
#[derive(Debug, Serialize)]
pub struct Report {
    /// Changes of rows; a changed key counts once.
    pub changes: i64,
    /// Distinct events, a changed key being two; rows that were read by the snapshot.
    pub events: i64,
    /// Of these, changes that the log does not have whole: a large value was left alone.
    pub without_large_value: i64,
    /// Records with an event that were in the topics.
    pub records: i64,
    /// Of these, those that the connector sent again after its death.
    pub copies: i64,
    /// Tombstones, which are ignored.
    pub tombstones: i64,
    /// `kill -9`s of Connect.
    pub connector_kills: u64,
    /// `kill -9`s of a consumer.
    pub consumer_kills: u64,
    /// From the first change to the last effect.
    pub seconds: f64,
    /// What is wrong.
    pub violations: Vec<String>,
}

/// Goes through all of it.
pub async fn course(scene: &Scene, consumer: &Executable, course: Course) -> Report {
    let schema = scene.postgres.schema().await;
    schema.run(SOURCE).await;
    schema.run(MODEL).await;
    let mut writers = Vec::new();
    for table in TABLES {
        let mut writer = Writer::new(&schema, table, course.seed).await;
        writer.insert(ROWS_BEFORE).await;
        writers.push(writer);
    }
    // What a snapshot reads is one event of each row.
    schema.run("UPDATE history SET op = 'r'").await;
    let topics = TABLES.map(|table| format!("app.{}.{table}", schema.name()));
    scene.topics(&topics).await;
    let connector = connect(scene, &schema, course.numbered).await;
    let config = configure(scene, &schema, &topics);
    migrate(consumer, &config);
    let mut members: Vec<_> =
        ["consumer 1", "consumer 2"].map(|name| Member::start(consumer, name, &config)).into();
    let effects = async || schema.number("SELECT count(*) FROM effects").await;
    let read = 2 * ROWS_BEFORE as i64;
    eventually(STEP, "what was there before is read", async || effects().await == read).await;

    // A connector that dies before it has written down that its snapshot is complete makes another one.
    for writer in &mut writers {
        writer.write(100, false).await;
    }
    eventually(STEP, "the snapshot is over for good", async || connector.streams().await).await;
    let began = Instant::now();
    let share = course.changes / (2 * course.kills).max(1) / TABLES.len() as u64 + 1;
    for kill in 0..2 * course.kills {
        let before = effects().await;
        let fault = async {
            tokio::time::sleep(writer::PAUSE * 20).await;
            match kill % 4 {
                0 | 2 => {
                    println!("kill -9 of Connect, with {} effects", effects().await);
                    scene.kill_connect();
                    scene.start_connect().await;
                }
                member => members[member as usize / 2].kill_and_start(&config),
            }
        };
        let [first, second] = &mut writers[..] else { unreachable!("there are two tables") };
        let half = kill == course.kills;
        tokio::join!(first.write(share, half), second.write(share, half), fault);
        let goes_on = || async { effects().await > before + share as i64 };
        eventually(STEP, "changes come again", async || goes_on().await).await;
    }
    let events = schema.number("SELECT count(*) FROM history").await;
    // Copies that are still on their way would show as doubled effects.
    eventually(STEP * 5, "each change has its effect", async || effects().await >= events).await;
    let seconds = began.elapsed().as_secs_f64();
    let all = scene.read(&topics).await;
    let settled = "SELECT coalesce(sum(watermark), 0)::bigint FROM inbox_partitions";
    let total = all.len() as i64;
    eventually(STEP, "all is settled", async || schema.number(settled).await == total).await;
    for member in members {
        assert!(member.end().await, "a consumer ends well");
    }
    connector.remove(&schema).await;
    let tombstones = all.iter().filter(|record| record.value.is_none()).count() as i64;
    Report {
        changes: writers.iter().map(|writer| writer.changes as i64).sum(),
        events,
        without_large_value: schema.number("SELECT count(*) FROM effects WHERE partial").await,
        records: total - tombstones,
        copies: total - tombstones - events,
        tombstones,
        connector_kills: course.kills,
        consumer_kills: course.kills,
        seconds,
        violations: judge::violations(&schema).await,
    }
}

async fn connect<'s>(scene: &'s Scene, schema: &Schema, numbered: bool) -> Connector<'s> {
    let name = schema.name();
    let json = "org.apache.kafka.connect.json.JsonConverter";
    let settings = [
        ("topic.prefix", "app"),
        ("table.include.list", &format!("{name}.items,{name}.parts")),
        ("snapshot.mode", "initial"),
        ("tombstones.on.delete", "true"),
        ("key.converter", json),
        ("key.converter.schemas.enable", "false"),
        ("value.converter", json),
        ("value.converter.schemas.enable", "false"),
        ("provide.transaction.metadata", if numbered { "true" } else { "false" }),
    ];
    let own = |(key, value): (&str, &str)| (key.to_owned(), value.to_owned());
    let settings: BTreeMap<String, String> = settings.map(own).into();
    Connector::start_with(scene, schema, ("changes", &format!("slot_{name}")), &settings).await
}

/// The consumers' configuration: what a team would write that keeps a copy of two tables.
fn configure(scene: &Scene, schema: &Schema, topics: &[String]) -> PathBuf {
    let path = scene.folder.path().join(format!("{}.toml", schema.name()));
    let text = format!(
        "[consumer]\nname = \"model\"\n[kafka]\nbootstrap = {:?}\ntopics = {topics:?}\nsession_timeout = \"6s\"\n\
         [database]\nurl = {:?}\nconnections = 4\n[limits]\ndrain_deadline = \"1s\"\n[http]\nlisten = \"off\"\n\
         [log]\nlevel = \"warn\"\n[events]\nformat = \"debezium-raw\"\n{HANDLERS}",
        scene.kafka.address(),
        schema.url(),
    );
    std::fs::write(&path, text).expect("a folder takes files");
    path
}
