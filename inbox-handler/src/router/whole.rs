//! A route to a handler that takes a whole run in one call.

use std::{
    any::{Any, type_name},
    time::Duration,
};

use async_trait::async_trait;
use inbox_store::internal::port::Sessions;
use outbox_core::{Decode, Preparation};
use tracing::Instrument as _;

use super::{
    CallFailure, DecodedRun, Route, RunEnd, RunEvent,
    attempt::{self, DecodeFault},
    decoded_payloads::Decoded,
};
use crate::{BatchHandler, Tx, trace};

pub(super) struct Whole<H, C> {
    pub(super) handler: H,
    pub(super) codec: C,
}

#[async_trait]
impl<DB, H, C> Route<DB> for Whole<H, C>
where
    DB: Sessions,
    H: BatchHandler<DB>,
    C: Decode<H::Event>,
{
    fn name(&self) -> &'static str {
        type_name::<H>()
    }

    fn start(&self) -> Option<Preparation<'_>> {
        Some(self.codec.start())
    }

    fn prepare(&self, event: &RunEvent<'_>) -> Option<Preparation<'_>> {
        self.codec.prepare(&attempt::payload(event).ok()?)
    }

    fn refusal(&self, event: &RunEvent<'_>) -> Option<String> {
        attempt::decode(&self.codec, event).err().map(DecodeFault::into_text)
    }

    fn payload_buffer(&self) -> Option<Box<dyn Any + Send>> {
        Some(Box::new(Decoded::<H::Event>::new()))
    }

    fn decode(&self, place: usize, event: RunEvent<'_>, into: &mut (dyn Any + Send)) {
        let Some(decoded) = into.downcast_mut::<Decoded<H::Event>>() else { return };
        decoded.resize_with(decoded.len().max(place + 1), || None);
        decoded[place] = Some(attempt::decode(&self.codec, &event));
    }

    async fn run(
        &self,
        run: &[RunEvent<'_>],
        mut payloads: DecodedRun<'_>,
        tx: &mut Tx<'_, DB>,
        deadline: Duration,
    ) -> RunEnd {
        let mut events = Vec::with_capacity(run.len());
        for (at, event) in run.iter().enumerate() {
            let decoded = payloads.take(at);
            match decoded.unwrap_or_else(|| attempt::decode(&self.codec, event)) {
                Ok(decoded) => {
                    assert!(decoded.is_of(event.delivery), "each event has its own payload");
                    events.push(decoded);
                }
                Err(fault) => return fault.end(at, 0),
            }
        }
        if let Some(first) = run.first() {
            tx.begin_run(first.delivery);
        }
        // Called inside the future, so that a panic before the first await is caught, too.
        let call = async { self.handler.handle(&events, &mut *tx).await };
        let end = attempt::call(call.instrument(trace::run(run)), deadline).await;
        let Some(failure) = attempt::judge(end, tx, deadline) else { return RunEnd::Done };
        if let Some(failed) = attempt::queue_failure(tx) {
            return failed;
        }
        let at = failure.at.filter(|&at| at < run.len());
        RunEnd::Failed(CallFailure { at, ..failure })
    }
}
