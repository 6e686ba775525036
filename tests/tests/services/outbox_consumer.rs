//! Handlers that append: their events commit with the inbox row, or not at all.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use inbox_consumer::{
    BatchHandler, BuildError, Consumer, Event, Handler, HandlerError, HandlerResult, Routes, Tx,
};
use outbox_core::{EventId, OutboxEvent};
use sqlx::Postgres;
use tests::{Count, SOON, Services, Stage, counted, effect, eventually};

use super::commands::{ran, worker};

const TRACEPARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

/// Answers each event with one of its own; fails the first time, after it has appended.
struct Answers(Arc<AtomicU32>);

impl Handler<Postgres> for Answers {
    type Event = Count;

    async fn handle(&self, event: &Event<Count>, tx: &mut Tx<'_, Postgres>) -> HandlerResult {
        effect(event, tx).await?;
        tx.append(&OutboxEvent::new("Answered", event.aggregate(), &event.payload.n)?).await?;
        if self.0.fetch_add(1, Relaxed) == 0 {
            return Err(HandlerError::retry("the first attempt fails"));
        }
        Ok(())
    }
}

async fn outbox(stage: &Stage, what: &str) -> i64 {
    stage.schema.number(&format!("SELECT count(*) FROM outbox_events WHERE {what}")).await
}

#[tokio::test]
async fn appended_events_commit_with_their_handler_once_and_say_what_they_follow_from() {
    let stage = Stage::set("outbox", 1).await;
    let first = counted("a", 1)
        .header("correlation_id", "checkout-7")
        .header("traceparent", TRACEPARENT)
        .header("tracestate", "a=1");
    let copy = first.clone();
    stage.send(&[first, counted("a", 2), copy, counted("b", 1)]).await;
    let running = stage.start(Routes::default().on("Counted", Answers(Arc::default()))).await;
    eventually(SOON, "three effects", async || stage.effects().await == 3).await;
    running.stop().await;
    assert_eq!(outbox(&stage, "true").await, 3, "one for each event, none of the failed attempt");
    let rows: Vec<(String, String)> = sqlx::query_as(
        "SELECT aggregate_id || convert_from(payload, 'UTF8'), headers FROM outbox_events ORDER BY seq",
    )
    .fetch_all(stage.schema.pool())
    .await
    .unwrap();
    let headers = |of: &str| rows.iter().find(|row| row.0 == of).unwrap().1.clone();
    let cause = EventId::foreign(stage.topic.name(), "a-1").unwrap();
    assert_eq!(
        headers("a1"),
        format!(
            r#"[["correlation_id","checkout-7"],["causation_id","{cause}"],["traceparent","{TRACEPARENT}"],["tracestate","a=1"]]"#
        )
    );
    let cause = EventId::foreign(stage.topic.name(), "a-2").unwrap();
    assert_eq!(
        headers("a2"),
        format!(r#"[["correlation_id","{cause}"],["causation_id","{cause}"]]"#)
    );
}

/// Appends one event for each of its run, and says of the last what it follows from.
struct AnswersAll;

impl BatchHandler<Postgres> for AnswersAll {
    type Event = Count;

    async fn handle(&self, events: &[Event<Count>], tx: &mut Tx<'_, Postgres>) -> HandlerResult {
        let mut answers = Vec::new();
        for event in events {
            answers.push(OutboxEvent::new("Answered", event.aggregate(), &event.payload.n)?);
        }
        if let (Some(answer), Some(event)) = (answers.pop(), events.last()) {
            answers.push(answer.caused_by(event));
        }
        tx.append_all(&answers).await?;
        for event in events {
            effect(event, tx).await?;
        }
        Ok(())
    }
}

#[tokio::test]
async fn a_batch_handler_appends_all_at_once_and_says_itself_what_caused_what() {
    let stage = Stage::set("outbox", 1).await;
    stage.count("a", 1, 100).await;
    let running = stage.start(Routes::default().on_batch("Counted", AnswersAll)).await;
    eventually(SOON, "all effects", async || stage.effects().await == 100).await;
    running.stop().await;
    assert_eq!(outbox(&stage, "true").await, 100);
    let cause = EventId::foreign(stage.topic.name(), "a-100").unwrap();
    assert_eq!(outbox(&stage, &format!("headers LIKE '%\"causation_id\",\"{cause}\"%'")).await, 1);
    let order = "SELECT count(*) FROM (SELECT convert_from(payload, 'UTF8')::bigint AS n, \
         row_number() OVER (ORDER BY seq) AS place FROM outbox_events) q WHERE n <> place";
    assert_eq!(stage.schema.number(order).await, 0, "in the order of the events");
}

/// Appends an event that is too large, and pretends that all is well.
struct SwallowsTooLarge;

impl Handler<Postgres> for SwallowsTooLarge {
    type Event = Count;

    async fn handle(&self, event: &Event<Count>, tx: &mut Tx<'_, Postgres>) -> HandlerResult {
        effect(event, tx).await?;
        let large = OutboxEvent::new("Large", event.aggregate(), &"x".repeat(3000))?;
        let _ = tx.append(&large).await;
        Ok(())
    }
}

#[tokio::test]
async fn an_append_that_failed_and_was_swallowed_fails_its_event() {
    let mut stage = Stage::set("outbox", 1).await;
    stage.config.outbox.event_bytes_max = 2000;
    stage.config.retry.attempts_max = 2;
    stage.count("a", 1, 1).await;
    let running = stage.start(Routes::default().on("Counted", SwallowsTooLarge)).await;
    eventually(SOON, "it is parked", async || stage.parked("").await == 1).await;
    running.stop().await;
    assert_eq!((stage.effects().await, outbox(&stage, "true").await), (0, 0));
    let record = "SELECT count(*) FROM inbox_parked WHERE record LIKE \
         '%the event Large of% is %more than the allowed 2000%'";
    assert_eq!(stage.schema.number(record).await, 1);
}

#[tokio::test]
async fn a_consumer_without_outbox_tables_does_not_start_and_migrate_and_check_know_them() {
    let stage = Stage::set("outbox", 1).await;
    stage
        .schema
        .run("DROP TABLE outbox_events, outbox_relays, outbox_parked, outbox_audit, outbox_schema_versions")
        .await;
    let routes = Routes::default().on("Counted", Answers(Arc::default()));
    let built = Consumer::builder(stage.config.clone(), routes).build().await;
    let error = built.map(drop).unwrap_err();
    assert!(matches!(error, BuildError::Schema(_)), "{error:?}");
    assert!(error.to_string().starts_with("the database has no outbox tables; run"), "{error}");

    let (code, out, err) = ran(worker(&stage), "check").await;
    assert_eq!(code, Some(5), "{err}");
    assert!(out.contains("no outbox tables"), "{out}");
    let (code, out, err) = ran(worker(&stage), "migrate").await;
    assert_eq!(code, Some(0), "{err}");
    assert!(
        out.contains("already at version")
            && out.contains("applied migrations 1, 2, 3, 4 of the outbox"),
        "{out}"
    );
    let (code, _, err) = ran(worker(&stage), "check").await;
    assert_eq!(code, Some(0), "{err}");
}

#[tokio::test]
async fn check_names_the_privilege_that_appending_lacks() {
    let services = Services::from_env();
    let stage = Stage::set("outbox", 1).await;
    let role = tests::unique("role").replace('-', "_");
    let schema = stage.schema.name();
    let tables = format!(
        "CREATE ROLE {role} LOGIN; GRANT USAGE ON SCHEMA {schema} TO {role};
         GRANT ALL ON ALL TABLES IN SCHEMA {schema} TO {role};
         REVOKE INSERT ON {schema}.outbox_events FROM {role}"
    );
    stage.schema.run(&tables).await;
    let address = services.postgres.split_once('@').unwrap().1;
    let url = stage.schema.url_at(&format!("postgres://{role}@{address}"));
    let with_role = || {
        let mut command = worker(&stage);
        command.env("INBOX_DATABASE__URL", &url);
        command
    };
    let (code, out, err) = ran(with_role(), "check").await;
    let mut letters = with_role();
    letters.env("INBOX_EVENTS__UNDECODABLE", "dead_letter");
    letters.env("INBOX_EVENTS__DEAD_LETTER_TOPIC", "dead");
    let (refused, why, _) = ran(letters, "check").await;
    stage.schema.run(&format!("DROP OWNED BY {role}; DROP ROLE {role}")).await;
    assert_eq!(refused, Some(5), "{why}");
    assert!(why.contains("dead letters (`events.dead_letter_topic`)"), "{why}");
    // Whether a handler appends is not known to anybody but itself.
    assert_eq!(code, Some(0), "{out}{err}");
    let told = out.contains(
        "the role may not append to the outbox, which is fine if no handler \
                             calls",
    );
    assert!(told && out.contains("--for appending-consumer"), "{out}");
}

/// Every table of a consumer that appends: a failover takes them all back at once.
const TABLES: [&str; 6] =
    ["inbox_partitions", "inbox_lanes", "inbox_events", "inbox_parked", "effects", "outbox_events"];

async fn saved(stage: &Stage) {
    for table in TABLES {
        stage.schema.run(&format!("CREATE TABLE saved_{table} AS TABLE {table}")).await;
    }
}

async fn restored(stage: &Stage) {
    for table in TABLES {
        let back = format!(
            "DELETE FROM {table}; INSERT INTO {table} OVERRIDING SYSTEM VALUE SELECT * FROM saved_{table}"
        );
        stage.schema.run(&back).await;
    }
}

async fn appended(stage: &Stage) -> Vec<(String, String)> {
    sqlx::query_as(
        "SELECT convert_from(payload, 'UTF8'), event_id::text FROM outbox_events ORDER BY 1",
    )
    .fetch_all(stage.schema.pool())
    .await
    .unwrap()
}

/// `AppendedIdsDerived` (finding 28): the database goes back to before an event was handled, as after a failover
/// that lost its commit; the handler runs again, and what it appends has the ids that it had. A consumer
/// downstream that has the first copies recognises the second ones.
#[tokio::test]
async fn what_is_appended_again_after_a_failover_has_the_same_ids() {
    let stage = Stage::set("outbox", 1).await;
    stage.count("a", 1, 1).await;
    let routes = || Routes::default().on("Counted", Answers(Arc::new(AtomicU32::new(1))));
    let running = stage.start(routes()).await;
    eventually(SOON, "one effect", async || stage.effects().await == 1).await;
    running.stop().await;
    saved(&stage).await;
    stage.count("a", 2, 5).await;
    let running = stage.start(routes()).await;
    eventually(SOON, "five effects", async || stage.effects().await == 5).await;
    running.stop().await;
    let before = appended(&stage).await;
    restored(&stage).await;
    assert_eq!(appended(&stage).await.len(), 1, "the database is back");
    let running = stage.start(routes()).await;
    eventually(SOON, "five effects again", async || stage.effects().await == 5).await;
    running.stop().await;
    assert_eq!(appended(&stage).await, before);

    let below = Stage::set("below", 1).await;
    for _ in 0..2 {
        let answer = |(n, id): &(String, String)| {
            tests::Record::event(id, "Counted", "a", &format!("{{\"n\":{n}}}"))
        };
        below.send(&before.iter().map(answer).collect::<Vec<_>>()).await;
    }
    let running = below.start(Routes::default().on("Counted", tests::Counter)).await;
    eventually(SOON, "the copies are seen", async || running.counters.read().duplicates == 5).await;
    running.stop().await;
    assert_eq!((below.effects().await, below.parked("").await), (5, 0));
}

/// Answers each event of its run twice, the second answer caused by the first; and says once what the run was.
struct Echoes;

impl BatchHandler<Postgres> for Echoes {
    type Event = Count;

    async fn handle(&self, events: &[Event<Count>], tx: &mut Tx<'_, Postgres>) -> HandlerResult {
        for event in events {
            let first = OutboxEvent::new("First", event.aggregate(), &event.payload.n)?;
            let second = OutboxEvent::new("Second", event.aggregate(), &-event.payload.n)?;
            let third = OutboxEvent::new("Third", event.aggregate(), "third")?.caused_by(&first);
            tx.append_all(&[first.caused_by(event), second.caused_by(event), third]).await?;
            effect(event, tx).await?;
        }
        let all = OutboxEvent::new("Run", events[0].aggregate(), &events.len())?;
        tx.append(&all).await?;
        Ok(())
    }
}

/// `AppendedIdsDerived`: in a batch an id follows from the event that it names as its cause, in whatever batch
/// that comes; what names none has an id of its own, and a cause within the handler is the one that was
/// appended.
#[tokio::test]
async fn in_a_batch_ids_follow_from_the_named_cause_however_it_is_cut() {
    let mut stage = Stage::set("outbox", 1).await;
    stage.config.batch.events_max = 7;
    saved(&stage).await;
    let routes = || Routes::default().on_batch("Counted", Echoes);
    stage.count("a", 1, 20).await;
    let ids = async |stage: &Stage, what: &str| -> Vec<String> {
        let all = format!(
            "SELECT event_type || convert_from(payload, 'UTF8') || ' ' || event_id FROM outbox_events \
             WHERE event_type {what} ORDER BY 1"
        );
        sqlx::query_scalar(sqlx::AssertSqlSafe(all)).fetch_all(stage.schema.pool()).await.unwrap()
    };
    let running = stage.start(routes()).await;
    eventually(SOON, "all effects", async || stage.effects().await == 20).await;
    running.stop().await;
    let (before, runs) =
        (ids(&stage, "IN ('First', 'Second')").await, ids(&stage, "= 'Run'").await);
    assert_eq!((before.len(), runs.len() >= 3), (40, true));
    let dangling = "SELECT count(*) FROM outbox_events t WHERE event_type = 'Third' AND NOT EXISTS \
         (SELECT FROM outbox_events f WHERE f.event_type = 'First' AND t.headers LIKE '%\"causation_id\",\"' || f.event_id || '\"%')";
    assert_eq!(stage.schema.number(dangling).await, 0, "a cause that was never appended");
    let saved_row = "SELECT count(*) FROM saved_inbox_partitions";
    assert_eq!(stage.schema.number(saved_row).await, 0, "from before the first start");
    restored(&stage).await;
    stage.schema.run("DELETE FROM inbox_consumers").await;
    stage.config.kafka.group = Some(tests::unique("again"));
    stage.config.batch.events_max = 3;
    let running = stage.start(routes()).await;
    eventually(SOON, "all effects again", async || stage.effects().await == 20).await;
    running.stop().await;
    assert_eq!(ids(&stage, "IN ('First', 'Second')").await, before);
    let again = ids(&stage, "= 'Run'").await;
    assert!(again.iter().all(|id| !runs.contains(id)), "{again:?}");
}
