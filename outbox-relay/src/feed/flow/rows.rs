//! A row that is read becomes an event again.

use bytes::Bytes;
use inbox_engine::internal::Rule;
use outbox_core::{Aggregate, Envelope, EventId, OutboxEvent, Text, internal::headers_from_json};
use uuid::Uuid;

use super::Columns;
use crate::{
    feed::duration,
    port::{Row, RowKey},
};

/// The columns of a row. What a column holds may be nothing that can be read: then the row is no event, and
/// no other row suffers from that.
struct Stored {
    id: RowKey,
    event_type: Column<String>,
    aggregate_type: Column<String>,
    aggregate_id: Column<String>,
    aggregate_version: Column<Option<i64>>,
    occurred_at_ms: Column<Option<i64>>,
    schema_version: Column<Option<i32>>,
    topic: Column<Option<String>>,
    /// What cannot be read, or is none, is not sent; the table's checks allow neither.
    dedup_key: Option<String>,
    headers: Column<String>,
    payload: Column<Option<Vec<u8>>>,
}

/// A column that was read, or why not.
type Column<T> = Result<T, sqlx::Error>;

/// The row that a read found, or one that was claimed from the parking store. Fails without number or id, and where what
/// the statement computed is not there.
pub(crate) fn row(found: &impl Columns, claimed: bool) -> Result<Row, sqlx::Error> {
    let event: Uuid = found.read("event_id")?;
    let stored = Stored {
        id: RowKey { seq: found.read("seq")?, event: event.as_u128() },
        event_type: found.read("event_type"),
        aggregate_type: found.read("aggregate_type"),
        aggregate_id: found.read("aggregate_id"),
        aggregate_version: found.read("aggregate_version"),
        occurred_at_ms: found.read("occurred_at_ms"),
        schema_version: found.read("schema_version"),
        topic: found.read("topic"),
        dedup_key: found.read("dedup_key").unwrap_or_default(),
        headers: found.read("headers"),
        payload: found.read("payload"),
    };
    if !Rule::ColumnsReadAlone.on() {
        stored.whole()?;
    }
    let attempts: Option<i32> = found.read("attempts").unwrap_or_default();
    let delay: Option<i64> = found.read("delay")?;
    let (id, aggregate) = (stored.id, stored.aggregate());
    Ok(Row {
        id,
        aggregate,
        blocked: found.read("blocked")?,
        claimed,
        attempts: attempts.and_then(|count| u32::try_from(count).ok()).unwrap_or_default(),
        delay: delay.map(duration),
        age: duration(found.read("age")?),
        event: stored.event(),
    })
}

impl Stored {
    /// Fails where a column cannot be read; for ablations alone.
    fn whole(&self) -> Result<(), sqlx::Error> {
        let texts = [&self.event_type, &self.aggregate_type, &self.aggregate_id, &self.headers];
        let unread = texts.iter().any(|text| text.is_err())
            || self.topic.is_err()
            || self.schema_version.is_err();
        if unread { Err(sqlx::Error::Protocol("cannot read a column".into())) } else { Ok(()) }
    }

    fn aggregate(&self) -> String {
        match (&self.aggregate_type, &self.aggregate_id) {
            (Ok(kind), Ok(id)) => format!("{kind}/{id}"),
            // No row of it is ever sent, so that none has to wait for another.
            _ => format!("row {}", self.id.seq),
        }
    }

    /// A row that was written by other means than `append` may be no event.
    fn event(self) -> Result<OutboxEvent, String> {
        let not = |error: &dyn std::fmt::Display| format!("the row is not an event: {error}");
        let kind = self.aggregate_type.map_err(unread("aggregate_type"))?;
        let aggregate = Aggregate::new(kind, self.aggregate_id.map_err(unread("aggregate_id"))?);
        let headers = headers_from_json(&self.headers.map_err(unread("headers"))?);
        let envelope = Envelope {
            event_id: EventId::from(Uuid::from_u128(self.id.event)),
            source_id: None,
            event_type: self.event_type.map_err(unread("event_type"))?.into(),
            aggregate: aggregate.map_err(|error| not(&error))?,
            aggregate_version: self.aggregate_version.map_err(unread("aggregate_version"))?,
            occurred_at_ms: self.occurred_at_ms.map_err(unread("occurred_at_ms"))?,
            schema_version: self.schema_version.map_err(unread("schema_version"))?,
            payload: self.payload.map_err(unread("payload"))?.map(Bytes::from),
        };
        let topic = self.topic.map_err(unread("topic"))?.map(Text::from);
        let headers = headers.map_err(|error| not(&format!("the column headers: {error}")))?;
        let event = OutboxEvent::restored(envelope, topic, headers).map_err(|error| not(&error))?;
        let keyed = self.dedup_key.and_then(|key| event.clone().with_dedup_key(key).ok());
        Ok(keyed.unwrap_or(event))
    }
}

/// A column that cannot be read, in words of SQL: the driver's own tell of types of this program.
fn unread(column: &str) -> impl Fn(sqlx::Error) -> String {
    move |error| {
        let null = format!("{error:?}").contains("UnexpectedNull");
        let what =
            if null { "is NULL" } else { "has a value or a type that the tables do not allow" };
        format!(
            "the row is not an event: the column {column} {what}; compare the table with `migrate \
             --print`, correct the row by UPDATE outbox_events, then retry it"
        )
    }
}
