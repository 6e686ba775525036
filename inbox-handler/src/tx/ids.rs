//! The ids of events that handlers append follow from the events that they handle.
//!
//! A handler runs again when the database went back in time: after a failover that lost its commit, or from a
//! backup. What it appended then may have been shipped already; under the same id, whoever reads it recognises
//! the copy (finding 28).

use inbox_engine::internal::Rule;
use outbox_core::{EventId, OutboxEvent};

use crate::{Delivery, run_event::RunEvent};

/// What the ids of a call's appended events follow from.
#[derive(Debug, Default)]
pub(super) struct Ids<'t> {
    consumer: &'t str,
    run: &'t [RunEvent<'t>],
    /// Events appended so far for each event of the run; empty until there is one.
    ordinals: Vec<u32>,
    /// The event of the run that was found last: handlers go through their run in its order.
    last: usize,
    /// Ids that events had when they were made, and those that they were appended under: others of the same
    /// handler may name them as their cause.
    renamed: Vec<(EventId, EventId)>,
}

impl<'t> Ids<'t> {
    pub(super) fn new(consumer: &'t str, run: &'t [RunEvent<'t>]) -> Self {
        Self { consumer, run, ..Self::default() }
    }

    /// The handler is called for the event at this place of the run.
    pub(super) fn begin(&mut self, at: usize) {
        self.last = at;
        if let Some(ordinal) = self.ordinals.get_mut(at) {
            *ordinal = 0;
        }
    }

    /// Whether there is an event that ids could follow from.
    pub(super) fn known(&self) -> bool {
        !self.run.is_empty() && Rule::AppendedIdsDerived.on()
    }

    /// The event under the id that it is appended with: one that was given, or one that follows from
    /// `handled`, or, in a batch, from the event of the run that it names as its cause. Without any it
    /// keeps the random id that it was made with: nothing else tells which of the run's events it is about,
    /// and another cut of the same events must not give one id to two different ones.
    pub(super) fn name(&mut self, mut event: OutboxEvent, handled: Option<EventId>) -> OutboxEvent {
        if let Some(cause) = event.cause()
            && let Some(&(old, new)) = self.renamed.iter().find(|(old, _)| *old == cause)
        {
            event.rename_cause(old, new);
        }
        let Some(at) = handled.or_else(|| event.cause()).and_then(|id| self.place(id)) else {
            return event;
        };
        self.ordinals.resize(self.run.len(), 0);
        let ordinal = self.ordinals[at];
        self.ordinals[at] += 1;
        let delivery = self.run[at].delivery;
        let Ok(envelope) = &delivery.event else { return event };
        let (made, time) = (event.id(), time_ms(delivery));
        let event = event.or_id(EventId::derived(self.consumer, envelope.event_id, ordinal, time));
        if event.id() != made {
            self.renamed.push((made, event.id()));
        }
        event
    }

    /// Where in the run an event is.
    fn place(&mut self, id: EventId) -> Option<usize> {
        let is = |at: &usize| {
            let event = self.run[*at].delivery.event.as_ref();
            event.is_ok_and(|envelope| envelope.event_id == id)
        };
        let (behind, before) = (self.last..self.run.len(), 0..self.last.min(self.run.len()));
        let found = behind.chain(before).find(is)?;
        self.last = found;
        Some(found)
    }
}

/// A time that is the same whenever the event is handled: that of its id, or when it occurred, or when its
/// record was written.
fn time_ms(delivery: &Delivery) -> i64 {
    let envelope = delivery.event.as_ref().ok();
    let own = envelope.and_then(|it| it.event_id.time_ms().or(it.occurred_at_ms));
    own.or(delivery.record.timestamp_ms).unwrap_or_default()
}
