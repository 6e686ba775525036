//! What becomes of rows, sorted out without any destination.

use outbox_core::{Aggregate, OutboxEvent};

use crate::topic::Template;

use super::{
    super::dispatch::{Bounds, RetryRules},
    *,
};

fn numbered(seq: i64) -> RowId {
    RowId { seq, event: uuid::Uuid::nil() }
}

fn row(seq: i64, kind: &str, id: &str) -> Row {
    let aggregate = Aggregate::new(kind, id).unwrap();
    let event = OutboxEvent::new("Paid", &aggregate, &1).unwrap();
    Row {
        id: numbered(seq),
        aggregate: aggregate.to_string(),
        blocked: false,
        waited: false,
        attempts: 0,
        delay: None,
        age: Duration::ZERO,
        event: Ok(event),
    }
}

fn ids(batch: &OutgoingBatch) -> Vec<RowId> {
    batch.rows.iter().map(|row| row.id).collect()
}

/// Everything is for Kafka.
fn sort(rows: Vec<Row>, template: &str) -> OutgoingBatch {
    let sorter = Sorter {
        format: &Format::Own(Template::read(template).unwrap()),
        routes: &Routes::default(),
        missing_topics: &MissingTopics::default(),
        kafka: true,
        kafka_max: usize::MAX,
        destinations: &[],
    };
    sorter.sort(rows, &mut dispatch(0), Instant::now())
}

fn dispatch(destinations: usize) -> Dispatch {
    let rules = RetryRules {
        attempts_max: 3,
        delay_min: Duration::from_secs(1),
        delay_max: Duration::from_secs(1),
        outage_delay_max: Duration::from_secs(1),
    };
    let bounds = Bounds { name: "shop".into(), batch_max: 1, calls_max: 1 };
    Dispatch::new(rules, vec![bounds; destinations], 100, 100)
}

#[test]
fn what_follows_a_failed_row_of_its_aggregate_waits() {
    let rows = vec![
        row(1, "Order", "a"),
        row(2, "Purchase Order", "b"),
        row(3, "Purchase Order", "b"),
        Row { event: Err("the row is not an event".into()), ..row(4, "Order", "c") },
        row(5, "Order", "a"),
        row(6, "Order", "c"),
    ];
    let batch = sort(rows, "{aggregate_type}");
    assert_eq!(ids(&batch), [numbered(1), numbered(5)]);
    let failed: Vec<i64> = batch.failed.iter().map(|failure| failure.id.seq).collect();
    assert_eq!(failed, [2, 4], "the second rows of b and c wait behind the first");
    assert_eq!(batch.records[0].record.key.as_deref(), Some(&b"a"[..]));
}

#[test]
fn a_row_whose_time_has_not_come_waits_and_what_follows_it() {
    let delay = Some(Duration::from_secs(9));
    let rows = vec![
        row(1, "Order", "a"),
        Row { delay, attempts: 2, ..row(2, "Order", "b") },
        row(3, "Order", "b"),
        row(4, "Order", "a"),
    ];
    let batch = sort(rows, "orders");
    assert_eq!(ids(&batch), [numbered(1), numbered(4)]);
    let [failure] = &batch.failed[..] else { panic!("one row waits: {:?}", batch.failed) };
    assert_eq!((failure.id, failure.retry_after), (numbered(2), delay));
    assert_eq!(failure.attempts, 2, "no attempt is spent");
}

#[test]
fn a_row_whose_time_has_not_come_is_set_aside_as_the_first_of_its_aggregate_alone() {
    let delay = Some(Duration::from_secs(9));
    let rows = vec![row(1, "Order", "a"), Row { delay, ..row(2, "Order", "a") }];
    let batch = sort(rows.clone(), "orders");
    assert_eq!((ids(&batch), batch.failed.len()), (vec![numbered(1)], 0));
    assert_eq!(sort(rows[1..].to_vec(), "orders").failed.len(), 1);
}

#[test]
fn what_goes_elsewhere_is_taken_in_and_an_aggregate_does_not_overtake_itself() {
    struct Shop;

    #[async_trait::async_trait]
    impl crate::destination::Sink for Shop {
        async fn deliver(&self, _: &[Delivery]) -> Vec<crate::destination::Outcome> {
            Vec::new()
        }
    }

    let sink = std::sync::Arc::new(Shop);
    let destinations = [Destination { name: "shop".into(), sink, one_scope: true }];
    let routes = [("*", "Mail", "shop"), ("*", "Order", "kafka"), ("Paid", "Both", "shop")];
    let routes = Routes::read(routes, &["shop".to_owned()]).unwrap();
    let mut sorter = Sorter {
        format: &Format::Own(Template::read("orders").unwrap()),
        routes: &routes,
        missing_topics: &MissingTopics::default(),
        kafka: true,
        kafka_max: usize::MAX,
        destinations: &destinations,
    };
    let mut dispatch = dispatch(1);
    let rows = vec![
        row(1, "Mail", "a"),
        row(2, "Order", "b"),
        row(3, "Mail", "a"),
        row(4, "Lost", "c"),
        row(5, "Lost", "c"),
    ];
    let batch = sorter.sort(rows.clone(), &mut dispatch, Instant::now());
    assert_eq!((ids(&batch), batch.taken), (vec![numbered(2)], 2));
    assert_eq!(batch.failed.len(), 1, "no route takes it, and the next one waits");
    assert!(dispatch.knows(1) && dispatch.knows(3) && dispatch.has("Mail/a"));
    let again = sorter.sort(rows.clone(), &mut dispatch, Instant::now());
    assert_eq!(again.taken, 0, "what is known is not taken in again");
    sorter.kafka = false;
    let without = sorter.sort(rows, &mut dispatch, Instant::now());
    assert!(without.rows.is_empty() && without.passed >= 1);
}
