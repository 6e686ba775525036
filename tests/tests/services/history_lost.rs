//! A database that is back to before the first start, and a group that is not (finding 26).

use inbox_consumer::{Ended, Routes};
use sqlx::Postgres;
use tests::{Counter, OwnPostgres, Running, SOON, Schema, Services, Stage, StopMode, eventually};

use super::parked_support::{acts, said, typed};
use super::runtime_support::{on, up_to, watermark};

fn routes() -> Routes<Postgres> {
    Routes::default().on("Counted", Counter)
}

fn standstill(running: &Running) -> Option<&'static str> {
    let partitions = running.readings.partitions();
    partitions.iter().find_map(|reading| reading.standstill.as_ref().map(|reason| reason.name))
}

async fn stop(running: Running) {
    assert_eq!(running.stop().await, Ended::Shutdown);
}

/// A consumer that has handled events `1..=last` and committed that.
async fn handled(stage: &Stage, last: i64) {
    stage.count("a", 1, last).await;
    let running = stage.start(routes()).await;
    let committed = async || stage.topic.committed(stage.config.group()).await == [Some(last)];
    eventually(SOON, "all is handled and committed", committed).await;
    stop(running).await;
    assert_eq!(stage.of("a").await, up_to(last));
}

/// The same topic and group on a database that has neither rows nor effects.
async fn forgotten(stage: &Stage, schema: Schema) -> Stage {
    let mut later = Stage::with(stage.topic.clone(), schema).await;
    later.config.consumer.name.clone_from(&stage.config.consumer.name);
    later.config.kafka.group = Some(stage.config.group().to_owned());
    later
}

async fn lost(running: &Running) {
    let lost = async || standstill(running) == Some("history_lost");
    eventually(SOON, "it is told", lost).await;
}

fn decision<'a>(stage: &'a Stage, to: &'a str) -> [&'a str; 9] {
    ["skip", "--topic", stage.topic.name(), "--partition", "0", "--to", to, "--why", "looked"]
}

/// A database from before the first start: nothing is handled until a person has said from where on, and
/// then what that person said.
#[tokio::test]
async fn a_database_without_rows_does_not_begin_at_its_own_offset() {
    for (to, expected) in
        [("start", 1..=21), ("committed", 21..=21), ("end", 22..=22), ("7", 8..=21)]
    {
        let stage = Stage::set("before", 1).await;
        handled(&stage, 20).await;
        stage.count("a", 21, 21).await;
        let later = forgotten(&stage, Services::from_env().schema().await).await;
        let running = later.start(routes()).await;
        lost(&running).await;
        assert_eq!(later.effects().await, 0, "something was handled before anybody decided");

        let decision = decision(&later, to);
        let (code, _, err) = typed(&later, &decision).await;
        assert_eq!(code, Some(6), "{err}");
        assert!(err.contains("has no row for") && err.contains("add --yes"), "{err}");
        let out = said(&later, &[&decision[..], &["--yes"]].concat()).await;
        assert!(out.contains("starts at"), "{out}");
        if to == "end" {
            eventually(SOON, "the row is there", async || watermark(&later, 0).await == 21).await;
            later.count("a", 22, 22).await;
        }
        let expected: Vec<i64> = expected.collect();
        let whole = async || later.of("a").await.len() >= expected.len();
        eventually(SOON, "it goes on without a restart", whole).await;
        stop(running).await;
        assert_eq!(later.of("a").await, expected, "{to}");
        assert_eq!(acts(&later, "skip").await, 1);
    }
}

/// A replica that did not have the rows yet is promoted: the twenty effects are gone, and no event behind
/// them is handled as if they were there.
#[tokio::test(flavor = "multi_thread")]
async fn a_replica_promoted_without_rows_stands_still() {
    let primary = OwnPostgres::start().await;
    let topic = Services::from_env().topic("promoted", 1).await;
    let stage = Stage::with(topic, primary.schema().await).await;
    let replica = primary.replica().await;
    replica.catch_up_with(&primary).await;
    replica.freeze().await;
    handled(&stage, 20).await;
    // Else the replica might come to fetch the rows after all while it is promoted.
    primary.stop(StopMode::Immediate);
    replica.promote().await;
    let mut config = stage.config.clone();
    config.database.url = stage.schema.url_at(&replica.url()).into();
    stage.count("a", 21, 21).await;
    let built = inbox_consumer::Consumer::builder(config, routes()).build().await;
    let running = Running::of(built.unwrap());
    lost(&running).await;
    stop(running).await;
}

/// A group that somebody else has brought to where it is (a loop written by hand, an operator) is where the
/// consumer begins.
#[tokio::test]
async fn a_strangers_offset_is_where_it_begins() {
    let stage = Stage::set("moving", 1).await;
    stage.count("a", 1, 10).await;
    stage.topic.commit(stage.config.group(), 0, 7).await;
    let running = stage.start(routes()).await;
    eventually(SOON, "the rest", async || stage.effects().await == 3).await;
    stop(running).await;
    assert_eq!(stage.of("a").await, [8, 9, 10]);
}

/// The consumer has other rows, and none of a topic that was added since the backup.
#[tokio::test]
async fn a_topic_added_since_the_backup_stands_still() {
    let old = Services::from_env().topic("old", 1).await;
    let mut both = Stage::set("added", 1).await;
    both.config.kafka.topics.push(old.name().to_owned());
    handled(&both, 4).await;
    let known = both.schema.number("SELECT count(*) FROM inbox_partitions").await;
    assert_eq!(known, 2, "the consumer knows both topics");
    let name = both.topic.name().to_owned();
    both.schema
        .run(&format!(
            "DELETE FROM inbox_lanes l USING inbox_partitions p
             WHERE p.partition_ref = l.partition_ref AND p.topic = '{name}';
             DELETE FROM inbox_events; DELETE FROM effects; DELETE FROM inbox_partitions WHERE topic = '{name}'"
        ))
        .await;
    both.count("a", 5, 6).await;
    let running = both.start(routes()).await;
    lost(&running).await;
    let decision = decision(&both, "start");
    said(&both, &[&decision[..], &["--yes"]].concat()).await;
    eventually(SOON, "all of it", async || both.of("a").await == up_to(6)).await;
    both.send(&on(0, "b", 1, 1)).await;
    eventually(SOON, "it goes on", async || both.of("b").await == [1]).await;
    stop(running).await;
}
