//! The relay: what waits for one destination hides no other's rows, however much it is.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

use async_trait::async_trait;
use outbox_core::{Aggregate, OutboxEvent};
use outbox_relay::destination::{Delivery, Outcome, Sink};
use tests::{Outbox, Proxy, SOON, Services, eventually, firsts};

use super::relay_destinations::{Scripted, aggregates, numbers, outbox, route};

/// Of so few rows and bytes that a test has more.
fn small(mut outbox: Outbox) -> Outbox {
    outbox.config.batch.events_max = 20;
    outbox.config.batch.bytes_max = 64 * 1024;
    outbox
}

fn typed(event_type: &str, aggregate: &str, n: i64) -> OutboxEvent {
    let aggregate = Aggregate::new("Account", aggregate).unwrap();
    let payload = serde_json::json!({ "n": n, "text": "x".repeat(500) });
    OutboxEvent::new(event_type, &aggregate, &payload).unwrap()
}

/// Number 1 of each aggregate, number 2 of each, and so on.
async fn append(outbox: &Outbox, event_type: &str, names: &[String], count: i64) {
    for n in 1..=count {
        let events: Vec<_> = names.iter().map(|name| typed(event_type, name, n)).collect();
        outbox.append_all(&events).await;
    }
}

/// A destination that is out until it is opened.
fn closed() -> (Scripted, Arc<AtomicBool>) {
    let open = Arc::new(AtomicBool::new(false));
    let door = Arc::clone(&open);
    let answer = move |_: &str, _, _| {
        if door.load(Relaxed) { Outcome::Delivered } else { Outcome::unavailable("no server") }
    };
    (Scripted::new(answer), open)
}

/// While Kafka is away other destinations get what is theirs, behind more rows for Kafka than a look reads.
#[tokio::test]
async fn a_kafka_that_is_away_holds_no_other_destination() {
    let mut outbox = small(outbox("nokafka").await);
    outbox.config.routes = vec![route("Shop*", "shop"), route("*", "kafka")];
    let bootstrap = std::mem::replace(&mut outbox.config.kafka.bootstrap, "127.0.0.1:1".into());
    let names = aggregates(30);
    append(&outbox, "Counted", &names, 10).await;
    append(&outbox, "ShopPaid", &["s".into()], 10).await;
    let shop = Scripted::willing();
    let running = outbox.start_with(|it| it.destination("shop", shop.clone())).await;
    shop.has_taken(10).await;
    append(&outbox, "ShopPaid", &["t".into()], 10).await;
    shop.has_taken(20).await;
    // One aggregate crosses both.
    outbox.append_all(&[typed("Counted", "a3", 11), typed("ShopPaid", "a3", 12)]).await;
    append(&outbox, "ShopPaid", &["u".into()], 1).await;
    shop.has_taken(21).await;
    assert!(!shop.taken().contains_key("a3"), "what is for Kafka comes first");
    running.stop().await;
    outbox.config.kafka.bootstrap = bootstrap;
    let running = outbox.start_with(|it| it.destination("shop", shop.clone())).await;
    outbox.drained(SOON).await;
    running.stop().await;
    let arrived = firsts(&outbox.arrived(301).await);
    for name in &names {
        assert_eq!(arrived[name], numbers(if name == "a3" { 11 } else { 10 }), "{name}");
    }
    assert_eq!(shop.taken()["a3"], [12]);
}

/// Without Kafka, too: more rows than fit wait for a destination that is out, sessions are lost meanwhile, and another
/// goes on.
#[tokio::test]
async fn an_outage_hides_no_other_destination_without_kafka() {
    let mut outbox = small(outbox("hidden").await);
    let services = Services::from_env();
    let proxy = Proxy::start(services.postgres.rsplit(['@', '/']).nth(1).unwrap()).await;
    outbox.config.database.url = outbox.schema.url_at(&proxy.url(&services.postgres)).into();
    outbox.config.routes = vec![route("Mail*", "mail"), route("*", "shop")];
    let names = aggregates(400);
    append(&outbox, "MailWanted", &names, 3).await;
    append(&outbox, "ShopPaid", &["s".into()], 10).await;
    let ((mail, open), shop) = (closed(), Scripted::willing());
    let running = outbox
        .start_with(|it| it.destination("mail", mail.clone()).destination("shop", shop.clone()))
        .await;
    shop.has_taken(10).await;
    for round in ["t", "u", "v"] {
        proxy.cut();
        tokio::time::sleep(Duration::from_millis(200)).await;
        proxy.heal();
        append(&outbox, "ShopPaid", &[round.into()], 10).await;
        eventually(SOON, "it goes on", async || shop.taken().get(round) == Some(&numbers(10)))
            .await;
    }
    assert_eq!(outbox.parked("attempts > 0").await, 0);
    open.store(true, Relaxed);
    outbox.drained(SOON).await;
    running.stop().await;
    for name in &names {
        assert_eq!(mail.taken()[name], numbers(3), "{name}");
    }
}

/// An aggregate with more rows than a look reads hides nobody, whether its destination is slow or out.
#[tokio::test]
async fn an_aggregate_with_a_long_backlog_hides_nobody() {
    let mut outbox = small(outbox("long").await);
    outbox.config.routes =
        vec![route("Mail*", "mail"), route("Shop*", "shop"), route("*", "kafka")];
    append(&outbox, "MailWanted", &["long".into()], 700).await;
    append(&outbox, "ShopPaid", &["s".into()], 5).await;
    append(&outbox, "Counted", &["k".into()], 5).await;
    let mail = Scripted { pause: Duration::from_millis(20), ..Scripted::willing() };
    let shop = Scripted::willing();
    let running = outbox
        .start_with(|it| it.destination("mail", mail.clone()).destination("shop", shop.clone()))
        .await;
    shop.has_taken(5).await;
    let meanwhile = mail.count();
    outbox.arrived(5).await;
    assert!(meanwhile < 100 && mail.count() < 600, "it was not waited for: {meanwhile}");
    // The receiver takes 14 s at least, and longer where others run beside it.
    outbox.drained(SOON * 3).await;
    running.stop().await;
    assert_eq!(mail.taken()["long"], numbers(700));
}

/// Event types of one destination have outages of their own.
#[tokio::test]
async fn an_outage_of_one_scope_hides_no_other() {
    let outbox = small(outbox("scopes").await);
    let names = aggregates(300);
    append(&outbox, "MailWanted", &names, 2).await;
    append(&outbox, "CacheChanged", &["c".into()], 10).await;
    let open = Arc::new(AtomicBool::new(false));
    let door = Arc::clone(&open);
    let answer = move |aggregate: &str, _, _| {
        let works = aggregate == "c" || door.load(Relaxed);
        if works { Outcome::Delivered } else { Outcome::unavailable("no server") }
    };
    let shop = Scripted { scoped: true, ..Scripted::new(answer) };
    let running = outbox.start_with(|it| it.destination("shop", shop.clone())).await;
    eventually(SOON, "the other type goes on", async || shop.taken().contains_key("c")).await;
    shop.has_taken(10).await;
    open.store(true, Relaxed);
    outbox.drained(SOON).await;
    running.stop().await;
    assert_eq!(shop.count(), 610);
}

/// What was delivered is marked though another call is cut off at the end.
#[tokio::test]
async fn a_call_that_is_cut_off_at_the_end_costs_no_other_mark() {
    let mut outbox = outbox("cutoff").await;
    outbox.config.limits.shutdown_deadline = Duration::from_secs(1);
    let names = aggregates(7);
    append(&outbox, "ShopPaid", &["slow".into()], 1).await;
    append(&outbox, "ShopPaid", &names, 1).await;
    /// Takes long for one aggregate.
    struct Slow(Scripted);
    #[async_trait]
    impl Sink for Slow {
        async fn deliver(&self, batch: &[Delivery]) -> Vec<Outcome> {
            let aggregate = batch[0].event.envelope().aggregate.aggregate_id().to_owned();
            tokio::time::sleep(Duration::from_millis(if aggregate == "slow" {
                30_000
            } else {
                300
            }))
            .await;
            self.0.deliver(batch).await
        }
    }
    let shop = Scripted::willing();
    let slow = Slow(shop.clone());
    let running = outbox.start_with(|it| it.destination("shop", slow)).await;
    eventually(SOON, "all are called", async || outbox_is_read(&outbox).await).await;
    assert_eq!(running.stop().await, outbox_relay::Ended::ShutdownCutShort);
    assert_eq!(shop.count(), 7);
    let marked = "SELECT count(*) FROM outbox_events WHERE sent_at IS NOT NULL";
    assert_eq!(outbox.schema.number(marked).await, 7);
}

/// The relay has the turn, and has had time to read.
async fn outbox_is_read(outbox: &Outbox) -> bool {
    let held = "SELECT count(*) FROM outbox_relays WHERE owner IS NOT NULL";
    if outbox.schema.number(held).await == 0 {
        return false;
    }
    tokio::time::sleep(Duration::from_millis(200)).await;
    true
}

/// A row that waits for a topic goes when its route leads elsewhere; a destination may ask for any time.
#[tokio::test]
async fn rows_that_wait_for_a_topic_follow_a_new_route() {
    let outbox = outbox("moved").await;
    append(&outbox, "ShopPaid", &["a".into()], 2).await;
    let waits = "UPDATE outbox_events SET parked_at = now();
        INSERT INTO outbox_parked (seq, aggregate_type, aggregate_id, state, destination, due_at, error)
        SELECT seq, aggregate_type, aggregate_id, CASE seq WHEN 1 THEN 'waiting' ELSE 'behind' END, 'kafka:no-such',
            CASE seq WHEN 1 THEN now() END, CASE seq WHEN 1 THEN 'x' END FROM outbox_events";
    outbox.schema.run(waits).await;
    append(&outbox, "Forever", &["b".into()], 1).await;
    let shop = Scripted::new(|aggregate, _, _| {
        let after = Some(Duration::MAX);
        if aggregate == "b" {
            Outcome::Retry { error: "not in this life".into(), after }
        } else {
            Outcome::Delivered
        }
    });
    let running = outbox.start_with(|it| it.destination("shop", shop.clone())).await;
    shop.has_taken(2).await;
    let later = "state = 'retry' AND attempts = 1 AND due_at > now() + interval '30 days'";
    outbox.has_parked(later, 1).await;
    running.stop().await;
    assert_eq!(shop.taken()["a"], numbers(2));
}

/// A destination that works, and slowly, holds no other, however many aggregates wait for it.
#[tokio::test]
async fn a_slow_destination_holds_no_other() {
    let mut outbox = small(outbox("crowd").await);
    outbox.config.routes = vec![route("Mail*", "mail"), route("*", "shop")];
    let names = aggregates(240);
    append(&outbox, "MailWanted", &names, 1).await;
    append(&outbox, "ShopPaid", &["s".into()], 3).await;
    let mail = Scripted { pause: Duration::from_millis(900), ..Scripted::willing() };
    let shop = Scripted::willing();
    let running = outbox
        .start_with(|it| it.destination("mail", mail.clone()).destination("shop", shop.clone()))
        .await;
    shop.has_taken(3).await;
    // Nine a second, by eight calls.
    assert!(mail.count() < 170, "it was not waited for: {}", mail.count());
    outbox.drained(2 * SOON).await;
    running.stop().await;
    assert!(names.iter().all(|name| mail.taken()[name] == [1]));
}

/// What was passed over is read when there is room, though nobody tells of new rows and no poll comes.
#[tokio::test]
async fn rows_behind_others_of_their_aggregate_wait_for_no_poll() {
    let mut outbox = outbox("nopoll").await;
    outbox.config.wake.poll_interval = Duration::ZERO;
    outbox.config.routes = vec![route("Shop*", "shop"), route("*", "kafka")];
    append(&outbox, "ShopPaid", &["long".into()], 400).await;
    outbox.append_all(&[typed("ShopPaid", "x", 1), typed("Counted", "x", 2)]).await;
    let failing = |aggregate: &str, number, attempt| {
        let fails = (aggregate, number, attempt) == ("x", 1, 1);
        if fails { Outcome::retry("not now") } else { Outcome::Delivered }
    };
    let shop = Scripted::new(failing);
    let running = outbox.start_with(|it| it.destination("shop", shop.clone())).await;
    outbox.drained(SOON).await;
    running.stop().await;
    assert_eq!(shop.taken()["long"], numbers(400));
    assert_eq!(firsts(&outbox.arrived(1).await)["x"], [2]);
}
