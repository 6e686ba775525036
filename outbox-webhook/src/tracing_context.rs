//! What an event's headers say of the conversation and of the trace that it belongs to.

use outbox_core::{OutboxEvent, header_names, internal::TraceParent};

/// The longest `tracestate` that is handed on, as its specification asks for.
const TRACESTATE_BYTES_MAX: usize = 512;

/// Headers of an event that every receiver knows. A trace context that is not well-formed is not handed on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TracingContext<'e> {
    pub(crate) correlation_id: Option<&'e [u8]>,
    pub(crate) causation_id: Option<&'e [u8]>,
    pub(crate) traceparent: Option<&'e str>,
    pub(crate) tracestate: Option<&'e str>,
}

impl<'e> TracingContext<'e> {
    pub(crate) fn of(event: &'e OutboxEvent) -> Self {
        let last = |name: &str| {
            let found = event.headers().iter().rev().find(|header| header.name == name);
            found.and_then(|header| header.value.as_deref()).filter(|value| !value.is_empty())
        };
        let ascii = |value| std::str::from_utf8(value).ok();
        let traceparent = last(header_names::TRACEPARENT)
            .filter(|value| TraceParent::read(value).is_some_and(|_| is_printable(value)))
            .and_then(ascii);
        let tracestate = last(header_names::TRACESTATE)
            .filter(|value| traceparent.is_some() && is_printable(value))
            .filter(|value| value.len() <= TRACESTATE_BYTES_MAX)
            .and_then(ascii);
        Self {
            correlation_id: last(header_names::CORRELATION_ID),
            causation_id: last(header_names::CAUSATION_ID),
            traceparent,
            tracestate,
        }
    }
}

fn is_printable(value: &[u8]) -> bool {
    value.iter().all(|byte| byte.is_ascii_graphic() || *byte == b' ')
}
