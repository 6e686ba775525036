//! Rows become records to send; what is no event, or has no topic, is set aside before anything is sent.

use std::{collections::HashSet, time::Instant};

use inbox_engine::internal::Rule;

use super::{
    dispatch::{Dispatch, Item},
    missing_topics::MissingTopics,
};
use crate::{
    destination::{Delivery, Destination},
    port::{Row, RowFailure, RowId},
    routes::{Routes, Way},
    sink::OutgoingRecord,
    topic::Template,
};

/// Written on a row that is not sent before a time of its own.
const NOT_YET: &str = "its time, `deliver_after`, has not come; it goes by itself then";

/// What decides where rows go.
pub(super) struct Sorter<'a> {
    pub(super) template: &'a Template,
    pub(super) routes: &'a Routes,
    pub(super) missing_topics: &'a MissingTopics,
    /// Whether Kafka takes any now; otherwise what is for Kafka is passed over.
    pub(super) kafka: bool,
    pub(super) destinations: &'a [Destination],
}

/// A batch, sorted out.
#[derive(Debug, Default)]
pub(super) struct OutgoingBatch {
    /// The rows to send to Kafka, in order, and what to send for each.
    pub(super) rows: Vec<SentRow>,
    pub(super) records: Vec<OutgoingRecord>,
    /// When the oldest of them was appended.
    pub(super) appended: Option<Instant>,
    /// The rows to set aside.
    pub(super) failed: Vec<RowFailure>,
    /// The rows to hold.
    pub(super) blocked: Vec<RowId>,
    /// Rows that other destinations take.
    pub(super) taken: usize,
    /// Rows that nothing becomes of now.
    pub(super) passed: usize,
    /// The first of these of each aggregate that waits for room or for Kafka: where they hide others they wait in the
    /// database.
    pub(super) overflow: Vec<Overflow>,
}

/// A row that is passed over.
#[derive(Debug)]
pub(super) struct Overflow {
    pub(super) id: RowId,
    pub(super) aggregate: String,
    pub(super) attempts: u32,
    /// The lane that has no room; `None`: it is for Kafka.
    pub(super) lane: Option<(usize, String)>,
}

/// A row that is sent to Kafka.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct SentRow {
    pub(super) id: RowId,
    /// It waited for its time, set aside.
    pub(super) waited: bool,
    /// How often it was tried in vain.
    pub(super) attempts: u32,
}

impl OutgoingBatch {
    /// Whether it has a record of an aggregate.
    fn has(&self, aggregate: &str) -> bool {
        self.records.iter().any(|record| record.aggregate == aggregate)
    }
}

impl Sorter<'_> {
    /// Sorts rows out; what is for other destinations than Kafka is taken in there. Rows behind one of their aggregate
    /// that nothing becomes of now wait for it.
    pub(super) fn sort(
        &self,
        rows: Vec<Row>,
        dispatch: &mut Dispatch,
        now: Instant,
    ) -> OutgoingBatch {
        let mut batch = OutgoingBatch::default();
        let (mut held, mut in_batch) = (HashSet::new(), HashSet::new());
        for row in rows {
            let Row { id, aggregate, blocked, attempts, delay, .. } = &row;
            if *blocked {
                batch.blocked.push(*id);
                continue;
            }
            if dispatch.knows(id.seq) {
                continue;
            }
            if held.contains(aggregate) {
                batch.passed += 1;
                continue;
            }
            if let Some(after) = delay.filter(|_| Rule::DelayKept.on()) {
                let (id, attempts) = (*id, *attempts);
                // Only the first of its aggregate waits set aside: what is due is sent, whatever is before it.
                let first = !dispatch.has(aggregate) && !batch.has(aggregate);
                if first {
                    let (event, error) = (label(aggregate, id), NOT_YET.into());
                    let retry_after = Some(after);
                    batch.failed.push(RowFailure {
                        id,
                        event,
                        error,
                        waits_for: None,
                        attempts,
                        retry_after,
                    });
                } else {
                    batch.passed += 1;
                }
                held.insert(row.aggregate);
                continue;
            }
            let overflow = |lane| Overflow {
                id: *id,
                aggregate: aggregate.clone(),
                attempts: *attempts,
                lane,
            };
            let passed = match self.way(&row) {
                Ok(Way::Kafka) if dispatch.has(aggregate) => {
                    Some(dispatch.lane_of(aggregate).map(|lane| overflow(Some(lane))))
                }
                Ok(Way::Kafka) if !self.kafka => Some(Some(overflow(None))),
                Ok(Way::Sink(_)) if in_batch.contains(aggregate) => Some(None),
                Ok(Way::Sink(sink)) => {
                    match self.item(sink, &row, now).map(|item| dispatch.take_in(item)) {
                        Some(Ok(())) => {
                            batch.taken += 1;
                            continue;
                        }
                        Some(Err(item)) => Some(Some(overflow(Some((sink, item.scope))))),
                        None => Some(None),
                    }
                }
                Ok(Way::Kafka | Way::Nowhere) | Err(()) => None,
            };
            if let Some(overflow) = passed {
                batch.passed += 1;
                batch.overflow.extend(overflow);
                held.insert(row.aggregate);
                continue;
            }
            match self.record(&row) {
                Ok(record) => {
                    if dispatch.is_used() {
                        in_batch.insert(row.aggregate);
                    }
                    let Row { id, waited, attempts, age, .. } = row;
                    let appended = now.checked_sub(age);
                    batch.appended = batch.appended.into_iter().chain(appended).min();
                    batch.rows.push(SentRow { id, waited, attempts });
                    batch.records.push(record);
                }
                Err(failure) => {
                    batch.failed.push(failure);
                    held.insert(row.aggregate);
                }
            }
        }
        batch
    }

    fn way(&self, row: &Row) -> Result<Way, ()> {
        let envelope = row.event.as_ref().map_err(drop)?.envelope();
        Ok(self.routes.way(&envelope.event_type, envelope.aggregate.aggregate_type()))
    }

    fn item(&self, sink: usize, row: &Row, now: Instant) -> Option<Item> {
        let (Ok(event), Some(destination)) = (&row.event, self.destinations.get(sink)) else {
            return None;
        };
        let envelope = event.envelope();
        let kind = envelope.aggregate.aggregate_type();
        let topic = self.template.topic(event.topic(), kind, &envelope.event_type).ok();
        let bytes = row.bytes();
        let attempt = row.attempts.saturating_add(1);
        let delivery = Delivery { event: event.clone(), topic, attempt };
        let scope = destination.sink.scope(&delivery);
        Some(Item {
            id: row.id,
            aggregate: row.aggregate.clone(),
            sink,
            scope,
            delivery,
            late: row.waited,
            bytes,
            read: (now, row.age),
        })
    }

    /// What Kafka is sent for a row, or what is wrong with it.
    fn record(&self, row: &Row) -> Result<OutgoingRecord, RowFailure> {
        let Row { id, aggregate, attempts, event, .. } = row;
        let failure = |event: String, error: String| {
            let (id, attempts) = (*id, *attempts);
            RowFailure { id, event, error, waits_for: None, attempts, retry_after: None }
        };
        let event = event.as_ref().map_err(|error| failure(aggregate.clone(), error.clone()))?;
        let envelope = event.envelope();
        let kind = envelope.aggregate.aggregate_type();
        let event_type = &envelope.event_type;
        if self.routes.way(event_type, kind) == Way::Nowhere {
            let error = format!(
                "no route takes events of type {event_type} of the aggregate type {kind}; add one to [[routes]], then \
                 retry the row"
            );
            return Err(failure(label(aggregate, *id), error));
        }
        let topic = self.template.topic(event.topic(), kind, event_type);
        let topic = topic.map_err(|error| failure(label(aggregate, *id), error))?;
        if self.missing_topics.contains(&topic) {
            let event = label(aggregate, *id);
            return Err(RowFailure { attempts: *attempts, ..waits(*id, event, topic) });
        }
        Ok(OutgoingRecord { topic, aggregate: aggregate.clone(), record: event.record() })
    }
}

/// What the log calls an event.
pub(super) fn label(aggregate: &str, id: RowId) -> String {
    format!("{aggregate} {}", id.event)
}

impl Overflow {
    /// It waits in the database under this name.
    pub(super) fn failure(self, name: String) -> RowFailure {
        let Self { id, aggregate, attempts, .. } = self;
        let error = format!("{name} is out, or has more to do than fits; it goes by itself");
        let event = label(&aggregate, id);
        RowFailure { id, event, error, waits_for: Some(name), attempts, retry_after: None }
    }
}

/// A row whose topic is missing.
pub(super) fn waits(id: RowId, event: String, topic: String) -> RowFailure {
    let error = format!(
        "the topic {topic} is not there; create it, and the row goes by itself, or correct `kafka.topic` or the \
         row's own topic"
    );
    RowFailure { id, event, error, waits_for: Some(topic), attempts: 0, retry_after: None }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use outbox_core::{Aggregate, OutboxEvent};

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
            template: &Template::read(template).unwrap(),
            routes: &Routes::default(),
            missing_topics: &MissingTopics::default(),
            kafka: true,
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
            Row { event: Err("the row is no event".into()), ..row(4, "Order", "c") },
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
            template: &Template::read("orders").unwrap(),
            routes: &routes,
            missing_topics: &MissingTopics::default(),
            kafka: true,
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
}
