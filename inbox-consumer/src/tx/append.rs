//! Events appended to the outbox in the handler's transaction.

use std::{borrow::Cow, slice};

use outbox_core::{AppendError, Cause, OutboxDatabase, OutboxEvent};

use super::{Tx, executor::noted};
use crate::pipeline::port::{Sessions, StoreFault};

impl<DB: Sessions + OutboxDatabase> Tx<'_, DB> {
    /// Appends an event to the outbox: it is there if and only if what the handler did is. A relay ships
    /// it. The tables come with the consumer's `migrate`, limits are in `[outbox]` of its configuration.
    ///
    /// In a [`Handler`](crate::Handler) it also says what it follows from, as far as the event itself
    /// does not: `causation_id` is the id of the event that is handled, `correlation_id`, `traceparent`
    /// and `tracestate` are that event's. A [`BatchHandler`](crate::BatchHandler) handles several events,
    /// and says by [`OutboxEvent::caused_by`] which one it is.
    ///
    /// The event's id is made with the event. A handler that is run again makes a new one; only what
    /// commits is shipped.
    ///
    /// ```
    /// # #[cfg(feature = "postgres")] mod example {
    /// use inbox_consumer::{Event, HandlerResult, Tx};
    /// use outbox_core::OutboxEvent;
    /// use sqlx::Postgres;
    ///
    /// async fn credit(event: &Event<i64>, tx: &mut Tx<'_, Postgres>) -> HandlerResult {
    ///     let balance: i64 = sqlx::query_scalar(
    ///         "UPDATE accounts SET balance = balance + $1 WHERE id = $2 RETURNING balance",
    ///     )
    ///     .bind(event.payload)
    ///     .bind(event.aggregate().aggregate_id())
    ///     .fetch_one(&mut *tx)
    ///     .await?;
    ///     tx.append(&OutboxEvent::new("AccountCredited", event.aggregate(), &balance)?).await?;
    ///     Ok(())
    /// }
    /// # }
    /// ```
    ///
    /// On SQLite it is the same:
    ///
    /// ```
    /// # #[cfg(feature = "sqlite")] mod example {
    /// use inbox_consumer::{Event, HandlerResult, Tx};
    /// use outbox_core::OutboxEvent;
    /// use sqlx::Sqlite;
    ///
    /// async fn greet(event: &Event<String>, tx: &mut Tx<'_, Sqlite>) -> HandlerResult {
    ///     tx.append(&OutboxEvent::new("Greeted", event.aggregate(), &event.payload)?).await?;
    ///     Ok(())
    /// }
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// See [`AppendError`]. As with every statement, an error that is swallowed makes the transaction
    /// roll back.
    pub async fn append(&mut self, event: &OutboxEvent) -> Result<(), AppendError> {
        self.append_all(slice::from_ref(event)).await
    }

    /// Appends events in their order, in one statement, however many they are. Otherwise as
    /// [`append`](Self::append).
    ///
    /// # Errors
    ///
    /// See [`AppendError`]: then none of them is appended.
    pub async fn append_all(&mut self, events: &[OutboxEvent]) -> Result<(), AppendError> {
        self.guard.usable().map_err(AppendError::Database)?;
        let events = self.explained(events);
        if let Err(error) = self.outbox.check(&events) {
            // Poisons, as a statement does that fails: the event would be missing.
            let _ = self.guard.refuse(StoreFault::Statement, error.to_string());
            return Err(error);
        }
        if events.is_empty() {
            return Ok(());
        }
        self.send_queued_first().await.map_err(AppendError::Database)?;
        let outbox = self.outbox.prepared(DB::names_statements(self.connection));
        let appended = DB::append_rows(self.connection, &outbox, &events);
        Ok(noted::<DB, _>(&mut self.guard, appended).await?)
    }

    /// The events with what they follow from.
    fn explained<'e>(&self, events: &'e [OutboxEvent]) -> Cow<'e, [OutboxEvent]> {
        let handled = self.handled.as_ref();
        let read = handled.and_then(|delivery| Some((delivery, delivery.event.as_ref().ok()?)));
        let Some((delivery, envelope)) = read else { return Cow::Borrowed(events) };
        let cause = Cause::new(envelope.event_id, &delivery.record.headers);
        events.iter().map(|event| event.clone().caused_by(cause.clone())).collect()
    }
}
