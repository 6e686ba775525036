//! Parked events come back: by their schedule, by a person's word, in order, once.

use std::time::Duration;

use inbox_consumer::{
    Ended, Event, Handler, HandlerError, HandlerResult, Routes, Schedule, Tx, config::Format,
};
use outbox_core::ReadRules;
use sqlx::Postgres;
use tests::{
    Count, Counter, Producer, Record, SOON, Stage, Topic, counted, effect, eventually,
    soak::checker::{Expected, check},
};

use super::{
    release_support::{
        audited, break_at, flaky, intend, mend, mendable, never, nothing_is_parked, set, soon,
    },
    runtime_support::up_to,
};

/// C6: the event in the middle fails for a while. Nothing of its aggregate overtakes it, no other
/// aggregate waits; it is tried again by its schedule alone, and what is behind it follows in order.
#[tokio::test]
async fn a_schedule_brings_a_failing_event_back_and_what_follows_it() {
    let stage = set("schedule", 1, soon()).await;
    break_at(&stage, "a", 2).await;
    let running = stage.start(mendable()).await;
    for n in 1..=5 {
        stage.send(&[counted("a", n), counted("b", n)]).await;
    }
    eventually(SOON, "b", async || stage.of("b").await == up_to(5)).await;
    eventually(SOON, "parked", async || stage.parked("").await == 4).await;
    assert_eq!((stage.parked("exhausted").await, stage.parked("follower").await), (1, 3));
    let rounds = "SELECT max(releases)::bigint FROM inbox_parked";
    eventually(SOON, "rounds", async || stage.schema.number(rounds).await >= 2).await;
    let told = "SELECT jsonb_array_length(errors::jsonb)::bigint FROM inbox_parked WHERE reason = 'exhausted'";
    assert!(stage.schema.number(told).await >= 3);
    assert_eq!(stage.of("a").await, [1]);
    stage.send(&[counted("a", 6)]).await;
    eventually(SOON, "one more follows", async || stage.parked("follower").await == 4).await;
    mend(&stage).await;
    eventually(SOON, "a", async || stage.of("a").await == up_to(6)).await;
    nothing_is_parked(&stage).await;
    stage.send(&[counted("a", 7)]).await;
    eventually(SOON, "live again", async || stage.of("a").await == up_to(7)).await;
    let counts = running.counters.read();
    assert_eq!((counts.released, counts.discarded), (5, 0));
    assert!(counts.release_failures >= 2, "{counts:?}");
    assert_eq!(running.stop().await, Ended::Shutdown);
}

/// A schedule has an end: then the event waits for a person, whose word is enough.
#[tokio::test]
async fn after_its_last_round_an_event_waits_for_a_person() {
    let stage = set("rounds", 1, never()).await;
    break_at(&stage, "a", 1).await;
    let two = Schedule { releases_max: 2, ..soon().into() };
    let running = stage.start(mendable().schedule("Counted", two)).await;
    stage.count("a", 1, 3).await;
    let spent = "SELECT count(*) FROM inbox_parked WHERE releases = 2 AND due_at = 'infinity'";
    eventually(SOON, "the last round", async || stage.schema.number(spent).await == 1).await;
    mend(&stage).await;
    stage.count("b", 1, 3).await;
    eventually(SOON, "others", async || stage.of("b").await == up_to(3)).await;
    assert_eq!(stage.parked("").await, 3, "nobody has said anything");
    assert_eq!(intend(&stage, "release", "anna", "due_at = 'infinity'").await, 1);
    eventually(SOON, "a", async || stage.of("a").await == up_to(3)).await;
    nothing_is_parked(&stage).await;
    assert_eq!(audited(&stage, "released").await, 1);
    assert_eq!(running.stop().await, Ended::Shutdown);
}

/// Sends `Counted` events of all aggregates in many small steps.
async fn load(topic: Topic, expected: Expected) {
    let producer = Producer::new(topic.bootstrap());
    for n in 1..=i64::try_from(expected.per_aggregate).unwrap() {
        let each = |aggregate: u64| counted(&aggregate.to_string(), n);
        let records: Vec<Record> = (0..expected.aggregates).map(each).collect();
        producer.send(topic.name(), &records).await;
        tokio::time::sleep(Duration::from_millis(15)).await;
    }
}

async fn is_right(stage: &Stage, expected: Expected) {
    let goal = i64::try_from(expected.aggregates * expected.per_aggregate).unwrap();
    let long = SOON * 3;
    eventually(long, "all effects", async || stage.effects().await >= goal).await;
    nothing_is_parked(stage).await;
    assert_eq!(check(stage.schema.pool(), expected).await.unwrap(), []);
}

/// Events are parked and released all the time while newer ones of the same aggregates arrive: each
/// effect once, in order, and no queue is left behind.
#[tokio::test]
async fn events_are_released_while_newer_ones_of_their_aggregate_arrive() {
    const EXPECTED: Expected = Expected { aggregates: 10, per_aggregate: 200 };
    let mut stage = set("churn", 2, soon()).await;
    stage.config.lanes.count = 4;
    stage.config.batch.events_max = 20;
    let loading = tokio::spawn(load(stage.topic.clone(), EXPECTED));
    let running = stage.start(flaky()).await;
    loading.await.unwrap();
    is_right(&stage, EXPECTED).await;
    let counts = running.counters.read();
    assert!(counts.released > 100 && counts.release_failures > 20, "{counts:?}");
    assert_eq!(running.stop().await, Ended::Shutdown);
}

/// The same while members of the group come, go and crash: a release of an older owner changes nothing.
#[tokio::test]
async fn events_are_released_during_rebalances() {
    const EXPECTED: Expected = Expected { aggregates: 12, per_aggregate: 200 };
    let mut stage = set("moving", 4, soon()).await;
    stage.config.lanes.count = 4;
    stage.config.batch.events_max = 20;
    let loading = tokio::spawn(load(stage.topic.clone(), EXPECTED));
    let first = stage.start(flaky()).await;
    let grown = async |by: i64| {
        let goal = (stage.effects().await + by).min(2_400);
        eventually(SOON, "effects", async || stage.effects().await >= goal).await;
    };
    grown(200).await;
    let second = stage.start(flaky()).await;
    grown(300).await;
    let third = stage.start(flaky()).await;
    grown(300).await;
    assert_eq!(second.stop().await, Ended::Shutdown);
    grown(200).await;
    first.abort();
    let fourth = stage.start(flaky()).await;
    loading.await.unwrap();
    is_right(&stage, EXPECTED).await;
    assert_eq!(third.stop().await, Ended::Shutdown);
    assert_eq!(fourth.stop().await, Ended::Shutdown);
}

/// Says what comes to mind about the heads of queues, again and again.
async fn operator(stage: &Stage, who: &str, seed: u64) {
    for round in 0..60_u64 {
        let aggregate = (seed + round * 7) % 6;
        // The fifth event of each aggregate is given up by whoever comes first; heads are released.
        let (intent, which) = if round % 3 == 0 {
            (
                "discard",
                format!(
                    "event_id = (SELECT event_id FROM inbox_parked q WHERE q.aggregate LIKE '%/{aggregate}' AND record LIKE '%n_\":5}}%' LIMIT 1)"
                ),
            )
        } else {
            (
                "release",
                format!(
                    "parked_seq = (SELECT min(parked_seq) FROM inbox_parked WHERE aggregate LIKE '%/{aggregate}')"
                ),
            )
        };
        intend(stage, intent, who, &which).await;
        tokio::time::sleep(Duration::from_millis(15)).await;
    }
}

/// Two operators say different things about the same queues at the same time: each event runs once or
/// is given up once, in order, and the audit has one row for each thing that was done.
#[tokio::test]
async fn two_operators_at_once_do_everything_once() {
    let stage = set("operators", 2, never()).await;
    for aggregate in 0..6 {
        break_at(&stage, &aggregate.to_string(), 1 + aggregate % 4).await;
    }
    for n in 1..=8 {
        let each = |aggregate: i64| counted(&aggregate.to_string(), n);
        stage.send(&(0..6).map(each).collect::<Vec<_>>()).await;
    }
    let running = stage.start(mendable()).await;
    let settled = async || stage.effects().await + stage.parked("").await == 48;
    eventually(SOON, "all are parked or done", settled).await;
    let later = async {
        tokio::time::sleep(Duration::from_millis(600)).await;
        mend(&stage).await;
    };
    tokio::join!(operator(&stage, "anna", 0), operator(&stage, "ben", 3), later);
    eventually(SOON, "the queues end", async || {
        intend(&stage, "release", "carl", "due_at = 'infinity' AND intent IS NULL").await;
        stage.parked("").await == 0
    })
    .await;
    let given_up = audited(&stage, "discarded").await;
    assert!(given_up > 0);
    assert_eq!(stage.effects().await + given_up, 48);
    let twice = "SELECT count(*) FROM (SELECT event_id FROM effects UNION ALL SELECT event_id::text \
                 FROM inbox_audit WHERE what = 'discarded') e GROUP BY event_id ORDER BY 1 DESC LIMIT 1";
    assert_eq!(stage.schema.number(twice).await, 1, "an event was run and given up");
    for aggregate in 0..6 {
        let done = stage.of(&aggregate.to_string()).await;
        assert!(done.is_sorted(), "aggregate {aggregate}: {done:?}");
    }
    let released =
        "SELECT count(*) - count(DISTINCT event_id) FROM inbox_audit WHERE what = 'released'";
    assert_eq!(stage.schema.number(released).await, 0);
    nothing_is_parked(&stage).await;
    assert_eq!(running.stop().await, Ended::Shutdown);
}

/// A discard of an event that others wait behind lets them through; one in the middle just goes.
#[tokio::test]
async fn what_is_given_up_holds_nobody_back() {
    let stage = set("discard", 1, never()).await;
    break_at(&stage, "a", 1).await;
    break_at(&stage, "b", 1).await;
    let running = stage.start(mendable()).await;
    for aggregate in ["a", "b"] {
        stage.count(aggregate, 1, 4).await;
    }
    eventually(SOON, "parked", async || stage.parked("").await == 8).await;
    assert_eq!(
        intend(&stage, "discard", "anna", "aggregate LIKE '%/a' AND reason = 'exhausted'").await,
        1
    );
    eventually(SOON, "a", async || stage.of("a").await == [2, 3, 4]).await;
    let third =
        "aggregate LIKE '%/b' AND parked_seq = (SELECT max(parked_seq) - 1 FROM inbox_parked)";
    assert_eq!(intend(&stage, "discard", "ben", third).await, 1);
    eventually(SOON, "it goes", async || stage.parked("").await == 3).await;
    mend(&stage).await;
    assert_eq!(intend(&stage, "release", "ben", "reason = 'exhausted'").await, 1);
    eventually(SOON, "b", async || stage.of("b").await == [1, 2, 4]).await;
    nothing_is_parked(&stage).await;
    assert_eq!((audited(&stage, "discarded").await, audited(&stage, "released").await), (2, 1));
    assert_eq!(running.stop().await, Ended::Shutdown);
}

/// A11: an event that failed in place, was parked, and failed again as a release sees fresh input each
/// time; nothing of a failed attempt is left.
#[tokio::test]
async fn many_failed_attempts_and_a_success_are_one_success() {
    let mut stage = set("attempts", 1, soon()).await;
    stage.config.retry.attempts_max = 3;
    let running = stage.start(Routes::default().on("Counted", Sixth)).await;
    stage.count("a", 1, 3).await;
    eventually(SOON, "a", async || stage.of("a").await == [1, 2, 3]).await;
    nothing_is_parked(&stage).await;
    let seen = "SELECT count(*) FROM effects WHERE aggregate = 'attempt'";
    assert_eq!(stage.schema.number(seen).await, 3, "a failed attempt has left something");
    assert_eq!(running.stop().await, Ended::Shutdown);
}

/// Succeeds at its sixth attempt, and writes down what it was given each time.
struct Sixth;

impl Handler<Postgres> for Sixth {
    type Event = Count;

    async fn handle(&self, event: &Event<Count>, tx: &mut Tx<'_, Postgres>) -> HandlerResult {
        effect(event, &mut *tx).await?;
        sqlx::query(
            "INSERT INTO effects (aggregate, n, event_id, pid) VALUES ('attempt', $1, $2, 1)",
        )
        .bind(i64::from(event.attempt()))
        .bind(format!("attempt-{}", event.id()))
        .execute(&mut *tx)
        .await?;
        if event.attempt() < 6 {
            return Err(HandlerError::retry("not yet"));
        }
        Ok(())
    }
}

/// The reader and the routes of today count: a type that has a handler now is run, one that is ignored
/// now is settled.
#[tokio::test]
async fn a_parked_event_is_read_with_todays_rules() {
    let stage = set("today", 1, never()).await;
    let of = |event_type: &str, aggregate: &str, n: i64| {
        let payload = format!("{{\"n\":{n}}}");
        Record::event(&format!("{aggregate}-{n}"), event_type, aggregate, &payload)
    };
    stage
        .send(&[
            of("Later", "a", 1),
            of("Counted", "a", 2),
            of("Old", "b", 1),
            of("Counted", "b", 2),
        ])
        .await;
    let running = stage.start(Routes::default().on("Counted", Counter)).await;
    eventually(SOON, "parked", async || stage.parked("").await == 4).await;
    intend(&stage, "release", "anna", "reason = 'unknown_type'").await;
    eventually(SOON, "tried", async || audited(&stage, "release_failed").await == 2).await;
    assert_eq!((stage.parked("unknown_type").await, stage.effects().await), (2, 0));
    assert_eq!(running.stop().await, Ended::Shutdown);

    let routes = Routes::default().on("Counted", Counter).on("Later", Counter).ignore("Old");
    let running = stage.start(routes).await;
    intend(&stage, "release", "anna", "reason = 'unknown_type'").await;
    eventually(SOON, "a and b", async || {
        (stage.of("a").await, stage.of("b").await) == (vec![1, 2], vec![2])
    })
    .await;
    nothing_is_parked(&stage).await;
    assert_eq!(running.stop().await, Ended::Shutdown);
}

/// A record without an id is parked under its place. Read with other rules it has an id, and a second
/// copy of it: together they have one effect. The rules change the lanes, too, with events parked.
#[tokio::test]
async fn an_event_that_has_an_id_now_is_claimed_by_it() {
    let mut stage = set("rules", 1, never()).await;
    let without_id = |n: i64| {
        let payload = format!("{{\"n\":{n},\"id\":\"0190d3a4-0000-7000-8000-00000000000{n}\"}}");
        Record::default().key("a").header("event_type", "Counted").payload(payload)
    };
    stage.send(&[without_id(1), without_id(2)]).await;
    let running = stage.start(Routes::default().on("Counted", Counter)).await;
    eventually(SOON, "parked", async || stage.parked("").await == 2).await;
    assert_eq!(running.stop().await, Ended::Shutdown);

    let id = "pointer:/id".parse::<outbox_core::Source>().unwrap();
    let event_type = "header:event_type".parse::<outbox_core::Source>().unwrap();
    stage.config.events.format = Format::Custom;
    stage.config.events.rules = Some(ReadRules::new(id, event_type).into());
    stage.config.lanes.count = 5;
    stage.send(&[without_id(1), without_id(3)]).await;
    let running = stage.start(Routes::default().on("Counted", Counter)).await;
    eventually(SOON, "parked", async || stage.parked("").await == 4).await;
    intend(&stage, "release", "anna", "reason = 'undecodable'").await;
    eventually(SOON, "a", async || stage.of("a").await.contains(&3)).await;
    nothing_is_parked(&stage).await;
    let done = stage.of("a").await;
    assert!(done == [1, 2, 3] || done == [2, 1, 3], "{done:?}");
    assert_eq!(running.stop().await, Ended::Shutdown);
}
