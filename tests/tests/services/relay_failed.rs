//! The relay: rows that cannot be sent (F11), retention, SQLite, and the commands on real services.

use std::time::Duration;

use inbox_consumer::testing::broker::{Failure, MockBroker, Request};
use outbox_core::{Aggregate, OutboxEvent};
use outbox_relay::{BuildError, Ended, Relay, config::Config};
use serde_json::Value;
use sqlx::{ConnectOptions as _, Connection as _};
use tests::{Outbox, RunningRelay, SOON, Services, arrivals, counted_event, eventually, firsts};

use super::{commands::ran, relay_order::in_order};
use crate::programs::RELAY;

/// Waits until this many rows are parked for a reason of their own, those behind them aside.
async fn are_parked(outbox: &Outbox, count: i64) {
    outbox.has_parked("state <> 'behind'", count).await;
}

/// A sentence that no text of the database can have: the row is parked nevertheless, and nothing is sent twice for it.
#[tokio::test]
async fn an_error_that_cannot_be_written_is_escaped() {
    let outbox = Outbox::set("nul", 1).await;
    outbox.append("good", 1, 1).await;
    let bad = r#"INSERT INTO outbox_events (event_id, event_type, aggregate_type, aggregate_id, headers_checked, headers)
        VALUES (gen_random_uuid(), 'Counted', 'Account', 'bad', false, '[["a\u0000b",{"base64":"!"}]]')"#;
    outbox.schema.run(bad).await;
    outbox.append("good", 2, 3).await;
    let running = outbox.start().await;
    are_parked(&outbox, 1).await;
    outbox.drained(SOON).await;
    assert_eq!(running.stop().await, Ended::Shutdown);
    let error = outbox.parked_error("bad").await;
    assert!(error.contains(r"`a\u{0}b` is not base64"), "{error}");
    let found = outbox.arrivals().await;
    assert_eq!((firsts(&found)["good"].as_slice(), found.len()), (&[1, 2, 3][..], 3));
}

fn large(aggregate: &str, bytes: usize) -> OutboxEvent {
    let aggregate = Aggregate::new("Account", aggregate).unwrap();
    let payload = serde_json::json!({ "n": 1, "text": "x".repeat(bytes) });
    OutboxEvent::new("Counted", &aggregate, &payload).unwrap()
}

/// F11: too large for the client, too large for the topic, a topic that is missing: parked with a
/// sentence; what follows in the aggregate waits, all others go on; a person gives them up, or the topic comes.
#[tokio::test]
async fn rows_that_cannot_be_sent_wait_for_a_person_and_hold_up_nobody() {
    let services = Services::from_env();
    let settings = [("max.message.bytes", "20000")];
    let topic = tests::Topic::create(&services.kafka, "poison", 1, &settings).await;
    let mut outbox = Outbox::with(topic, services.schema().await).await;
    outbox.config.kafka.message_bytes_max = 50_000;
    let missing = tests::unique("missing");
    outbox.append("good", 1, 3).await;
    outbox.append_all(&[large("client", 60_000), counted_event("client", 2)]).await;
    outbox.append_all(&[large("broker", 30_000), counted_event("broker", 2)]).await;
    let lost = counted_event("lost", 1).with_topic(missing.as_str()).unwrap();
    outbox.append_all(&[lost, counted_event("lost", 2)]).await;
    outbox.append("good", 4, 6).await;
    let running = outbox.start().await;
    are_parked(&outbox, 3).await;
    eventually(SOON, "the others go on", async || {
        firsts(&outbox.arrivals().await).get("good").is_some_and(|numbers| numbers.len() == 6)
    })
    .await;
    in_order(&outbox.arrivals().await, &["good"], 6);
    outbox.has_parked("state = 'behind'", 3).await;
    assert!(outbox.parked_error("client").await.contains("`kafka.message_bytes_max`"));
    assert!(outbox.parked_error("broker").await.contains("`max.message.bytes`"));
    assert_eq!(
        outbox.parked(&format!("destination = 'kafka:{missing}' AND state = 'waiting'")).await,
        1
    );
    let sentence = outbox.parked_error("lost").await;
    assert!(
        sentence.contains(&missing) && sentence.contains("does not exist; create it"),
        "{sentence}"
    );
    assert_eq!(running.counters.read().failed, 2, "a row that waits for its topic needs no person");

    let (code, out, err) = ran(outbox.command(&RELAY), "status --json").await;
    assert_eq!(code, Some(0), "{err}");
    let status: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((status["failed"].as_i64(), status["held"].as_i64()), (Some(2), Some(3)), "{out}");
    assert_eq!(status["waiting_for_topic"], 1, "{out}");
    assert_eq!(status["missing_topics"], serde_json::json!([missing]), "{out}");
    let (_, out, _) = ran(outbox.command(&RELAY), "failed list").await;
    assert!(out.contains("Account/lost") && out.contains("BLOCKED"), "{out}");

    // The topic comes: the row goes by itself, and what waited behind it.
    let admin: rdkafka::admin::AdminClient<_> =
        rdkafka::ClientConfig::new().set("bootstrap.servers", &services.kafka).create().unwrap();
    let replication = rdkafka::admin::TopicReplication::Fixed(1);
    let topic = rdkafka::admin::NewTopic::new(&missing, 1, replication);
    admin.create_topics([&topic], &rdkafka::admin::AdminOptions::new()).await.unwrap();
    eventually(SOON, "it is sent", async || {
        arrivals(&services.kafka, &missing, 1).await.len() == 1
            && firsts(&outbox.arrivals().await).get("lost").is_some_and(|all| *all == [2])
    })
    .await;

    let discard = "failed discard --error max.message.bytes --by ada";
    let (code, out, err) = ran(outbox.command(&RELAY), discard).await;
    assert_eq!((code, out.starts_with("2 rows")), (Some(0), true), "{out}{err}");
    outbox.drained(SOON).await;
    let firsts = firsts(&outbox.arrivals().await);
    assert_eq!((&firsts["client"], &firsts["broker"]), (&vec![2], &vec![2]));
    let by = "SELECT count(*) FROM outbox_events WHERE discarded_by = 'ada'";
    assert_eq!(outbox.schema.number(by).await, 2);
    running.stop().await;
}

/// F11: a topic that may not be written to. No person is needed once it may.
#[tokio::test]
async fn rows_for_a_forbidden_topic_wait_until_it_is_allowed() {
    let mut outbox = Outbox::set("forbidden", 1).await;
    let broker = MockBroker::start(&[("mocked", 1)]).unwrap();
    outbox.config.kafka.bootstrap = broker.bootstrap();
    outbox.config.kafka.topic = "mocked".into();
    let running = outbox.start().await;
    outbox.append("a", 1, 1).await;
    outbox.drained(SOON).await;
    broker.fail_next(Request::Produce, &[Failure::TopicForbidden]).unwrap();
    outbox.append("a", 2, 2).await;
    are_parked(&outbox, 1).await;
    let sentence = outbox.parked_error("a").await;
    assert!(sentence.contains("WRITE on the topic mocked: grant WRITE on it"), "{sentence}");
    outbox.append("b", 1, 1).await;
    outbox.drained(SOON).await;
    running.stop().await;
}

/// A row of foreign SQL that is no event, from before the table refused it, and one whose template gives no topic.
#[tokio::test]
async fn a_row_that_is_no_event_is_parked() {
    let mut outbox = Outbox::set("strange", 1).await;
    outbox.config.kafka.topic = "{aggregate_type}".into();
    outbox
        .schema
        .run(
            "INSERT INTO outbox_events (event_id, event_type, aggregate_type, aggregate_id, headers_checked, headers)
             VALUES (gen_random_uuid(), 'A', 'x', 'one', false, 'no json'),
                    (gen_random_uuid(), 'A', 'Purchase Order', 'two', true, '[]')",
        )
        .await;
    let running = outbox.start().await;
    are_parked(&outbox, 2).await;
    assert!(outbox.parked_error("one").await.starts_with("the row is not an event"));
    assert!(outbox.parked_error("two").await.contains("not a valid topic"));
    running.stop().await;
}

/// Sent rows go after their time, in chunks; what waits or failed stays.
#[tokio::test]
async fn sent_rows_are_removed_in_chunks_after_their_time() {
    let mut outbox = Outbox::set("retention", 1).await;
    outbox.config.retention.sent = Duration::from_millis(500);
    outbox.config.retention.prune_interval = Duration::from_secs(1);
    outbox.config.retention.chunk = 7;
    let events: Vec<OutboxEvent> = (1..=40).map(|n| counted_event("a", n)).collect();
    outbox.append_all(&events).await;
    outbox.append_all(&[large("b", 10), counted_event("b", 2)]).await;
    let park = "UPDATE outbox_events SET parked_at = now() WHERE seq = 41;
        INSERT INTO outbox_parked (seq, aggregate_type, aggregate_id, state, destination, error)
        SELECT seq, aggregate_type, aggregate_id, 'parked', 'kafka', 'x' FROM outbox_events WHERE seq = 41";
    outbox.schema.run(park).await;
    let running = outbox.start().await;
    let left = "SELECT count(*) FROM outbox_events";
    eventually(SOON, "sent rows go", async || outbox.schema.number(left).await == 2).await;
    eventually(SOON, "all counted", async || running.counters.read().pruned == 40).await;
    assert_eq!(outbox.waiting().await, 1);
    running.stop().await;
}

/// The whole of it on SQLite.
#[tokio::test]
async fn an_outbox_in_sqlite_is_shipped() {
    let services = Services::from_env();
    let topic = services.topic("sqlite", 2).await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("shop.db");
    let mut config = Config::new(&services.kafka, format!("sqlite:{}", file.display()));
    topic.name().clone_into(&mut config.kafka.topic);
    config.wake.poll_interval = Duration::from_millis(50);
    config.retention.sent = Duration::from_millis(100);
    config.retention.prune_interval = Duration::from_secs(1);
    assert!(matches!(Relay::builder(config.clone()).build().await, Err(BuildError::Schema(_))));
    outbox_relay::migrate(&config).await.unwrap();
    let options = sqlx::sqlite::SqliteConnectOptions::new().filename(&file);
    let mut conn = options.connect().await.unwrap();
    let running = RunningRelay::start(config.clone()).await;
    for n in 1..=20 {
        let mut tx = conn.begin_with("BEGIN IMMEDIATE").await.unwrap();
        for aggregate in ["a", "b"] {
            outbox_core::append(&mut *tx, &counted_event(aggregate, n)).await.unwrap();
        }
        tx.commit().await.unwrap();
    }
    let poison = counted_event("c", 1).with_topic(tests::unique("missing")).unwrap();
    outbox_core::append(&mut conn, &poison).await.unwrap();
    let left = "SELECT count(*) FROM outbox_events";
    eventually(SOON, "all but the failed row is sent and removed", async || {
        sqlx::query_scalar::<_, i64>(left).fetch_one(&mut conn).await.unwrap() == 1
    })
    .await;
    let found = arrivals(&services.kafka, topic.name(), 2).await;
    in_order(&found, &["a", "b"], 20);
    assert_eq!(running.stop().await, Ended::Shutdown);
}

/// Bad input on real services: each ends with one sentence that says what to do.
#[tokio::test]
async fn a_relay_that_cannot_work_says_why() {
    let services = Services::from_env();
    let outbox = Outbox::set("bad", 1).await;
    let fresh = services.schema().await;
    let mut command = outbox.command(&RELAY);
    command.env("OUTBOX_DATABASE__URL", fresh.url()).env("OUTBOX_LOG__FORMAT", "human");
    let (code, _, err) = ran(command, "run").await;
    let errors = err.lines().filter(|line| line.starts_with("error: ")).count();
    assert_eq!((code, errors), (Some(3), 1), "{err}");
    assert!(err.contains("has no outbox tables; run the `migrate` command"), "{err}");

    let mut command = outbox.command(&RELAY);
    command.env("OUTBOX_KAFKA__BOOTSTRAP", "127.0.0.1:1");
    let (code, out, _) = ran(command, "check").await;
    assert_eq!(code, Some(5), "{out}");
    assert!(out.contains("error  kafka  Kafka at 127.0.0.1:1 does not answer"), "{out}");

    let missing = tests::unique("missing");
    let mut command = outbox.command(&RELAY);
    command.env("OUTBOX_KAFKA__TOPIC", &missing);
    let (code, out, _) = ran(command, "check").await;
    assert_eq!(code, Some(0), "{out}");
    assert!(out.contains(&format!("warning  kafka  topic {missing} does not exist")), "{out}");

    let (code, out, err) = ran(outbox.command(&RELAY), "check").await;
    assert_eq!((code, out.trim()), (Some(0), "OK to start"), "{err}");

    let mut command = outbox.command(&RELAY);
    let wrong = services.postgres.replace("postgres@", "nobody:c4n4ry@");
    command.env("OUTBOX_DATABASE__URL", wrong);
    let (code, _, err) = ran(command, "status").await;
    assert_eq!(code, Some(3), "{err}");
    assert!(err.contains("nobody") && !err.contains("c4n4ry"), "{err}");
}
