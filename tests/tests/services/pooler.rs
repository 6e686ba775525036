//! Behind a real `PgBouncer` in transaction mode, set up as the documents say: what matters works, without an
//! outage. And a session of one's own that keeps no statements.

use std::process::Command;

use inbox_consumer::{Ended, Event, Handler, HandlerResult, Routes, Tx, statement};
use outbox_core::{Aggregate, OutboxEvent};
use serde_json::json;
use sqlx::Postgres;
use tests::{
    Count, CountAll, Counter, Outbox, OwnPgBouncer, Record, SOON, Services, Stage, Worker, counted,
    effect, eventually,
    soak::checker::{self, Expected},
};

use super::{
    acting::{acting, told},
    commands::{ran, worker},
};
use crate::programs::RELAY;

/// A stage whose database is reached through a pooler.
async fn pooled(stem: &str, partitions: i32) -> (Stage, OwnPgBouncer) {
    let mut stage = Stage::set(stem, partitions).await;
    let pooler = OwnPgBouncer::start(&stage.schema).await;
    stage.config.database.url = pooler.url().into();
    stage.config.database.schema = Some(stage.schema.name().to_owned());
    stage.config.database.statement_cache = 0;
    (stage, pooler)
}

/// The worker's binary, through the pooler.
fn pooled_worker(stage: &Stage, pooler: &OwnPgBouncer) -> Command {
    let mut command = worker(stage);
    command
        .env("INBOX_DATABASE__URL", pooler.url())
        .env("INBOX_DATABASE__SCHEMA", stage.schema.name())
        .env("INBOX_DATABASE__STATEMENT_CACHE", "0");
    command
}

/// Sends `1..=each` of so many aggregates.
async fn fill(stage: &Stage, aggregates: i64, each: i64) {
    let all = (1..=each).flat_map(|n| (0..aggregates).map(move |a| counted(&a.to_string(), n)));
    stage.send(&all.collect::<Vec<Record>>()).await;
}

async fn is_right(stage: &Stage, aggregates: i64, each: i64) {
    let (all, what) = (aggregates * each, "all effects");
    eventually(SOON * 2, what, async || stage.effects().await >= all).await;
    let expected =
        Expected { aggregates: aggregates.unsigned_abs(), per_aggregate: each.unsigned_abs() };
    assert_eq!(checker::check(stage.schema.pool(), expected).await.unwrap(), []);
}

/// Statements that sessions of the server keep under names, as seen by whoever has them now.
async fn named(tx: &mut Tx<'_, Postgres>) -> Result<i64, sqlx::Error> {
    sqlx::query_scalar("SELECT count(*) FROM pg_prepared_statements").fetch_one(tx).await
}

/// Writes its effect, queues a second statement, appends an event, takes a savepoint, and looks for what is left
/// of earlier transactions on this connection of the server.
struct Everything;

impl Handler<Postgres> for Everything {
    type Event = Count;

    async fn handle(&self, event: &Event<Count>, tx: &mut Tx<'_, Postgres>) -> HandlerResult {
        assert_eq!(named(tx).await?, 0);
        effect(event, &mut *tx).await?;
        tx.queue(statement("INSERT INTO queued VALUES ($1)").bind(event.payload.n))?;
        let aggregate = Aggregate::new("Account", event.aggregate().aggregate_id())?;
        tx.append(&OutboxEvent::new("Counted", &aggregate, &event.payload.n)?).await?;
        let mut part = tx.savepoint().await?;
        let wrong = sqlx::query("SELECT 1 / $1::int").bind(0).execute(&mut *part).await;
        assert!(wrong.is_err());
        part.rollback().await?;
        Ok(())
    }
}

/// 3,000 events, without one outage.
#[tokio::test(flavor = "multi_thread")]
async fn first_effects_behind_a_pooler_meet_no_outage() {
    let (stage, _pooler) = pooled("pooled", 4).await;
    fill(&stage, 50, 60).await;
    let running = stage.start(Routes::default().on("Counted", Counter)).await;
    is_right(&stage, 50, 60).await;
    eventually(SOON, "the watermark", async || {
        let committed = stage.topic.committed(stage.config.group()).await;
        committed.into_iter().map(Option::unwrap_or_default).sum::<i64>() == 3_000
    })
    .await;
    let counts = running.counters.read();
    assert_eq!((counts.outages, counts.conflicts, counts.failures), (0, 0, 0), "{counts:?}");
    assert_eq!(running.stop().await, Ended::Shutdown);
}

/// Whatever a handler may do, event by event and as a set.
#[tokio::test(flavor = "multi_thread")]
async fn handlers_behind_a_pooler_may_do_what_they_may() {
    let (stage, _pooler) = pooled("pooled", 2).await;
    stage.schema.run("CREATE TABLE queued (n bigint)").await;
    fill(&stage, 20, 10).await;
    let running = stage.start(Routes::default().on("Counted", Everything)).await;
    is_right(&stage, 20, 10).await;
    assert_eq!(stage.schema.number("SELECT count(*) FROM queued").await, 200);
    assert_eq!(stage.schema.number("SELECT count(*) FROM outbox_events").await, 200);
    let counts = running.counters.read();
    assert_eq!((counts.outages, counts.failures, stage.parked("").await), (0, 0, 0), "{counts:?}");
    assert_eq!(running.stop().await, Ended::Shutdown);

    let (stage, _pooler) = pooled("pooled", 2).await;
    fill(&stage, 20, 50).await;
    let running = stage.start(Routes::default().on_batch("Counted", CountAll)).await;
    is_right(&stage, 20, 50).await;
    assert_eq!(running.counters.read().outages, 0);
    assert_eq!(running.stop().await, Ended::Shutdown);
}

/// What a handler leaves on the server's connection goes to no other client, after a rollback neither; and the
/// client's own settings stay.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_handler_leaves_behind_a_pooler_is_taken_back() {
    let (mut stage, _pooler) = pooled("pooled", 1).await;
    stage.config.lanes.count = 1;
    stage.schema.run("CREATE TABLE seen (what text)").await;
    let look = "INSERT INTO seen SELECT concat_ws(' ', current_setting('TimeZone'), \
        current_setting('DateStyle'), current_setting('client_encoding'), current_setting('application_name'), \
        (SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objid = 771177))";
    let past = |sql, times| json!({"sql": sql, "unguarded": true, "times": times});
    let lock = "SELECT pg_advisory_lock(771177)";
    let steps = [
        json!({"sql": look}),
        past("SET timezone = 'Asia/Tokyo'; SET DateStyle = 'German'", 1),
        past(lock, 1),
        past("SELECT pg_advisory_lock(771177); SELECT 1 / 0", 1),
        json!({"sql": look}),
    ];
    for (n, step) in (1..).zip(steps) {
        stage.send(&[told("a", n, step)]).await;
    }
    let running = stage.start(acting()).await;
    eventually(SOON, "all", async || stage.of("a").await == [1, 2, 3, 4, 5]).await;
    assert_eq!(stage.schema.number("SELECT count(DISTINCT what) FROM seen").await, 1);
    let kept = "SELECT count(*) FROM seen WHERE what LIKE 'UTC ISO, MDY UTF8 _% 0'";
    assert_eq!(stage.schema.number(kept).await, 2);
    assert_eq!((running.counters.read().outages, stage.parked("").await), (0, 0));
    assert_eq!(running.stop().await, Ended::Shutdown);
}

/// Two members share the partitions, one leaves, one is killed.
#[tokio::test(flavor = "multi_thread")]
async fn take_overs_and_a_kill_behind_a_pooler_lose_and_double_nothing() {
    let (stage, pooler) = pooled("pooled", 4).await;
    let routes = || Routes::default().on("Counted", Counter);
    fill(&stage, 40, 20).await;
    let first = stage.start(routes()).await;
    let mut killed = Worker::spawn(pooled_worker(&stage, &pooler).arg("run"));
    killed.printed(SOON, "\"signal\":\"taken_over\"").await;
    let more = (21..=40).flat_map(|n| (0..40).map(move |a| counted(&a.to_string(), n)));
    stage.send(&more.collect::<Vec<Record>>()).await;
    eventually(SOON, "both at work", async || stage.effects().await > 900).await;
    killed.kill();
    let second = stage.start(routes()).await;
    assert_eq!(first.stop().await, Ended::Shutdown);
    is_right(&stage, 40, 40).await;
    assert_eq!(stage.parked("").await, 0);
    assert_eq!(second.stop().await, Ended::Shutdown);
}

/// The commands, beside a consumer that runs: `check`, `status`, `parked`, `prune`, `migrate`.
#[tokio::test(flavor = "multi_thread")]
async fn events_are_parked_and_released_by_commands_behind_a_pooler() {
    let (mut stage, pooler) = pooled("pooled", 1).await;
    stage.config.retry.attempts_max = 1;
    stage.schema.run("CREATE TABLE mended (yes boolean)").await;
    let wrong = json!({"sql": "SELECT 1 / (SELECT count(*) FROM mended)"});
    stage.send(&[told("a", 1, wrong), told("a", 2, json!({})), told("b", 1, json!({}))]).await;
    let running = stage.start(acting()).await;
    eventually(SOON, "a is parked", async || {
        (stage.effects().await, stage.parked("").await) == (1, 2)
    })
    .await;
    for _ in 0..5 {
        for command in ["check", "status", "parked list", "parked audit", "prune", "migrate"] {
            let (code, out, err) = ran(pooled_worker(&stage, &pooler), command).await;
            assert_eq!(code, Some(0), "{command}: {out}{err}");
        }
    }
    stage.schema.run("INSERT INTO mended VALUES (true)").await;
    let release = "parked release --all --yes --as anna --wait 20s";
    let (code, out, err) = ran(pooled_worker(&stage, &pooler), release).await;
    assert_eq!(code, Some(0), "{out}{err}");
    eventually(SOON, "a", async || stage.of("a").await == [1, 2]).await;
    assert_eq!((stage.parked("").await, running.counters.read().outages), (0, 0));
    assert_eq!(running.stop().await, Ended::Shutdown);
}

/// The stock binary with handlers in SQL, event by event and as a set.
#[tokio::test(flavor = "multi_thread")]
async fn declared_handlers_behind_a_pooler_apply_each_event_once() {
    let (stage, pooler) = pooled("pooled", 2).await;
    let folder = tempfile::tempdir().unwrap();
    let declared = |event_type: &str, mode: &str| {
        format!(
            "[[handlers]]\nevent_type = \"{event_type}\"\nmode = \"{mode}\"\ncolumns = {{ n = \"int8\" }}\n\
             sql = \"INSERT INTO effects (aggregate, n, event_id, pid) \
             SELECT aggregate_id, n, event_id::text, 0 FROM events ORDER BY ord\"\n"
        )
    };
    let text = declared("Counted", "each") + &declared("CountedAll", "run");
    std::fs::write(folder.path().join("consumer.toml"), text).unwrap();
    let all = (1..=20).flat_map(|n| (0..20).map(move |a| (a.to_string(), n)));
    let all = all.map(|(a, n)| {
        let kind = if n % 2 == 0 { "Counted" } else { "CountedAll" };
        Record::event(&format!("{a}-{n}"), kind, &a, &format!("{{\"n\":{n}}}"))
    });
    stage.send(&all.collect::<Vec<Record>>()).await;
    let command = || {
        let mut command = pooled_worker(&stage, &pooler);
        command.env("STOCK", "1").current_dir(folder.path());
        command
    };
    let (code, out, err) = ran(command(), "check").await;
    assert_eq!(code, Some(0), "{out}{err}");
    let mut running = Worker::spawn(command().arg("run"));
    is_right(&stage, 20, 20).await;
    running.terminate();
    assert_eq!(running.ended(SOON).await.code(), Some(0), "{}", running.log());
    assert!(!running.log().contains("\"signal\":\"outage\""), "{}", running.log());
    // What is wrong with a statement is said with its place, and nothing is left behind.
    let wrong = declared("Counted", "run").replace("event_id::text", "event_di::text");
    std::fs::write(folder.path().join("consumer.toml"), wrong).unwrap();
    let (code, out, err) = ran(command(), "check").await;
    assert_eq!(code, Some(5), "{out}{err}");
    assert!(out.contains("line 1, column 75") && out.contains("event_di"), "{out}");
}

/// The relay and its commands. LISTEN does not work there: it polls.
#[tokio::test(flavor = "multi_thread")]
async fn a_relay_behind_a_pooler_ships_everything() {
    let services = Services::from_env();
    let mut outbox = Outbox::with(services.topic("pooled", 2).await, services.schema().await).await;
    let pooler = OwnPgBouncer::start(&outbox.schema).await;
    outbox.config.database.url = pooler.url().into();
    outbox.config.database.statement_cache = 0;
    outbox.config.wake.notify = false;
    outbox.config.wake.poll_interval = std::time::Duration::from_millis(100);
    let relay = outbox.start().await;
    let standby = outbox.start().await;
    for round in 0..10 {
        outbox.append("a", round * 10 + 1, round * 10 + 10).await;
        outbox.append("b", round * 10 + 1, round * 10 + 10).await;
        for command in ["check", "status", "failed list"] {
            let mut program = outbox.command(&RELAY);
            program.env("OUTBOX_DATABASE__STATEMENT_CACHE", "0");
            let (code, out, err) = ran(program, command).await;
            assert_eq!(code, Some(0), "{command}: {out}{err}");
        }
    }
    outbox.drained(SOON).await;
    super::relay_order::in_order(&outbox.arrivals().await, &["a", "b"], 100);
    assert_eq!((relay.counters.read().outages, standby.counters.read().outages), (0, 0));
    assert_eq!(standby.stop().await, outbox_relay::Ended::Shutdown);
    assert_eq!(relay.stop().await, outbox_relay::Ended::Shutdown);
}

/// Looks for named statements of its own session.
struct Looks;

impl Handler<Postgres> for Looks {
    type Event = Count;

    async fn handle(&self, event: &Event<Count>, tx: &mut Tx<'_, Postgres>) -> HandlerResult {
        assert_eq!(named(tx).await?, 0);
        effect(event, tx).await
    }
}

/// Without a pooler: a session that shall keep no statements keeps none.
#[tokio::test]
async fn a_session_without_a_statement_cache_keeps_no_statement() {
    let mut stage = Stage::set("unnamed", 1).await;
    stage.config.database.statement_cache = 0;
    stage.config.retry.attempts_max = 1;
    let role = OwnPgBouncer::start(&stage.schema).await; // for its role alone
    stage.config.database.url = role.direct_url().into();
    stage.config.batch.events_max = 4;
    stage.count("a", 1, 400).await;
    let running = stage.start(Routes::default().on("Counted", Looks)).await;
    eventually(SOON, "all events", async || stage.effects().await == 400).await;
    assert_eq!((stage.parked("").await, running.counters.read().failures), (0, 0));
    assert_eq!(running.stop().await, Ended::Shutdown);
}
