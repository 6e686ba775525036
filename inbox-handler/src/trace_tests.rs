//! Spans of handlers' calls: their fields, their parents, and that they cost nothing unheard.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use inbox_engine::internal::Offset;
use outbox_core::{Header, Reader, Record, TopicPartition, header_names};
use service_kit::TraceContext;
use tracing::{
    Event, Metadata, Subscriber,
    field::{Field, Visit},
    span,
};

use super::trace;
use crate::{Delivery, router::RunEvent};

const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
const OTHER: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
const ID: &str = "0190b5a0-5d6e-7cc3-9d1b-2f1e3a4b5c6d";

pub(crate) fn delivery(offset: i64, parent: Option<&str>) -> Arc<Delivery> {
    let header = |name: &str, value: &str| Header {
        name: name.to_owned().into(),
        value: Some(value.to_owned().into()),
    };
    let mut headers =
        vec![header(header_names::EVENT_ID, ID), header(header_names::EVENT_TYPE, "OrderPaid")];
    headers.extend(parent.map(|parent| header(header_names::TRACEPARENT, parent)));
    headers.extend(parent.map(|_| header(header_names::TRACESTATE, "vendor=1")));
    let key = Some("secret-person".into());
    let record = Record { key, headers, payload: None, timestamp_ms: None };
    let partition = TopicPartition { topic: "orders".into(), partition: 3 };
    let event = Reader::own(1_000).read("orders", 3, offset, &record);
    Arc::new(Delivery {
        partition,
        offset: Offset(offset),
        record,
        excerpt: None,
        event,
        read_as: outbox_core::internal::ReadAs::default(),
    })
}

/// The fields of the spans, by name.
#[derive(Clone, Default)]
struct Spans(Arc<Mutex<Vec<BTreeMap<String, String>>>>);

struct Fields<'f>(&'f mut BTreeMap<String, String>);

impl Visit for Fields<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        let value = format!("{value:?}").trim_matches('"').to_owned();
        self.0.insert(field.name().to_owned(), value);
    }
}

impl Subscriber for Spans {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "inbox_consumer::handler"
    }
    fn new_span(&self, attributes: &span::Attributes<'_>) -> span::Id {
        let mut all = self.0.lock().unwrap();
        let mut fields = BTreeMap::new();
        attributes.record(&mut Fields(&mut fields));
        all.push(fields);
        span::Id::from_u64(all.len() as u64)
    }
    fn record(&self, id: &span::Id, values: &span::Record<'_>) {
        let index = usize::try_from(id.into_u64()).unwrap() - 1;
        values.record(&mut Fields(&mut self.0.lock().unwrap()[index]));
    }
    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
    fn event(&self, _: &Event<'_>) {}
    fn enter(&self, _: &span::Id) {}
    fn exit(&self, _: &span::Id) {}
}

/// The fields of the one span that `make` makes.
fn fields(make: impl FnOnce() -> tracing::Span) -> BTreeMap<String, String> {
    let spans = Spans::default();
    tracing::subscriber::with_default(spans.clone(), || drop(make()));
    let all = spans.0.lock().unwrap();
    assert_eq!(all.len(), 1);
    all[0].clone()
}

#[test]
fn a_span_tells_which_event_it_is_and_of_which_trace() {
    let delivery = delivery(7, Some(PARENT));
    let fields = fields(|| trace::call(&RunEvent { delivery: &delivery, attempt: 2 }));
    let expected = [
        ("attempt", "2"),
        ("event_id", ID),
        ("event_type", "OrderPaid"),
        ("offset", "7"),
        ("otel.kind", "consumer"),
        ("parent_id", "b7ad6b7169203331"),
        ("partition", "3"),
        ("topic", "orders"),
        ("trace_id", "0af7651916cd43dd8448eb211c80319c"),
    ];
    let told: Vec<(&str, &str)> = fields.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
    assert_eq!(told, expected);
    assert!(
        !format!("{fields:?}").contains("secret-person"),
        "an aggregate's id may be a person's"
    );
}

#[test]
fn an_event_without_a_trace_has_a_span_without_a_parent() {
    for parent in [None, Some("nonsense")] {
        let delivery = delivery(7, parent);
        let fields = fields(|| trace::call(&RunEvent { delivery: &delivery, attempt: 1 }));
        assert!(!fields.contains_key("trace_id"), "{fields:?}");
    }
}

#[test]
fn a_run_has_one_parent_or_tells_how_many_it_is_linked_to() {
    let of = |parents: &[Option<&str>]| {
        let deliveries: Vec<_> = (5..).zip(parents).map(|(at, p)| delivery(at, *p)).collect();
        let run: Vec<RunEvent<'_>> =
            deliveries.iter().map(|delivery| RunEvent { delivery, attempt: 1 }).collect();
        fields(|| trace::run(&run))
    };
    let one = of(&[Some(PARENT), None, Some(PARENT)]);
    assert_eq!(one["trace_id"], "0af7651916cd43dd8448eb211c80319c");
    assert_eq!((&*one["events"], &*one["first_offset"], &*one["last_offset"]), ("3", "5", "7"));
    let two = of(&[Some(PARENT), Some(OTHER), Some(PARENT)]);
    assert_eq!(two["linked"], "2");
    assert!(!two.contains_key("trace_id"), "{two:?}");
}

#[test]
fn a_span_that_nobody_listens_to_is_none() {
    let delivery = delivery(7, Some(PARENT));
    let event = RunEvent { delivery: &delivery, attempt: 1 };
    tracing::subscriber::with_default(tracing::subscriber::NoSubscriber::default(), || {
        assert!(trace::call(&event).is_disabled());
        assert!(trace::run(&[event]).is_disabled());
    });
}

#[test]
fn a_parent_that_does_not_follow_the_standard_is_none() {
    let read = |text: &str| {
        let mut record = delivery(1, Some(text)).record.clone();
        record.headers.retain(|header| &*header.name != header_names::TRACESTATE);
        TraceContext::of(&record).map(|context| (context.trace_id.to_owned(), context.flags))
    };
    assert_eq!(read(PARENT), Some(("0af7651916cd43dd8448eb211c80319c".into(), 1)));
    let later = format!("cc-{}-more", &PARENT[3..]);
    assert!(read(&later).is_some(), "a later version may say more");
    let zeros = "0".repeat(32);
    for wrong in [
        "",
        "00",
        &PARENT.to_uppercase(),
        &format!("{PARENT}-more"),
        &format!("ff-{}", &PARENT[3..]),
        &PARENT[..54],
        &format!("00-{zeros}-b7ad6b7169203331-01"),
        "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
        "00-0af7651916cd43dd8448eb211c80319g-b7ad6b7169203331-01",
        "00-é-b7ad6b7169203331-01",
    ] {
        assert_eq!(read(wrong), None, "{wrong:?}");
    }
}

#[cfg(feature = "opentelemetry")]
mod opentelemetry_layer {
    use opentelemetry::trace::{SpanKind, TracerProvider as _};
    use opentelemetry_sdk::trace::{InMemorySpanExporter, SdkTracerProvider, SpanData};
    use tracing_subscriber::layer::SubscriberExt as _;

    use super::*;

    /// What is exported of the spans that `work` makes.
    fn exported(work: impl FnOnce()) -> Vec<SpanData> {
        let exporter = InMemorySpanExporter::default();
        let provider = SdkTracerProvider::builder().with_simple_exporter(exporter.clone()).build();
        let layer = tracing_opentelemetry::layer().with_tracer(provider.tracer("test"));
        let subscriber = tracing_subscriber::registry().with(layer);
        tracing::subscriber::with_default(subscriber, work);
        exporter.get_finished_spans().unwrap()
    }

    #[test]
    fn the_event_s_span_is_the_parent_of_the_handler_s() {
        let delivery = delivery(7, Some(PARENT));
        let spans = exported(|| {
            let span = trace::call(&RunEvent { delivery: &delivery, attempt: 1 });
            span.in_scope(|| tracing::info_span!("inner").in_scope(|| {}));
        });
        let [inner, outer] = &spans[..] else { panic!("{spans:?}") };
        assert_eq!(outer.span_context.trace_id().to_string(), "0af7651916cd43dd8448eb211c80319c");
        assert_eq!(outer.parent_span_id.to_string(), "b7ad6b7169203331");
        assert!(outer.parent_span_is_remote);
        assert_eq!(outer.span_kind, SpanKind::Consumer);
        assert_eq!(outer.span_context.trace_state().get("vendor"), Some("1"));
        assert_eq!(inner.parent_span_id, outer.span_context.span_id());
    }

    #[test]
    fn a_run_of_several_traces_is_linked_to_each() {
        let (one, two) = (delivery(7, Some(PARENT)), delivery(8, Some(OTHER)));
        let run = [&one, &two, &one].map(|delivery| RunEvent { delivery, attempt: 1 });
        let spans = exported(|| trace::run(&run).in_scope(|| {}));
        let links: Vec<String> =
            spans[0].links.iter().map(|link| link.span_context.span_id().to_string()).collect();
        assert_eq!(links, ["b7ad6b7169203331", "00f067aa0ba902b7"]);
    }
}
