//! An event id that a producer of another topic has taken before the event comes.

use inbox_consumer::Routes;
use outbox_core::{EventId, IdScope};
use tests::{Counter, Producer, Record, SOON, Services, Stage, eventually};

/// As `Counter` reads it, of the aggregate 7.
fn counted(id: &str, n: i64) -> Record {
    Record::event(id, "Counted", "7", &format!("{{\"n\":{n}}}"))
}

/// What a hostile producer of another topic knows of the events of `orders`: a UUID, an id that is none, and where a
/// record will be.
fn claims(orders: &str) -> Vec<Record> {
    let own = EventId::from_uuid_text(UUID).unwrap();
    let ids = [own, EventId::foreign(orders, "order-1").unwrap()];
    ids.iter().map(|id| counted(&id.to_string(), 13)).collect()
}

const UUID: &str = "0190a5c8-7c2e-7d64-9b6e-0c9f5d9b2a11";

#[tokio::test]
async fn an_id_of_another_topic_is_claimed_only_where_topics_share_ids() {
    for (scope, effects, mismatches) in [(IdScope::Consumer, 0, 2), (IdScope::Topic, 2, 0)] {
        let mut stage = Stage::set("claimed", 1).await;
        let services = Services::from_env();
        let hostile = services.topic("hostile", 1).await;
        stage.config.kafka.topics.push(hostile.name().to_owned());
        stage.config.events.id_scope = scope;
        let running = stage.start(Routes::default().on("Counted", Counter)).await;
        let claims = claims(stage.topic.name());
        Producer::new(&services.kafka).send(hostile.name(), &claims).await;
        eventually(SOON, "the claims are handled", async || stage.effects().await == 2).await;
        stage.send(&[counted(UUID, 1), counted("order-1", 2)]).await;
        eventually(SOON, "the events are settled", async || {
            stage.parked("mismatch").await == mismatches && stage.effects().await == 2 + effects
        })
        .await;
        // What one topic brings twice is a copy whatever the scope.
        stage.send(&[counted(UUID, 1), counted("order-1", 2)]).await;
        eventually(SOON, "the copies are known", async || {
            mismatches > 0 || running.counters.read().duplicates == 2
        })
        .await;
        assert_eq!(stage.effects().await, 2 + effects, "{scope:?}");
        running.stop().await;
    }
}
