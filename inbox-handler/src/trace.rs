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

use service_kit::TraceContext;
use tracing::{Span, field::Empty};

use crate::run_event::RunEvent;

/// Links of a span: as many as OpenTelemetry keeps by default.
const LINKS_MAX: usize = 128;

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
        && let Some(context) = TraceContext::of(delivery.as_read())
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
    let records = run.iter().map(|event| event.delivery.as_read());
    let contexts = TraceContext::distinct(records, LINKS_MAX);
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
    if let Some(remote) = context.remote() {
        use opentelemetry::{Context, trace::TraceContextExt as _};
        use tracing_opentelemetry::OpenTelemetrySpanExt as _;
        // Refused when the subscriber has no layer of OpenTelemetry's: then nobody asks for parents.
        let _ = span.set_parent(Context::new().with_remote_span_context(remote));
    }
}

#[cfg(feature = "opentelemetry")]
fn link(span: &Span, context: TraceContext<'_>) {
    use tracing_opentelemetry::OpenTelemetrySpanExt as _;
    if let Some(remote) = context.remote() {
        span.add_link(remote);
    }
}

#[cfg(not(feature = "opentelemetry"))]
fn link(_: &Span, _: TraceContext<'_>) {}
