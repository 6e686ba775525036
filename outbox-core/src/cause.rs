//! What an event follows from.

use bytes::Bytes;

use crate::{
    EventId, Header, OutboxEvent, header_names,
    trace_context::{is_traceparent, is_tracestate},
};

/// What an event follows from: the event that led to it, with the conversation and the trace that it
/// belongs to. See [`OutboxEvent::caused_by`].
///
/// An [`EventId`] is a cause by itself; so are an [`OutboxEvent`] and the event that a handler of
/// inbox-consumer is given.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Cause {
    event_id: EventId,
    correlation_id: Option<Bytes>,
    traceparent: Option<Bytes>,
    tracestate: Option<Bytes>,
}

impl Cause {
    /// The event of that id, with the correlation and the trace context that its headers tell. A trace
    /// context that is not well-formed is not handed on, as its specification asks for.
    pub fn new(event_id: EventId, headers: &[Header]) -> Self {
        let last = |name: &str| {
            let found = headers.iter().rev().find(|header| header.name == name);
            found.and_then(|header| header.value.clone()).filter(|value| !value.is_empty())
        };
        let traceparent = last(header_names::TRACEPARENT).filter(|value| is_traceparent(value));
        let tracestate = last(header_names::TRACESTATE)
            .filter(|value| traceparent.is_some() && is_tracestate(value));
        let correlation_id = last(header_names::CORRELATION_ID);
        Self { event_id, correlation_id, traceparent, tracestate }
    }

    /// The headers of an event that follows from it. A conversation without a name has the name of its
    /// first event.
    pub(crate) fn headers(&self) -> impl Iterator<Item = (&'static str, Bytes)> {
        let id = || Bytes::from(self.event_id.to_string());
        let correlation = self.correlation_id.clone().unwrap_or_else(id);
        [
            (header_names::CORRELATION_ID, Some(correlation)),
            (header_names::CAUSATION_ID, Some(id())),
            (header_names::TRACEPARENT, self.traceparent.clone()),
            (header_names::TRACESTATE, self.tracestate.clone()),
        ]
        .into_iter()
        .filter_map(|(name, value)| Some((name, value?)))
    }
}

impl From<EventId> for Cause {
    fn from(event_id: EventId) -> Self {
        Self::new(event_id, &[])
    }
}

impl From<&OutboxEvent> for Cause {
    fn from(event: &OutboxEvent) -> Self {
        Self::new(event.id(), event.headers())
    }
}
