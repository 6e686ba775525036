//! Where rows go, and calls of destinations, without any of them.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use outbox_core::{Aggregate, OutboxEvent};
use outbox_planner::internal::{CallId, Fate, Incoming};

use super::{
    calls::Calls,
    missing_topics::MissingTopics,
    routing::{Content, ContentKind, Router},
};
use crate::{
    deadline::Deadline,
    destination::{Delivery, Destination, Outcome, Sink},
    format::Format,
    port::{Row, RowKey},
    routes::Routes,
    sink::TopicWait,
    topic::Template,
};

fn row(kind: &str) -> Row {
    let aggregate = Aggregate::new(kind, "a").unwrap();
    Row {
        id: RowKey { seq: 1, event: 0 },
        aggregate: aggregate.to_string(),
        blocked: false,
        claimed: false,
        attempts: 0,
        delay: None,
        age: Duration::ZERO,
        event: Ok(OutboxEvent::new("Paid", &aggregate, &1).unwrap()),
    }
}

/// Everything is for Kafka, to a topic by the aggregate's type.
fn route(row: Row, missing_topics: &MissingTopics) -> Incoming<Content> {
    let format = Format::Own(Template::read("{aggregate_type}").unwrap());
    let routes = Routes::default();
    Router { format: &format, routes: &routes, missing_topics, destinations: &[] }
        .route(row, Instant::now())
}

#[test]
fn a_row_goes_to_its_topic_or_waits_for_that() {
    let mut missing = MissingTopics::default();
    let sent = route(row("Order"), &missing);
    let Fate::Send(lane, Content { what: ContentKind::Record(record), .. }) = sent.fate else {
        panic!("{:?}", sent.fate)
    };
    assert_eq!((lane.destination, &*sent.destination), (0, "kafka"));
    assert_eq!((&*record.topic, record.record.key.as_deref()), ("Order", Some(&b"a"[..])));
    missing.add("Order", TopicWait::Presence, Instant::now());
    let waits = route(row("Order"), &missing);
    assert!(matches!(waits.fate, Fate::Awaits(_)) && waits.destination == "kafka:Order");
}

#[test]
fn a_row_that_is_no_event_or_has_no_topic_is_parked() {
    let no_event = Row { event: Err("the row is not an event".into()), ..row("Order") };
    for row in [no_event, row("Purchase Order")] {
        let parked = route(row, &MissingTopics::default());
        assert!(matches!(parked.fate, Fate::Unsendable(_)), "{:?}", parked.fate);
    }
}

#[test]
fn a_row_whose_time_has_not_come_is_scheduled() {
    let delay = Duration::from_secs(9);
    let later = Row { delay: Some(delay), ..row("Order") };
    let found = route(later, &MissingTopics::default());
    assert!(matches!(found.fate, Fate::Later(after) if after == delay), "{:?}", found.fate);
}

/// Counts the events that it is given.
#[derive(Default, Debug)]
struct Counter(AtomicUsize);

#[async_trait::async_trait]
impl Sink for Counter {
    async fn deliver(&self, batch: &[Delivery]) -> Vec<Outcome> {
        self.0.fetch_add(batch.len(), Relaxed);
        vec![Outcome::Delivered; batch.len()]
    }
}

/// Never answers; its deadline.
#[derive(Debug)]
struct Silent(Duration);

#[async_trait::async_trait]
impl Sink for Silent {
    async fn deliver(&self, _: &[Delivery]) -> Vec<Outcome> {
        std::future::pending().await
    }

    fn deadline(&self) -> Duration {
        self.0
    }
}

/// Answers for one event too many.
#[derive(Debug)]
struct Talkative;

#[async_trait::async_trait]
impl Sink for Talkative {
    async fn deliver(&self, batch: &[Delivery]) -> Vec<Outcome> {
        vec![Outcome::Delivered; batch.len() + 1]
    }
}

/// What comes of a call with one event.
async fn called(sink: Arc<dyn Sink>, until: &Deadline) -> Option<Vec<Outcome>> {
    let destination = Destination { name: "shop".into(), sink, one_scope: true };
    let event = row("Order").event.unwrap();
    let delivery = Delivery { event, topic: None, attempt: 1 };
    let mut calls = Calls::default();
    calls.start((CallId(7), &destination), vec![delivery], until);
    let ended = calls.next().await;
    assert_eq!(ended.id, CallId(7));
    ended.outcomes
}

#[tokio::test]
async fn a_call_whose_turn_is_over_is_not_made() {
    let counter = Arc::new(Counter::default());
    // It was ours when the call was decided on; the relay stood still before it was made.
    let over = Deadline::new(Instant::now());
    assert_eq!(called(Arc::<Counter>::clone(&counter), &over).await, None);
    assert_eq!(counter.0.load(Relaxed), 0);
    let ours = Deadline::new(Instant::now() + Duration::from_mins(1));
    assert_eq!(called(counter, &ours).await, Some(vec![Outcome::Delivered]));
}

#[tokio::test]
async fn what_a_destination_does_not_say_is_unknown() {
    let until = Deadline::new(Instant::now() + Duration::from_mins(1));
    let silent = called(Arc::new(Silent(Duration::from_millis(10))), &until).await;
    let error = "the destination did not answer within 10ms";
    assert_eq!(silent, Some(vec![Outcome::unknown(error)]));
    let talkative = called(Arc::new(Talkative), &until).await;
    let error = "the destination returned 2 outcomes for 1 events; it must return one for each";
    assert_eq!(talkative, Some(vec![Outcome::unknown(error)]));
}

#[tokio::test]
async fn a_call_goes_on_no_longer_than_the_turn() {
    let now = Instant::now();
    let until = Deadline::new(now + Duration::from_millis(20));
    let silent = Arc::new(Silent(Duration::from_mins(1)));
    let call = called(silent, &until);
    until.extend(now + Duration::from_millis(60));
    assert_eq!(call.await, None);
    assert!(now.elapsed() >= Duration::from_millis(60), "the lease was prolonged");
}
