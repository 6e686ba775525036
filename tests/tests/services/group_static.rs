//! Static members whose topics change from one start to the next: the broker gives them what they had.

use inbox_consumer::{Ended, Routes, config::Config};
use sqlx::Postgres;
use tests::{Counter, Producer, Record, Running, SOON, Stage, Topic, counted, eventually};

use super::runtime_support::on;

fn routes() -> Routes<Postgres> {
    Routes::default().on("Counted", Counter)
}

/// The configuration of a member of this name that consumes these topics.
fn member(stage: &Stage, name: &str, topics: &[&Topic]) -> Config {
    let mut config = stage.config.clone();
    config.consumer.instance_id = Some(name.to_owned());
    config.kafka.topics = topics.iter().map(|topic| topic.name().to_owned()).collect();
    config
}

async fn start(stage: &mut Stage, name: &str, topics: &[&Topic]) -> Running {
    let config = member(stage, name, topics);
    let before = std::mem::replace(&mut stage.config, config);
    let running = stage.start(routes()).await;
    stage.config = before;
    running
}

async fn another(stage: &Stage, partitions: i32) -> Topic {
    Topic::create(stage.topic.bootstrap(), "another", partitions, &[]).await
}

async fn send(topic: &Topic, records: &[Record]) {
    Producer::new(topic.bootstrap()).send(topic.name(), records).await;
}

/// A deploy names another topic: it is consumed, and the first one is not any more.
#[tokio::test]
async fn a_static_member_consumes_what_it_is_told_now() {
    let mut stage = Stage::set("static", 1).await;
    let old = stage.topic.clone();
    let new = another(&stage, 1).await;
    let running = start(&mut stage, "one", &[&old]).await;
    stage.count("old", 1, 2).await;
    eventually(SOON, "the old topic", async || stage.of("old").await == [1, 2]).await;
    assert_eq!(running.stop().await, Ended::Shutdown);

    send(&new, &[counted("new", 1)]).await;
    let running = start(&mut stage, "one", &[&new]).await;
    stage.count("late", 1, 2).await;
    eventually(SOON, "the new topic", async || stage.of("new").await == [1]).await;
    send(&new, &[counted("new", 2)]).await;
    eventually(SOON, "once more", async || stage.of("new").await == [1, 2]).await;
    eventually(SOON, "ready", async || running.readings.readiness().ready).await;
    assert_eq!(running.stop().await, Ended::Shutdown);
    assert_eq!(stage.of("late").await, [0_i64; 0], "the old topic is not consumed any more");
}

/// The same for two of them, one after the other, that get a topic more.
#[tokio::test]
async fn static_members_that_are_restarted_one_by_one_get_an_added_topic() {
    let mut stage = Stage::set("static", 2).await;
    let old = stage.topic.clone();
    let new = another(&stage, 2).await;
    let one = start(&mut stage, "one", &[&old]).await;
    let two = start(&mut stage, "two", &[&old]).await;
    let owners = "SELECT count(DISTINCT owner_instance) FROM inbox_partitions";
    eventually(SOON, "each has one", async || stage.schema.number(owners).await == 2).await;
    send(&new, &on(0, "new-0", 1, 2)).await;
    send(&new, &on(1, "new-1", 1, 2)).await;

    assert_eq!(one.stop().await, Ended::Shutdown);
    let one = start(&mut stage, "one", &[&old, &new]).await;
    assert_eq!(two.stop().await, Ended::Shutdown);
    let two = start(&mut stage, "two", &[&old, &new]).await;
    eventually(SOON, "the added topic", async || {
        stage.of("new-0").await == [1, 2] && stage.of("new-1").await == [1, 2]
    })
    .await;
    stage.send(&on(0, "old-0", 1, 2)).await;
    stage.send(&on(1, "old-1", 1, 2)).await;
    eventually(SOON, "the old topic", async || {
        stage.of("old-0").await == [1, 2] && stage.of("old-1").await == [1, 2]
    })
    .await;
    for running in [&one, &two] {
        eventually(SOON, "ready", async || running.readings.readiness().ready).await;
    }
    assert_eq!(one.stop().await, Ended::Shutdown);
    assert_eq!(two.stop().await, Ended::Shutdown);
}
