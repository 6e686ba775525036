//! The span of a batch on its way to Kafka, and that of a call of any other destination, linked to the traces that their
//! events were appended in.
//!
//! It has the target `outbox_relay::publish` and the level INFO, and is the root of a trace of its own: a batch has as
//! many parents as events. Where no layer of OpenTelemetry's listens it is none, and no header is read for it.

use opentelemetry::Context;
use outbox_core::Record;
use service_kit::TraceContext;
use tracing::{Span, field::Empty};
use tracing_opentelemetry::OpenTelemetrySpanExt as _;

use crate::{
    destination::{Delivery, Outcome},
    sink::{OutgoingRecord, Shipment},
};

/// Links of a span: further traces of a batch are not named.
const LINKS_MAX: usize = 32;

/// The span of one batch; it lasts until it has ended, or is dropped.
#[derive(Debug)]
pub(super) struct PublishSpan(Span);

impl PublishSpan {
    /// Begins before the batch is handed over.
    pub(super) fn begin(records: &[OutgoingRecord]) -> Self {
        let span = tracing::info_span!(
            target: "outbox_relay::publish",
            parent: None,
            "publish",
            otel.kind = "producer",
            otel.status_code = Empty,
            otel.status_description = Empty,
            messaging.system = "kafka",
            messaging.operation.name = "publish",
            messaging.operation.r#type = "send",
            messaging.destination.name = Empty,
            messaging.batch.message_count = Empty,
        );
        if !is_root(&span) {
            return Self(Span::none());
        }
        count(&span, records.len());
        if let Some(topic) = only_topic(records) {
            span.record("messaging.destination.name", topic);
        }
        link(&span, records.iter().map(|outgoing| &outgoing.record));
        Self(span)
    }

    /// Begins before a call of a destination.
    pub(super) fn begin_call(destination: &str, batch: &[Delivery]) -> Self {
        let span = tracing::info_span!(
            target: "outbox_relay::publish",
            parent: None,
            "deliver",
            otel.kind = "client",
            otel.status_code = Empty,
            otel.status_description = Empty,
            messaging.operation.name = "deliver",
            messaging.operation.r#type = "send",
            messaging.destination.name = destination,
            messaging.batch.message_count = Empty,
            messaging.message.id = Empty,
        );
        if !is_root(&span) {
            return Self(Span::none());
        }
        count(&span, batch.len());
        if let [delivery] = batch {
            span.record("messaging.message.id", delivery.event.envelope().event_id.to_string());
        }
        let records: Vec<_> = batch.iter().map(|delivery| delivery.event.record()).collect();
        link(&span, &records);
        Self(span)
    }

    /// Ends with what became of its events; the error is that of the first that was not delivered.
    pub(super) fn end_call(self, outcomes: &[Outcome]) {
        if let Some(error) = outcomes.iter().find_map(Outcome::error) {
            self.fail(error);
        }
    }

    fn fail(&self, why: &str) {
        self.0.record("otel.status_code", "ERROR");
        self.0.record("otel.status_description", why);
    }

    /// Ends with what became of the batch.
    pub(super) fn end(self, shipment: &Shipment) {
        match shipment {
            Shipment::Done { .. } => {}
            Shipment::Broken { why, .. } | Shipment::Fenced(why) => self.fail(why),
            Shipment::Forbidden(forbidden) => self.fail(&forbidden.to_string()),
        }
    }
}

/// Whether somebody listens who asks for links. It is the root of its trace then.
fn is_root(span: &Span) -> bool {
    !span.is_disabled() && span.set_parent(Context::new()).is_ok()
}

fn count(span: &Span, events: usize) {
    span.record("messaging.batch.message_count", i64::try_from(events).unwrap_or(i64::MAX));
}

/// Links it to the traces of records.
fn link<'r>(span: &Span, records: impl IntoIterator<Item = &'r Record>) {
    for context in TraceContext::distinct(records, LINKS_MAX) {
        if let Some(remote) = context.remote() {
            span.add_link(remote);
        }
    }
}

/// The topic of all records, if they have one in common.
fn only_topic(records: &[OutgoingRecord]) -> Option<&str> {
    let first = records.first()?.topic.as_str();
    records.iter().all(|outgoing| outgoing.topic == first).then_some(first)
}

#[cfg(test)]
mod tests {
    use opentelemetry::trace::{SpanKind, Status, TracerProvider as _};
    use opentelemetry_sdk::trace::{InMemorySpanExporter, SdkTracerProvider, SpanData};
    use outbox_core::{Header, Record, header_names};
    use tracing_subscriber::layer::SubscriberExt as _;

    use super::*;

    fn outgoing(topic: &str, trace: Option<u8>) -> OutgoingRecord {
        let parent = trace.map(|trace| format!("00-{trace:032x}-b7ad6b7169203331-01"));
        let header = parent.map(|parent| Header {
            name: header_names::TRACEPARENT.to_owned().into(),
            value: Some(parent.into()),
        });
        let headers = header.into_iter().collect();
        let record = Record { key: None, headers, payload: None, timestamp_ms: None };
        OutgoingRecord { topic: topic.into(), partition: None, aggregate: "a/1".into(), record }
    }

    fn done() -> Shipment {
        Shipment::Done { refused: Vec::new(), left: Vec::new() }
    }

    /// What is exported of a batch.
    fn exported(records: &[OutgoingRecord], shipment: &Shipment) -> SpanData {
        let mut spans = spans(|| {
            tracing::info_span!("around").in_scope(|| PublishSpan::begin(records).end(shipment));
        });
        spans.retain(|span| span.name == "publish");
        assert_eq!(spans.len(), 1);
        spans.remove(0)
    }

    /// What is exported of some work.
    fn spans(work: impl FnOnce()) -> Vec<SpanData> {
        let exporter = InMemorySpanExporter::default();
        let provider = SdkTracerProvider::builder().with_simple_exporter(exporter.clone()).build();
        let layer = tracing_opentelemetry::layer().with_tracer(provider.tracer("test"));
        let subscriber = tracing_subscriber::registry().with(layer);
        tracing::subscriber::with_default(subscriber, work);
        exporter.get_finished_spans().unwrap()
    }

    fn attribute(span: &SpanData, name: &str) -> Option<String> {
        let found = span.attributes.iter().find(|attribute| attribute.key.as_str() == name);
        found.map(|attribute| attribute.value.to_string())
    }

    #[test]
    fn a_batch_is_linked_to_the_traces_of_its_events() {
        let records = [Some(1), None, Some(2), Some(1)].map(|trace| outgoing("orders", trace));
        let span = exported(&records, &done());
        let traces: Vec<String> =
            span.links.iter().map(|link| link.span_context.trace_id().to_string()).collect();
        assert_eq!(traces, [1, 2].map(|trace: u8| format!("{trace:032x}")));
        assert_eq!(
            (span.span_kind.clone(), span.status.clone()),
            (SpanKind::Producer, Status::Unset)
        );
        assert!(!span.parent_span_is_remote && span.parent_span_id.to_string() == "0".repeat(16));
        for (name, value) in [
            ("messaging.system", "kafka"),
            ("messaging.operation.type", "send"),
            ("messaging.operation.name", "publish"),
            ("messaging.destination.name", "orders"),
            ("messaging.batch.message_count", "4"),
        ] {
            assert_eq!(attribute(&span, name).as_deref(), Some(value), "{name}");
        }
    }

    #[test]
    fn links_have_an_end_and_several_topics_no_name() {
        let mut records: Vec<_> = (1..=100).map(|trace| outgoing("orders", Some(trace))).collect();
        records.push(outgoing("accounts", None));
        let span = exported(&records, &done());
        assert_eq!(span.links.len(), LINKS_MAX);
        assert_eq!(attribute(&span, "messaging.destination.name"), None);
    }

    #[test]
    fn a_batch_that_did_not_go_through_says_why() {
        let span = exported(&[outgoing("orders", None)], &Shipment::Fenced("another one".into()));
        assert_eq!(span.status, Status::error("another one"));
    }

    #[test]
    fn a_call_is_linked_to_the_trace_of_its_event() {
        let aggregate = outbox_core::Aggregate::new("Order", "7").unwrap();
        let event = outbox_core::OutboxEvent::new("Paid", &aggregate, &1).unwrap();
        let parent = format!("00-{:032x}-b7ad6b7169203331-01", 5);
        let event = event.with_trace_context(parent, "").unwrap();
        let id = event.envelope().event_id.to_string();
        let batch = [Delivery { event, topic: None, attempt: 1 }];
        let spans =
            spans(|| PublishSpan::begin_call("shop", &batch).end_call(&[Outcome::retry("503")]));
        let [span] = &spans[..] else { panic!("{spans:?}") };
        assert_eq!((&*span.name, &span.span_kind), ("deliver", &SpanKind::Client));
        assert_eq!(span.links[0].span_context.trace_id().to_string(), format!("{:032x}", 5));
        assert_eq!(span.status, Status::error("503"));
        for (name, value) in [
            ("messaging.destination.name", "shop"),
            ("messaging.message.id", &*id),
            ("messaging.batch.message_count", "1"),
        ] {
            assert_eq!(attribute(span, name).as_deref(), Some(value), "{name}");
        }
    }

    #[test]
    fn a_span_that_nobody_exports_is_none() {
        let begin = || PublishSpan::begin(&[outgoing("orders", Some(1))]);
        let none = tracing::subscriber::NoSubscriber::default();
        assert!(tracing::subscriber::with_default(none, || begin().0.is_none()));
        // A log alone.
        let log = tracing_subscriber::fmt().with_writer(std::io::sink).finish();
        assert!(tracing::subscriber::with_default(log, || begin().0.is_none()));
    }
}
