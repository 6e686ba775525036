//! Findings of the protocol on real services: what a partition does by itself. Owners are in
//! `findings_owners`.

use std::time::Duration;

use inbox_consumer::{
    BatchHandler, Ended, Event, Handler, HandlerResult, Routes, Tx, config::Start,
};
use serde_json::json;
use sqlx::Postgres;
use tests::{Count, Counter, Producer, Record, SOON, Stage, counted, effect, eventually, unique};
use tokio::sync::watch;

use super::acting::{acting, told};

/// Handles events of the aggregate `slow` only once the gate is open.
struct Gated(watch::Receiver<bool>);

impl Handler<Postgres> for Gated {
    type Event = Count;

    async fn handle(&self, event: &Event<Count>, tx: &mut Tx<'_, Postgres>) -> HandlerResult {
        if event.aggregate().aggregate_id() == "slow" {
            self.0.clone().wait_for(|open| *open).await?;
        }
        effect(event, tx).await
    }
}

fn gated() -> (watch::Sender<bool>, Routes<Postgres>) {
    let (gate, open) = watch::channel(false);
    (gate, Routes::default().on("Counted", Gated(open)))
}

/// Writes a whole run in one call.
struct CountAll;

impl BatchHandler<Postgres> for CountAll {
    type Event = Count;

    async fn handle(&self, events: &[Event<Count>], tx: &mut Tx<'_, Postgres>) -> HandlerResult {
        for event in events {
            effect(event, &mut *tx).await?;
        }
        Ok(())
    }
}

async fn watermark(stage: &Stage) -> i64 {
    stage.schema.number("SELECT coalesce(sum(watermark), -1)::bigint FROM inbox_partitions").await
}

/// Every aggregate of `names` has its effects `1..=last`, once and in order.
async fn whole(stage: &Stage, names: &[&str], last: i64) {
    for name in names {
        assert_eq!(stage.of(name).await, (1..=last).collect::<Vec<_>>(), "aggregate {name}");
    }
}

/// Finding 3: lanes mean something else after a deploy, while events are settled around one that is
/// not: what is unsettled is handled, what is settled is not handled again.
#[tokio::test]
async fn another_lane_count_loses_and_doubles_nothing() {
    const NAMES: [&str; 7] = ["slow", "a", "b", "c", "d", "e", "f"];
    let mut stage = Stage::set("remap", 1).await;
    stage.config.lanes.count = 16;
    stage.config.batch.events_max = 1;
    stage.count("slow", 1, 3).await;
    for n in 1..=5 {
        let others = NAMES[1..].iter().map(|name| counted(name, n)).collect::<Vec<_>>();
        stage.send(&others).await;
    }
    let (_shut, routes) = gated();
    let running = stage.start(routes).await;
    let free = "SELECT count(DISTINCT aggregate) FROM effects GROUP BY n HAVING n = 5";
    let free = format!("SELECT coalesce(({free}), 0)");
    // Aggregates that share the lane of the slow one wait with it.
    eventually(SOON, "others go past", async || stage.schema.number(&free).await >= 3).await;
    assert_eq!(watermark(&stage).await, 0);
    running.stop().await;

    stage.config.lanes.count = 5;
    stage.config.batch.events_max = 500;
    let (open, routes) = gated();
    open.send_replace(true);
    let running = stage.start(routes).await;
    eventually(SOON, "all effects", async || stage.effects().await >= 33).await;
    eventually(SOON, "the watermark", async || watermark(&stage).await == 33).await;
    // What was settled ahead is settled in the lanes of then; after that they are others.
    let remapped =
        "SELECT count(*) FROM inbox_partitions WHERE lane_count = 5 AND remapped_below > 0";
    eventually(SOON, "the remap", async || stage.schema.number(remapped).await == 1).await;
    assert_eq!(running.stop().await, Ended::Shutdown);
    assert_eq!((stage.effects().await, stage.parked("").await), (33, 0));
    whole(&stage, &NAMES[..1], 3).await;
    whole(&stage, &NAMES[1..], 5).await;
}

/// Finding 6: a batch handler's call is never before or after a whole block of its aggregate.
#[tokio::test]
async fn a_batch_handler_between_handlers_keeps_the_order_of_each_aggregate() {
    let stage = Stage::set("runs", 1).await;
    let names = ["a", "b", "c", "d", "e", "f"];
    let mut records = Vec::new();
    for n in 1..=30_i64 {
        for (at, name) in (0_i64..).zip(names) {
            let event_type = if (n + at) % 3 == 0 { "CountedAll" } else { "Counted" };
            let payload = format!("{{\"n\":{n}}}");
            records.push(Record::event(&format!("{name}-{n}"), event_type, name, &payload));
        }
    }
    stage.send(&records).await;
    let routes = Routes::default().on("Counted", Counter).on_batch("CountedAll", CountAll);
    let running = stage.start(routes).await;
    eventually(SOON, "all effects", async || stage.effects().await >= 180).await;
    assert_eq!(running.stop().await, Ended::Shutdown);
    whole(&stage, &names, 30).await;
}

/// Finding 5: what follows a record that is parked is parked behind it, in the same transaction too: no
/// claim could have seen it held.
#[tokio::test]
async fn what_follows_an_unreadable_record_in_its_batch_waits_behind_it() {
    let stage = Stage::set("followers", 1).await;
    let mut records = Vec::new();
    for at in 0..10 {
        let name = format!("a{at}");
        let unreadable = Record::default().key(name.as_str()).payload("{\"n\":2}");
        records.extend([counted(&name, 1), unreadable, counted(&name, 3)]);
    }
    stage.send(&records).await;
    let running = stage.start(Routes::default().on("Counted", Counter)).await;
    eventually(SOON, "all settled", async || watermark(&stage).await == 30).await;
    assert_eq!((stage.parked("undecodable").await, stage.parked("follower").await), (10, 10));
    assert_eq!(stage.effects().await, 10);
    assert_eq!(running.stop().await, Ended::Shutdown);
}

/// Finding 8: an id twice in one batch is one effect; with another aggregate, so in another lane, the
/// later one is parked, never handled and never dropped.
#[tokio::test]
async fn an_id_twice_in_a_batch_has_one_effect() {
    let mut stage = Stage::set("twice", 1).await;
    // One transaction after the other, and a drain that has time for all of it in one, however slow the machine is.
    stage.config.database.connections = 1;
    stage.config.kafka.session_timeout = Duration::from_mins(5);
    stage.config.limits.drain_deadline = Duration::from_secs(100);
    let mut records = Vec::new();
    for at in 0..20 {
        let event =
            |aggregate: &str, id: &str| Record::event(id, "Counted", aggregate, "{\"n\":1}");
        let (same, other) = (format!("same-{at}"), format!("other-{at}"));
        records.extend([event(&same, &same), event(&same, &same)]);
        records.extend([event(&other, &other), event(&format!("copy-{at}"), &other)]);
    }
    let running = stage.start(Routes::default().on("Counted", Counter)).await;
    stage.count("first", 1, 1).await;
    let known = async || watermark(&stage).await == 1;
    eventually(SOON, "how long a handler takes is known", known).await;
    stage.send(&records).await;
    eventually(SOON, "all settled", async || watermark(&stage).await == 81).await;
    assert_eq!((stage.effects().await, stage.parked("mismatch").await), (41, 20));
    let counts = running.counters.read();
    assert_eq!((stage.parked("").await, counts.duplicates, counts.conflicts), (20, 20, 0));
    // A slow machine cuts what was sent in two: whichever is committed first is the event then.
    let ids = "SELECT count(DISTINCT event_id) FROM effects";
    assert_eq!(stage.schema.number(ids).await, 41);
    assert_eq!(running.stop().await, Ended::Shutdown);
}

/// Finding 10: old rows go; those above the watermark and those of parked events stay, so that a
/// second copy of a parked event is no new event.
#[tokio::test]
async fn retention_spares_parked_events_and_what_is_above_the_watermark() {
    let mut stage = Stage::set("retention", 1).await;
    stage.config.retention.inbox = Duration::from_secs(60);
    stage.config.retention.prune_interval = Duration::from_secs(1);
    stage.config.batch.events_max = 1;
    let rejected = Record::event("bad-1", "Counted", "bad", "no json");
    stage.send(&[counted("slow", 1), rejected.clone()]).await;
    for at in 0..12 {
        stage.count(&format!("a{at}"), 1, 1).await;
    }
    let (gate, routes) = gated();
    let running = stage.start(routes).await;
    let rows = "SELECT count(*) FROM inbox_events";
    let old = "UPDATE inbox_events SET processed_at = now() - interval '2 minutes'";
    // Aggregates that share the lane of the slow one wait with it.
    let ready = async || stage.parked("undecodable").await == 1 && stage.effects().await >= 5;
    eventually(SOON, "others are settled", ready).await;
    stage.schema.run(old).await;
    let before = stage.schema.number(rows).await;
    tokio::time::sleep(Duration::from_millis(2500)).await;
    let after = stage.schema.number(rows).await;
    assert!(after >= before, "rows above the watermark were pruned: {before} to {after}");
    gate.send_replace(true);
    eventually(SOON, "the watermark", async || watermark(&stage).await == 14).await;
    stage.schema.run(old).await;
    eventually(SOON, "the others are pruned", async || stage.schema.number(rows).await == 1).await;
    assert_eq!(stage.schema.number("SELECT count(*) FROM inbox_events WHERE parked").await, 1);

    stage.send(&[rejected]).await;
    eventually(SOON, "the second copy", async || watermark(&stage).await == 15).await;
    assert_eq!((stage.effects().await, stage.parked("").await), (13, 1));
    assert_eq!(running.stop().await, Ended::Shutdown);
}

/// Finding 11: `latest` is decided once and written before the first delivery: what comes while the
/// consumer is away is handled, and so is a new partition from its beginning.
#[tokio::test]
async fn a_latest_start_is_written_and_holds_for_old_partitions_only() {
    let mut stage = Stage::set("latest", 1).await;
    stage.config.kafka.start = Start::Latest;
    stage.count("before", 1, 5).await;
    let routes = || Routes::default().on("Counted", Counter);
    let running = stage.start(routes()).await;
    eventually(SOON, "the start is written", async || watermark(&stage).await == 5).await;
    // As a crash: nothing was settled, nothing was committed to Kafka.
    running.abort();
    stage.config.kafka.group = Some(unique("another"));
    stage.count("away", 1, 3).await;
    let running = stage.start(routes()).await;
    eventually(SOON, "what came meanwhile", async || stage.effects().await == 3).await;
    assert_eq!(running.stop().await, Ended::Shutdown);

    stage.topic.grow(2).await;
    // Another producer: the stage's own knows one partition for some time yet.
    let producer = Producer::new(stage.topic.bootstrap());
    let new = [counted("new", 1).partition(1), counted("new", 2).partition(1)];
    producer.send(stage.topic.name(), &new).await;
    let running = stage.start(routes()).await;
    eventually(SOON, "the new partition", async || stage.effects().await == 5).await;
    assert_eq!(running.stop().await, Ended::Shutdown);
    assert_eq!((stage.of("before").await, stage.of("new").await), (vec![], vec![1, 2]));
}

/// Finding 13: what one event alone meets again and again while others commit is its own fault, be it
/// a deadlock or a time-out: it is parked, and the others flow all the time.
#[tokio::test]
async fn an_event_that_always_deadlocks_or_times_out_is_parked() {
    let mut stage = Stage::set("alone", 1).await;
    stage.config.retry.attempts_max = 2;
    let deadlock = json!({"sql": "DO $$ BEGIN RAISE SQLSTATE '40P01'; END $$"});
    let going = json!({"sql": "DO $$ BEGIN RAISE SQLSTATE '57P01'; END $$"});
    let slow = json!({"sql": "SELECT pg_sleep(9) FROM pg_cancel_backend(pg_backend_pid())"});
    let running = stage.start(acting()).await;
    let bad = [("deadlock", deadlock), ("time-out", slow), ("going", going)];
    stage.send(&bad.map(|(name, how)| told(name, 1, how))).await;
    let mut sent = 0;
    eventually(SOON * 2, "all three are parked", async || {
        sent += 1;
        stage.send(&[told(&format!("good-{sent}"), 1, json!({}))]).await;
        stage.parked("exhausted").await == 3
    })
    .await;
    eventually(SOON, "the others", async || stage.effects().await == sent).await;
    let told = "SELECT count(*) FROM inbox_parked WHERE record LIKE '%times alone while others committed%'";
    assert_eq!((stage.schema.number(told).await, stage.parked("").await), (3, 3));
    assert_eq!(running.stop().await, Ended::Shutdown);
}

/// Finding 14: a constraint that is checked at COMMIT names its event, and no other is parked.
#[tokio::test]
async fn a_deferred_violation_in_a_batch_names_its_event() {
    let mut stage = Stage::set("deferred", 1).await;
    stage.config.retry.attempts_max = 2;
    let tables = "CREATE TABLE parents (id bigint PRIMARY KEY); CREATE TABLE children \
                  (parent bigint REFERENCES parents DEFERRABLE INITIALLY DEFERRED)";
    stage.schema.run(tables).await;
    let mut records: Vec<Record> =
        (0..40).map(|at| told(&format!("good-{at}"), 1, json!({}))).collect();
    records.insert(20, told("bad", 1, json!({"sql": "INSERT INTO children VALUES (404)"})));
    records.push(told("bad", 2, json!({})));
    stage.send(&records).await;
    let running = stage.start(acting()).await;
    eventually(SOON, "all accounted for", async || {
        (stage.effects().await, stage.parked("").await) == (40, 2)
    })
    .await;
    assert_eq!((stage.parked("exhausted").await, stage.parked("follower").await), (1, 1));
    let told =
        "SELECT count(*) FROM inbox_parked WHERE \"offset\" = 20 AND record LIKE '%foreign key%'";
    assert_eq!(stage.schema.number(told).await, 1);
    assert_eq!(running.stop().await, Ended::Shutdown);
}

/// I1: random bytes in 1 % of the records, some under sound headers: all of them are parked, all
/// others are applied.
#[tokio::test]
async fn random_bytes_on_the_topic_are_parked_and_the_rest_is_applied() {
    let stage = Stage::set("random", 3).await;
    let noise = |at: usize| -> Vec<u8> {
        (0..at % 5 + 1).flat_map(|_| uuid::Uuid::new_v4().into_bytes()).chain([0xff]).collect()
    };
    let mut records: Vec<Record> = (1..=198)
        .flat_map(|n| {
            ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"].map(|name| counted(name, n))
        })
        .collect();
    for at in 0..20 {
        let record = match at % 3 {
            0 => Record::default().key(noise(at)).payload(noise(at)),
            1 => Record::event(&format!("x-{at}"), "Counted", &format!("x-{at}"), "")
                .payload(noise(at)),
            _ => Record::default()
                .key(noise(at))
                .header("event_id", noise(at))
                .header("event_type", noise(at)),
        };
        records.insert(at * 99, record);
    }
    stage.send(&records).await;
    let running = stage.start(Routes::default().on("Counted", Counter)).await;
    eventually(SOON, "all accounted for", async || {
        (stage.effects().await, stage.parked("").await) == (1980, 20)
    })
    .await;
    assert_eq!(stage.parked("undecodable").await, 20);
    whole(&stage, &["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"], 198).await;
    assert_eq!(running.stop().await, Ended::Shutdown);
}

/// G7: one connection for transactions is enough for any number of partitions and lanes.
#[tokio::test]
async fn one_connection_is_enough() {
    let mut stage = Stage::set("one", 4).await;
    stage.config.database.connections = 1;
    let names = ["a", "b", "c", "d", "e", "f", "g", "h"];
    for name in names {
        stage.count(name, 1, 40).await;
    }
    stage.send(&[Record::event("bad", "Strange", "z", "{}")]).await;
    let running = stage.start(Routes::default().on("Counted", Counter)).await;
    let all = async || (stage.effects().await, stage.parked("").await) == (320, 1);
    eventually(SOON, "all accounted for", all).await;
    eventually(SOON, "watermarks are written, too", async || watermark(&stage).await == 321).await;
    whole(&stage, &names, 40).await;
    let counts = running.counters.read();
    assert_eq!((counts.conflicts, counts.outages, counts.resyncs), (0, 0, 0), "{counts:?}");
    assert_eq!(running.stop().await, Ended::Shutdown);
}

/// G10: a full disk, exhausted memory or connections, a server that goes down: with a single attempt
/// allowed nothing is parked, for none of them is the handler's fault.
#[tokio::test]
async fn trouble_of_the_server_spends_no_attempt() {
    const CODES: [&str; 8] =
        ["53100", "53200", "53300", "57P01", "57P02", "57P03", "58030", "08006"];
    let mut stage = Stage::set("trouble", 1).await;
    stage.config.retry.attempts_max = 1;
    let records: Vec<Record> = CODES
        .iter()
        .map(|code| {
            let sql = format!("DO $$ BEGIN RAISE SQLSTATE '{code}'; END $$");
            told(code, 1, json!({"sql": sql, "times": 1}))
        })
        .collect();
    stage.send(&records).await;
    // Those are a function's words, which only their own events wait for; this one is the server's (53400).
    let full = "DO $$ BEGIN PERFORM set_config('work_mem', '64kB', true); \
        PERFORM set_config('temp_file_limit', '0', true); \
        PERFORM count(*) FROM generate_series(1, 100000); END $$";
    stage.send(&[told("full", 1, json!({"sql": full, "times": 1}))]).await;
    let running = stage.start(acting()).await;
    eventually(SOON, "all effects", async || stage.effects().await == 9).await;
    let counts = running.counters.read();
    assert_eq!((counts.failures, stage.parked("").await), (0, 0), "{counts:?}");
    assert!(counts.outages >= 1 && counts.conflicts >= 8, "{counts:?}");
    assert_eq!(running.stop().await, Ended::Shutdown);
}
