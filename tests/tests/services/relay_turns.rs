//! The relay: crashes, freezes, hand-overs (F3, F4, F8, F10), and the chaos in small.

use std::time::Duration;

use outbox_relay::Ended;
use sqlx::Connection as _;
use tests::{
    Outbox, OwnKafka, SOON, Services, Worker, copies, counted_event, eventually, firsts,
    relay_chaos::{Plan, chaos, http},
};

use super::{commands::ran, relay_order::in_order};
use crate::programs::RELAY;

/// Waits until this process has the turn.
async fn active(outbox: &Outbox, relay: &Worker) {
    let end = format!("/{}", relay.pid());
    eventually(SOON, "the relay has the turn", async || {
        let holder: Option<String> =
            sqlx::query_scalar("SELECT owner FROM outbox_relays WHERE relay_ref = 1")
                .fetch_optional(outbox.schema.pool())
                .await
                .unwrap()
                .flatten();
        holder.is_some_and(|holder| holder.ends_with(&end))
    })
    .await;
}

/// F8, F10: killed between the acknowledgement and the mark: the next relay sends the same events, under
/// the same ids, and nothing else happens twice.
#[tokio::test]
async fn a_relay_killed_before_it_marks_sends_the_same_ids_again() {
    let outbox = Outbox::set("unmarked", 2).await;
    let mut relay = outbox.spawn(&RELAY);
    active(&outbox, &relay).await;
    outbox.append("warm", 1, 1).await;
    outbox.drained(SOON).await;
    // The mark waits for this lock; looking does not.
    let mut other = sqlx::PgConnection::connect(&outbox.schema.url()).await.unwrap();
    let mut lock = other.begin().await.unwrap();
    sqlx::query("SELECT FROM outbox_relays FOR UPDATE").execute(&mut *lock).await.unwrap();
    outbox.append_all(&(1..=10).map(|n| counted_event("a", n)).collect::<Vec<_>>()).await;
    outbox.arrived(11).await;
    // What is killed on its way to the server would arrive there after all.
    let own: i32 =
        sqlx::query_scalar("SELECT pg_backend_pid()").fetch_one(&mut *lock).await.unwrap();
    let blocked = format!("FROM pg_stat_activity WHERE {own} = ANY (pg_blocking_pids(pid))");
    // A renewal of the lease waits for the same lock.
    let waiting = format!("SELECT count(*) {blocked} AND query LIKE '%SET sent_at%'");
    eventually(SOON, "the mark waits for the lock", async || {
        outbox.schema.number(&waiting).await > 0
    })
    .await;
    relay.kill();
    // The server would go on with a dead client's statement; ended by a signal alone, it might do so first.
    outbox.schema.run(&format!("SELECT pg_terminate_backend(pid, 10000) {blocked}")).await;
    lock.rollback().await.unwrap();
    assert_eq!(outbox.waiting().await, 10, "nothing is marked");
    let second = outbox.start().await;
    outbox.drained(SOON).await;
    second.stop().await;
    let found = outbox.arrivals().await;
    assert_eq!(firsts(&found)["a"], (1..=10).collect::<Vec<i64>>());
    assert_eq!(copies(&found), 10, "what was not marked is there twice");
    let ids: i64 = outbox.schema.number("SELECT count(DISTINCT event_id) FROM outbox_events").await;
    let seen: std::collections::HashSet<_> = found.iter().map(|a| &a.event_id).collect();
    assert_eq!(i64::try_from(seen.len()).unwrap(), ids, "no id was made for a second time");
}

/// F8: killed before the acknowledgement: nothing is lost.
#[tokio::test]
async fn a_relay_killed_before_the_acknowledgement_loses_nothing() {
    let services = Services::from_env();
    let kafka = OwnKafka::start().await;
    let topic = kafka.topic("unacknowledged", 1).await;
    let outbox = Outbox::with(topic, services.schema().await).await;
    let mut relay = outbox.spawn(&RELAY);
    active(&outbox, &relay).await;
    outbox.append("a", 1, 3).await;
    outbox.drained(SOON).await;
    kafka.pause();
    outbox.append("a", 4, 20).await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(outbox.waiting().await, 17, "nothing is marked without an acknowledgement");
    relay.kill();
    kafka.resume();
    let second = outbox.start().await;
    outbox.drained(SOON).await;
    second.stop().await;
    in_order(&outbox.arrivals().await, &["a"], 20);
}

/// F3, F4: frozen past its lease with records in hand, a relay wakes into a world that has gone on: the
/// broker refuses what it still has, and it stands by.
#[tokio::test]
async fn a_frozen_relay_is_fenced_and_stands_by() {
    let services = Services::from_env();
    let kafka = OwnKafka::start().await;
    let topic = kafka.topic("frozen", 1).await;
    let outbox = Outbox::with(topic, services.schema().await).await;
    let first = outbox.spawn(&RELAY);
    active(&outbox, &first).await;
    outbox.append("a", 1, 3).await;
    outbox.drained(SOON).await;
    // The broker sleeps, so that the relay is frozen with a batch on its way.
    kafka.pause();
    outbox.append("a", 4, 9).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    first.pause();
    kafka.resume();
    let second = outbox.spawn(&RELAY);
    active(&outbox, &second).await;
    outbox.append("a", 10, 20).await;
    outbox.drained(SOON).await;
    first.resume();
    first.printed(SOON, "standby").await;
    outbox.append("a", 21, 25).await;
    outbox.drained(SOON).await;
    active(&outbox, &second).await;
    in_order(&outbox.arrivals().await, &["a"], 25);
}

/// A relay that is killed and started again succeeds itself at once; one that is frozen is not dead, and its lease is waited
/// for, as is a dead one's without a fence at the broker.
#[tokio::test]
async fn a_relay_that_died_on_this_machine_is_succeeded_at_once() {
    const LEASE: Duration = Duration::from_mins(1);
    for (fencing, frozen) in [(true, false), (true, true), (false, false)] {
        let mut outbox = Outbox::set("succeeded", 1).await;
        outbox.config.relay.lease = LEASE;
        outbox.config.kafka.fencing = fencing;
        let mut first = outbox.spawn(&RELAY);
        active(&outbox, &first).await;
        outbox.append("a", 1, 3).await;
        outbox.drained(SOON).await;
        if frozen {
            first.pause();
        } else {
            first.kill();
        }
        let second = outbox.spawn(&RELAY);
        outbox.append("a", 4, 6).await;
        if fencing && !frozen {
            outbox.drained(LEASE / 2).await;
            active(&outbox, &second).await;
            in_order(&outbox.arrivals().await, &["a"], 6);
        } else {
            second.printed(SOON, "standby").await;
            tokio::time::sleep(LEASE / 12).await;
            assert_eq!(outbox.waiting().await, 3, "fencing {fencing}, frozen {frozen}");
        }
    }
}

/// A relay that is shut down hands over at once.
#[tokio::test]
async fn a_shutdown_hands_the_turn_over_at_once() {
    let mut outbox = Outbox::set("handover", 1).await;
    outbox.config.relay.lease = Duration::from_secs(60);
    let first = outbox.start().await;
    outbox.append("a", 1, 2).await;
    outbox.drained(SOON).await;
    let second = outbox.start().await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(second.counters.read().turns, 0, "one ships at a time");
    assert_eq!(first.stop().await, Ended::Shutdown);
    outbox.append("a", 3, 4).await;
    outbox.drained(Duration::from_secs(10)).await;
    assert_eq!(second.stop().await, Ended::Shutdown);
    let found = outbox.arrivals().await;
    in_order(&found, &["a"], 4);
    assert_eq!(copies(&found), 0);
}

/// The database is away for a while: nothing is lost, and the relay goes on by itself.
#[tokio::test]
async fn a_database_that_is_away_stops_nothing_for_good() {
    let services = Services::from_env();
    let topic = services.topic("away", 1).await;
    let proxy = tests::Proxy::start(&address(&services.postgres)).await;
    let schema = services.schema().await;
    let url = schema.url_at(&proxy.url(&services.postgres));
    let mut outbox = Outbox::with(topic, schema).await;
    outbox.config.database.url = url.into();
    let running = outbox.start().await;
    outbox.append("a", 1, 5).await;
    outbox.drained(SOON).await;
    proxy.cut();
    outbox.append("a", 6, 10).await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    proxy.heal();
    outbox.drained(SOON).await;
    running.stop().await;
    in_order(&outbox.arrivals().await, &["a"], 10);
}

/// `host:port` of a URL.
fn address(url: &str) -> String {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let rest = rest.rsplit_once('@').map_or(rest, |(_, rest)| rest);
    rest.split(['/', '?']).next().unwrap_or(rest).to_owned()
}

/// A database and its clone have one id, and a relay each: they fence each other by turns, with batches that go
/// through in between. Both say so, until one has an id of its own.
#[tokio::test]
async fn relays_of_a_clone_name_the_id_that_they_share() {
    let (shop, clone) = (Outbox::set("shop", 1).await, Outbox::set("clone", 1).await);
    let id: String = sqlx::query_scalar("SELECT outbox_id::text FROM outbox_relays")
        .fetch_one(shop.schema.pool())
        .await
        .unwrap();
    clone.schema.run(&format!("UPDATE outbox_relays SET outbox_id = '{id}'")).await;
    let relays = [shop.start().await, clone.start().await];
    let named =
        format!("SELECT count(*) FROM outbox_relays WHERE standstill LIKE 'id_shared: %{id}%'");
    let mut last = 0;
    eventually(SOON, "both name it", async || {
        last += 1;
        for outbox in [&shop, &clone] {
            outbox.append("a", last, last).await;
            outbox.drained(SOON).await;
        }
        shop.schema.number(&named).await + clone.schema.number(&named).await == 2
    })
    .await;
    let (code, out, _) = ran(shop.command(&RELAY), "status").await;
    let step = "UPDATE outbox_relays SET outbox_id = gen_random_uuid()";
    assert_eq!((code, out.contains("id_shared: ") && out.contains(step)), (Some(0), true), "{out}");

    clone.schema.run(step).await;
    eventually(SOON, "the clone has a turn under its own id", async || {
        relays[1].counters.read().turns == 2
    })
    .await;
    let over = "SELECT count(*) FROM outbox_relays WHERE relay_ref = 1 AND standstill IS NULL";
    eventually(SOON * 2, "both are over it, while they ship", async || {
        last += 1;
        for outbox in [&shop, &clone] {
            outbox.append("a", last, last).await;
            outbox.drained(SOON).await;
        }
        shop.schema.number(over).await + clone.schema.number(over).await == 2
    })
    .await;
    assert_eq!(relays[0].counters.read().turns, 1);
    for relay in relays {
        assert_eq!(relay.stop().await, Ended::Shutdown);
    }
    for outbox in [&shop, &clone] {
        in_order(&outbox.arrivals().await, &["a"], last);
    }
}

/// The chaos in small: `cargo xtask relay-chaos` is the whole of it.
#[tokio::test(flavor = "multi_thread")]
async fn killed_and_frozen_relays_lose_and_reorder_nothing() {
    let plan = Plan { kills: 5, freezes: 2, failovers: 1, ..Plan::default() };
    let report = chaos(&RELAY, plan, 7).await;
    assert!(report.violations.is_empty(), "{report:#?}");
    assert!(report.events > 500 && report.turns >= 5, "{report:#?}");
}

/// The same where all three share the work.
#[tokio::test(flavor = "multi_thread")]
async fn killed_and_frozen_relays_that_share_lose_and_reorder_nothing() {
    let plan = Plan { kills: 5, freezes: 3, ..Plan::default() };
    let report = chaos(&RELAY, plan, 7).await;
    assert!(report.violations.is_empty(), "{report:#?}");
    assert!(report.events > 500 && report.turns >= 5, "{report:#?}");
}

/// The same with an HTTP destination: `cargo xtask relay-chaos --destination http` is the whole of it.
#[tokio::test(flavor = "multi_thread")]
async fn killed_and_frozen_relays_call_each_receiver_in_order() {
    let plan = http::Plan { kills: 2, freezes: 1, events: 300 };
    let report = http::chaos(&RELAY, plan, 7).await;
    assert!(report.violations.is_empty(), "{report:#?}");
    assert!(report.events >= 300 && report.turns >= 3, "{report:#?}");
}
