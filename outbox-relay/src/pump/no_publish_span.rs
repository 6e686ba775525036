//! In place of the span of a batch, in a build without the feature `opentelemetry`.

use crate::{
    destination::{Delivery, Outcome},
    sink::{OutgoingRecord, Shipment},
};

/// No span.
#[derive(Debug)]
pub(super) struct PublishSpan;

impl PublishSpan {
    pub(super) fn begin(_: &[OutgoingRecord]) -> Self {
        Self
    }

    pub(super) fn begin_call(_: &str, _: &[Delivery]) -> Self {
        Self
    }

    pub(super) fn end_call(self, _: &[Outcome]) {
        let Self = self;
    }

    pub(super) fn end(self, _: &Shipment) {
        let Self = self;
    }
}
