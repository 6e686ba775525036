//! Spans of handlers' calls, in the trace that their events were sent in.
//!
//! A span has the target `inbox_consumer::handler` and the level INFO. When nobody listens to it, it costs
//! the look at one flag: fields are not evaluated, headers are not read. The aggregate's id is not among
//! the fields, for it is often a person's; the event's id leads to it.
//!
//! The event's `traceparent` is recorded as `trace_id` and `parent_id`, which every log can show. With the
//! feature `opentelemetry` it also becomes the parent of the span. A run of a batch handler has as many
//! parents as events: if all its events are of one trace context, that one is the parent; otherwise each is
//! a link, at most 128 of them.

use outbox_core::{Record, header_names, internal::TraceParent};
use tracing::{Span, field::Empty};

use crate::run_event::RunEvent;

/// Links of a span: as many as OpenTelemetry keeps by default.
const LINKS_MAX: usize = 128;

/// The W3C Trace Context of an event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct TraceContext<'e> {
    pub(crate) trace_id: &'e str,
    pub(crate) parent_id: &'e str,
    pub(crate) flags: u8,
    /// Vendors' state, as it came.
    pub(crate) state: Option<&'e str>,
}

impl<'e> TraceContext<'e> {
    /// Of a record's headers; nothing when they do not follow the standard.
    pub(crate) fn of(record: &'e Record) -> Option<Self> {
        let text = |name| record.header(name).and_then(|value| std::str::from_utf8(value).ok());
        let parent = text(header_names::TRACEPARENT)?.trim();
        let TraceParent { trace_id, parent_id, flags } = TraceParent::read(parent.as_bytes())?;
        Some(Self { trace_id, parent_id, flags, state: text(header_names::TRACESTATE) })
    }
}

/// The span of a handler's call for one event.
pub(crate) fn call(event: &RunEvent<'_>) -> Span {
    let delivery = event.delivery;
    let span = tracing::info_span!(
        target: "inbox_consumer::handler",
        "handle",
        otel.kind = "consumer",
        event_id = delivery.event.as_ref().ok().map(|event| tracing::field::display(event.event_id)),
        event_type = delivery.event.as_ref().ok().map(|event| &*event.event_type),
        topic = &*delivery.partition.topic,
        partition = delivery.partition.partition,
        offset = delivery.offset.0,
        attempt = event.attempt,
        trace_id = Empty,
        parent_id = Empty,
    );
    if !span.is_disabled()
        && let Some(context) = TraceContext::of(&delivery.record)
    {
        join(&span, context);
    }
    span
}

/// The span of a batch handler's call for a run, which is not empty.
pub(crate) fn run(run: &[RunEvent<'_>]) -> Span {
    let (Some(first), Some(last)) = (run.first(), run.last()) else { return Span::none() };
    let span = tracing::info_span!(
        target: "inbox_consumer::handler",
        "handle_run",
        otel.kind = "consumer",
        event_type = first.delivery.event.as_ref().ok().map(|event| &*event.event_type),
        events = run.len(),
        topic = &*first.delivery.partition.topic,
        partition = first.delivery.partition.partition,
        first_offset = first.delivery.offset.0,
        last_offset = last.delivery.offset.0,
        attempt = first.attempt,
        trace_id = Empty,
        parent_id = Empty,
        linked = Empty,
    );
    if span.is_disabled() {
        return span;
    }
    let mut contexts: Vec<TraceContext<'_>> = Vec::new();
    let of_run = run.iter().filter_map(|event| TraceContext::of(&event.delivery.record));
    for context in of_run {
        let same = |known: &TraceContext<'_>| {
            (known.trace_id, known.parent_id) == (context.trace_id, context.parent_id)
        };
        if contexts.len() < LINKS_MAX && !contexts.iter().any(same) {
            contexts.push(context);
        }
    }
    match contexts[..] {
        [] => {}
        [context] => join(&span, context),
        _ => {
            span.record("linked", contexts.len());
            for context in contexts {
                link(&span, context);
            }
        }
    }
    span
}

/// Makes the span a child of the event's.
fn join(span: &Span, context: TraceContext<'_>) {
    span.record("trace_id", context.trace_id);
    span.record("parent_id", context.parent_id);
    #[cfg(feature = "opentelemetry")]
    if let Some(remote) = remote(context) {
        use opentelemetry::{Context, trace::TraceContextExt as _};
        use tracing_opentelemetry::OpenTelemetrySpanExt as _;
        // Refused when the subscriber has no layer of OpenTelemetry's: then nobody asks for parents.
        let _ = span.set_parent(Context::new().with_remote_span_context(remote));
    }
}

#[cfg(feature = "opentelemetry")]
fn link(span: &Span, context: TraceContext<'_>) {
    use tracing_opentelemetry::OpenTelemetrySpanExt as _;
    if let Some(remote) = remote(context) {
        span.add_link(remote);
    }
}

#[cfg(not(feature = "opentelemetry"))]
fn link(_: &Span, _: TraceContext<'_>) {}

#[cfg(feature = "opentelemetry")]
fn remote(context: TraceContext<'_>) -> Option<opentelemetry::trace::SpanContext> {
    use opentelemetry::trace::{SpanContext, SpanId, TraceFlags, TraceId, TraceState};
    let trace_id = TraceId::from_hex(context.trace_id).ok()?;
    let parent_id = SpanId::from_hex(context.parent_id).ok()?;
    // A state that does not follow the standard is left out; the parent counts all the same.
    let state = context.state.and_then(|state| state.parse::<TraceState>().ok());
    let flags = TraceFlags::new(context.flags);
    Some(SpanContext::new(trace_id, parent_id, flags, true, state.unwrap_or_default()))
}
