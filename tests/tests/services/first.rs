//! The main job: events from a real topic, exactly once and in order, into a real database.

use inbox_consumer::{Ended, Routes};
use tests::{Counter, SOON, Stage, counted, eventually};

#[tokio::test]
async fn events_become_effects_once_and_in_order() {
    let stage = Stage::set("first", 3).await;
    for aggregate in ["a", "b", "c", "d"] {
        stage.count(aggregate, 1, 50).await;
    }
    stage.send(&[counted("a", 1), counted("b", 50)]).await;
    let running = stage.start(Routes::default().on("Counted", Counter)).await;
    eventually(SOON, "all effects", async || stage.effects().await == 200).await;
    assert_eq!(running.stop().await, Ended::Shutdown);
    for aggregate in ["a", "b", "c", "d"] {
        assert_eq!(stage.of(aggregate).await, (1..=50).collect::<Vec<i64>>());
    }
    let ends: i64 =
        stage.schema.number("SELECT sum(watermark)::bigint FROM inbox_partitions").await;
    let committed: i64 = stage.topic.committed(stage.config.group()).await.iter().flatten().sum();
    assert_eq!((ends, committed), (202, 202), "a clean shutdown leaves nothing to read again");
}
