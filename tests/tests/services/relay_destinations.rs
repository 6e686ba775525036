//! The relay: destinations besides Kafka. What is delivered when, what is tried again, what an outage is.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use async_trait::async_trait;
use outbox_core::{Aggregate, OutboxEvent};
use outbox_relay::{
    config::Route,
    destination::{Delivery, Outcome, Sink},
};
use tests::{Outbox, SOON, counted_event, eventually, firsts};

/// What a destination answers to an event: its aggregate, its number, its attempt.
pub(super) type Answer = dyn Fn(&str, i64, u32) -> Outcome + Send + Sync;

/// A destination that answers by a script, and remembers what it has taken.
#[derive(Clone)]
pub(super) struct Scripted {
    pub(super) answer: Arc<Answer>,
    pub(super) pause: Duration,
    /// Each event type has outages of its own.
    pub(super) scoped: bool,
    pub(super) seen: Arc<Mutex<Seen>>,
}

#[derive(Default)]
pub(super) struct Seen {
    /// Numbers by aggregate, in the order in which they were taken.
    taken: BTreeMap<String, Vec<i64>>,
    /// When each attempt came.
    attempts: Vec<(String, i64, u32, Instant)>,
    /// Aggregates with an event under way.
    open: HashMap<String, i64>,
}

impl Scripted {
    pub(super) fn new(answer: impl Fn(&str, i64, u32) -> Outcome + Send + Sync + 'static) -> Self {
        Self {
            answer: Arc::new(answer),
            pause: Duration::ZERO,
            scoped: false,
            seen: Arc::default(),
        }
    }

    pub(super) fn willing() -> Self {
        Self::new(|_, _, _| Outcome::Delivered)
    }

    pub(super) fn taken(&self) -> BTreeMap<String, Vec<i64>> {
        self.seen.lock().unwrap().taken.clone()
    }

    pub(super) fn count(&self) -> usize {
        self.taken().values().map(Vec::len).sum()
    }

    pub(super) async fn has_taken(&self, count: usize) {
        eventually(SOON, &format!("{count} events are taken"), async || self.count() >= count)
            .await;
    }

    pub(super) fn attempts(&self, aggregate: &str, number: i64) -> Vec<(u32, Instant)> {
        let seen = self.seen.lock().unwrap();
        let of = |(whose, n, ..): &&(String, i64, u32, Instant)| whose == aggregate && *n == number;
        seen.attempts.iter().filter(of).map(|(_, _, attempt, at)| (*attempt, *at)).collect()
    }
}

#[async_trait]
impl Sink for Scripted {
    async fn deliver(&self, batch: &[Delivery]) -> Vec<Outcome> {
        let mut outcomes = Vec::new();
        for delivery in batch {
            let envelope = delivery.event.envelope();
            let aggregate = envelope.aggregate.aggregate_id().to_owned();
            let payload = envelope.payload.clone().unwrap_or_default();
            let payload: serde_json::Value = serde_json::from_slice(&payload).unwrap();
            let number = payload["n"].as_i64().unwrap();
            {
                let mut seen = self.seen.lock().unwrap();
                let other = seen.open.insert(aggregate.clone(), number);
                assert_eq!(other, None, "one event of {aggregate} at a time");
                seen.attempts.push((aggregate.clone(), number, delivery.attempt, Instant::now()));
            }
            tokio::time::sleep(self.pause).await;
            let outcome = (self.answer)(&aggregate, number, delivery.attempt);
            let mut seen = self.seen.lock().unwrap();
            seen.open.remove(&aggregate);
            if outcome == Outcome::Delivered {
                seen.taken.entry(aggregate).or_default().push(number);
            }
            outcomes.push(outcome);
        }
        outcomes
    }

    fn calls_max(&self) -> usize {
        8
    }

    fn scope(&self, delivery: &Delivery) -> String {
        let event_type = &delivery.event.envelope().event_type;
        if self.scoped { event_type.to_string() } else { String::new() }
    }
}

pub(super) fn route(event_type: &str, to: &str) -> Route {
    Route { event_type: event_type.into(), aggregate_type: "*".into(), to: to.into() }
}

/// An outbox whose events all go to the destination `shop`, with short delays.
pub(super) async fn outbox(stem: &str) -> Outbox {
    let mut outbox = Outbox::set(stem, 1).await;
    outbox.config.routes = vec![route("*", "shop")];
    outbox.config.retry.delay_min = Duration::from_millis(100);
    outbox.config.retry.delay_max = Duration::from_secs(1);
    outbox
}

/// Events of aggregates, mixed: number 1 of each, number 2 of each, and so on.
async fn append_mixed(outbox: &Outbox, aggregates: &[String], numbers: i64) {
    let events: Vec<OutboxEvent> = (1..=numbers)
        .flat_map(|n| aggregates.iter().map(move |aggregate| counted_event(aggregate, n)))
        .collect();
    outbox.append_all(&events).await;
}

pub(super) fn aggregates(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("a{number}")).collect()
}

pub(super) fn numbers(to: i64) -> Vec<i64> {
    (1..=to).collect()
}

/// Each event is delivered once, and in the order of its aggregate, whatever fails now and then.
#[tokio::test]
async fn a_destination_takes_each_event_once_and_in_order() {
    let mut outbox = outbox("destination").await;
    outbox.config.batch.events_max = 50;
    let names = aggregates(40);
    append_mixed(&outbox, &names, 25).await;
    let shop = Scripted::new(|aggregate, number, attempt| {
        let own: i64 = aggregate[1..].parse().unwrap();
        let unlucky = (number * 7 + own) % 40 == 0;
        if unlucky && attempt == 1 { Outcome::retry("not now") } else { Outcome::Delivered }
    });
    let running = outbox.start_with(|it| it.destination("shop", shop.clone())).await;
    outbox.drained(SOON).await;
    running.stop().await;
    for name in &names {
        assert_eq!(shop.taken()[name], numbers(25), "{name}");
    }
    assert_eq!(outbox.arrivals().await.len(), 0, "Kafka has none of them");
}

/// An event that fails for itself is tried again later and later, what follows it waits, nothing else does.
#[tokio::test]
async fn an_event_that_fails_is_tried_again_and_holds_its_aggregate_alone() {
    let outbox = outbox("retried").await;
    outbox.append("poor", 1, 5).await;
    let names = aggregates(20);
    append_mixed(&outbox, &names, 10).await;
    outbox.record_attempts().await;
    let shop = Scripted::new(|aggregate, number, attempt| match (aggregate, number) {
        ("poor", 2) if attempt <= 3 => Outcome::retry("503 by the shop"),
        _ => Outcome::Delivered,
    });
    let running = outbox.start_with(|it| it.destination("shop", shop.clone())).await;
    shop.has_taken(201).await;
    outbox.append("poor", 6, 6).await;
    outbox.drained(SOON).await;
    shop.has_taken(206).await;
    running.stop().await;
    assert_eq!(shop.taken()["poor"], numbers(6));
    let attempts = shop.attempts("poor", 2);
    assert_eq!(attempts.iter().map(|(attempt, _)| *attempt).collect::<Vec<_>>(), [1, 2, 3, 4]);
    for (pair, least) in attempts.windows(2).zip([50, 100, 200]) {
        let pause = pair[1].1.duration_since(pair[0].1);
        assert!(pause >= Duration::from_millis(least), "{pause:?} is too soon");
    }
    assert_eq!(outbox.attempts_max("").await, 3, "three failed");
    assert_eq!(outbox.attempts_max("poor").await, 0, "of no other row");
    assert_eq!(outbox.parked("true").await, 0, "nothing is left of it");
}

/// After the last attempt, and after a refusal, the row is parked with what follows it.
#[tokio::test]
async fn what_fails_for_good_is_parked_with_what_follows_it() {
    let mut outbox = outbox("refused").await;
    outbox.config.retry.attempts_max = 2;
    outbox.append("tired", 1, 2).await;
    outbox.append("wrong", 1, 2).await;
    outbox.append("good", 1, 10).await;
    let shop = Scripted::new(|aggregate, _, _| match aggregate {
        "tired" => Outcome::retry("still closed"),
        "wrong" => Outcome::refused("404 by the shop"),
        _ => Outcome::Delivered,
    });
    let running = outbox.start_with(|it| it.destination("shop", shop.clone())).await;
    shop.has_taken(10).await;
    for condition in ["state = 'parked'", "state = 'behind'"] {
        outbox.has_parked(condition, 2).await;
    }
    running.stop().await;
    assert_eq!(shop.attempts("tired", 1).len(), 2);
    assert_eq!(shop.attempts("wrong", 1).len(), 1);
    assert_eq!(outbox.parked_error("tired").await, "still closed; that was attempt 2 of 2");
    assert_eq!(outbox.parked_error("wrong").await, "404 by the shop");
}

/// One event that is refused is parked within seconds though nothing else is delivered.
#[tokio::test]
async fn a_refusal_that_nothing_explains_is_the_events_own() {
    let outbox = outbox("alone").await;
    outbox.append("wrong", 1, 2).await;
    let shop = Scripted::new(|_, _, _| Outcome::refused("404 by the shop"));
    let running = outbox.start_with(|it| it.destination("shop", shop.clone())).await;
    outbox.has_parked("state = 'parked' AND attempts = 1", 1).await;
    outbox.has_parked("state = 'behind'", 1).await;
    running.stop().await;
    assert_eq!(shop.attempts("wrong", 1).len(), 1, "it is not tried again");
}

/// A destination that refuses all it is given is down: nothing is parked for a person until it takes something. What is
/// refused after that is the events' own.
#[tokio::test]
async fn refusals_of_three_aggregates_with_no_delivery_between_are_an_outage() {
    let outbox = outbox("allrefused").await;
    let names = aggregates(5);
    append_mixed(&outbox, &names, 2).await;
    let open = Arc::new(Mutex::new(false));
    let door = Arc::clone(&open);
    let shop = Scripted::new(move |aggregate, _, _| {
        let takes = *door.lock().unwrap() && aggregate != "a0";
        if takes { Outcome::Delivered } else { Outcome::refused("404 by the proxy") }
    });
    let running = outbox.start_with(|it| it.destination("shop", shop.clone())).await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    let spent = "attempts > 0 OR state IN ('retry', 'parked')";
    assert_eq!(outbox.parked(spent).await, 0, "no attempt is spent");
    *open.lock().unwrap() = true;
    shop.has_taken(8).await;
    outbox.has_parked("state = 'parked' AND aggregate_id = 'a0'", 1).await;
    outbox.has_parked("state = 'behind' AND aggregate_id = 'a0'", 1).await;
    running.stop().await;
    for name in &names[1..] {
        assert_eq!(shop.taken()[name], numbers(2), "{name}");
    }
    assert!(!shop.taken().contains_key("a0"));
}

/// What befalls every event is an outage: no attempt is spent, and all of it goes when it is over.
#[tokio::test]
async fn an_outage_spends_no_attempt_and_ends_by_itself() {
    let outbox = outbox("outage").await;
    let names = aggregates(30);
    append_mixed(&outbox, &names, 10).await;
    let open = Arc::new(Mutex::new(false));
    let door = Arc::clone(&open);
    let shop = Scripted::new(move |_, _, _| {
        if *door.lock().unwrap() { Outcome::Delivered } else { Outcome::retry("502") }
    });
    let running = outbox.start_with(|it| it.destination("shop", shop.clone())).await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    let tried = shop.seen.lock().unwrap().attempts.len();
    assert!(tried < 30, "{tried} attempts: probes alone");
    let spent = "attempts > 0 OR state IN ('retry', 'parked')";
    assert_eq!(outbox.parked(spent).await, 0, "what is parked waits for the destination");
    *open.lock().unwrap() = true;
    outbox.drained(SOON).await;
    running.stop().await;
    for name in &names {
        assert_eq!(shop.taken()[name], numbers(10), "{name}");
    }
}

/// A destination that is out holds neither another destination nor Kafka, however much waits for it.
#[tokio::test]
async fn an_outage_of_one_destination_holds_no_other() {
    let mut outbox = outbox("neighbour").await;
    outbox.config.batch.events_max = 20;
    outbox.config.routes =
        vec![route("Mail*", "mail"), route("Shop*", "shop"), route("*", "kafka")];
    let names = aggregates(300);
    let typed = |event_type: &str, aggregate: &str, n: i64| {
        let aggregate = Aggregate::new("Account", aggregate).unwrap();
        OutboxEvent::new(event_type, &aggregate, &serde_json::json!({ "n": n })).unwrap()
    };
    let mails: Vec<_> = names.iter().map(|name| typed("MailWanted", name, 1)).collect();
    outbox.append_all(&mails).await;
    outbox.append_all(&(1..=50).map(|n| typed("ShopPaid", "s", n)).collect::<Vec<_>>()).await;
    outbox.append_all(&(1..=50).map(|n| typed("Counted", "k", n)).collect::<Vec<_>>()).await;
    // One aggregate crosses all three.
    let crossing =
        [typed("ShopPaid", "x", 1), typed("MailWanted", "x", 2), typed("Counted", "x", 3)];
    outbox.append_all(&crossing).await;
    let open = Arc::new(Mutex::new(false));
    let door = Arc::clone(&open);
    let mail = Scripted::new(move |_, _, _| {
        if *door.lock().unwrap() { Outcome::Delivered } else { Outcome::unavailable("no server") }
    });
    let shop = Scripted::willing();
    let running = outbox
        .start_with(|it| it.destination("mail", mail.clone()).destination("shop", shop.clone()))
        .await;
    shop.has_taken(51).await;
    assert_eq!(firsts(&outbox.arrived(50).await)["k"], numbers(50));
    assert_eq!(shop.taken()["s"], numbers(50));
    assert_eq!(outbox.parked("attempts > 0 OR state = 'parked'").await, 0);
    assert_eq!(outbox.arrivals().await.len(), 50, "the crossing aggregate waits for its mail");
    *open.lock().unwrap() = true;
    outbox.drained(SOON).await;
    running.stop().await;
    assert_eq!(mail.count(), 301);
    assert_eq!(firsts(&outbox.arrivals().await)["x"], [3]);
}

/// What no route takes is parked, never dropped.
#[tokio::test]
async fn what_no_route_takes_is_parked() {
    let mut outbox = outbox("nowhere").await;
    outbox.config.routes = vec![route("Other", "shop")];
    outbox.append("a", 1, 2).await;
    let shop = Scripted::willing();
    let running = outbox.start_with(|it| it.destination("shop", shop.clone())).await;
    let error = "state = 'parked' AND error LIKE 'no route matches events of type Counted%'";
    outbox.has_parked(error, 1).await;
    running.stop().await;
    assert_eq!(shop.count(), 0);
}

/// A delayed event goes when its time has come, not before, and what follows it of its aggregate waits for it.
#[tokio::test]
async fn a_delayed_event_goes_when_its_time_has_come() {
    let outbox = outbox("delayed").await;
    outbox.append("a", 1, 3).await;
    outbox
        .schema
        .run("UPDATE outbox_events SET deliver_after = now() + interval '2 s' WHERE seq = 2")
        .await;
    outbox.append("b", 1, 5).await;
    let (began, shop) = (Instant::now(), Scripted::willing());
    let running = outbox.start_with(|it| it.destination("shop", shop.clone())).await;
    shop.has_taken(6).await;
    assert_eq!(shop.taken()["a"], [1]);
    shop.has_taken(8).await;
    assert!(began.elapsed() > Duration::from_millis(1_500), "{:?}", began.elapsed());
    assert!(began.elapsed() < Duration::from_secs(6), "{:?}", began.elapsed());
    running.stop().await;
    assert_eq!(shop.taken()["a"], numbers(3));
    assert_eq!(shop.attempts("a", 2)[0].0, 1, "waiting is no attempt");
}

/// The relay waits for what is under way when it is asked to end, and marks it.
#[tokio::test]
async fn what_is_under_way_at_the_end_is_marked() {
    let outbox = outbox("ending").await;
    append_mixed(&outbox, &aggregates(8), 3).await;
    let shop = Scripted { pause: Duration::from_millis(400), ..Scripted::willing() };
    let running = outbox.start_with(|it| it.destination("shop", shop.clone())).await;
    shop.has_taken(8).await;
    running.stop().await;
    let taken = i64::try_from(shop.count()).unwrap();
    let marked = "SELECT count(*) FROM outbox_events WHERE sent_at IS NOT NULL";
    assert_eq!(outbox.schema.number(marked).await, taken);
    assert!(taken < 24, "{taken}: nothing new is begun");
}

/// A destination that panics or does not answer has failed; it takes nothing down.
#[tokio::test]
async fn a_destination_that_panics_has_failed() {
    let outbox = outbox("panics").await;
    outbox.append("a", 1, 2).await;
    outbox.append("b", 1, 2).await;
    let shop = Scripted::new(|aggregate, number, attempt| {
        assert!((aggregate, number) != ("a", 1) || attempt > 2, "told to panic");
        Outcome::Delivered
    });
    let shop_of_relay = Forgetful(shop.clone());
    let running = outbox.start_with(|it| it.destination("shop", shop_of_relay)).await;
    outbox.drained(SOON).await;
    shop.has_taken(4).await;
    running.stop().await;
    assert_eq!(shop.taken()["a"], numbers(2));
    assert_eq!(shop.attempts("a", 1).len(), 3);
}

/// Forgets what was open when it panicked.
struct Forgetful(Scripted);

#[async_trait]
impl Sink for Forgetful {
    async fn deliver(&self, batch: &[Delivery]) -> Vec<Outcome> {
        for delivery in batch {
            let aggregate = delivery.event.envelope().aggregate.aggregate_id().to_owned();
            self.0.seen.lock().unwrap().open.remove(&aggregate);
        }
        self.0.deliver(batch).await
    }
}

/// A relay that is switched off ships nothing, needs no database, and ends when it is asked to.
#[tokio::test]
async fn a_relay_that_is_switched_off_ships_nothing() {
    let mut outbox = outbox("disabled").await;
    outbox.append("a", 1, 1).await;
    outbox.config.relay.enabled = false;
    let shop = Scripted::willing();
    let running = outbox.start_with(|it| it.destination("shop", shop.clone())).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(running.stop().await, outbox_relay::Ended::Shutdown);
    assert_eq!(shop.count(), 0);
    outbox.config.database.url = "postgres://nobody@127.0.0.1:1/nowhere".into();
    let running = outbox.start_with(|it| it.destination("shop", shop.clone())).await;
    assert_eq!(running.stop().await, outbox_relay::Ended::Shutdown);
}
