//! Events appended to the outbox in the handler's transaction.

use std::{borrow::Cow, slice};

use inbox_store::internal::port::{Sessions, StoreFault};
use outbox_core::{AppendError, Appended, Cause, EventId, OutboxDatabase, OutboxEvent};

use super::{Tx, executor::record_end};

impl<DB: Sessions + OutboxDatabase> Tx<'_, DB> {
    /// Appends an event to the outbox: it is there if and only if what the handler did is. A relay ships
    /// it. The tables come with the consumer's `migrate`, limits are in `[outbox]` of its configuration.
    ///
    /// In a [`Handler`](crate::Handler) it also says what it follows from, as far as the event itself
    /// does not: `causation_id` is the id of the event that is handled, `correlation_id`, `traceparent`
    /// and `tracestate` are that event's. A [`BatchHandler`](crate::BatchHandler) handles several events,
    /// and says by [`OutboxEvent::caused_by`] which one it is.
    ///
    /// The event's id follows from the consumer, the event that is handled, and how many the handler has
    /// appended for it before, so that a handler that runs again after the database went back in time (a
    /// failover, a backup) appends the same events under the same ids: [`EventId::derived`]. It is the answer,
    /// and not the id that the event was made with. An event that was given an id
    /// ([`OutboxEvent::with_id`]) keeps it. A [`BatchHandler`](crate::BatchHandler)'s event follows from the
    /// event of the run that it names by [`OutboxEvent::caused_by`], however the runs are cut; one that names
    /// none keeps the random id that it was made with.
    ///
    /// So append the same events in the same order whenever the same event is handled, and make their
    /// payloads of it and of the database, not of clocks or chance: a copy with another payload is taken for
    /// another event with the same id. A change of the code that appends in another order, or one more in the
    /// middle, gives ids to other events than before, which matters for events that are handled again across
    /// that deploy.
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
    ///
    /// # Once, and late
    ///
    /// An event whose dedup key ([`OutboxEvent::with_dedup_key`]) is there already is left out, and the answer
    /// is the id that it would have: [`append_if_new`](Self::append_if_new) tells. What handlers append needs no
    /// key against events that come twice, as nothing is handled twice; it is of use where several events lead
    /// to one, such as one welcome for each customer. [`OutboxEvent::with_deliver_after_ms`] works as anywhere.
    pub async fn append(&mut self, event: &OutboxEvent) -> Result<EventId, AppendError> {
        let (events, _) = self.append_each(slice::from_ref(event)).await?;
        Ok(events.first().unwrap_or(event).id())
    }

    /// As [`append`](Self::append); `None` when the event's dedup key is there already, so that nothing was
    /// appended.
    ///
    /// # Errors
    ///
    /// See [`AppendError`].
    pub async fn append_if_new(
        &mut self,
        event: &OutboxEvent,
    ) -> Result<Option<EventId>, AppendError> {
        let (events, appended) = self.append_each(slice::from_ref(event)).await?;
        Ok((appended.rows() > 0).then(|| events.first().unwrap_or(event).id()))
    }

    /// Appends events in their order, in one statement, however many they are, and answers their ids.
    /// Otherwise as [`append`](Self::append).
    ///
    /// # Errors
    ///
    /// See [`AppendError`]: then none of them is appended.
    pub async fn append_all(
        &mut self,
        events: &[OutboxEvent],
    ) -> Result<Vec<EventId>, AppendError> {
        let (events, _) = self.append_each(events).await?;
        Ok(events.iter().map(OutboxEvent::id).collect())
    }

    async fn append_each<'e>(
        &mut self,
        events: &'e [OutboxEvent],
    ) -> Result<(Cow<'e, [OutboxEvent]>, Appended), AppendError> {
        self.guard.usable().map_err(AppendError::Database)?;
        let events = self.with_cause(events);
        if let Err(error) = self.outbox.check(&events) {
            // Poisons, as a statement does that fails: the event would be missing.
            let _ = self.guard.refuse(StoreFault::Statement, error.to_string());
            return Err(error);
        }
        if events.is_empty() {
            return Ok((events, Appended::default()));
        }
        self.send_queued_first().await.map_err(AppendError::Database)?;
        let outbox = self.outbox.prepared(DB::names_statements(self.connection));
        let appended = DB::append_rows(self.connection, &outbox, &events);
        let appended = record_end::<DB, _>(&mut self.guard, appended).await?;
        Ok((events, appended))
    }

    /// The events with what they follow from, under the ids that follow from it.
    fn with_cause<'e>(&mut self, events: &'e [OutboxEvent]) -> Cow<'e, [OutboxEvent]> {
        let handled = self.handled.as_ref();
        let read = handled.and_then(|delivery| Some((delivery, delivery.event.as_ref().ok()?)));
        let cause = read.map(|(delivery, envelope)| {
            (envelope.event_id, Cause::new(envelope.event_id, &delivery.as_read().headers))
        });
        let named = self.ids.known();
        if cause.is_none() && !(named && events.iter().any(|event| event.cause().is_some())) {
            return Cow::Borrowed(events);
        }
        let explain = |event: &OutboxEvent| {
            let mut event = event.clone();
            if named {
                event = self.ids.name(event, cause.as_ref().map(|(handled, _)| *handled));
            }
            match &cause {
                Some((_, cause)) => event.caused_by(cause.clone()),
                None => event,
            }
        };
        events.iter().map(explain).collect()
    }
}
