//! The relay: what waits behind a parked row, what waits for a topic, and where reads begin.

use std::time::Duration;

use inbox_consumer::testing::broker::MockBroker;
use outbox_core::{Aggregate, OutboxEvent};
use rdkafka::{
    ClientConfig,
    admin::{AdminClient, AdminOptions, NewTopic, TopicReplication},
};
use sqlx::{Connection as _, PgConnection};
use tests::{Outbox, SOON, Services, arrivals, counted_event, eventually, firsts};

use super::{commands::ran, relay_order::in_order};
use crate::programs::RELAY;

const BEHIND: &str = "SELECT count(*) FROM outbox_parked WHERE state = 'behind'";
/// What a read of the feed finds.
const READ: &str = "SELECT count(*) FROM outbox_events WHERE sent_at IS NULL AND parked_at IS NULL";

async fn is(outbox: &Outbox, what: &str, sql: &str, wanted: i64) {
    eventually(SOON, what, async || outbox.schema.number(sql).await == wanted).await;
}

/// What waits behind a parked row is out of the way of every read; when the row goes, it follows in its order, up to the
/// next one that is parked; when that is discarded, the rest.
#[tokio::test]
async fn what_waits_behind_a_parked_row_is_out_of_the_way_and_follows_in_its_order() {
    let mut outbox = Outbox::set("held", 2).await;
    outbox.config.batch.events_max = 10;
    outbox.append("a", 1, 1).await;
    outbox
        .schema
        .run("UPDATE outbox_events SET headers = 'no json', headers_checked = false")
        .await;
    outbox.append("a", 2, 60).await;
    outbox
        .schema
        .run("UPDATE outbox_events SET headers = 'no json', headers_checked = false WHERE seq = 31")
        .await;
    outbox.append("b", 1, 20).await;
    let running = outbox.start().await;
    is(&outbox, "all behind the first wait", BEHIND, 59).await;
    is(&outbox, "no read finds them", READ, 0).await;
    outbox.append("a", 61, 62).await;
    is(&outbox, "what comes later waits, too", BEHIND, 61).await;
    in_order(&outbox.arrived(20).await, &["b"], 20);

    outbox.schema.run("UPDATE outbox_events SET headers = '[]' WHERE seq = 1").await;
    let (code, out, err) = ran(outbox.command(&RELAY), "failed retry --seq 1").await;
    assert_eq!((code, out.starts_with("1 row ")), (Some(0), true), "{out}{err}");
    is(&outbox, "what is behind the second waits", BEHIND, 31).await;
    let wanted: Vec<i64> = (1..=30).collect();
    assert_eq!(firsts(&outbox.arrived(50).await)["a"], wanted);

    let (code, out, err) = ran(outbox.command(&RELAY), "failed discard --all").await;
    assert_eq!((code, out.starts_with("1 row ")), (Some(0), true), "{out}{err}");
    outbox.drained(SOON).await;
    running.stop().await;
    let found = firsts(&outbox.arrivals().await);
    let wanted: Vec<i64> = (1..=30).chain(32..=62).collect();
    assert_eq!(found["a"], wanted);
    assert_eq!(outbox.parked("true").await, 0, "no row is left in the table of parked ones");
}

/// What waits behind a row that was changed by hand goes at the latest in the next turn.
#[tokio::test]
async fn what_waits_behind_a_row_that_was_changed_by_hand_goes() {
    let outbox = Outbox::set("orphans", 1).await;
    outbox.append("a", 1, 1).await;
    outbox
        .schema
        .run("UPDATE outbox_events SET headers = 'no json', headers_checked = false")
        .await;
    outbox.append("a", 2, 9).await;
    let running = outbox.start().await;
    is(&outbox, "all behind the first wait", BEHIND, 8).await;
    running.stop().await;
    let mend = "UPDATE outbox_events SET headers = '[]', parked_at = NULL WHERE seq = 1;
        DELETE FROM outbox_parked WHERE seq = 1";
    outbox.schema.run(mend).await;
    let running = outbox.start().await;
    outbox.drained(SOON).await;
    running.stop().await;
    in_order(&outbox.arrivals().await, &["a"], 9);
}

async fn create(kafka: &str, topics: &[String]) {
    let admin: AdminClient<_> =
        ClientConfig::new().set("bootstrap.servers", kafka).create().unwrap();
    let new: Vec<NewTopic<'_>> =
        topics.iter().map(|name| NewTopic::new(name, 1, TopicReplication::Fixed(1))).collect();
    admin.create_topics(&new, &AdminOptions::new()).await.unwrap();
}

/// Rows of topics that are missing delay no others, and go by themselves when the topics are there.
#[tokio::test]
async fn rows_of_a_missing_topic_go_when_it_is_there() {
    let services = Services::from_env();
    let outbox = Outbox::set("awaited", 1).await;
    let topics: Vec<String> = (0..10).map(|_| tests::unique("awaited")).collect();
    for topic in &topics {
        let events: Vec<OutboxEvent> =
            (1..=3).map(|n| counted_event(topic, n).with_topic(topic.as_str()).unwrap()).collect();
        outbox.append_all(&events).await;
    }
    let running = outbox.start().await;
    outbox.append("good", 1, 20).await;
    outbox.arrived(20).await;
    let waits = "SELECT count(DISTINCT destination) FROM outbox_parked
        WHERE state = 'waiting' AND destination LIKE 'kafka:awaited%'";
    is(&outbox, "all of them wait", waits, 10).await;
    let (_, out, err) = ran(outbox.command(&RELAY), "status").await;
    assert!(out.contains("missing topic     10 (awaited"), "{out}{err}");
    create(&services.kafka, &topics).await;
    outbox.drained(SOON).await;
    running.stop().await;
    for topic in &topics {
        in_order(&arrivals(&services.kafka, topic, 1).await, &[topic.as_str()], 3);
    }
    in_order(&outbox.arrivals().await, &["good"], 20);
}

/// Rows that were sent stay in the index while any old transaction is open. Looks begin behind them then, but not
/// before everybody has ended who may still append rows with smaller numbers.
#[tokio::test]
async fn looks_that_begin_higher_pass_no_open_transaction_over() {
    let outbox = Outbox::set("floor", 1).await;
    let mut elsewhere = PgConnection::connect(&outbox.schema.url()).await.unwrap();
    let mut old = elsewhere.begin_with("BEGIN ISOLATION LEVEL REPEATABLE READ").await.unwrap();
    sqlx::query("SELECT 1").execute(&mut *old).await.unwrap();
    let fill = "INSERT INTO outbox_events (event_id, event_type, aggregate_type, aggregate_id)
        SELECT gen_random_uuid(), 'T', 'A', n::text FROM generate_series(1, 300000) n;
        UPDATE outbox_events SET sent_at = now()";
    outbox.schema.run(fill).await;
    let mut slow = PgConnection::connect(&outbox.schema.url()).await.unwrap();
    let mut open = slow.begin().await.unwrap();
    outbox_core::append(&mut *open, &counted_event("slow", 1)).await.unwrap();
    let running = outbox.start().await;
    for n in 1..=20 {
        outbox.append("fast", n, n).await;
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    outbox.drained(SOON).await;
    open.commit().await.unwrap();
    outbox.append("slow", 2, 2).await;
    outbox.append("fast", 21, 30).await;
    let found = outbox.arrived(32).await;
    assert_eq!(firsts(&found)["slow"], [1, 2]);
    let wanted: Vec<i64> = (1..=30).collect();
    assert_eq!(firsts(&found)["fast"], wanted);
    old.rollback().await.unwrap();
    running.stop().await;
}

/// Without transactions a row of another topic is not sent while one before it of its aggregate is on its way: it
/// would be marked, and the first one parked.
#[tokio::test]
async fn without_fencing_an_aggregate_goes_to_one_topic_at_a_time() {
    let services = Services::from_env();
    let mut outbox = Outbox::set("turns", 1).await;
    outbox.config.kafka.fencing = false;
    let small = [("max.message.bytes", "20000")];
    let small = tests::Topic::create(&services.kafka, "small", 1, &small).await;
    let account = Aggregate::new("Account", "a").unwrap();
    let payload = serde_json::json!({ "n": 1, "text": "x".repeat(30_000) });
    let large = OutboxEvent::new("Counted", &account, &payload).unwrap();
    let large = large.with_topic(small.name()).unwrap();
    outbox.append_all(&[large, counted_event("a", 2), counted_event("b", 1)]).await;
    let running = outbox.start().await;
    is(&outbox, "the second waits behind the first", BEHIND, 1).await;
    let sent =
        "SELECT count(*) FROM outbox_events WHERE aggregate_id = 'a' AND sent_at IS NOT NULL";
    assert_eq!(outbox.schema.number(sent).await, 0);
    let (_, _, err) = ran(outbox.command(&RELAY), "failed discard --all --by ada").await;
    outbox.drained(SOON).await;
    running.stop().await;
    let found = firsts(&outbox.arrivals().await);
    assert_eq!((&found["a"], &found["b"]), (&vec![2], &vec![1]), "{err}");
}

/// Rows of a partition that no broker leads wait under its name, enter no transaction, and go once it is led.
#[tokio::test]
async fn a_partition_without_a_leader_holds_up_its_own_rows_alone() {
    let names = ["a", "b", "c", "d", "e", "f", "g", "h"];
    for fencing in [true, false] {
        let mut outbox = Outbox::set("leaderless", 1).await;
        let broker = MockBroker::start(&[("mocked", 2)]).unwrap();
        outbox.config.kafka.bootstrap = broker.bootstrap();
        outbox.config.kafka.topic = "mocked".into();
        outbox.config.kafka.fencing = fencing;
        broker.lead("mocked", 0, None).unwrap();
        for name in names {
            outbox.append(name, 1, 3).await;
        }
        let running = outbox.start().await;
        let first = "state = 'waiting' AND destination = 'kafka:mocked/0'";
        eventually(SOON, "each row is sent or waits", async || {
            let rest = outbox.schema.number(READ).await;
            rest == 0 && outbox.parked(first).await > 0
        })
        .await;
        let (waiting, parked) = (outbox.parked(first).await, outbox.parked("true").await);
        assert_eq!(parked, waiting * 3, "what follows is behind");
        assert!(waiting < 8, "the other partition takes its rows");
        let error = outbox.parked("error LIKE 'partition 0 of topic mocked has no leader%'").await;
        assert_eq!(error, waiting);
        broker.lead("mocked", 0, Some(1)).unwrap();
        outbox.drained(SOON).await;
        running.stop().await;
        in_order(&arrivals(&broker.bootstrap(), "mocked", 2).await, &names, 3);
    }
}
