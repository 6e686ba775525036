//! The bound before the batches.

use std::{sync::Arc, time::Duration};

use opentelemetry::Context;
use opentelemetry_sdk::{
    Resource,
    error::OTelSdkResult,
    trace::{BatchSpanProcessor, Span, SpanData, SpanProcessor},
};

use super::queue::Queue;

/// Hands spans to the batches while there is room for them.
#[derive(Debug)]
pub(super) struct Bounded {
    batches: BatchSpanProcessor,
    queue: Arc<Queue>,
}

impl Bounded {
    pub(super) fn new(batches: BatchSpanProcessor, queue: Arc<Queue>) -> Self {
        Self { batches, queue }
    }
}

impl SpanProcessor for Bounded {
    fn on_start(&self, span: &mut Span, context: &Context) {
        self.batches.on_start(span, context);
    }

    fn on_end(&self, span: SpanData) {
        // The batches leave out what is not sampled.
        if span.span_context.is_sampled() && self.queue.take() {
            self.batches.on_end(span);
        }
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.batches.force_flush()
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.batches.shutdown_with_timeout(timeout)
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.batches.set_resource(resource);
    }
}
