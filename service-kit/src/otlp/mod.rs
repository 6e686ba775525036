//! The export of spans by OTLP over HTTP with protobuf.
//!
//! Spans that have ended wait in a bounded queue, and a thread of its own sends them in batches. Nothing waits for
//! it: what finds the queue full, or no receiver, is lost and counted, and the log says so once.

mod bound;
mod destination;
mod exporter;
mod queue;

use std::{sync::Arc, time::Duration};

use opentelemetry::trace::TracerProvider as _;
use opentelemetry_sdk::trace::{
    BatchConfigBuilder, BatchSpanProcessor, Sampler, SdkTracer, SdkTracerProvider,
};
use tracing::level_filters::LevelFilter;
use tracing_subscriber::{Layer, Registry, filter::filter_fn};

use crate::{Traces, TracesNotice};
use bound::Bounded;
use destination::Destination;
use exporter::Exporter;
use queue::{QUEUE_MAX, Queue};

/// How many spans go together.
const BATCH_MAX: usize = 512;
/// How long the first span of a batch waits for others.
const BATCH_DELAY: Duration = Duration::from_secs(1);
/// How long the end of the process waits for the spans that are left.
pub(crate) const FLUSH_MAX: Duration = Duration::from_secs(3);

/// An export that runs.
#[derive(Debug)]
pub(crate) struct Exporting {
    provider: SdkTracerProvider,
    queue: Arc<Queue>,
}

/// Starts the export, if the configuration or the environment names a receiver. `service` is the name of the service
/// where neither says one.
pub(crate) fn start(
    traces: &Traces,
    service: &str,
    env: &[(String, String)],
    tell: fn(TracesNotice),
) -> Result<Option<Exporting>, String> {
    let Some(destination) = Destination::of(traces, env)? else { return Ok(None) };
    let resource = destination::resource(traces, service, env);
    let queue = Arc::new(Queue::new(tell));
    let exporter = Exporter::new(destination, &resource, traces.timeout, Arc::clone(&queue))?;
    let config = BatchConfigBuilder::default()
        .with_max_queue_size(QUEUE_MAX)
        .with_max_export_batch_size(BATCH_MAX)
        .with_scheduled_delay(BATCH_DELAY)
        .build();
    let batches = BatchSpanProcessor::builder(exporter).with_batch_config(config).build();
    let of_roots = Sampler::TraceIdRatioBased(traces.sample.get());
    let provider = SdkTracerProvider::builder()
        .with_span_processor(Bounded::new(batches, Arc::clone(&queue)))
        .with_sampler(Sampler::ParentBased(Box::new(of_roots)))
        .with_resource(resource)
        .build();
    Ok(Some(Exporting { provider, queue }))
}

impl Exporting {
    /// The part of a subscriber that makes spans known: those of INFO and above. Events are the log's.
    pub(crate) fn layer(&self) -> Box<dyn Layer<Registry> + Send + Sync> {
        let tracer: SdkTracer = self.provider.tracer("inbox");
        let spans =
            filter_fn(|metadata| metadata.is_span() && *metadata.level() <= tracing::Level::INFO);
        tracing_opentelemetry::layer()
            .with_tracer(tracer)
            .with_location(false)
            .with_threads(false)
            .with_tracked_inactivity(false)
            .with_filter(spans.with_max_level_hint(LevelFilter::INFO))
            .boxed()
    }

    /// Sends what is left, for [`FLUSH_MAX`] at most.
    pub(crate) fn flush(&self) {
        self.queue.end();
        if self.provider.shutdown_with_timeout(FLUSH_MAX).is_err() {
            self.queue.left();
        }
    }
}
