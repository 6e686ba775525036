//! A stored row becomes an event again.

use bytes::Bytes;
use outbox_core::{Aggregate, Envelope, EventId, OutboxEvent, Text, internal::headers_from_json};

use crate::port::{Row, RowId};

/// The columns of a row. What a column holds may be nothing that can be read: then the row is no event, and
/// no other row suffers from that.
pub(super) struct Columns {
    pub(super) id: RowId,
    pub(super) event_type: Read<String>,
    pub(super) aggregate_type: Read<String>,
    pub(super) aggregate_id: Read<String>,
    pub(super) aggregate_version: Read<Option<i64>>,
    pub(super) occurred_at_ms: Read<Option<i64>>,
    pub(super) schema_version: Read<Option<i32>>,
    pub(super) topic: Read<Option<String>>,
    pub(super) headers: Read<String>,
    pub(super) payload: Read<Option<Vec<u8>>>,
}

/// A column that was read, or why not.
pub(super) type Read<T> = Result<T, sqlx::Error>;

/// The columns of a row of either database, each read by itself. Fails without number or id.
macro_rules! decoded {
    ($row:expr) => {
        $crate::feed::stored::Columns {
            id: $crate::port::RowId { seq: $row.try_get("seq")?, event: $row.try_get("event_id")? },
            event_type: $row.try_get("event_type"),
            aggregate_type: $row.try_get("aggregate_type"),
            aggregate_id: $row.try_get("aggregate_id"),
            aggregate_version: $row.try_get("aggregate_version"),
            occurred_at_ms: $row.try_get("occurred_at_ms"),
            schema_version: $row.try_get("schema_version"),
            topic: $row.try_get("topic"),
            headers: $row.try_get("headers"),
            payload: $row.try_get("payload"),
        }
    };
}
pub(super) use decoded;

impl Columns {
    /// Fails where a column cannot be read; for ablations alone.
    pub(super) fn whole(&self) -> Result<(), sqlx::Error> {
        let texts = [&self.event_type, &self.aggregate_type, &self.aggregate_id, &self.headers];
        let unread = texts.iter().any(|text| text.is_err())
            || self.topic.is_err()
            || self.schema_version.is_err();
        if unread { Err(sqlx::Error::Protocol("a column cannot be read".into())) } else { Ok(()) }
    }

    /// The row. One that was written by other means than `append` may be no event.
    pub(super) fn row(self, blocked: bool) -> Row {
        let aggregate = match (&self.aggregate_type, &self.aggregate_id) {
            (Ok(kind), Ok(id)) => format!("{kind}/{id}"),
            // No row of it is ever sent, so that none has to wait for another.
            _ => format!("row {}", self.id.seq),
        };
        Row { id: self.id, aggregate, blocked, event: self.event() }
    }

    fn event(self) -> Result<OutboxEvent, String> {
        let not = |error: &dyn std::fmt::Display| format!("the row is no event: {error}");
        let kind = self.aggregate_type.map_err(unread("aggregate_type"))?;
        let aggregate = Aggregate::new(kind, self.aggregate_id.map_err(unread("aggregate_id"))?);
        let headers = headers_from_json(&self.headers.map_err(unread("headers"))?);
        let envelope = Envelope {
            event_id: EventId::from(self.id.event),
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
        OutboxEvent::restored(envelope, topic, headers).map_err(|error| not(&error))
    }
}

/// A column that cannot be read, in words of SQL: the driver's own tell of types of this program.
fn unread(column: &str) -> impl Fn(sqlx::Error) -> String {
    move |error| {
        let null = format!("{error:?}").contains("UnexpectedNull");
        let what =
            if null { "is NULL" } else { "has a value or a type that the tables do not allow" };
        format!(
            "the row is no event: the column {column} {what}; compare the table with `migrate --print`, \
             correct the row by UPDATE outbox_events, then retry it"
        )
    }
}
