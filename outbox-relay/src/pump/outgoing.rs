//! Rows become records to send; what is no event, or has no topic, is set aside before anything is sent.

use std::{collections::HashSet, time::Instant};

use outbox_core::OutboxEvent;

use super::missing_topics::MissingTopics;
use crate::{
    port::{Row, RowFailure, RowId},
    sink::OutgoingRecord,
    topic::Template,
};

/// A batch, sorted out.
#[derive(Debug, Default)]
pub(super) struct OutgoingBatch {
    /// The rows to send, in order, and what to send for each.
    pub(super) ids: Vec<RowId>,
    pub(super) records: Vec<OutgoingRecord>,
    /// When the oldest of them was appended.
    pub(super) appended: Option<Instant>,
    /// The rows to set aside.
    pub(super) failed: Vec<RowFailure>,
    /// The rows to hold.
    pub(super) blocked: Vec<RowId>,
}

/// Sorts rows out. Rows behind a failed one of their aggregate are in neither list: they wait.
pub(super) fn sort(
    rows: Vec<Row>,
    template: &Template,
    missing_topics: &MissingTopics,
) -> OutgoingBatch {
    let mut batch = OutgoingBatch::default();
    let mut held = HashSet::new();
    for Row { id, aggregate, blocked, appended, event } in rows {
        if blocked {
            batch.blocked.push(id);
            continue;
        }
        if held.contains(&aggregate) {
            continue;
        }
        let readable = event.is_ok();
        match event.and_then(|event| record(&event, &aggregate, template)) {
            Ok(record) if missing_topics.contains(&record.topic) => {
                held.insert(aggregate);
                batch.failed.push(waits(id, label(&record.aggregate, id), record.topic));
            }
            Ok(record) => {
                batch.appended = batch.appended.into_iter().chain(appended).min();
                batch.ids.push(id);
                batch.records.push(record);
            }
            Err(error) => {
                let event = if readable { label(&aggregate, id) } else { aggregate.clone() };
                held.insert(aggregate);
                batch.failed.push(RowFailure { id, event, error, waits_for: None });
            }
        }
    }
    batch
}

/// What the log calls an event.
pub(super) fn label(aggregate: &str, id: RowId) -> String {
    format!("{aggregate} {}", id.event)
}

/// A row whose topic is missing.
pub(super) fn waits(id: RowId, event: String, topic: String) -> RowFailure {
    let error = format!(
        "the topic {topic} is not there; create it, and the row goes by itself, or correct `kafka.topic` or the \
         row's own topic"
    );
    RowFailure { id, event, error, waits_for: Some(topic) }
}

fn record(
    event: &OutboxEvent,
    aggregate: &str,
    template: &Template,
) -> Result<OutgoingRecord, String> {
    let envelope = event.envelope();
    let kind = envelope.aggregate.aggregate_type();
    let topic = template.topic(event.topic(), kind, &envelope.event_type)?;
    Ok(OutgoingRecord { topic, aggregate: aggregate.to_owned(), record: event.record() })
}

#[cfg(test)]
mod tests {
    use outbox_core::Aggregate;

    use super::*;

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
            appended: None,
            event: Ok(event),
        }
    }

    #[test]
    fn what_follows_a_failed_row_of_its_aggregate_waits() {
        let rows = vec![
            row(1, "Order", "a"),
            row(2, "Purchase Order", "b"),
            row(3, "Purchase Order", "b"),
            Row {
                id: numbered(4),
                aggregate: "Order/c".into(),
                blocked: false,
                appended: None,
                event: Err("the row is no event".into()),
            },
            row(5, "Order", "a"),
            row(6, "Order", "c"),
        ];
        let batch =
            sort(rows, &Template::read("{aggregate_type}").unwrap(), &MissingTopics::default());
        assert_eq!(batch.ids, [numbered(1), numbered(5)]);
        let failed: Vec<i64> = batch.failed.iter().map(|failure| failure.id.seq).collect();
        assert_eq!(failed, [2, 4], "the second rows of b and c wait behind the first");
        assert_eq!(batch.records[0].record.key.as_deref(), Some(&b"a"[..]));
    }
}
